// A program that is started, watched and measured: in a process group of its own, with a time limit, and nothing of it
// left behind.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace usher::cli {

using steady = std::chrono::steady_clock;

/// Set by SIGINT, SIGTERM and SIGHUP once watch_for_interruption() was called.
int interrupted();  ///< the signal, or 0
void watch_for_interruption();

/// A file without a name, which is gone with the object.
class scratch_file {
 public:
  scratch_file();
  scratch_file(scratch_file&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  scratch_file& operator=(scratch_file&&) = delete;
  ~scratch_file();
  int descriptor() const { return descriptor_; }
  /// From the beginning; at most `most` bytes.
  std::string text(std::size_t most) const;
  std::size_t size() const;

 private:
  int descriptor_;
};

/// NAME=value; a null value takes the variable away.
using environment_changes = std::vector<std::pair<std::string, std::optional<std::string>>>;

struct ended {
  enum class how { exited, signalled, timed_out, not_started, interrupted } way = how::exited;
  int status = 0;  ///< exit status, signal, or errno of the exec
  double seconds = 0;
  rusage usage{};  ///< of the program and of those of its children that it waited for
};

/// A started program. Its standard input is ours if that is a file (from its beginning), else empty; output goes to
/// files, so that no full pipe stops it and a terminal does not slow it down.
class process {
 public:
  process(char* const* command, const environment_changes& changes);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process();  ///< kills what is left

  /// Waits until it ends, is interrupted by the user, or the time is over; then kills the group.
  ended wait(double limit);
  /// Whether it has ended already.
  bool running();
  /// Readable for poll() once it has ended.
  int handle() const { return handle_; }
  /// Asks it to end; kills it if it does not within `patience` seconds.
  ended stop(double patience);

  const scratch_file& out() const { return out_; }
  const scratch_file& err() const { return err_; }

 private:
  bool ended_within(double seconds);
  ended reap(ended::how way);
  void kill_all();

  scratch_file out_, err_;
  pid_t pid_ = -1;
  int handle_ = -1;
  int start_error_ = 0;
  bool reaped_ = false;
  steady::time_point start_;
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

/// The CPU time that neither was idle nor went to this program and what it has started.
class foreign_cpu {
 public:
  foreign_cpu() : from_(now()) {}
  /// Of all CPU time since then, 0 to 1.
  double share() const;

 private:
  struct sample {
    double total, busy, own;
  };
  static sample now();
  sample from_;
};

}  // namespace usher::cli
