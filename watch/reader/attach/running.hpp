// Examines a running process: whether it can be recorded, its command line, its program, its CPU time, its end.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "watch/contract/format.hpp"

namespace usher::reader {

/// The reason why the process certainly cannot be recorded, in one line; else empty.
std::string why_not(pid_t pid);

/// Whether a signal or a debugger has stopped the process, so that it makes no calls.
bool is_stopped(pid_t pid);

/// The words of the process's command line.
std::vector<std::string> command_of(pid_t pid);

/// The path of the process's program, seen from the root directory that the descriptor `root` refers to (−1: that of
/// this process); empty if it is unknown.
std::string program_of(pid_t pid, int root);

/// Sets the path of the modules without one, in a private copy of a record. Such a module is the program itself: the
/// library knows the program's path only if the recording began with the program.
void name_program(const contract::view& copy, const std::string& path);

/// CPU seconds of a process and of its children that have ended; nullopt if the process itself has ended.
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

}  // namespace usher::reader
