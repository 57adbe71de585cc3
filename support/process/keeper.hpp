// The keeper: the process between this one and a started program. process.hpp explains why there is one.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <vector>

#include "support/process/process.hpp"

namespace usher::support {

/// A message of the keeper.
struct keeper_report {
  enum : int { ended, stopped, running_again, all_gone } what;
  int status = 0;  ///< as wait4() has it; of all_gone: errno
  int start_error = 0;
  double seconds = 0;
  rusage usage{};
  pid_t survivor = 0;
};
// Messages to the keeper. A closed connection means the same as `to_end`.
inline constexpr char to_terminate = 't', to_end = 'e';

// Seconds after which the keeper gives up: `killed_grace` on processes that it has killed, `others_grace` on those of
// other users. The latter may end because processes that they wait for were killed. Chosen, not measured.
inline constexpr double killed_grace = 5, others_grace = 1;

/// Starts the program, waits for it, and kills all processes that it leaves behind.
class keeper {
 public:
  keeper(int line, const scratch_file& out, const scratch_file& err) : line_(line), out_(out), err_(err) {}
  [[noreturn]] void keep(char* const* command, const environment_changes& changes, int input, int inherited,
                         const sigset_t* mask);

 private:
  void start(char* const* command, const environment_changes& changes, int input, int inherited);
  [[noreturn]] void execute(char* const* command, const environment_changes& changes, int input, int inherited,
                            int failure);
  void reap_children();
  void report_end(int status, const rusage& usage);
  void read_command();
  [[noreturn]] void kill_all_and_exit();
  void send_report(const keeper_report& r) const;
  std::vector<pid_t> children() const;

  int line_;
  const scratch_file &out_, &err_;
  pid_t program_ = -1;
  bool program_ended_ = false;
  int start_error_ = 0;
  sigset_t before_{};
  steady::time_point start_;
};

}  // namespace usher::support
