// The processes of a command that run without the record: static programs, and programs that clear LD_PRELOAD or cannot
// open the file. The library is not in these processes, so the observer searches for them.
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

/// A process counts if at two successive looks it did not map the record's file, or could not be read. One look does
/// not suffice: between an exec and the start of the library a process does not map the file, either.
class unrecorded_processes {
 public:
  /// `record`: the descriptor of the record's file.
  explicit unrecorded_processes(int record) : finder_(record) {}

  /// To be called with each sample. `first`: these processes and their descendants are examined. `ids`: the processes
  /// with recorded calls, which count as recorded if their maps cannot be read.
  void look(const std::vector<pid_t>& first, const access::seen_ids& ids);
  /// A sentence without its end; empty: all examined processes had opened the record.
  std::string text() const;

 private:
  struct seen {
    std::uint64_t started = 0;
    unsigned looks = 0;  ///< number of latest looks without the record
    std::string name;
  };
  std::size_t number() const;

  support::process_finder finder_;
  std::unordered_map<pid_t, seen> seen_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace usher::reader
