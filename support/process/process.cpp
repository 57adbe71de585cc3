#include "support/process/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "support/process/keeper.hpp"

namespace usher::support {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int milliseconds_until(steady::time_point end, long most) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - steady::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, most));
}

}  // namespace

process::process(char* const* command, const environment_changes& changes, int inherited, const sigset_t* mask) {
  struct stat input {};
  const bool file = fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode);
  const int from = open(file ? "/proc/self/fd/0" : "/dev/null", O_RDONLY | O_CLOEXEC);
  if (from < 0) fail(file ? "cannot read standard input again from its beginning" : "cannot open /dev/null");
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    close(from);
    fail("cannot make a socket");
  }
  start_ = steady::now();
  keeper_ = fork();
  if (keeper_ == 0) {
    close(ends[0]);
    keeper(ends[1], out_, err_).keep(command, changes, from, inherited, mask);
  }
  const int error = errno;
  close(ends[1]);
  close(from);
  line_ = ends[0];
  if (keeper_ > 0) return;
  close(line_);
  errno = error;
  fail("cannot start a process");
}

process::~process() {
  kill_all();
  close(line_);
}

/// Reads a report of the keeper. False if none arrived in time or the user interrupted; true also if the keeper has ended.
bool process::read_report_within(double seconds) {
  const auto until = steady::now() + std::chrono::duration_cast<steady::duration>(
                                         std::chrono::duration<double>(std::min(seconds, 1e8)));
  for (;;) {
    pollfd watched{line_, POLLIN, 0};
    const int left = milliseconds_until(until, 1000);
    const int n = poll(&watched, 1, left);
    if (n > 0) {
      read_report();
      return true;
    }
    if (interrupted() != 0 || left == 0) return false;
  }
}

void process::read_report() {
  keeper_report r{};
  ssize_t n = 0;
  while ((n = recv(line_, &r, sizeof r, 0)) < 0 && errno == EINTR) continue;
  if (n != sizeof r) {  // the keeper was killed
    if (!over_) end_.way = ended::how::signalled, end_.status = SIGKILL;
    over_ = gone_ = true;
    return;
  }
  switch (r.what) {
    case keeper_report::ended:
      over_ = true;
      end_.seconds = r.seconds;
      end_.usage = r.usage;
      end_.way = r.start_error != 0      ? ended::how::not_started
                 : WIFSIGNALED(r.status) ? ended::how::signalled
                                         : ended::how::exited;
      end_.status = r.start_error != 0      ? r.start_error
                    : WIFSIGNALED(r.status) ? WTERMSIG(r.status)
                                            : WEXITSTATUS(r.status);
      break;
    case keeper_report::stopped:
      stopped_ = true;
      end_.status = r.status;
      break;
    case keeper_report::running_again:
      stopped_ = false;
      break;
    case keeper_report::all_gone:
      gone_ = true;
      end_.survivor = r.survivor;
      end_.why_survived = r.status;
      break;
  }
}

bool process::running() {
  pollfd watched{line_, POLLIN, 0};
  while (!over_ && poll(&watched, 1, 0) > 0) read_report();
  return !over_;
}

/// Must not throw: the destructor calls it. Signals may arrive meanwhile.
void process::kill_all() {
  if (keeper_ < 0) return;
  const char what = to_end;
  while (send(line_, &what, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  const auto give_up = steady::now() + std::chrono::duration<double>(2 * killed_grace);
  while (!gone_) {
    pollfd watched{line_, POLLIN, 0};
    const int left = milliseconds_until(std::chrono::time_point_cast<steady::duration>(give_up), 10000);
    if (poll(&watched, 1, left) > 0)
      read_report();
    else if (left == 0)
      break;
  }
  if (!gone_) kill(keeper_, SIGKILL);
  while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) continue;
  keeper_ = -1;
}

ended process::finish(ended::how way) {
  const ended before = end_;
  const bool by_itself = over_;
  kill_all();
  if (end_.way == ended::how::not_started) return end_;
  if (!by_itself && way != ended::how::exited) {
    end_.way = way;
    end_.status = before.status;
  }
  if (!over_) end_.seconds = std::chrono::duration<double>(steady::now() - start_).count();
  return end_;
}

void process::remind_after(double seconds, std::function<void()> say) {
  reminder_after_ = seconds;
  reminder_ = std::move(say);
}

ended process::wait(double limit, bool keep_the_rest) {
  constexpr double grace = 1;  // it may be continued, unless it was stopped because it used the terminal
  const auto begin = steady::now();
  while (!over_) {
    const double waited = std::chrono::duration<double>(steady::now() - begin).count();
    double left = std::min(limit, 1e8) - waited;
    const bool for_the_terminal = end_.status == SIGTTIN || end_.status == SIGTTOU;
    if (stopped_ && for_the_terminal) return finish(ended::how::stopped);
    if (stopped_) left = std::min(left, grace);
    const double to_reminder = reminder_ ? reminder_after_ - waited : left;
    if (read_report_within(std::max(std::min(left, to_reminder), 0.0))) continue;
    if (to_reminder < left && interrupted() == 0) {
      std::exchange(reminder_, nullptr)();
      continue;
    }
    return finish(interrupted() != 0 ? ended::how::interrupted
                  : stopped_         ? ended::how::stopped
                                     : ended::how::timed_out);
  }
  return keep_the_rest ? end_ : finish(ended::how::exited);
}

ended process::stop(double grace) {
  const char what = to_terminate;
  while (send(line_, &what, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  const auto until = steady::now() + std::chrono::duration<double>(grace);
  while (!over_ && read_report_within(std::max(0.0, std::chrono::duration<double>(until - steady::now()).count())))
    continue;
  return finish(ended::how::exited);
}

}  // namespace usher::support
