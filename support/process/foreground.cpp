#include "support/process/foreground.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "support/process/launch.hpp"
#include "support/text/messages.hpp"

namespace usher::support {
namespace {

constexpr int taken_signals[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP};

}  // namespace

signal_queue::signal_queue() {
  sigemptyset(&taken_);
  sigemptyset(&ignored_);
  for (const int s : taken_signals) {
    sigaddset(&taken_, s);
    struct sigaction now {};
    if (sigaction(s, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) sigaddset(&ignored_, s);
  }
  sigprocmask(SIG_BLOCK, &taken_, &before_);
  // If SIGCHLD were ignored, children could not be waited for. With SIGXFSZ ignored, a limit on the size of files makes write() fail
  // instead of ending this process.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, &child_before_);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, &file_size_before_);
}

void signal_queue::restore() const {
  sigaction(SIGCHLD, &child_before_, nullptr);
  sigaction(SIGXFSZ, &file_size_before_, nullptr);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void signal_queue::let_go() const {
  while (next({})) continue;
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<siginfo_t> signal_queue::next(std::chrono::nanoseconds within) const {
  const long ns = within.count() < 0 ? 0 : within.count();
  const timespec t{ns / 1000000000, ns % 1000000000};
  siginfo_t info{};
  if (sigtimedwait(&taken_, &info, &t) < 0) return std::nullopt;
  return info;
}

foreground_program::foreground_program(char** command,
                                       const std::vector<std::pair<std::string, std::string>>& variables, int inherited,
                                       const signal_queue& signals) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  pid_ = fork();
  if (pid_ == 0) {
    signals.restore();
    if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
    int status = cannot_start;
    bool set = true;
    for (const auto& [name, value] : variables) set = set && setenv(name.c_str(), value.c_str(), 1) == 0;
    if (set)
      status = become_command(command);
    else
      report_error("cannot set the environment: {}", std::strerror(errno));
    if (write(failure[1], &status, sizeof status) < 0) _exit(cannot_start);
    _exit(status);
  }
  const int error = errno;
  close(failure[1]);
  if (pid_ < 0) {
    close(failure[0]);
    throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(error)));
  }
  int status = 0;
  ssize_t n = 0;
  while ((n = read(failure[0], &status, sizeof status)) < 0 && errno == EINTR) continue;
  close(failure[0]);
  if (n != sizeof status) return;
  not_started_ = status;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  ended_ = true;
}

bool foreground_program::has_ended() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

void foreground_program::send(int signal) const {
  if (!ended_) kill(pid_, signal);
}

std::optional<int> foreground_program::died_of() const {
  return WIFSIGNALED(status_) ? std::optional(WTERMSIG(status_)) : std::nullopt;
}

int foreground_program::exit_status() const {
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

}  // namespace usher::support
