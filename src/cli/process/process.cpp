#include "cli/process/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>

namespace usher::cli {
namespace {

volatile std::sig_atomic_t interruption = 0;
volatile std::sig_atomic_t continued = 0;

constexpr int interrupting[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

void note_interruption(int signal) {
  interruption = signal;
}
void note_continuation(int) {
  continued = continued + 1;
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int milliseconds_until(steady::time_point end, long most) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - steady::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, most));
}

// ---- the keeper ---------------------------------------------------------------------------------------------

/// What the keeper says.
struct report {
  enum : int { ended, stopped, running_again, all_gone } what;
  int status = 0;  ///< as wait4() has it; of all_gone: errno
  int start_error = 0;
  double seconds = 0;
  rusage usage{};
  pid_t survivor = 0;
};
// What it is told. That we are gone means the second, too.
constexpr char to_terminate = 't', to_end = 'e';

// Seconds; chosen, not measured. Of others' processes, they may end because what they wait for has been killed.
constexpr double patience_with_the_killed = 5, patience_with_others = 1;

class keeper {
 public:
  keeper(int line, const scratch_file& out, const scratch_file& err) : line_(line), out_(out), err_(err) {}
  [[noreturn]] void keep(char* const* command, const environment_changes& changes, int input, int inherited);

 private:
  void start(char* const* command, const environment_changes& changes, int input, int inherited);
  [[noreturn]] void become(char* const* command, const environment_changes& changes, int input, int inherited,
                           int failure);
  void look_after_children();
  void note_end(int status, const rusage& usage);
  void obey();
  [[noreturn]] void end_all();
  void say(const report& r) const {
    // Lost if nobody listens any more, and then it does not matter.
    while (send(line_, &r, sizeof r, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  }
  std::vector<pid_t> children() const;

  int line_;
  const scratch_file &out_, &err_;
  pid_t program_ = -1;
  bool program_ended_ = false;
  int start_error_ = 0;
  sigset_t before_{};
  steady::time_point start_;
};

void nothing(int) {}

void keeper::keep(char* const* command, const environment_changes& changes, int input, int inherited) {
  // No signal but SIGCHLD, and that only while it waits: neither ^C nor ^Z at the terminal is for it.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action {};
  action.sa_handler = nothing;
  sigaction(SIGCHLD, &action, nullptr);
  start(command, changes, input, inherited);
  sigset_t waiting = all;
  sigdelset(&waiting, SIGCHLD);
  for (;;) {
    look_after_children();
    out_.cut();
    err_.cut();
    pollfd watched{line_, POLLIN, 0};
    const timespec a_while{program_ended_ ? 1 : 0, 100'000'000};
    if (ppoll(&watched, 1, &a_while, &waiting) > 0) obey();
  }
}

void keeper::start(char* const* command, const environment_changes& changes, int input, int inherited) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) failure[0] = failure[1] = -1;
  start_ = steady::now();
  program_ = fork();
  if (program_ == 0) become(command, changes, input, inherited, failure[1]);
  if (program_ < 0) {
    report r{report::ended};
    r.start_error = errno;
    say(r);
    program_ended_ = true;
    return;
  }
  setpgid(program_, program_);  // whoever is first
  close(failure[1]);
  if (read(failure[0], &start_error_, sizeof start_error_) != sizeof start_error_) start_error_ = 0;
  close(failure[0]);
}

void keeper::become(char* const* command, const environment_changes& changes, int input, int inherited, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // should somebody kill the keeper
  for (const int s : interrupting)
    if (struct sigaction old{}; sigaction(s, nullptr, &old) == 0 && old.sa_handler != SIG_IGN) signal(s, SIG_DFL);
  for (const int s : {SIGCHLD, SIGCONT}) signal(s, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  if (input == STDIN_FILENO) fcntl(input, F_SETFD, 0);  // we have none ourselves
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

void keeper::look_after_children() {
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t p = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage);
    if (p <= 0) return;
    if (p != program_) continue;
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      report r{WIFSTOPPED(status) ? report::stopped : report::running_again};
      r.status = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
      say(r);
    } else {
      note_end(status, usage);
    }
  }
}

void keeper::note_end(int status, const rusage& usage) {
  program_ended_ = true;
  report r{report::ended};
  r.status = status;
  r.start_error = start_error_;
  r.seconds = std::chrono::duration<double>(steady::now() - start_).count();
  r.usage = usage;
  say(r);
}

void keeper::obey() {
  char what = to_end;
  const ssize_t n = recv(line_, &what, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0 || what == to_end) end_all();
  // Not by its number once it has ended: the group may be gone, and the number another's.
  if (what == to_terminate && program_ > 0 && !program_ended_) kill(-program_, SIGTERM);
}

