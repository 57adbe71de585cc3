// The load of `usher stat --until`: a shell command that puts load on the recorded program, and whose end ends the
// recording.
#pragma once

#include <string>

#include "support/process/foreground.hpp"
#include "support/process/process.hpp"

namespace usher::reader {

/// A started load. The destructor kills all its processes.
class load {
 public:
  load(const std::string& command, const support::signal_queue& signals);

  /// Whether the load still runs. After its end, prints its output and reports a failure, once.
  bool is_running();
  /// The child of this process that runs the load, and lives until this object's destructor.
  pid_t keeper_pid() const { return process_.keeper_pid(); }
  /// If the program has ended before the load, reports this.
  void end_with_program();

 private:
  support::shell_command words_;
  support::process process_;
  bool ended_ = false;
};

}  // namespace usher::reader
