// The launcher's side of a record (src/record/format.hpp): the file, its clock, and the lifetimes of threads, which the library cannot
// record itself.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "record/format.hpp"

namespace usher::cli {

/// The period at which a record is sampled while the program runs.
inline constexpr std::chrono::milliseconds sample_period{50};

/// The ticks of a record: the processor's time stamp counter if the kernel uses it as its clock source, else nanoseconds.
class tick_clock {
 public:
  tick_clock();  ///< takes some milliseconds
  bool is_tsc() const { return is_tsc_; }
  std::uint64_t now() const;
  std::uint64_t ticks_a_ms() const { return ticks_a_ms_; }  ///< measured by the constructor
  /// Computed from two readings of both clocks: by the constructor, and now.
  double seconds_a_tick() const;

 private:
  struct reading {
    std::uint64_t ticks, ns;
  };
  static reading read_both();

  bool is_tsc_;
  reading first_{};
  std::uint64_t ticks_a_ms_ = 1000000;
};

struct record_options {
  bool hold_times = false;
  std::uint32_t objects = record::capacities{}.objects;  ///< the least capacity; it is rounded up to a power of two
};

/// The constructors throw std::runtime_error on failure.
class record_file {
 public:
  /// A file in memory without a name. Processes open it by this process's id and descriptor.
  explicit record_file(const record_options& o = {});

  /// A file with a name in a tmpfs, for a process that may not open this one's descriptors. The destructor removes it.
  struct visible {
    std::string folder;   ///< as this process sees it
    std::string seen_as;  ///< as the recorded process sees it
    uid_t user;
    gid_t group;
  };
  record_file(const record_options& o, const visible& where);

  record_file(const record_file&) = delete;
  record_file& operator=(const record_file&) = delete;
  ~record_file();

  record::view view() const { return record::view(memory_); }
  const tick_clock& clock() const { return clock_; }
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }  ///< for USHER_STAT
  /// Removes its name once a process has opened it, so that nothing is left behind if this process is killed.
  void hide();
  /// Stops recording.
  void disable() { view().head().enabled.store(0); }

 private:
  void fill(const record_options& o, bool take_memory_now);

  tick_clock clock_;
  int descriptor_ = -1;
  void* memory_ = nullptr;
  std::uint64_t size_ = 0;
  std::string path_, to_be_removed_;
};

/// Records the lifetimes of threads and processes, whose ends the library does not record.
class census {
 public:
  explicit census(record::view r) : record_(r) {}
  void sample(std::uint64_t now);
  /// The last sample: threads and processes that still live end now.
  void finish(std::uint64_t now);
  /// The number of processes that lived at the last sample and still live.
  unsigned living_processes() const;

 private:
  void sample_processes(std::uint64_t now);

  record::view record_;
};

/// Sums over a whole record.
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
