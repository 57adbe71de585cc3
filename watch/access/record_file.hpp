// The observer's side of a record (watch/contract/format.hpp): the file and its clock. census.hpp has the lifetimes of
// threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "watch/access/shared_record.hpp"
#include "watch/contract/format.hpp"

namespace usher::access {

/// The period at which a record is sampled while the program runs.
inline constexpr std::chrono::milliseconds sample_period{50};

/// The ticks of a record: the processor's time stamp counter if the kernel uses it as its clock source, else nanoseconds.
class tick_clock {
 public:
  tick_clock();  ///< takes some milliseconds
  /// The clock of an existing record. Throws std::runtime_error if this computer does not have that clock.
  explicit tick_clock(bool is_tsc);
  bool is_tsc() const { return is_tsc_; }
  /// The time of CLOCK_MONOTONIC at which the clock had these ticks, in nanoseconds; 0: before that clock's beginning.
  std::uint64_t ns_at(std::uint64_t ticks, double seconds_a_tick) const;
  std::uint64_t now() const;
  std::uint64_t ticks_a_ms() const { return ticks_a_ms_; }  ///< measured by the constructor
  /// The length of a tick, computed from the constructor's reading of both clocks and a present one.
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
  bool with_waits = false;                                 ///< each wait is kept
  std::uint32_t objects = contract::capacities{}.objects;  ///< minimum capacity, rounded up to a power of two
};

/// A record and its clock. The recorded program has made the file itself, or opens it by this process's id and
/// descriptor.
class record_file {
 public:
  /// Makes a memory file. Throws std::runtime_error.
  explicit record_file(const record_options& o = {});
  /// Takes over a sealed memory file that the recorded process has made; always closes the descriptor at the end. A
  /// file with an empty header gets these options; its size must fit their capacities. Throws std::runtime_error with
  /// one line that says why the file is refused (shared_record.hpp).
  static std::unique_ptr<record_file> taken(int descriptor, const record_options& o);

  /// The size of a file with room for the number of objects in `o`.
  static std::uint64_t size_for(const record_options& o);

  const tick_clock& clock() const { return clock_; }
  contract::live live() const { return record_.live(); }
  /// A private copy of the present content of the file. Throws std::runtime_error.
  record_copy copy() const { return record_.copy(); }
  int descriptor() const { return record_.descriptor(); }
  const std::string& path() const { return path_; }  ///< for USHER_STAT
  /// Writes the heartbeat. To be called at least every few seconds.
  void beat();
  /// Whether the processes have ended the recording, and why.
  contract::given_up given_up() const {
    return contract::given_up(live().head().given_up.load(std::memory_order_relaxed));
  }
  /// Ends the recording, and frees the file's pages although processes still have it mapped. Copies remain.
  void discard();
  void disable() { live().head().enabled.store(0); }

 private:
  record_file(shared_record file, const record_options& o, const tick_clock& clock);

  tick_clock clock_;
  shared_record record_;
  std::string path_;
};

}  // namespace usher::access
