#include "process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace usher::cli {
namespace {

volatile std::sig_atomic_t interruption = 0;

void note_interruption(int signal) {
  interruption = signal;
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::vector<pid_t> started;  ///< and not yet waited for

/// Processes whose parents have died and that have become ours: what a program left behind in other groups.
std::vector<pid_t> adopted() {
  std::ifstream in(fmt::format("/proc/self/task/{}/children", getpid()));
  std::vector<pid_t> all;
  for (pid_t p; in >> p;)
    if (std::find(started.begin(), started.end(), p) == started.end()) all.push_back(p);
  return all;
}

}  // namespace

int interrupted() {
  return interruption;
}

void watch_for_interruption() {
  struct sigaction action {};
  action.sa_handler = note_interruption;  // no SA_RESTART: poll() is to return
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(s, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(s, &action, nullptr);
  }
}

scratch_file::scratch_file() : descriptor_(memfd_create("usher", MFD_CLOEXEC)) {
  if (descriptor_ < 0) fail("no memory for a program's output");
}

scratch_file::~scratch_file() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::size_t scratch_file::size() const {
  struct stat s {};
  return fstat(descriptor_, &s) == 0 ? static_cast<std::size_t>(s.st_size) : 0;
}

std::string scratch_file::text(std::size_t most) const {
  std::string all(std::min(size(), most), '\0');
  std::size_t have = 0;
  while (have < all.size()) {
    const ssize_t n = pread(descriptor_, all.data() + have, all.size() - have, static_cast<off_t>(have));
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  all.resize(have);
  return all;
}

process::process(char* const* command, const environment_changes& changes) {
  // What the program leaves behind in other process groups comes to us when its parent ends, so that it can be killed.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct stat input {};
  const bool file = fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode);
  const int from = open(file ? "/proc/self/fd/0" : "/dev/null", O_RDONLY | O_CLOEXEC);
  if (from < 0) fail("cannot open /dev/null");
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) fail("cannot make a pipe");
  start_ = steady::now();
  pid_ = fork();
  if (pid_ < 0) fail("cannot start a process");
  if (pid_ == 0) {
    setpgid(0, 0);
    for (const int s : {SIGINT, SIGTERM, SIGHUP})
      if (struct sigaction before{}; sigaction(s, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
        signal(s, SIG_DFL);
    dup2(from, STDIN_FILENO);
    dup2(out_.descriptor(), STDOUT_FILENO);
    dup2(err_.descriptor(), STDERR_FILENO);
    for (const auto& [name, value] : changes) {
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
    }
    execvp(command[0], command);
    const int error = errno;
    if (write(failure[1], &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
  setpgid(pid_, pid_);  // whoever is first
  started.push_back(pid_);
  close(from);
  close(failure[1]);
  if (read(failure[0], &start_error_, sizeof start_error_) != sizeof start_error_) start_error_ = 0;
  close(failure[0]);
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (handle_ < 0) fail("pidfd_open (Linux 5.3)");
}

process::~process() {
  if (!reaped_) reap(ended::how::interrupted);
  if (handle_ >= 0) close(handle_);
}

bool process::ended_within(double seconds) {
  const auto end = steady::now() + std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - steady::now()).count();
    pollfd watched{handle_, POLLIN, 0};
    const int n = poll(&watched, 1, static_cast<int>(std::clamp<long>(left, 0, 1000)));
    if (n > 0) return true;
    if (interrupted() != 0 || left <= 0) return false;
  }
}

bool process::running() {
  return !ended_within(0);
}

void process::kill_all() {
  kill(-pid_, SIGKILL);
}

ended process::reap(ended::how way) {
  kill_all();  // also what it left behind
  ended e;
  e.way = way;
  int status = 0;
  if (wait4(pid_, &status, 0, &e.usage) < 0) fail("cannot wait for a process");
  reaped_ = true;
  std::erase(started, pid_);
  e.seconds = std::chrono::duration<double>(steady::now() - start_).count();
  if (start_error_ != 0) {
    e.way = ended::how::not_started;
    e.status = start_error_;
  } else if (way == ended::how::exited) {
    if (WIFSIGNALED(status)) e.way = ended::how::signalled;
    e.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  // Those in other groups, and their children, which become ours as their parents die.
  for (int round = 0; round < 100; ++round) {
    const std::vector<pid_t> rest = adopted();
    if (rest.empty()) break;
    for (const pid_t p : rest) kill(p, SIGKILL);
    for (const pid_t p : rest) waitpid(p, nullptr, 0);
  }
  return e;
}

ended process::wait(double limit) {
  if (ended_within(limit)) return reap(ended::how::exited);
  return reap(interrupted() != 0 ? ended::how::interrupted : ended::how::timed_out);
}

ended process::stop(double patience) {
  kill(-pid_, SIGTERM);
  ended_within(patience);
  return reap(ended::how::exited);
}

foreign_cpu::sample foreign_cpu::now() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  stat >> cpu;
  double ticks[8] = {};  // user nice system idle iowait irq softirq steal
  for (double& t : ticks) stat >> t;
  sample s{0, 0, 0};
  for (const double t : ticks) s.total += t;
  s.busy = s.total - ticks[3] - ticks[4];
  const auto rate = static_cast<double>(sysconf(_SC_CLK_TCK));
  s.total /= rate;
  s.busy /= rate;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage u{};
    getrusage(who, &u);
    for (const timeval& t : {u.ru_utime, u.ru_stime})
      s.own += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  }
  return s;
}

double foreign_cpu::share() const {
  const sample to = now();
  const double total = to.total - from_.total;
  return total <= 0 ? 0 : std::clamp((to.busy - from_.busy - (to.own - from_.own)) / total, 0.0, 1.0);
}

}  // namespace usher::cli
