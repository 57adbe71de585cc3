#include "watch/reader/attach/stopped_process.hpp"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "support/process/stat_line.hpp"
#include "watch/reader/attach/in_child.hpp"

namespace usher::reader {
namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> all;
  std::error_code gone;
  for (fs::directory_iterator i(fmt::format("/proc/{}/task", pid), gone), end; !gone && i != end; i.increment(gone)) {
    const std::string name = i->path().filename().string();
    pid_t tid = 0;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    all.push_back(tid);
  }
  return all;
}

/// Stops the process's threads by ptrace. Used in a child: when the child ends, the kernel lets the threads continue.
class holder {
 public:
  explicit holder(pid_t pid) : pid_(pid) {}

  /// Stops all threads. False if ptrace failed (see error()), or if a thread did not stop before the deadline.
  bool stop_all() {
    begin_ = clock::now();
    const auto deadline = begin_ + stop_deadline;
    // Repeated until no new thread appears, since running threads may create others.
    for (bool more = true; more;) {
      more = false;
      for (const pid_t tid : threads_of(pid_))
        if (!is_known(tid) && seize(tid)) more = true;
      if (error_ != 0) return false;
      if (more && !await(deadline)) return false;
    }
    if (threads_.empty()) error_ = ESRCH;
    return error_ == 0;
  }

  /// Lets all threads continue. A signal that a thread was about to receive when it stopped is delivered now.
  void let_go() {
    for (thread& t : threads_)
      if (t.is == stopped)
        ptrace(PTRACE_DETACH, t.tid, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(t.signal)));
    end_ = clock::now();
  }

  std::vector<pid_t> stopped_threads() const {
    std::vector<pid_t> all;
    for (const thread& t : threads_)
      if (t.is == stopped) all.push_back(t.tid);
    return all;
  }
  int error() const { return error_; }
  double seconds() const { return std::chrono::duration<double>(end_ - begin_).count(); }
  unsigned number() const { return static_cast<unsigned>(threads_.size()); }

  std::string unstopped() const {
    unsigned n = 0;
    pid_t first = 0;
    for (const thread& t : threads_)
      if (t.is == running && n++ == 0) first = t.tid;
    return fmt::format("{} of its {} threads did not stop within {} ms (the first: {}, state {}); nothing was changed",
                       n, threads_.size(), stop_deadline.count(), first,
                       support::stat_line::of_thread(pid_, first).state());
  }

 private:
  enum condition { running, stopped, in_kernel, gone };
  struct thread {
    pid_t tid;
    condition is;
    int signal;
  };

  bool is_known(pid_t tid) const { return std::binary_search(known_.begin(), known_.end(), tid); }

  /// Requests a stop of the thread. False if it has ended, or if this process may not stop it.
  bool seize(pid_t tid) {
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (errno != ESRCH || tid == pid_) error_ = errno;
      return false;
    }
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    known_.insert(std::lower_bound(known_.begin(), known_.end(), tid), tid);
    threads_.push_back({tid, running, 0});
    return true;
  }

  /// Waits until all threads have stopped. False if the deadline passes before.
  bool await(clock::time_point deadline) {
    for (unsigned turn = 0;; turn++) {
      bool all = true;
      for (thread& t : threads_)
        if (t.is == running) all = has_stopped(t, turn) && all;
      if (all) return true;
      if (clock::now() >= deadline) return false;
      const timespec pause{0, turn < 20 ? 50'000 : 500'000};
      nanosleep(&pause, nullptr);
    }
  }

  /// Whether the thread executes none of the program's code: it has stopped or ended, or is blocked in the kernel.
  bool has_stopped(thread& t, unsigned turn) {
    int status = 0;
    const pid_t who = waitpid(t.tid, &status, __WALL | WNOHANG);
    if (who == t.tid && WIFSTOPPED(status)) {
      t.is = stopped;
      t.signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    } else if (who == t.tid || (who < 0 && errno == ECHILD)) {
      t.is = gone;
    } else if (turn >= 4) {  // most stop at once
      const char state = support::stat_line::of_thread(pid_, t.tid).state();
      if (state == 'D') t.is = in_kernel;
      if (state == 'Z' || state == 'X' || state == '?') t.is = gone;
    }
    return t.is != running;
  }

  pid_t pid_;
  std::vector<thread> threads_;
  std::vector<pid_t> known_;  // sorted
  int error_ = 0;
  clock::time_point begin_{}, end_{};
};

/// The beginning of the child's report; an error message follows.
struct message {
  double seconds;
  unsigned threads;
  bool is_busy, is_late;
};

std::string hold(pid_t pid, const std::function<std::string(const std::vector<pid_t>&)>& then) {
  holder threads(pid);
  std::string error;
  bool is_late = false;
  if (threads.stop_all())
    error = then(threads.stopped_threads());
  else if (threads.error() == 0)
    error = threads.unstopped(), is_late = true;
  else
    error = std::strerror(threads.error());
  threads.let_go();
  const message m{threads.seconds(), threads.number(), threads.error() == EPERM, is_late};
  return std::string(reinterpret_cast<const char*>(&m), sizeof m) + error;
}

}  // namespace

stand_still while_stopped(pid_t pid, const std::function<std::string(const std::vector<pid_t>&)>& then,
                          const std::function<bool()>& interrupted) {
  // stop_deadline limits only the time until the threads have stopped. The child's other work is short, unless the
  // process delays it.
  const auto bytes = in_child([&] { return hold(pid, then); }, 20 * stop_deadline, interrupted);
  message m{};
  stand_still result;
  if (!bytes || bytes->size() < sizeof m) {
    result.error = "the attempt was interrupted, or took too long";
    return result;
  }
  std::memcpy(&m, bytes->data(), sizeof m);
  result.seconds = m.seconds;
  result.threads = m.threads;
  result.is_busy = m.is_busy;
  result.is_late = m.is_late;
  result.error = bytes->substr(sizeof m);
  return result;
}

}  // namespace usher::reader
