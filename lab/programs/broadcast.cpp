// Broadcasts to many waiters while other threads, the users, repeatedly lock the mutex. Measures the time until the
// last waiter has returned from pthread_cond_wait() and unlocked, how often each waiter slept, and how many waiters
// were runnable at once. The first rounds are timed. In the later rounds the program reads the states of the waiters as
// often as possible; these rounds are not timed, because the reading takes time (as in herd.cpp).
#include <unistd.h>

#include <limits>
#include <memory>

#include "thread_state.hpp"
#include "traffic.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct settings {
  long waiters = 50, users = 3, rounds = 5, looks = 2;
  double hold = 10, patience = 10, outside = 0;
  std::string by = "auto", file;

  settings(int argc, char** argv) {
    options o("broadcast", "what a broadcast costs those who wait while others use the mutex");
    o.number("waiters", waiters, 1, 4096, "threads that wait (50)");
    o.number("users", users, 1, 4096, "threads that use the mutex all the time (3)");
    o.real("hold-us", hold, 0, 10000000, "µs for which they hold it (10)");
    o.text("hold", by, "spin, sleep: how they pass that time; auto: spin below 1 ms (auto)");
    o.number("rounds", rounds, 1, 100000, "broadcasts that are timed (5)");
    o.number("looks", looks, 0, 100000, "broadcasts that are looked at (2)");
    o.real("outside-us", outside, 0, 10000000, "µs between two uses, awake (0)");
    o.real("patience", patience, 0, 3600,
           "s that a broadcast may take; then the users pause, and it counts as that long; five times that while it is "
           "looked at (10)");
    o.text("json", file, "write what was measured here, not to standard output");
    o.parse(argc, argv);
  }
};

struct stage {
  alignas(line_pair) checked_mutex mutex;
  alignas(line_pair) checked_condition begun;
  // The next members are accessed under the mutex.
  long round = 0, waiting = 0;
  // Between rounds the waiters sleep on this word, and on no pthread object.
  alignas(line_pair) std::atomic<int> armed{0};
  alignas(line_pair) std::atomic<long> through{0}, voluntary{0}, involuntary{0};
  std::atomic<bool> over{false};
  std::atomic<double> last{0};  // seconds since the epoch at which the last waiter had unlocked
};

using waiter_states = std::vector<std::unique_ptr<thread_state>>;

const clock_type::time_point epoch = clock_type::now();

void wait_once(stage& s, thread_state& me, long number) {
  s.mutex.lock();
  ++s.waiting;
  const switches before = switches::of(RUSAGE_THREAD);
  while (s.round < number) s.begun.wait(s.mutex);
  me.through.store(number, std::memory_order_relaxed);
  s.mutex.unlock();
  const double now = seconds_since(epoch);
  for (double seen = s.last.load(); seen < now && !s.last.compare_exchange_weak(seen, now);) {
  }
  const switches after = switches::of(RUSAGE_THREAD) - before;
  s.voluntary.fetch_add(after.voluntary);
  s.involuntary.fetch_add(after.involuntary);
  s.through.fetch_add(1);
}

/// Returns with the mutex held, when all waiters sleep on the condition variable and all users wait for the mutex.
void gather(stage& s, traffic& users, const waiter_states& states, long number) {
  // The users pause until all waiters wait. The time of the pause is not measured.
  s.armed.store(static_cast<int>(number));
  s.armed.notify_all();
  // Both loops poll every 0.2 ms. The second loop ends after 0.2 s at the latest, because under some locks waiters poll
  // and never sleep.
  for (bool all = false; !all; sleep_seconds(0.0002)) {
    s.mutex.lock();
    all = s.waiting == static_cast<long>(states.size());
    s.mutex.unlock();
  }
  for (int tries = 0; tries < 1000 && runnable(states, number) > 0; ++tries) sleep_seconds(0.0002);
  users.lock_before_all(s.mutex);
}

struct results {
  samples voluntary, involuntary, drain, peak, operations;
  long missing = 0;  // waiters of the last broadcast that had not returned in time
};

/// Sends one broadcast, and returns when all waiters have returned or the time limit is reached.
void broadcast(stage& s, const settings& set, traffic& users, const waiter_states& states, long number, results& out) {
  const bool looked_at = number > set.rounds;
  gather(s, users, states, number);
  s.through.store(0);
  s.voluntary.store(0);
  s.involuntary.store(0);
  s.waiting = 0;
  s.round = number;
  const std::uint64_t before = users.operations();
  const double start = seconds_since(epoch);
  s.begun.broadcast();
  s.mutex.unlock();
  long most = 0;
  // The time limit is longer if the waiters' states are read, because reading them uses a CPU and delays the waiters.
  const double enough = looked_at ? 5 * set.patience : set.patience;
  while (s.through.load() < set.waiters && seconds_since(epoch) < start + enough) {
    if (looked_at)
      most = std::max(most, runnable(states, number));
    else
      sleep_seconds(0.0002);  // until the states are read again
  }
  const std::uint64_t after = users.operations();
  out.missing = set.waiters - s.through.load();
  if (out.missing > 0) {
    users.pause();  // the waiters then get the mutex; only a lower bound of their time is known
    for (int tries = 0; s.through.load() < set.waiters; sleep_seconds(0.001))
      if (++tries > 20000) fail("it hangs, and waits for " + std::to_string(out.missing));
    s.last.store(start + enough);
  }
  if (looked_at) out.peak.add(static_cast<double>(most));
  if (!looked_at || out.missing > 0) {
    const double each = 1 / static_cast<double>(set.waiters);
    out.drain.add((s.last.load() - start) * 1e6);
    out.voluntary.add(static_cast<double>(s.voluntary.load()) * each);
    out.involuntary.add(static_cast<double>(s.involuntary.load()) * each);
    out.operations.add(static_cast<double>(after - before));
  }
  users.pause();
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  static stage s;
  const span held{set.hold, is_asleep(set.by, set.hold)};
  traffic users(s.mutex, set.users, held, {set.outside, false});
  waiter_states states(static_cast<std::size_t>(set.waiters));
  starting_team team(set.waiters);
  for (std::unique_ptr<thread_state>& state : states) {
    team.add([&](std::latch& ready) {
      state = std::make_unique<thread_state>(gettid());
      ready.arrive_and_wait();
      for (long number = 1; number <= set.rounds + set.looks; ++number) {
        for (int armed = 0; (armed = s.armed.load()) < number;) s.armed.wait(armed);
        if (s.over.load()) return;
        wait_once(s, *state, number);
      }
    });
  }
  team.start();

  results measured;
  for (long number = 1; number <= set.rounds + set.looks && measured.missing == 0; ++number)
    broadcast(s, set, users, states, number, measured);

  document out(argc, argv);
  out["waiters"] = set.waiters;
  out["users"] = set.users;
  out["hold_us"] = set.hold;
  out["hold"] = held.asleep ? "sleep" : "spin";
  measured.drain.write_all(out["us_until_through"]);
  measured.voluntary.write_all(out["voluntary_per_waiter"]);
  measured.involuntary.write_all(out["involuntary_per_waiter"]);
  measured.peak.write_all(out["most_runnable"]);
  measured.operations.write_all(out["operations_meanwhile"]);
  out["missing"] = measured.missing;
  out.write(set.file);
  s.over.store(true);
  s.armed.store(std::numeric_limits<int>::max());
  s.armed.notify_all();
  users.stop();
  team.join();
  return 0;
}
