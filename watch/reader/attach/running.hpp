// Examines a running process: whether it can be recorded, its command line, its program, its CPU time, its end.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "watch/contract/format.hpp"

namespace usher::reader {

/// The reason why the process certainly cannot be recorded, in one line; empty if none is known.
std::string why_not(pid_t pid);

/// Whether a signal or a debugger has stopped the process, so that it cannot make calls.
bool is_stopped(pid_t pid);

std::vector<std::string> command_of(pid_t pid);

/// The path of the process's program as seen from the root directory `root` (a descriptor; −1: this process's root);
/// empty if unknown.
std::string program_of(pid_t pid, int root);

/// In a private copy of a record, sets the path of modules that have none. Such a module is the program itself: the
/// library records the program's path only if the recording began at the program's start.
void name_program(const contract::view& copy, const std::string& path);

/// CPU seconds of a process and of its ended children; nullopt if the process itself has ended.
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
