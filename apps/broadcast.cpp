// A broadcast to many waiters while other threads use the mutex all the time. How long until the last waiter is through,
// how often each went to sleep, and how many could run at once. In the first rounds the time is taken, in the others the states
// of the waiters are looked at, as often as possible, which takes time itself (as in herd).
#include <unistd.h>

#include <latch>
#include <limits>
#include <memory>

#include "thread_state.hpp"
#include "traffic.hpp"

namespace {

using namespace workloads;  // NOLINT(google-build-using-namespace): a program of one file

struct stage {
  alignas(line_pair) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  alignas(line_pair) pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
  // Under the mutex:
  long round = 0, waiting = 0;
  // Between rounds the waiters sleep on what is no pthread object.
  alignas(line_pair) std::atomic<int> armed{0};
  alignas(line_pair) std::atomic<long> through{0}, voluntary{0}, involuntary{0};
  std::atomic<bool> over{false};
  std::atomic<double> last{0};  // seconds since the epoch, of the latest who unlocked

  void lock() { check(pthread_mutex_lock(&mutex), "pthread_mutex_lock"); }
  void unlock() { check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock"); }
};

const clock_type::time_point epoch = clock_type::now();

void wait_once(stage& s, thread_state& me, long number) {
  s.lock();
  ++s.waiting;
  const switches before = switches::of(RUSAGE_THREAD);
  while (s.round < number) check(pthread_cond_wait(&s.begun, &s.mutex), "pthread_cond_wait");
  me.through.store(number, std::memory_order_relaxed);
  s.unlock();
  const double now = seconds_since(epoch);
  for (double seen = s.last.load(); seen < now && !s.last.compare_exchange_weak(seen, now);) {
  }
  const switches after = switches::of(RUSAGE_THREAD) - before;
  s.voluntary.fetch_add(after.voluntary);
  s.involuntary.fetch_add(after.involuntary);
  s.through.fetch_add(1);
}

}  // namespace

int main(int argc, char** argv) {
  long waiters = 50, users = 3, rounds = 5, looks = 2;
  double hold = 10, patience = 10, outside = 0;
  std::string by = "auto", file;
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

  static stage s;
  const span held{hold, is_asleep(by, hold)};
  traffic users_of(s.mutex, users, held, {outside, false});
  std::vector<std::unique_ptr<thread_state>> states(static_cast<std::size_t>(waiters));
  std::latch ready(waiters + 1);
  std::vector<std::thread> team;
  for (long i = 0; i < waiters; ++i) {
    team.emplace_back([&, i] {
      states[static_cast<std::size_t>(i)] = std::make_unique<thread_state>(gettid());
      ready.arrive_and_wait();
      for (long number = 1; number <= rounds + looks; ++number) {
        for (int armed = 0; (armed = s.armed.load()) < number;) s.armed.wait(armed);
        if (s.over.load()) return;
        wait_once(s, *states[static_cast<std::size_t>(i)], number);
      }
    });
  }
  ready.arrive_and_wait();

  samples voluntary, involuntary, drain, peak, operations;
  const double each = 1 / static_cast<double>(waiters);
  long missing = 0;
  for (long number = 1; number <= rounds + looks && missing == 0; ++number) {
    const bool looked_at = number > rounds;
    // The waiters come while nobody else uses the mutex: that costs no time, and is not what is measured.
    s.armed.store(static_cast<int>(number));
    s.armed.notify_all();
    for (bool all = false; !all; sleep_seconds(0.0002)) {
      s.lock();
      all = s.waiting == waiters;
      s.unlock();
    }
    for (int tries = 0; tries < 1000 && runnable(states, number) > 0; ++tries) sleep_seconds(0.0002);
    users_of.lock_before_all(s.mutex);
    s.through.store(0);
    s.voluntary.store(0);
    s.involuntary.store(0);
    s.waiting = 0;
    s.round = number;
    const std::uint64_t before = users_of.operations();
    const double start = seconds_since(epoch);
    check(pthread_cond_broadcast(&s.begun), "pthread_cond_broadcast");
    s.unlock();
    long most = 0;
    // Looking takes a CPU, and on a busy machine that is what makes a broadcast long.
    const double enough = looked_at ? 5 * patience : patience;
    while (s.through.load() < waiters && seconds_since(epoch) < start + enough) {
      if (looked_at)
        most = std::max(most, runnable(states, number));
      else
        sleep_seconds(0.0002);
    }
    const std::uint64_t after = users_of.operations();
    missing = waiters - s.through.load();
    if (missing > 0) {
      users_of.pause();  // now they can; what they took is only known to be more
      for (int tries = 0; s.through.load() < waiters; sleep_seconds(0.001))
        if (++tries > 20000) fail("it hangs, and waits for " + std::to_string(missing));
      s.last.store(start + enough);
    }
    if (looked_at) peak.values.push_back(static_cast<double>(most));
    if (!looked_at || missing > 0) {
      drain.values.push_back((s.last.load() - start) * 1e6);
      voluntary.values.push_back(static_cast<double>(s.voluntary.load()) * each);
      involuntary.values.push_back(static_cast<double>(s.involuntary.load()) * each);
      operations.values.push_back(static_cast<double>(after - before));
    }
    users_of.pause();
  }

  nlohmann::json out = document(argc, argv);
  out["waiters"] = waiters;
  out["users"] = users;
  out["hold_us"] = hold;
  out["hold"] = held.asleep ? "sleep" : "spin";
  out["us_until_through"] = drain.tell();
  out["voluntary_per_waiter"] = voluntary.tell();
  out["involuntary_per_waiter"] = involuntary.tell();
  out["most_runnable"] = peak.tell();
  out["operations_meanwhile"] = operations.tell();
  out["missing"] = missing;  // of the last broadcast, after the time that counts for it then
  write(out, file);
  s.over.store(true);
  s.armed.store(std::numeric_limits<int>::max());
  s.armed.notify_all();
  users_of.stop();
  for (std::thread& t : team) t.join();
  return 0;
}