std::vector<pid_t> keeper::children() const {
  std::ifstream in(fmt::format("/proc/self/task/{}/children", getpid()));
  std::vector<pid_t> all;
  for (pid_t p; in >> p;) all.push_back(p);
  if (all.empty() && !program_ended_ && program_ > 0) all.push_back(program_);  // a kernel without that file
  return all;
}

/// Kills the program's group and then all others, which become ours as their parents die.
void keeper::end_all() {
  const auto begin = steady::now();
  report last{report::all_gone};
  // The number of a group stays taken as long as anybody is in it; after that, of nobody we can have started.
  if (program_ > 0 && (!program_ended_ || getpgid(program_) < 0)) kill(-program_, SIGKILL);
  for (;;) {
    look_after_children();
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
    if (waited > (any_killed ? patience_with_the_killed : patience_with_others)) break;
    last.survivor = 0;
    last.status = 0;
    usleep(1000);
  }
  say(last);
  _exit(0);
}

}  // namespace

// ---- our side -----------------------------------------------------------------------------------------------

int interrupted() {
  return interruption;
}

unsigned continuations() {
  return static_cast<unsigned>(continued);
}

void watch_for_interruption() {
  struct sigaction action {};
  action.sa_handler = note_interruption;  // no SA_RESTART: poll() is to return
  for (const int s : interrupting) {
    struct sigaction before {};
    sigaction(s, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(s, &action, nullptr);
  }
  action.sa_handler = note_continuation;
  sigaction(SIGCONT, &action, nullptr);
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

void scratch_file::cut() const {
  const std::size_t all = size();
  if (all > 2 * kept_end)
    fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kept_end,
              static_cast<off_t>(all - 2 * kept_end));
}

std::string scratch_file::part(std::size_t begin, std::size_t end) const {
  std::string all(end - begin, '\0');
  std::size_t have = 0;
  while (have < all.size()) {
    const ssize_t n = pread(descriptor_, all.data() + have, all.size() - have, static_cast<off_t>(begin + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  all.resize(have);
  return all;
}

std::string scratch_file::head(std::size_t most) const {
  return part(0, std::min({size(), most, is_cut() ? kept_end : most}));
}

std::string scratch_file::tail(std::size_t most) const {
  const std::size_t all = size();
  return part(all - std::min({all, most, is_cut() ? kept_end : most}), all);
}

std::string scratch_file::text() const {
  if (!is_cut()) return head(2 * kept_end);
  return head(kept_end) + "\n" + tail(kept_end);
}

process::process(char* const* command, const environment_changes& changes, int inherited) {
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
    keeper(ends[1], out_, err_).keep(command, changes, from, inherited);
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

/// Whether there was something to hear, or there is nobody to be heard.
bool process::heard_within(double seconds) {
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
  report r{};
  ssize_t n = 0;
  while ((n = recv(line_, &r, sizeof r, 0)) < 0 && errno == EINTR) continue;
  if (n != sizeof r) {  // the keeper is gone without a word
    if (!over_) end_.way = ended::how::signalled, end_.status = SIGKILL;
    over_ = gone_ = true;
    return;
  }
  switch (r.what) {
    case report::ended:
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
    case report::stopped:
      stopped_ = true;
      end_.status = r.status;
      break;
    case report::running_again:
      stopped_ = false;
      break;
    case report::all_gone:
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

/// Never throws, whatever signals come meanwhile: the destructor needs it.
void process::kill_all() {
  if (keeper_ < 0) return;
  const char what = to_end;
  while (send(line_, &what, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  const auto give_up = steady::now() + std::chrono::duration<double>(2 * patience_with_the_killed);
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
  constexpr double grace = 1;  // somebody may continue it; not if it has been stopped for using the terminal
  const auto begin = steady::now();
  while (!over_) {
    const double waited = std::chrono::duration<double>(steady::now() - begin).count();
    double left = std::min(limit, 1e8) - waited;
    const bool for_the_terminal = end_.status == SIGTTIN || end_.status == SIGTTOU;
    if (stopped_ && for_the_terminal) return finish(ended::how::stopped);
    if (stopped_) left = std::min(left, grace);
    const double to_reminder = reminder_ ? reminder_after_ - waited : left;
    if (heard_within(std::max(std::min(left, to_reminder), 0.0))) continue;
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

ended process::stop(double patience) {
  const char what = to_terminate;
  while (send(line_, &what, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  const auto until = steady::now() + std::chrono::duration<double>(patience);
  while (!over_ && heard_within(std::max(0.0, std::chrono::duration<double>(until - steady::now()).count()))) continue;
  return finish(ended::how::exited);
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

double foreign_cpu::share(double also_own) const {
  const sample to = now();
  const double total = to.total - from_.total;
  return total <= 0 ? 0 : std::clamp((to.busy - from_.busy - (to.own - from_.own) - also_own) / total, 0.0, 1.0);
}

}  // namespace usher::cli
