// Reports the deadlocks found by standing_deadlocks.hpp: the mutexes' names, a line on standard error, an entry of the
// report.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "watch/reader/attach/process_place.hpp"
#include "watch/reader/attach/standing_deadlocks.hpp"
#include "watch/reader/name/remote_symbols.hpp"
#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

class standing_report {
 public:
  using interruption = standing_deadlocks::interruption;
  /// Whether the thread with this id in its own PID namespace is in a circle that the record shows.
  using known_elsewhere = std::function<bool(std::uint32_t)>;

  standing_report(pid_t pid, const process_place& place);

  /// Reads the threads, if it is time for a reading, and reports circles that are new or have ended.
  void sample(const interruption& interrupted, const known_elsewhere& is_known);
  void finish(const interruption& interrupted, const known_elsewhere& is_known);

  /// The reported deadlocks that still existed at the last reading, or when the process ended.
  std::vector<deadlock> deadlocks() const;
  /// Sentences about circles that were reported and have ended.
  const std::vector<std::string>& remarks() const { return remarks_; }
  const standing_deadlocks& observed() const { return observed_; }

 private:
  struct reported {
    standing_deadlocks::circle circle;
    deadlock said;
    bool is_there = true;  ///< the last reading found it, and its threads had not run since the reading before
    unsigned missed = 0;   ///< number of latest readings that did not find it
  };

  void compare(const interruption& interrupted, const known_elsewhere& is_known);
  deadlock describe(const standing_deadlocks::circle& c, const interruption& interrupted);

  standing_deadlocks observed_;
  const process_place& place_;
  /// All reports share the budget: a program may forge circles, and name files that take long to read.
  std::shared_ptr<name_budget> budget_;
  std::vector<reported> reported_;
  std::vector<std::string> remarks_;
  std::size_t said_ = 0;
};

}  // namespace usher::reader
