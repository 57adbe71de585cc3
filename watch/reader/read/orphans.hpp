// The processes that a command has started and that outlive their parent, as a program does that goes into the
// background. They become children of this process (PR_SET_CHILD_SUBREAPER), so the kernel tells exactly whether any is
// left: also between a fork and an exec, in another PID namespace, and under another user.
#pragma once

#include <sys/types.h>

#include <vector>

namespace usher::reader {

/// At most one object in a process.
class orphans {
 public:
  orphans();  ///< children that this process has already are left out
  orphans(const orphans&) = delete;
  orphans& operator=(const orphans&) = delete;
  ~orphans();

  /// Leaves out a child that this process awaits itself.
  void leave_out(pid_t child) { left_out_.push_back(child); }
  /// After it was awaited: another process may get the id.
  void was_awaited(pid_t child) { std::erase(left_out_, child); }

  /// Awaits those that have ended, so that they do not pile up and their CPU time is that of this process's children.
  void reap();
  /// Whether one lives, or has ended and was not reaped yet.
  bool any() const;
  /// Those that live and that /proc shows.
  std::vector<pid_t> living() const;

 private:
  bool is_left_out(pid_t child) const;

  bool adopts_;
  std::vector<pid_t> left_out_;
};

}  // namespace usher::reader
