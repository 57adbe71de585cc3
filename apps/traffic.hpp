// Threads that use a mutex again and again while something else is measured (signalled, broadcast, deadlines), and what
// these programs make of their samples.
#pragma once

#include <pthread.h>

#include "tally.hpp"

namespace workloads {

/// Time that passes: by the clock, so that a lock has no part in how long it is; awake, or asleep.
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

/// What --hold and its kin mean by a word. A hold of 1 ms or more is slept through unless it is said: then threads that
/// spin through it don't take the CPUs from what is measured, and two CPUs show the lock and not the scheduler.
inline bool is_asleep(const std::string& by, double microseconds) {
  if (by != "spin" && by != "sleep" && by != "auto") fail("'" + by + "' is not spin, sleep or auto", 2);
  return by == "sleep" || (by == "auto" && microseconds >= 1000);
}

/// Threads that hold the mutex for a time, let it go for a time, and so on while they are let.
class traffic {
 public:
  traffic(pthread_mutex_t& mutex, long users, span hold, span outside)
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
  /// Locks the mutex at the moment that is wanted: every user waits for it, too, and has had the time to fall asleep. By
  /// way of a pause, because under a lock that whoever is awake may take, the caller might never get it otherwise.
  void lock_before_all(pthread_mutex_t& mutex) {
    change(paused);
    check(pthread_mutex_lock(&mutex), "pthread_mutex_lock");
    change(flowing);
    for (count& c : counts_) {
      while (!c.asks.load()) {
        sleep_seconds(0.00002);
        change(flowing);  // somebody may have asked for a pause just now, for what is over
      }
    }
    sleep_seconds(0.0002);
  }
  /// Returns once one of them has had the mutex after that.
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
  void work(pthread_mutex_t& mutex, count& mine) {
    for (int state = 0; (state = state_.load(std::memory_order_relaxed)) != over;) {
      if (state == paused) {
        state_.wait(paused);
        continue;
      }
      mine.asks.store(true, std::memory_order_relaxed);
      check(pthread_mutex_lock(&mutex), "pthread_mutex_lock");
      mine.asks.store(false, std::memory_order_relaxed);
      hold_.pass();
      mine.operations.add();
      check(pthread_mutex_unlock(&mutex), "pthread_mutex_unlock");
      outside_.pass();
    }
  }

  std::vector<count> counts_;
  const span hold_, outside_;
  alignas(line_pair) std::atomic<int> state_{paused};
  std::vector<std::thread> team_;
};

/// What was seen of one figure.
struct samples {
  std::vector<double> values;

  nlohmann::json tell() {
    std::sort(values.begin(), values.end());
    double sum = 0;
    for (const double v : values) sum += v;
    const double n = std::max<double>(1, static_cast<double>(values.size()));
    return {{"n", values.size()},        {"mean", sum / n},          {"median", part(values, 0.5)},
            {"p99", part(values, 0.99)}, {"min", part(values, 0.0)}, {"max", part(values, 1.0)}};
  }
};

/// The end of a program with threads that may wait for ever: destroying under them would be wrong.
[[noreturn]] inline void leave() {
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace workloads
