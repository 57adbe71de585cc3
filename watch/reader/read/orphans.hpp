// The processes that a command has started and that outlive their parent, for example a program that goes into the
// background. They become children of this process (PR_SET_CHILD_SUBREAPER), so the kernel reports exactly whether any
// is left: also between a fork and an exec, in another PID namespace, and under another user.
#pragma once

#include <sys/types.h>

#include <vector>

namespace usher::reader {

/// At most one object may exist in a process.
class orphans {
 public:
  orphans();  ///< existing children of this process are left out
  orphans(const orphans&) = delete;
  orphans& operator=(const orphans&) = delete;
  ~orphans();

  /// Leaves out a child that this process awaits elsewhere.
  void leave_out(pid_t child) { left_out_.push_back(child); }
  /// To be called after this child was awaited, since another process may get the id.
  void was_awaited(pid_t child) { std::erase(left_out_, child); }

  /// Awaits ended orphans, which removes them, and adds their CPU time to that of this process's children.
  void reap();
  /// Whether an orphan lives, or has ended and was not reaped yet.
  bool any() const;
  /// The living orphans that /proc shows.
  std::vector<pid_t> living() const;

 private:
  bool is_left_out(pid_t child) const;

  bool adopts_;
  std::vector<pid_t> left_out_;
};

}  // namespace usher::reader
