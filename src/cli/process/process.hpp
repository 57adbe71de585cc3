// A program that is started, watched and measured: in a process group of its own, with a time limit, and nothing of it
// left behind.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace usher::cli {

using steady = std::chrono::steady_clock;

/// Set by SIGINT, SIGTERM, SIGHUP and SIGQUIT once watch_for_interruption() was called.
int interrupted();  ///< the signal, or 0
void watch_for_interruption();
/// How often this process was continued (SIGCONT) since then: it had been stopped, and noticed nothing meanwhile.
unsigned continuations();

/// A file without a name, which is gone with the object. Of much output the first and the last `kept_end` bytes are kept.
class scratch_file {
 public:
  static constexpr std::size_t kept_end = std::size_t{32} << 20;

  scratch_file();
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file();
  int descriptor() const { return descriptor_; }
  /// All that was kept.
  std::string text() const;
  std::string head(std::size_t most) const;
  std::string tail(std::size_t most) const;
  std::size_t size() const;
  bool is_cut() const { return size() > 2 * kept_end; }
  /// Gives the memory back of what is not kept.
  void cut() const;

 private:
  std::string part(std::size_t begin, std::size_t end) const;
  int descriptor_;
};

/// NAME=value; a null value takes the variable away.
using environment_changes = std::vector<std::pair<std::string, std::optional<std::string>>>;

struct ended {
  enum class how { exited, signalled, timed_out, not_started, interrupted, stopped } way = how::exited;
  int status = 0;  ///< exit status, signal, or errno of the exec
  double seconds = 0;
  rusage usage{};        ///< of the program and of those of its children that it waited for
  pid_t survivor = 0;    ///< a process that could not be killed
  int why_survived = 0;  ///< errno; 0: it was killed and did not go
};

/// A started program. Its standard input is ours if that is a file (from its beginning), else empty; output goes to
/// files, so that no full pipe stops it and a terminal does not slow it down.
///
/// Between us and the program is its keeper, a process of ours that does nothing but wait. What the program leaves
/// behind becomes the keeper's child and no one else's: so what is killed at the end is what this program has started,
/// not what was our child before, nor what belongs to another program that runs beside it. And if we die, however we
/// do, the keeper is there to clean up.
class process {
 public:
  /// `inherited`: a descriptor that the program is to have, under the same number; -1: none.
  process(char* const* command, const environment_changes& changes, int inherited = -1);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process();  ///< kills what is left

  /// Waits until it ends, stops for good, is interrupted by the user, or the time is over; then kills all of it, unless
  /// it has ended and `keep_the_rest` says that what it has left behind may live as long as this object.
  ended wait(double limit, bool keep_the_rest = false);
  /// `say` is called once, during a wait(), if the program still runs then after so many seconds.
  void remind_after(double seconds, std::function<void()> say);
  /// Whether it has ended already.
  bool running();
  /// For poll(): readable when there is news of it. Then running() says whether it has ended.
  int handle() const { return line_; }
  /// Asks it to end; kills it if it does not within `patience` seconds.
  ended stop(double patience);

  const scratch_file& out() const { return out_; }
  const scratch_file& err() const { return err_; }

 private:
  bool heard_within(double seconds);
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

/// The CPU time that neither was idle nor went to this program and what it has started; what the hypervisor took, too.
class foreign_cpu {
 public:
  foreign_cpu() : from_(now()) {}
  /// Of all CPU time since then, 0 to 1. `also_own`: CPU seconds of processes that are no others, though not started by this one.
  double share(double also_own = 0) const;

 private:
  struct sample {
    double total, busy, own;
  };
  static sample now();
  sample from_;
};

}  // namespace usher::cli
