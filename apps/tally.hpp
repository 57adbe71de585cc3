// What the plain pthread programs that wait (producer_consumer, buffer_pool, thread_pool, herd,
// signalled, held_locks, deadlines, broadcast) count and how they tell it.
// They know nothing of Usher: one run is one process, and tools/measure_waits.py gives it a library and a time limit.
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
#include <string>
#include <thread>
#include <vector>

#include "bench/native/host.hpp"
#include "options.hpp"

namespace workloads {

using clock_type = std::chrono::steady_clock;

inline constexpr std::size_t line_pair = 128;  // the adjacent line is fetched with a line

/// For the pthread calls, which return their error.
inline void check(int error, const char* what) {
  if (error != 0) fail(std::string(what) + ": " + std::strerror(error));
}

inline void wait_for(sem_t& semaphore) {
  while (sem_wait(&semaphore) != 0)
    if (errno != EINTR) fail(std::string("sem_wait: ") + std::strerror(errno));
}

inline void post(sem_t& semaphore) {
  if (sem_post(&semaphore) != 0) fail(std::string("sem_post: ") + std::strerror(errno));
}

/// One thread adds, any thread looks: no locked instruction, so that counting costs next to nothing.
class counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(get() + n, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct switches {
  long voluntary = 0, involuntary = 0;

  /// Of RUSAGE_SELF, the process, or of RUSAGE_THREAD, the calling thread.
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

/// How long a run goes on before it is measured.
inline double warm_up(double seconds) {
  return std::min(0.5, seconds / 10);
}

/// Who was admitted, in order; written under the program's own mutex. Pages are touched when it is made. What does not
/// fit is not recorded: the first millions are as good as all.
class admissions {
 public:
  explicit admissions(std::size_t most) : who_(most) {}
  void add(long thread) {
    if (used_ < who_.size()) who_[used_++] = static_cast<std::uint16_t>(thread);
  }

  /// The working set of the lock, LWSS in the paper: how many different threads there are among `window` admissions in a
  /// row, on average over the windows that lie side by side. 0 when there is not even one window.
  double distinct(std::size_t window) const {
    std::vector<std::size_t> last_seen(1 << 16, 0);
    std::size_t windows = 0, sum = 0;
    for (std::size_t begin = 0; begin + window <= used_; begin += window) {
      ++windows;
      for (std::size_t i = begin; i < begin + window; ++i) {
        if (last_seen[who_[i]] == windows) continue;
        last_seen[who_[i]] = windows;
        ++sum;
      }
    }
    return windows > 0 ? static_cast<double>(sum) / static_cast<double>(windows) : 0;
  }

 private:
  std::vector<std::uint16_t> who_;
  std::size_t used_ = 0;
};

/// The value below which that part of the sorted values lies.
template <class Number>
double part(const std::vector<Number>& sorted, double fraction) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return static_cast<double>(sorted[static_cast<std::size_t>(fraction * last + 0.5)]);
}

/// The smallest and the largest of the counts relative to an equal part of all.
inline nlohmann::json shares(const std::vector<std::uint64_t>& counts) {
  double total = 0;
  for (const std::uint64_t c : counts) total += static_cast<double>(c);
  if (total <= 0) return {{"smallest", 0}, {"largest", 0}};
  const double equal = total / static_cast<double>(counts.size());
  return {{"smallest", static_cast<double>(*std::min_element(counts.begin(), counts.end())) / equal},
          {"largest", static_cast<double>(*std::max_element(counts.begin(), counts.end())) / equal}};
}

/// The beginning of what a program writes: what was run, when, where.
inline nlohmann::json document(int argc, char** argv) {
  std::string command = program_name;
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  return {{"benchmark", program_name}, {"command", command},     {"date", utc_now()},
          {"machine", machine()},      {"compiler", compiler()}, {"commit", workloads_commit}};
}

/// To the file, or to standard output and nothing else when there is none.
inline void write(const nlohmann::json& document, const std::string& file) {
  if (file.empty()) {
    std::printf("%s\n", document.dump(1).c_str());
    std::fflush(stdout);
    return;
  }
  std::ofstream out(file);
  out << document.dump(1) << '\n';
  if (!out.flush()) fail("cannot write " + file);
}

}  // namespace workloads
