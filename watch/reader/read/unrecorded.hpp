// The processes of a command that run without the record: static programs, and those that clear LD_PRELOAD or cannot
// open the file. The library cannot report them, so the observer looks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/process/process_ids.hpp"
#include "watch/access/census.hpp"

namespace usher::reader {

/// A process counts if it did not map the record's file, or may not be looked into, at two successive looks: between
/// an exec and the start of the library a process does not map it either.
class unrecorded_processes {
 public:
  /// `record`: the descriptor of the record's file.
  explicit unrecorded_processes(int record) : finder_(record) {}

  /// To be called with each sample. `first`: they and their descendants are looked at; `ids`: those that have made
  /// recorded calls, which are not.
  void look(const std::vector<pid_t>& first, const access::seen_ids& ids);
  /// A sentence without its end; empty: all that were looked at had opened the record.
  std::string text() const;

 private:
  struct seen {
    std::uint64_t started = 0;
    unsigned looks = 0;  ///< the last ones, without the record
    std::string name;
  };
  std::size_t number() const;

  support::process_finder finder_;
  std::unordered_map<pid_t, seen> seen_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace usher::reader
