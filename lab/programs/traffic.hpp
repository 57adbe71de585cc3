// Threads that lock and unlock a mutex repeatedly (the users) while a program measures something else. The programs
// signalled, broadcast and deadlines have such users.
#pragma once

#include <pthread.h>

#include "tally.hpp"

namespace workloads {

/// A period in which a thread computes or sleeps. It ends by the clock, so its length does not depend on the lock.
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

/// Evaluates --hold and --pause: returns true if a thread is to sleep for the given time, false if it is to compute.
/// "auto" means to sleep if the time is 1 ms or more, so that computing users do not take CPUs from the measured
/// threads.
inline bool is_asleep(const std::string& by, double microseconds) {
  if (by != "spin" && by != "sleep" && by != "auto") fail("'" + by + "' is not spin, sleep or auto", 2);
  return by == "sleep" || (by == "auto" && microseconds >= 1000);
}

/// The users: threads that repeatedly hold the mutex for a time and then do not use it for a time, until pause() or
/// stop() is called.
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
  /// Locks the mutex and returns when all users wait for the mutex and have had time to fall asleep. The users pause
  /// until the caller has the mutex: under a lock that allows barging, the caller might otherwise never acquire it.
  void lock_before_all(checked_mutex& mutex) {
    change(paused);
    mutex.lock();
    change(flowing);
    for (count& c : counts_) {
      while (!c.asks.load()) {
        sleep_seconds(0.00002);  // until the next look
        change(flowing);         // another thread may have paused the users meanwhile for an earlier turn
      }
    }
    sleep_seconds(0.0002);  // the users fall asleep; under some locks they spin, so their state is not awaited
  }
  /// Called after lock_before_all() and an unlock. Returns when one of the users has acquired the mutex.
  void await_a_holder() {
    while (std::all_of(counts_.begin(), counts_.end(), [](const count& c) { return c.asks.load(); }))
      sleep_seconds(0.00002);  // until the next look
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
    std::atomic<bool> asks{false};  ///< the user is in pthread_mutex_lock()
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

/// Ends a program in which threads may wait for ever. No destructor runs, because these threads may still use the
/// objects.
[[noreturn]] inline void leave() {
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace workloads
