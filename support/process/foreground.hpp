// A program that shares the launcher's standard streams, terminal and process group, as if it were started without a
// launcher. ^C and ^Z reach the program and the launcher, which lives until the program has ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace usher::support {

/// Blocks the signals that the launcher handles and returns them one by one by next(). At most one object in a
/// process.
class signal_queue {
 public:
  signal_queue();
  signal_queue(const signal_queue&) = delete;
  signal_queue& operator=(const signal_queue&) = delete;

  /// The next signal, if one arrives before the time-out.
  std::optional<siginfo_t> next(std::chrono::nanoseconds within) const;
  /// Whether the signal was ignored when the launcher started: by nohup, or in the background of a script.
  bool was_ignored(int signal) const { return sigismember(&ignored_, signal) == 1; }
  const sigset_t& mask_before() const { return before_; }
  /// Restores the dispositions and the signal mask from before the construction. Called in a child before it executes
  /// a program.
  void restore() const;
  /// Ends the handling of signals: pending signals are discarded, and later ones have their default effect.
  void let_go() const;

 private:
  sigset_t before_, taken_, ignored_;
  struct sigaction child_before_ {
  }, file_size_before_{};
};

class foreground_program {
 public:
  /// Starts the command with these environment variables added, and with the descriptor `inherited` kept open.
  foreground_program(char** command, const std::vector<std::pair<std::string, std::string>>& variables, int inherited,
                     const signal_queue& signals);
  foreground_program(const foreground_program&) = delete;
  foreground_program& operator=(const foreground_program&) = delete;

  pid_t pid() const { return pid_; }
  /// The launcher's exit status if the program could not be started; the error message is already printed.
  std::optional<int> not_started() const { return not_started_; }

  /// Whether the program has ended. To be called after a signal, or periodically.
  bool has_ended();
  void send(int signal) const;  ///< without effect once it has ended

  /// The exit status; if a signal ended the program, 128 + the signal's number, as in shells.
  int exit_status() const;
  std::optional<int> died_of() const;

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::optional<int> not_started_;
};

}  // namespace usher::support
