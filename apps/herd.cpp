// A broadcast to many waiters while the broadcaster holds the mutex. Every waiter that is woken before it can have the
// mutex runs for nothing and goes to sleep again. Rounds take turns: in one the time until all are through is taken, in the
// next the states of the waiters are looked at, as often as possible, which takes time itself. How many there were awake at
// once can only be sampled from outside, so it is a lower bound; context switches are exact.
#include <unistd.h>

#include <latch>
#include <memory>

#include "tally.hpp"
#include "thread_state.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct stage {
  alignas(line_pair) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  alignas(line_pair) pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
  // Under the mutex:
  long round = 0, waiting = 0;
  long voluntary = 0, involuntary = 0, wakeups = 0;
  clock_type::time_point last;
  // Between rounds the waiters sleep on what is no pthread object.
  alignas(line_pair) std::atomic<int> armed{0};
  std::atomic<long> reported{0};

  void lock() { check(pthread_mutex_lock(&mutex), "pthread_mutex_lock"); }
  void unlock() { check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock"); }
};

void wait_once(stage& s, thread_state& me, long number) {
  long wakeups = 0;
  s.lock();
  ++s.waiting;
  const switches before = switches::of(RUSAGE_THREAD);
  while (s.round < number) {
    check(pthread_cond_wait(&s.begun, &s.mutex), "pthread_cond_wait");
    ++wakeups;
  }
  me.through.store(number, std::memory_order_relaxed);
  const switches after = switches::of(RUSAGE_THREAD) - before;
  s.voluntary += after.voluntary;
  s.involuntary += after.involuntary;
  s.wakeups += wakeups;
  s.last = clock_type::now();
  s.unlock();
}

/// Waits with patience until `done` says so under the mutex.
template <class Done>
void until(stage& s, Done done) {
  for (;;) {
    s.lock();
    const bool there = done();
    s.unlock();
    if (there) return;
    sleep_seconds(0.0002);
  }
}

struct spread_of {
  std::vector<double> values;

  nlohmann::json tell() {
    std::sort(values.begin(), values.end());
    return {{"median", part(values, 0.5)}, {"min", part(values, 0)}, {"max", part(values, 1)}};
  }
};

}  // namespace

int main(int argc, char** argv) {
  long waiters = 64, rounds = 10;
  double hold = 2000;
  bool after = false, none_expected = false;
  std::string file;
  options o("herd", "what a broadcast costs those who wait");
  o.number("waiters", waiters, 1, 4096, "threads that wait (64)");
  o.number("rounds", rounds, 1, 100000, "broadcasts of each sort: timed, and looked at (10)");
  o.real("hold", hold, 0, 1000000, "µs for which the broadcaster still holds the mutex (2000)");
  o.flag("after-unlock", after, "broadcast when the mutex is free again (then the hold comes before)");
  o.flag("expect-none", none_expected,
         "fail where there was a herd: more than two voluntary switches a waiter (median), or more than six runnable");
  o.text("json", file, "write what was measured here, not to standard output");
  o.parse(argc, argv);

  static stage s;
  std::vector<std::unique_ptr<thread_state>> states(static_cast<std::size_t>(waiters));
  std::latch ready(waiters + 1);
  std::vector<std::thread> team;
  for (long i = 0; i < waiters; ++i) {
    team.emplace_back([&, i] {
      states[static_cast<std::size_t>(i)] = std::make_unique<thread_state>(gettid());
      ready.arrive_and_wait();
      for (long number = 1; number <= 2 * rounds; ++number) {
        for (int armed = 0; (armed = s.armed.load()) < number;) s.armed.wait(armed);
        wait_once(s, *states[static_cast<std::size_t>(i)], number);
        s.reported.fetch_add(1);
      }
    });
  }
  ready.arrive_and_wait();

  spread_of voluntary, involuntary, wakeups, drain, peak;
  long samples = 0;
  const double each = 1 / static_cast<double>(waiters);
  for (long number = 1; number <= 2 * rounds; ++number) {
    const bool looked_at = number % 2 == 0;
    s.armed.store(static_cast<int>(number));
    s.armed.notify_all();
    until(s, [&] { return s.waiting == waiters; });
    for (int tries = 0; tries < 1000 && runnable(states, number) > 0; ++tries) sleep_seconds(0.0002);

    long most = 0;
    const auto look = [&] {
      most = std::max(most, runnable(states, number));
      ++samples;
    };
    const auto pass_the_hold = [&] {
      const clock_type::time_point start = clock_type::now();
      if (!looked_at) sleep_seconds(hold * 1e-6);
      while (looked_at && seconds_since(start) < hold * 1e-6) look();
    };
    s.lock();
    s.round = number;
    if (!after) check(pthread_cond_broadcast(&s.begun), "pthread_cond_broadcast");
    pass_the_hold();
    const clock_type::time_point start = clock_type::now();
    s.unlock();
    if (after) check(pthread_cond_broadcast(&s.begun), "pthread_cond_broadcast");
    while (looked_at && s.reported.load(std::memory_order_relaxed) < number * waiters) look();
    // Not by way of the mutex, which the waiters are to have for themselves.
    while (s.reported.load() < number * waiters) sleep_seconds(0.0001);

    s.lock();
    if (looked_at) {
      peak.values.push_back(static_cast<double>(most));
    } else {
      voluntary.values.push_back(static_cast<double>(s.voluntary) * each);
      involuntary.values.push_back(static_cast<double>(s.involuntary) * each);
      wakeups.values.push_back(static_cast<double>(s.wakeups) * each);
      drain.values.push_back(std::chrono::duration<double, std::micro>(s.last - start).count());
    }
    s.voluntary = s.involuntary = s.wakeups = s.waiting = 0;
    s.unlock();
  }
  for (std::thread& t : team) t.join();

  nlohmann::json out = document(argc, argv);
  out["waiters"] = waiters;
  out["rounds"] = rounds;
  out["hold_us"] = hold;
  out["after_unlock"] = after;
  out["voluntary_per_waiter"] = voluntary.tell();
  out["involuntary_per_waiter"] = involuntary.tell();
  out["returns_per_waiter"] = wakeups.tell();  // 1: nobody woke without cause
  out["us_until_through"] = drain.tell();
  out["most_runnable"] = peak.tell();
  out["samples"] = samples;
  write(out, file);
  if (none_expected && (part(voluntary.values, 0.5) > 2 || part(peak.values, 1) > 6)) fail("there was a herd");
  return 0;
}
