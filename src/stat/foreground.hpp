// A program that runs as if its launcher were not there: with its standard streams, its terminal and its process group. ^C and ^Z
// are for both, and the launcher lives until the program has ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace usher::cli::stat {

/// Signals as a queue: next() takes one. One object a process.
class signal_queue {
 public:
  signal_queue();
  signal_queue(const signal_queue&) = delete;
  signal_queue& operator=(const signal_queue&) = delete;

  /// The next one, if it comes in time.
  std::optional<siginfo_t> next(std::chrono::nanoseconds within) const;
  /// Whether it was ignored before: by nohup, or because this runs in a script's background.
  bool was_ignored(int signal) const { return sigismember(&ignored_, signal) == 1; }
  /// In a child: as everything was before.
  void restore() const;
  /// When nobody asks any more: what has come is forgotten, what will come does what it always does.
  void let_go() const;

 private:
  sigset_t before_, taken_, ignored_;
  struct sigaction child_before_ {
  }, file_size_before_{};
};

class foreground_program {
 public:
  /// Starts it, with these variables and a descriptor of ours.
  foreground_program(char** command, const std::vector<std::pair<std::string, std::string>>& variables, int inherited,
                     const signal_queue& signals);
  foreground_program(const foreground_program&) = delete;
  foreground_program& operator=(const foreground_program&) = delete;

  pid_t pid() const { return pid_; }
  /// If it could not be started: the exit status, and why has been said.
  std::optional<int> not_started() const { return not_started_; }

  /// Whether it has ended. To be asked after a signal, or now and then.
  bool has_ended();
  void send(int signal) const;  ///< nothing once it has ended

  /// As shells say it: 128 and the signal's number if it died of one.
  int exit_status() const;
  std::optional<int> died_of() const;

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::optional<int> not_started_;
};

}  // namespace usher::cli::stat
