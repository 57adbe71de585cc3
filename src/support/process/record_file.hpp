// The observer's side of a record (src/record/format.hpp): the file and its clock. The lifetimes of threads, which the library cannot
// record itself: census.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "record/format.hpp"
#include "support/process/shared_record.hpp"

namespace usher::cli {

/// The period at which a record is sampled while the program runs.
inline constexpr std::chrono::milliseconds sample_period{50};

/// The ticks of a record: the processor's time stamp counter if the kernel uses it as its clock source, else nanoseconds.
class tick_clock {
 public:
  tick_clock();  ///< takes some milliseconds
  /// The clock of a record that exists already. Throws std::runtime_error if this computer does not have it.
  explicit tick_clock(bool is_tsc);
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
  void measure();

  bool is_tsc_;
  reading first_{};
  std::uint64_t ticks_a_ms_ = 1000000;
};

struct record_options {
  bool hold_times = false;
  std::uint32_t objects = record::capacities{}.objects;  ///< the least capacity; it is rounded up to a power of two
};

/// A record and its clock. Its program opens it by this process's id and descriptor, or has it already.
class record_file {
 public:
  /// Makes a memory file. Throws std::runtime_error.
  explicit record_file(const record_options& o = {});
  /// A sealed memory file that the recorded process has made, by a descriptor, which is closed at the end in any case. If its
  /// header is empty it gets the capacities of these options, which its size must fit, and the options themselves. Throws
  /// std::runtime_error with one line that says why the file is refused: shared_record.hpp.
  static std::unique_ptr<record_file> taken(int descriptor, const record_options& o);

  /// The size of a file with room for these objects.
  static std::uint64_t size_for(const record_options& o);

  const tick_clock& clock() const { return clock_; }
  record::live live() const { return record_.live(); }
  /// A private copy of what the file contains now. Throws std::runtime_error.
  record_copy copy() const { return record_.copy(); }
  int descriptor() const { return record_.descriptor(); }
  const std::string& path() const { return path_; }  ///< for USHER_STAT
  /// Tells the processes that an observer still lives: to be called at least every few seconds.
  void beat();
  /// The reason why the processes no longer record, if they do not.
  record::given_up given_up() const { return record::given_up(live().head().given_up.load(std::memory_order_relaxed)); }
  /// Stops recording and frees the file's memory, which the processes have mapped. Copies stay.
  void discard();
  /// Stops recording.
  void disable() { live().head().enabled.store(0); }

 private:
  record_file(shared_record file, const record_options& o, const tick_clock& clock);

  tick_clock clock_;
  shared_record record_;
  std::string path_;
};

}  // namespace usher::cli
