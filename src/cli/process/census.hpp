// The lifetimes of the threads and processes of a record, whose ends the library does not record, and sums over a record.
#pragma once

#include <cstdint>
#include <optional>

#include "record/format.hpp"
#include "record/live.hpp"

namespace usher::cli {

/// Records the lifetimes of threads and processes. The ids come from the record, which the program may forge: nothing is done with them
/// but to read what /proc has of them.
class census {
 public:
  explicit census(record::live r) : record_(r) {}
  void sample(std::uint64_t now);
  /// The last sample: threads and processes that still live end now.
  void finish(std::uint64_t now);
  /// The number of processes that lived at the last sample and still live.
  unsigned living_processes() const;

 private:
  void sample_processes(std::uint64_t now);

  record::live record_;
};

/// Sums over a whole record, which must be a copy.
struct recorded_calls {
  std::uint64_t locks = 0;       ///< calls that locked or tried to lock a mutex
  std::uint64_t contended = 0;   ///< of these: calls that had to wait or failed
  std::uint64_t waits = 0;       ///< for condition variables
  std::uint64_t semaphores = 0;  ///< credits taken and given, and waits that timed out
  std::uint64_t processes = 0;   ///< that had loaded the library
  std::uint64_t threads = 0;  ///< the most that lived at the same time; a thread whose slot was reused is not counted
  std::uint64_t lives = 0;    ///< ticks, the sum of all threads' lifetimes
  std::uint64_t waited = 0;   ///< ticks, the sum of all threads' waits for mutexes

  std::uint64_t all() const { return locks + waits + semaphores; }
  /// Relative to the threads' lifetimes, 0 to 1.
  std::optional<double> waiting_share() const {
    if (lives == 0) return std::nullopt;
    return static_cast<double>(waited) / static_cast<double>(lives);
  }
};
recorded_calls sum_of(record::view r);

}  // namespace usher::cli
