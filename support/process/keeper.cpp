#include "support/process/keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "support/process/interruption.hpp"

namespace usher::support {
namespace {

void ignore_signal(int) {}

}  // namespace

/// Sends a report. If the other end of the connection is closed, the report is dropped: no process waits for it any
/// more.
void keeper::send_report(const keeper_report& r) const {
  while (send(line_, &r, sizeof r, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

void keeper::keep(char* const* command, const environment_changes& changes, int input, int inherited,
                  const sigset_t* mask) {
  // The keeper ignores ^C and ^Z at the terminal: it blocks all signals, and unblocks only SIGCHLD while it waits.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before_);
  if (mask != nullptr) before_ = *mask;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action {};
  action.sa_handler = ignore_signal;
  sigaction(SIGCHLD, &action, nullptr);
  start(command, changes, input, inherited);
  sigset_t waiting = all;
  sigdelset(&waiting, SIGCHLD);
  for (;;) {
    reap_children();
    out_.cut();
    err_.cut();
    pollfd watched{line_, POLLIN, 0};
    const timespec a_while{program_ended_ ? 1 : 0, 100'000'000};
    if (ppoll(&watched, 1, &a_while, &waiting) > 0) read_command();
  }
}

void keeper::start(char* const* command, const environment_changes& changes, int input, int inherited) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) failure[0] = failure[1] = -1;
  start_ = steady::now();
  program_ = fork();
  if (program_ == 0) execute(command, changes, input, inherited, failure[1]);
  if (program_ < 0) {
    keeper_report r{keeper_report::ended};
    r.start_error = errno;
    send_report(r);
    program_ended_ = true;
    return;
  }
  setpgid(program_, program_);  // the program does the same; the first of both calls has the effect
  close(failure[1]);
  if (read(failure[0], &start_error_, sizeof start_error_) != sizeof start_error_) start_error_ = 0;
  close(failure[0]);
}

void keeper::execute(char* const* command, const environment_changes& changes, int input, int inherited, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the keeper is killed
  for (const int s : interrupting_signals)
    if (struct sigaction old{}; sigaction(s, nullptr, &old) == 0 && old.sa_handler != SIG_IGN) signal(s, SIG_DFL);
  for (const int s : {SIGCHLD, SIGCONT}) signal(s, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  if (input == STDIN_FILENO) fcntl(input, F_SETFD, 0);  // standard input was closed
  dup2(input, STDIN_FILENO);
  dup2(out_.descriptor(), STDOUT_FILENO);
  dup2(err_.descriptor(), STDERR_FILENO);
  if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
  for (const auto& [name, value] : changes) {
    if (value)
      setenv(name.c_str(), value->c_str(), 1);
    else
      unsetenv(name.c_str());
  }
  execvp(command[0], command);
  const int error = errno;
  if (write(failure, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

void keeper::reap_children() {
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t p = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage);
    if (p <= 0) return;
    if (p != program_) continue;
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      keeper_report r{WIFSTOPPED(status) ? keeper_report::stopped : keeper_report::running_again};
      r.status = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
      send_report(r);
    } else {
      report_end(status, usage);
    }
  }
}

void keeper::report_end(int status, const rusage& usage) {
  program_ended_ = true;
  keeper_report r{keeper_report::ended};
  r.status = status;
  r.start_error = start_error_;
  r.seconds = std::chrono::duration<double>(steady::now() - start_).count();
  r.usage = usage;
  send_report(r);
}

void keeper::read_command() {
  char what = to_end;
  const ssize_t n = recv(line_, &what, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0 || what == to_end) kill_all_and_exit();
  // The program's group gets no signal once the program has ended: the group may be gone and its id in use for another
  // group.
  if (what == to_terminate && program_ > 0 && !program_ended_) kill(-program_, SIGTERM);
}

std::vector<pid_t> keeper::children() const {
  std::ifstream in(fmt::format("/proc/self/task/{}/children", getpid()));
  std::vector<pid_t> all;
  for (pid_t p; in >> p;) all.push_back(p);
  if (all.empty() && !program_ended_ && program_ > 0) all.push_back(program_);  // a kernel without the file "children"
  return all;
}

/// Kills the program's group, then all other descendants. These become children of the keeper when their parents end.
void keeper::kill_all_and_exit() {
  const auto begin = steady::now();
  keeper_report last{keeper_report::all_gone};
  // While a process group has members, its id is not given to a new process. So if a process with this id exists after
  // the program has ended, the group is gone, and the id belongs to another process.
  if (program_ > 0 && (!program_ended_ || getpgid(program_) < 0)) kill(-program_, SIGKILL);
  for (;;) {
    reap_children();
    const std::vector<pid_t> rest = children();
    if (rest.empty()) break;
    bool any_killed = false;
    last.survivor = rest.front();
    for (const pid_t p : rest) {
      if (kill(p, SIGKILL) == 0) {
        any_killed = true;
      } else if (errno != ESRCH) {
        last.survivor = p;
        last.status = errno;
      }
    }
    const double waited = std::chrono::duration<double>(steady::now() - begin).count();
    if (waited > (any_killed ? killed_grace : others_grace)) break;
    last.survivor = 0;
    last.status = 0;
    usleep(1000);
  }
  send_report(last);
  _exit(0);
}

}  // namespace usher::support
