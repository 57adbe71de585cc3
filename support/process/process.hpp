// Starts a program in a process group of its own, with a time limit, measures it, and leaves none of its processes behind.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/process/interruption.hpp"
#include "support/process/scratch_file.hpp"

namespace usher::support {

using steady = std::chrono::steady_clock;

/// Names and values of environment variables. A null value removes the variable.
using environment_changes = std::vector<std::pair<std::string, std::optional<std::string>>>;

struct ended {
  enum class how { exited, signalled, timed_out, not_started, interrupted, stopped } way = how::exited;
  int status = 0;  ///< exit status, signal, or errno of the exec
  double seconds = 0;
  rusage usage{};        ///< of the program and of the children that it waited for
  pid_t survivor = 0;    ///< a process that could not be killed
  int why_survived = 0;  ///< errno of kill(); 0: it was killed and did not end
};

/// A started program. Its standard input is that of this process, read from the beginning, if that is a file; otherwise
/// it is empty. Its output goes to files, so that no full pipe stops it and no terminal slows it down. Between this
/// process and the program is its keeper, a process that only waits. As a subreaper (PR_SET_CHILD_SUBREAPER) it becomes
/// the parent of all processes that the program leaves behind. So exactly the program's descendants are killed at the
/// end, neither other children of this process nor descendants of another program that runs at the same time. If this
/// process dies, even by SIGKILL, the keeper kills them, too.
class process {
 public:
  /// `inherited`: a descriptor that the program inherits under the same number; -1: none. `mask`: the program's signal mask; null:
  /// this thread's.
  process(char* const* command, const environment_changes& changes, int inherited = -1, const sigset_t* mask = nullptr);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process();  ///< kills all its processes

  /// Waits until the program ends or stops for good, the user interrupts, or the time limit is reached, and then kills all its
  /// processes. With `keep_the_rest`, the processes that an ended program has left behind live as long as this object.
  ended wait(double limit, bool keep_the_rest = false);
  /// Makes wait() call `say` once, if the program still runs after so many seconds.
  void remind_after(double seconds, std::function<void()> say);
  /// Whether the program has not ended yet.
  bool running();
  /// The keeper (keeper.hpp), a child of this process and the parent of the program.
  pid_t keeper_pid() const { return keeper_; }
  /// A descriptor for poll(), which becomes readable when the program's state changes. running() then tells whether it
  /// has ended.
  int handle() const { return line_; }
  /// Terminates the program, and kills it if it has not ended after `grace` seconds.
  ended stop(double grace);

  const scratch_file& out() const { return out_; }
  const scratch_file& err() const { return err_; }

 private:
  bool read_report_within(double seconds);
  void read_report();
  void kill_all();
  ended finish(ended::how way);

  scratch_file out_, err_;
  pid_t keeper_ = -1;
  int line_ = -1;  ///< to the keeper
  bool stopped_ = false, over_ = false, gone_ = false;
  ended end_;
  steady::time_point start_;
  double reminder_after_ = 0;  ///< seconds
  std::function<void()> reminder_;
};

/// The words of `sh -c text`, for process.
struct shell_command {
  explicit shell_command(std::string text) : text_(std::move(text)) {}
  char* const* words() { return words_; }

 private:
  std::string text_;
  char sh_[8] = "/bin/sh", c_[3] = "-c";
  char* words_[4] = {sh_, c_, text_.data(), nullptr};

 public:
  shell_command(const shell_command&) = delete;
  shell_command& operator=(const shell_command&) = delete;
};

}  // namespace usher::support
