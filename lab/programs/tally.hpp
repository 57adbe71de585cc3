// The common parts of producer_consumer, buffer_pool, thread_pool, herd, signalled, held_locks, deadlines and
// broadcast: pthread objects, threads that start together, counters, and samples. The programs do not depend on Usher.
// One run is one process; lab/costs/measure_waits.py preloads a library into the process and sets a time limit.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "options.hpp"
#include "report.hpp"
#include "support/measure/metrics.hpp"

namespace workloads {

using clock_type = std::chrono::steady_clock;

inline constexpr std::size_t line_pair = 128;  // the processor fetches the adjacent line, too

/// Ends the program if a pthread call has returned an error.
inline void check(int error, const char* what) {
  if (error != 0) fail(std::string(what) + ": " + std::strerror(error));
}

/// A mutex whose functions end the program if they return an error.
struct checked_mutex {
  pthread_mutex_t handle = PTHREAD_MUTEX_INITIALIZER;

  void lock() { check(pthread_mutex_lock(&handle), "pthread_mutex_lock"); }
  void unlock() { check(pthread_mutex_unlock(&handle), "pthread_mutex_unlock"); }
};

struct checked_condition {
  pthread_cond_t handle = PTHREAD_COND_INITIALIZER;

  void wait(checked_mutex& mutex) { check(pthread_cond_wait(&handle, &mutex.handle), "pthread_cond_wait"); }
  void signal() { check(pthread_cond_signal(&handle), "pthread_cond_signal"); }
  void broadcast() { check(pthread_cond_broadcast(&handle), "pthread_cond_broadcast"); }
};

inline void wait_for(sem_t& semaphore) {
  while (sem_wait(&semaphore) != 0)
    if (errno != EINTR) fail(std::string("sem_wait: ") + std::strerror(errno));
}

inline void post(sem_t& semaphore) {
  if (sem_post(&semaphore) != 0) fail(std::string("sem_post: ") + std::strerror(errno));
}

/// A counter to which one thread adds and which any thread reads. It uses no locked instruction, so counting costs
/// almost nothing.
class counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(get() + n, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct switches {
  long voluntary = 0, involuntary = 0;

  /// `whom` is RUSAGE_SELF for the process, or RUSAGE_THREAD for the calling thread.
  static switches of(int whom) {
    rusage usage{};
    getrusage(whom, &usage);
    return {usage.ru_nvcsw, usage.ru_nivcsw};
  }
  switches operator-(const switches& other) const {
    return {voluntary - other.voluntary, involuntary - other.involuntary};
  }
};

inline double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

inline void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Returns the length of the warm-up in seconds, given the measured time.
inline double warm_up(double seconds) {
  return std::min(0.5, seconds / 10);
}

/// Threads that start together. This class uses no pthread object to wait, so that only the program's own objects are
/// measured.
class starting_team {
 public:
  explicit starting_team(long threads) : ready_(threads + 1) {}

  /// Starts a thread that runs `body`. `body` prepares itself, calls ready.arrive_and_wait(), and then works.
  template <class Body>
  void add(Body body) {
    team_.emplace_back([this, body = std::move(body)]() mutable { body(ready_); });
  }
  /// Lets all threads begin their work. The caller must have added as many threads as the constructor's argument says.
  void start() { ready_.arrive_and_wait(); }
  void join() {
    for (std::thread& t : team_) t.join();
  }

 private:
  std::latch ready_;
  std::vector<std::thread> team_;
};

/// Records the threads in the order of their admission. The program calls add() while it holds its own mutex. The
/// constructor writes to all pages, so that add() causes no page fault. Admissions beyond the capacity are not
/// recorded: the first millions are representative.
class admissions {
 public:
  explicit admissions(std::size_t most) : threads_(most) {}
  void add(long thread) {
    if (used_ < threads_.size()) threads_[used_++] = static_cast<std::uint16_t>(thread);
  }

  /// The lock working set size (LWSS, Malthusian Locks): the number of different threads among `window` successive
  /// admissions, averaged over adjacent windows. 0 if there is no complete window.
  double distinct(std::size_t window) const {
    return used_ < window ? 0 : usher::support::working_set({threads_.data(), used_}, window);
  }

 private:
  std::vector<std::uint16_t> threads_;
  std::size_t used_ = 0;
};

/// Returns a quantile of the sorted values: `fraction` of them are below it.
template <class Number>
double part(const std::vector<Number>& sorted, double fraction) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return static_cast<double>(sorted[static_cast<std::size_t>(fraction * last + 0.5)]);
}

/// Writes the smallest and the largest of the counts relative to an equal share.
inline void write_shares(field to, const std::vector<std::uint64_t>& counts) {
  double total = 0;
  for (const std::uint64_t c : counts) total += static_cast<double>(c);
  if (total <= 0) {
    to["smallest"] = 0;
    to["largest"] = 0;
    return;
  }
  const double equal = total / static_cast<double>(counts.size());
  to["smallest"] = static_cast<double>(*std::min_element(counts.begin(), counts.end())) / equal;
  to["largest"] = static_cast<double>(*std::max_element(counts.begin(), counts.end())) / equal;
}

/// Measured values of one quantity.
struct samples {
  std::vector<double> values;

  void add(double value) { values.push_back(value); }
  void write_spread(field to) {
    std::sort(values.begin(), values.end());
    to["median"] = part(values, 0.5);
    to["min"] = part(values, 0.0);
    to["max"] = part(values, 1.0);
  }
  void write_all(field to) {
    write_spread(to);
    double sum = 0;
    for (const double v : values) sum += v;
    to["n"] = values.size();
    to["mean"] = sum / std::max<double>(1, static_cast<double>(values.size()));
    to["p99"] = part(values, 0.99);
  }
};

}  // namespace workloads
