#include "watch/reader/attach/in_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace usher::reader {
namespace {

constexpr char complete = '.';  // the last byte of a result

[[noreturn]] void run(const std::function<std::string()>& work, pid_t parent, int to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  std::string result = work() + complete;
  for (std::size_t sent = 0; sent < result.size();) {
    const ssize_t n = write(to, result.data() + sent, result.size() - sent);
    if (n < 0 && errno != EINTR) _exit(1);
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  _exit(0);
}

}  // namespace

std::optional<std::string> in_child(const std::function<std::string()>& work, std::chrono::milliseconds limit,
                                    const std::function<bool()>& interrupted) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t parent = getpid(), child = fork();
  if (child == 0) run(work, parent, ends[1]);
  close(ends[1]);
  const auto until = std::chrono::steady_clock::now() + limit;
  std::string bytes;
  bool ended = child < 0;
  while (!ended) {
    pollfd p{ends[0], POLLIN, 0};
    // The limit is checked only if the pipe is empty: results are read even if this process was stopped until after the
    // limit.
    if (poll(&p, 1, 5) <= 0) {
      if (std::chrono::steady_clock::now() >= until || interrupted()) break;
      continue;
    }
    char buffer[4096];
    const ssize_t n = read(ends[0], buffer, sizeof buffer);
    ended = n == 0 || (n < 0 && errno != EINTR);
    if (n > 0) bytes.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  if (child < 0) return std::nullopt;
  if (!ended) kill(child, SIGKILL);
  // A child may be blocked in a file system of the recorded process (FUSE) even after SIGKILL. So a killed child is
  // awaited for at most 200 ms.
  const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (waitpid(child, nullptr, ended ? 0 : WNOHANG) != child && std::chrono::steady_clock::now() < patience)
    poll(nullptr, 0, 2);
  if (!ended || bytes.empty() || bytes.back() != complete) return std::nullopt;
  bytes.pop_back();
  return bytes;
}

}  // namespace usher::reader
