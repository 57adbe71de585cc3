// A process that runs already: whether it can be recorded, and where it will find the record.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/process/record_file.hpp"

namespace usher::cli::stat {

/// Why the process cannot be recorded, one line; empty: nothing is known against it.
std::string why_not(pid_t pid);

/// By a signal, or a debugger: it makes no calls until it goes on.
bool is_stopped(pid_t pid);

/// A record that the process can open: in memory if it is as we are, else in its own /dev/shm. Throws std::runtime_error.
std::unique_ptr<record_file> record_for(pid_t pid, const record_options& o);

/// Its command, word by word.
std::vector<std::string> command_of(pid_t pid);

/// To know when a process ends that is not our child.
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
