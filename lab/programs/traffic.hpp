// Threads that use a mutex again and again while something else is measured (signalled, broadcast, deadlines).
#pragma once

#include <pthread.h>

#include "tally.hpp"

namespace workloads {

/// A time that a thread computes or sleeps through, by the clock: its length does not depend on the lock.
struct span {
  double microseconds = 0;
  bool asleep = false;

  void pass() const {
    if (microseconds <= 0) return;
    if (asleep) {
      sleep_seconds(microseconds * 1e-6);
    } else {
      const clock_type::time_point start = clock_type::now();
      while (seconds_since(start) < microseconds * 1e-6) {
      }
    }
  }
};

/// The meaning of the value of --hold and --pause: whether that time is slept. "auto" sleeps through 1 ms and more, so that threads which
/// spin do not take the CPUs from what is measured.
inline bool is_asleep(const std::string& by, double microseconds) {
  if (by != "spin" && by != "sleep" && by != "auto") fail("'" + by + "' is not spin, sleep or auto", 2);
  return by == "sleep" || (by == "auto" && microseconds >= 1000);
}

/// Threads that hold the mutex for a time and leave it for a time, again and again until they are paused or stopped.
class traffic {
 public:
  traffic(checked_mutex& mutex, long users, span hold, span outside)
      : counts_(static_cast<std::size_t>(users)), hold_(hold), outside_(outside) {
    for (count& mine : counts_) team_.emplace_back([this, &mutex, &mine] { work(mutex, mine); });
  }
  traffic(const traffic&) = delete;
  traffic& operator=(const traffic&) = delete;

  void flow() { change(flowing); }
  void pause() { change(paused); }
  void stop() {
    change(over);
    for (std::thread& t : team_) t.join();
  }
  /// Locks the mutex when every user waits for it and has had the time to fall asleep. The users pause before: under a lock that any
  /// running thread may take, the caller might never acquire it otherwise.
  void lock_before_all(checked_mutex& mutex) {
    change(paused);
    mutex.lock();
    change(flowing);
    for (count& c : counts_) {
      while (!c.asks.load()) {
        sleep_seconds(0.00002);
        change(flowing);  // another thread may have paused the users meanwhile, for a turn that is over
      }
    }
    sleep_seconds(0.0002);
  }
  /// Returns once one of the users has acquired the mutex after that.
  void await_a_holder() {
    while (std::all_of(counts_.begin(), counts_.end(), [](const count& c) { return c.asks.load(); }))
      sleep_seconds(0.00002);
  }
  std::uint64_t operations() const {
    std::uint64_t sum = 0;
    for (const count& c : counts_) sum += c.operations.get();
    return sum;
  }

 private:
  enum : int { paused, flowing, over };
  struct alignas(line_pair) count {
    counter operations;
    std::atomic<bool> asks{false};  ///< it is in pthread_mutex_lock()
  };

  void change(int state) {
    state_.store(state);
    state_.notify_all();
  }
  void work(checked_mutex& mutex, count& mine) {
    for (int state = 0; (state = state_.load(std::memory_order_relaxed)) != over;) {
      if (state == paused) {
        state_.wait(paused);
        continue;
      }
      mine.asks.store(true, std::memory_order_relaxed);
      mutex.lock();
      mine.asks.store(false, std::memory_order_relaxed);
      hold_.pass();
      mine.operations.add();
      mutex.unlock();
      outside_.pass();
    }
  }

  std::vector<count> counts_;
  const span hold_, outside_;
  alignas(line_pair) std::atomic<int> state_{paused};
  std::vector<std::thread> team_;
};

/// Ends a program whose threads may wait for ever: destructors must not run under them.
[[noreturn]] inline void leave() {
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace workloads
