#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "lab/calibrate/measuring.hpp"
#include "lab/calibrate/native_costs.hpp"

namespace usher::calibrate {
namespace {

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

struct ping_pong {
  measured whole;  ///< from one thread to another one of the same CPU, each asleep on a futex between its turns
  measured wake;   ///< the part of FUTEX_WAKE
};

std::optional<ping_pong> sleeping_ping_pong(unsigned cpu) {
  const pinned here(cpu);
  if (!here) return std::nullopt;
  constexpr std::uint32_t at_once = 20, times = 401, last = 2 * at_once * times, not_begun = ~0u;
  std::atomic<std::uint32_t> turn{not_begun};
  std::atomic<bool> could{true};
  std::vector<double> wholes, wakes;
  const auto play = [&](std::uint32_t mine) {
    // SCHED_BATCH: under SCHED_OTHER the woken thread could preempt the waker in the middle of its call.
    const sched_param none{};
    if (sched_setscheduler(0, SCHED_BATCH, &none) != 0) could = false;
    double begin = now(), waking = 0;
    for (std::uint32_t i = mine; i < last; i += 2) {
      for (std::uint32_t seen; (seen = turn.load(std::memory_order_acquire)) != i;) futex(turn, FUTEX_WAIT, seen);
      if (mine == 0 && i != 0 && i % (2 * at_once) == 0) {
        const double end = now();
        wholes.push_back((end - begin) / (2 * at_once));
        wakes.push_back(waking / at_once);
        begin = end;
        waking = 0;
      }
      turn.store(i + 1, std::memory_order_release);
      const double before = mine == 0 ? now() : 0;
      futex(turn, FUTEX_WAKE, 1);
      if (mine == 0) waking += now() - before;
    }
  };
  std::thread first(play, 0), second(play, 1);  // pinned as this thread is
  turn.store(0, std::memory_order_release);
  futex(turn, FUTEX_WAKE, 1);
  first.join();
  second.join();
  if (!could) return std::nullopt;
  return ping_pong{over(std::move(wholes)), over(std::move(wakes))};
}

struct wakings {
  std::vector<double> syscall, until_it_runs;
};

/// Wakes a thread on another CPU `times` times, each time after that thread has slept for 30 µs.
std::optional<wakings> wake_elsewhere(unsigned cpu, unsigned other, std::size_t times) {
  constexpr double asleep = 30000;  // ns; chosen, not measured
  const pinned here(cpu);
  if (!here) return std::nullopt;
  alignas(sector) std::atomic<std::uint32_t> word{0};
  alignas(sector) std::atomic<std::uint32_t> ready{0};
  alignas(sector) std::atomic<double> ran{0};
  std::atomic<bool> could{true};
  std::thread sleeper([&] {
    if (!pin_to(other)) could = false;
    for (std::uint32_t i = 1; i <= times; i++) {
      ready.store(i, std::memory_order_release);
      while (word.load(std::memory_order_acquire) != i) futex(word, FUTEX_WAIT, i - 1);
      ran.store(now(), std::memory_order_release);
    }
    ready.store(std::uint32_t(times) + 1, std::memory_order_release);
  });
  wakings w;
  for (std::uint32_t i = 1; i <= times; i++) {
    while (ready.load(std::memory_order_acquire) != i) relax();
    for (const double until = now() + asleep; now() < until;) relax();
    word.store(i, std::memory_order_release);
    const double begin = now();
    futex(word, FUTEX_WAKE, 1);
    w.syscall.push_back(now() - begin);
    while (ready.load(std::memory_order_acquire) != i + 1) relax();
    w.until_it_runs.push_back(ran.load(std::memory_order_acquire) - begin);
  }
  sleeper.join();
  if (!could) return std::nullopt;
  return w;
}

/// Measures time slices. Two threads compute on one CPU, and each records how long it ran between interruptions of 50
/// µs or more.
std::optional<measured> slices(unsigned cpu) {
  constexpr double run = 0.6e9, interruption = 50e3, shortest = 0.2e6;
  std::vector<double> had[2];
  std::atomic<bool> could{true};
  std::thread threads[2];
  for (int t = 0; t < 2; t++)
    threads[t] = std::thread([&, t] {
      if (!pin_to(cpu)) could = false;
      const double end = now() + run;
      double first = now();
      for (double last = first, n; (n = now()) < end; last = n) {
        if (n - last < interruption) continue;
        if (last - first > shortest) had[t].push_back(last - first);
        first = n;
      }
    });
  for (std::thread& t : threads) t.join();
  std::vector<double> all = had[0];
  all.insert(all.end(), had[1].begin(), had[1].end());
  if (!could || all.size() < 5) return std::nullopt;
  return over(std::move(all));
}

}  // namespace

scheduler_costs costs_of_scheduler(unsigned cpu, std::optional<unsigned> other) {
  scheduler_costs c;
  std::atomic<std::uint32_t> word{0};
  c.syscall = repeat(401, [&] {
    return each(100, [&](std::size_t n) {
      for (std::size_t i = 0; i < n; i++) futex(word, FUTEX_WAKE, 1);
    });
  });
  if (const auto h = sleeping_ping_pong(cpu)) {
    c.wake_queued = h->wake;
    c.context_switch = h->whole;
    const double calls = h->wake.median + c.syscall.median;  // FUTEX_WAKE of one thread, FUTEX_WAIT of the other
    for (double* v : {&c.context_switch.median, &c.context_switch.low, &c.context_switch.high})
      *v = std::max(0.0, *v - calls);
  }
  if (other)
    if (auto w = wake_elsewhere(cpu, *other, 2000)) {
      auto& after = w->until_it_runs;
      std::sort(after.begin(), after.end());
      after.resize(after.size() * 9 / 10);
      const double least = after[after.size() / 50];
      c.wake = {over(std::move(w->syscall)), over(std::move(after)), least};
    }
  c.slice = slices(cpu);
  return c;
}

}  // namespace usher::calibrate
