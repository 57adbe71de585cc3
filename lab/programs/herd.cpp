// Broadcasts to many waiters while the broadcaster holds the mutex. A waiter that is woken before it can acquire the
// mutex runs in vain and sleeps again. Two kinds of rounds alternate. The first kind is timed until all waiters have
// returned. In the second kind the program reads the states of the waiters as often as possible; these rounds are not
// timed, because the reading takes time. The number of runnable waiters is sampled, so it is a lower bound; the numbers
// of context switches are exact.
#include <unistd.h>

#include <memory>

#include "tally.hpp"
#include "thread_state.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct settings {
  long waiters = 64, rounds = 10;
  double hold = 2000;
  bool after = false, none_expected = false;
  std::string file;

  settings(int argc, char** argv) {
    options o("herd", "what a broadcast costs those who wait");
    o.number("waiters", waiters, 1, 4096, "threads that wait (64)");
    o.number("rounds", rounds, 1, 100000, "broadcasts of each sort: timed, and looked at (10)");
    o.real("hold", hold, 0, 1000000, "µs for which the broadcaster still holds the mutex (2000)");
    o.flag("after-unlock", after, "broadcast when the mutex is free again (then the hold comes before)");
    o.flag(
        "expect-none", none_expected,
        "fail where there was a herd: more than two voluntary switches a waiter (median), or more than six runnable");
    o.text("json", file, "write what was measured here, not to standard output");
    o.parse(argc, argv);
  }
};

struct stage {
  alignas(line_pair) checked_mutex mutex;
  alignas(line_pair) checked_condition begun;
  // The next members are accessed under the mutex.
  long round = 0, waiting = 0;
  long voluntary = 0, involuntary = 0, wakeups = 0;
  clock_type::time_point last;
  // Between rounds the waiters sleep on this word, and on no pthread object.
  alignas(line_pair) std::atomic<int> armed{0};
  std::atomic<long> reported{0};
};

using waiter_states = std::vector<std::unique_ptr<thread_state>>;

void wait_once(stage& s, thread_state& me, long number) {
  long wakeups = 0;
  s.mutex.lock();
  ++s.waiting;
  const switches before = switches::of(RUSAGE_THREAD);
  while (s.round < number) {
    s.begun.wait(s.mutex);
    ++wakeups;
  }
  me.through.store(number, std::memory_order_relaxed);
  const switches after = switches::of(RUSAGE_THREAD) - before;
  s.voluntary += after.voluntary;
  s.involuntary += after.involuntary;
  s.wakeups += wakeups;
  s.last = clock_type::now();
  s.mutex.unlock();
}

/// Returns when all waiters sleep on the condition variable.
void gather(stage& s, const waiter_states& states, long number) {
  s.armed.store(static_cast<int>(number));
  s.armed.notify_all();
  // Both loops poll every 0.2 ms. The second loop ends after 0.2 s at the latest, because under some locks waiters poll
  // and never sleep.
  for (;; sleep_seconds(0.0002)) {
    s.mutex.lock();
    const bool all = s.waiting == static_cast<long>(states.size());
    s.mutex.unlock();
    if (all) break;
  }
  for (int tries = 0; tries < 1000 && runnable(states, number) > 0; ++tries) sleep_seconds(0.0002);
}

struct results {
  samples voluntary, involuntary, wakeups, drain, peak;
  long looks = 0;
};

void broadcast(stage& s, const settings& set, const waiter_states& states, long number, results& out) {
  const bool looked_at = number % 2 == 0;
  gather(s, states, number);
  long most = 0;
  const auto look = [&] {
    most = std::max(most, runnable(states, number));
    ++out.looks;
  };
  s.mutex.lock();
  s.round = number;
  if (!set.after) s.begun.broadcast();
  const clock_type::time_point held = clock_type::now();
  if (!looked_at) sleep_seconds(set.hold * 1e-6);  // the length of the hold is a parameter
  while (looked_at && seconds_since(held) < set.hold * 1e-6) look();
  const clock_type::time_point start = clock_type::now();
  s.mutex.unlock();
  if (set.after) s.begun.broadcast();
  while (looked_at && s.reported.load(std::memory_order_relaxed) < number * set.waiters) look();
  // Polls a counter instead of locking the mutex, which only the waiters may use now.
  while (s.reported.load() < number * set.waiters) sleep_seconds(0.0001);

  s.mutex.lock();
  if (looked_at) {
    out.peak.add(static_cast<double>(most));
  } else {
    const double each = 1 / static_cast<double>(set.waiters);
    out.voluntary.add(static_cast<double>(s.voluntary) * each);
    out.involuntary.add(static_cast<double>(s.involuntary) * each);
    out.wakeups.add(static_cast<double>(s.wakeups) * each);
    out.drain.add(std::chrono::duration<double, std::micro>(s.last - start).count());
  }
  s.voluntary = s.involuntary = s.wakeups = s.waiting = 0;
  s.mutex.unlock();
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  static stage s;
  waiter_states states(static_cast<std::size_t>(set.waiters));
  starting_team team(set.waiters);
  for (std::unique_ptr<thread_state>& state : states) {
    team.add([&](std::latch& ready) {
      state = std::make_unique<thread_state>(gettid());
      ready.arrive_and_wait();
      for (long number = 1; number <= 2 * set.rounds; ++number) {
        for (int armed = 0; (armed = s.armed.load()) < number;) s.armed.wait(armed);
        wait_once(s, *state, number);
        s.reported.fetch_add(1);
      }
    });
  }
  team.start();
  results measured;
  for (long number = 1; number <= 2 * set.rounds; ++number) broadcast(s, set, states, number, measured);
  team.join();

  document out(argc, argv);
  out["waiters"] = set.waiters;
  out["rounds"] = set.rounds;
  out["hold_us"] = set.hold;
  out["after_unlock"] = set.after;
  measured.voluntary.write_spread(out["voluntary_per_waiter"]);
  measured.involuntary.write_spread(out["involuntary_per_waiter"]);
  measured.wakeups.write_spread(out["returns_per_waiter"]);  // 1 means no spurious wake-up
  measured.drain.write_spread(out["us_until_through"]);
  measured.peak.write_spread(out["most_runnable"]);
  out["samples"] = measured.looks;
  out.write(set.file);
  if (set.none_expected && (part(measured.voluntary.values, 0.5) > 2 || part(measured.peak.values, 1) > 6))
    fail("there was a herd");
  return 0;
}
