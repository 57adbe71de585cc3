// The launcher's side of a record (src/record/layout.hpp): the file, its clock, and what only the launcher can know of the
// threads that it is about.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "record/layout.hpp"

namespace usher::cli {

/// How often a record is looked at while the program runs.
inline constexpr std::chrono::milliseconds between_looks{50};

/// The ticks of a record: the processor's time stamp counter, where that is what the kernel goes by itself; else nanoseconds.
class tick_clock {
 public:
  tick_clock();  ///< takes some milliseconds
  bool is_tsc() const { return is_tsc_; }
  std::uint64_t now() const;
  std::uint64_t ticks_a_ms() const { return ticks_a_ms_; }  ///< as it was measured at first
  /// By two readings of both clocks: now and when this object was made.
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
  std::uint32_t objects = record::capacities{}.objects;  ///< at least; it becomes a power of two
};

/// Throws std::runtime_error where it cannot be made.
class record_file {
 public:
  /// In memory alone: found by this process's number and a descriptor, which the program's processes inherit.
  explicit record_file(const record_options& o = {});

  /// In a folder of memory, with a name, for a process that may not open our descriptors. Gone with this object.
  struct visible {
    std::string folder;   ///< as we see it
    std::string seen_as;  ///< as the process does
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
  /// Takes its name away, where it has one, once a process has opened it: who is killed leaves nothing behind.
  void hide();
  /// The library records nothing more.
  void disable() { view().head().enabled.store(0); }

 private:
  void fill(const record_options& o, bool take_memory_now);

  tick_clock clock_;
  int descriptor_ = -1;
  void* memory_ = nullptr;
  std::uint64_t size_ = 0;
  std::string path_, to_be_removed_;
};

/// Notes in a record which threads and processes live: they do not say when they end.
class census {
 public:
  explicit census(record::view r) : record_(r) {}
  void look(std::uint64_t now);
  /// The last look: who lives, has lived until now.
  void finish(std::uint64_t now);
  /// Of the processes that lived at the last look, those that do so at this moment.
  unsigned living_processes() const;

 private:
  void look_at_processes(std::uint64_t now);

  record::view record_;
};

/// What a record counts, of everything together.
struct recorded_calls {
  std::uint64_t locks = 0;       ///< mutexes locked, or tried to
  std::uint64_t contended = 0;   ///< of these: did not get the mutex at once
  std::uint64_t waits = 0;       ///< for conditions
  std::uint64_t semaphores = 0;  ///< credits taken and given, and waits that ran out of time
  std::uint64_t processes = 0;   ///< that had the library
  std::uint64_t threads =
      0;                    ///< that lived at the same time, at most; of those whose slots others have now nobody knows
  std::uint64_t lives = 0;  ///< ticks, of all threads together
  std::uint64_t waited = 0;  ///< ticks, for mutexes, of all threads together

  std::uint64_t all() const { return locks + waits + semaphores; }
  /// Of the threads' time, 0 to 1.
  std::optional<double> waiting_share() const {
    if (lives == 0) return std::nullopt;
    return static_cast<double>(waited) / static_cast<double>(lives);
  }
};
recorded_calls sum_of(record::view r);

}  // namespace usher::cli
