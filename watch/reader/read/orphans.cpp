#include "watch/reader/read/orphans.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "support/process/process_ids.hpp"
#include "support/process/stat_line.hpp"

namespace usher::reader {

orphans::orphans() : adopts_(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0), left_out_(living()) {}

orphans::~orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

bool orphans::is_left_out(pid_t child) const {
  return std::find(left_out_.begin(), left_out_.end(), child) != left_out_.end();
}

// An ended child that is left out may hide others from waitid(). They are reaped after it was awaited, or by init.
void orphans::reap() {
  siginfo_t next{};
  while (waitid(P_ALL, 0, &next, WEXITED | WNOHANG | WNOWAIT) == 0 && next.si_pid != 0 && !is_left_out(next.si_pid)) {
    if (waitpid(next.si_pid, nullptr, WNOHANG) <= 0) return;
    next = {};
  }
}

bool orphans::any() const {
  siginfo_t next{};
  if (!adopts_ || waitid(P_ALL, 0, &next, WEXITED | WNOHANG | WNOWAIT) != 0) return false;  // ECHILD: no child
  if (left_out_.empty()) return true;
  // One look may miss a process with a low id whose parent, with a higher id, ends between the two reads.
  for (unsigned looks = 0; looks < 3; looks++)
    if (!living().empty()) return true;
  return false;
}

std::vector<pid_t> orphans::living() const {
  std::vector<pid_t> found;
  support::each_number("/proc", [&](pid_t pid) {
    constexpr unsigned parent = 4;
    const support::stat_line line = support::stat_line::of_process(pid);
    const bool has_ended = line.state() == 'Z' || line.state() == 'X';
    if (line.number(parent) == static_cast<std::uint64_t>(getpid()) && !has_ended && !is_left_out(pid))
      found.push_back(pid);
  });
  return found;
}

}  // namespace usher::reader
