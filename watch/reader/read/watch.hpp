// Observes what can be seen only while the program runs: which threads live, and which are in a deadlock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "watch/access/census.hpp"
#include "watch/access/record_file.hpp"
#include "watch/reader/name/symbols.hpp"
#include "watch/reader/read/reading.hpp"
#include "watch/reader/read/thread_names.hpp"
#include "watch/reader/read/window_sampler.hpp"

namespace usher::reader {

class watch {
 public:
  /// Provides names for the threads of a deadlock, from a copy of the record.
  using name_source = std::function<std::unique_ptr<symbols>(contract::view)>;
  watch(const access::record_file& file, name_source naming);

  /// Has the samples also read the names of threads.
  void keep_thread_names() { keeps_names_ = true; }
  const thread_names& names_of_threads() const { return thread_names_; }

  /// To be called every `sample_period`. Reports each new deadlock in a line on stderr.
  void sample();
  /// Takes the last sample; `now` is the end of the recording.
  void finish(std::uint64_t now);

  /// The deadlocks that were reported and lasted until the end of the recording, or of their process.
  std::vector<deadlock> deadlocks() const;
  /// Whether the thread with this id in the record is in a circle now.
  bool has_in_circle(std::uint32_t own) const;
  /// Sentences about circles that were reported as deadlocks and ended by themselves.
  const std::vector<std::string>& remarks() const { return remarks_; }
  unsigned living_processes() const { return census_.living_processes(); }
  const access::seen_ids& ids() const { return census_.ids(); }
  std::uint64_t begin() const { return begin_; }
  waiting_windows windows() const { return windows_.windows(); }

 private:
  struct circle {
    std::vector<std::uint32_t> threads;
    std::vector<std::uint64_t> since;  ///< beginnings of the waits: the same threads in other waits are another circle
    std::uint64_t began = 0;           ///< the latest of these beginnings
    bool is_said = false, is_due = false;  ///< reported; to be reported now
    deadlock said;

    bool is_same(const circle& other) const { return threads == other.threads && since == other.since; }
  };

  void look_for_deadlocks(std::uint64_t now);
  void end(const circle& c);
  bool has_ended(const circle& c) const;
  circle circle_of(std::vector<std::uint32_t> threads) const;
  void say(const std::vector<circle*>& new_ones, std::uint64_t now);
  time_scale scale_until(std::uint64_t now) const { return {begin_, now, file_.clock().seconds_a_tick()}; }

  const access::record_file& file_;
  name_source naming_;
  access::census census_;
  thread_names thread_names_;
  bool keeps_names_ = false;
  std::uint64_t begin_;
  window_sampler windows_;
  std::vector<circle> seen_;  ///< circles of the last sample
  std::vector<circle> over_;  ///< reported circles whose threads ended while in the circle
  std::vector<std::string> remarks_;
  std::size_t said_ = 0;  ///< number of reported circles
};

}  // namespace usher::reader
