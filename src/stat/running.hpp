// A running process: whether it can be recorded.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "record/format.hpp"

namespace usher::cli::stat {

/// The reason why the process cannot be recorded, in one line; empty if none is known.
std::string why_not(pid_t pid);

/// Whether a signal or a debugger has stopped the process, so that it makes no calls.
bool is_stopped(pid_t pid);

/// The words of its command line.
std::vector<std::string> command_of(pid_t pid);

/// The path of its program below this root directory (a descriptor; −1: as this process sees it); empty if it is
/// unknown.
std::string program_of(pid_t pid, int root);

/// Sets this path for the modules without one, which are the program itself: the library knows the path only if the
/// recording began with the program. For a private copy of a record.
void name_program(const record::view& copy, const std::string& path);

/// CPU seconds of a process and of its children that have ended; nullopt if it has ended itself.
std::optional<double> cpu_seconds_of(pid_t pid);

/// Detects the end of a process that is no child of this one.
class process_watch {
 public:
  explicit process_watch(pid_t pid);
  process_watch(const process_watch&) = delete;
  process_watch& operator=(const process_watch&) = delete;
  ~process_watch();
  bool has_ended() const;

 private:
  pid_t pid_;
  int descriptor_;
};

}  // namespace usher::cli::stat
