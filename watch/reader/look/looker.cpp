#include "watch/reader/look/looker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "support/process/files.hpp"
#include "support/process/stat_line.hpp"
#include "watch/reader/look/passes.hpp"
#include "watch/reader/read/cpu_use.hpp"

namespace usher::reader {

using namespace std::chrono_literals;
using steady_clock = std::chrono::steady_clock;

/// Shared by the command and its child.
struct looker::board {
  std::atomic<std::uint64_t> progress;
  std::atomic<std::uint64_t> cpu_ns;
};

namespace {

constexpr std::size_t longest_message = std::size_t{64} << 20;
// Without progress; chosen.
constexpr auto longest_sleep = 1s;
constexpr std::uint64_t longest_run = 3'000'000'000;  // ns of CPU time
constexpr auto longest_starvation = 30s;
constexpr unsigned most_children = 4;

bool send_all(int to, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t n = send(to, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// The child's work: passes, and a look for each byte that comes.
void serve(int channel, passes& work, std::chrono::nanoseconds period, std::atomic<std::uint64_t>& cpu_ns) {
  auto next = steady_clock::now();
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - steady_clock::now());
    pollfd p{channel, POLLIN, 0};
    const int ready = poll(&p, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 10000)));
    if (ready > 0) {
      char request = 0;
      if (read(channel, &request, 1) != 1) return;
      sighting s = work.look();
      byte_writer w;
      w(s);
      const auto size = static_cast<std::uint64_t>(w.bytes.size());
      if (!send_all(channel, reinterpret_cast<const char*>(&size), sizeof size) ||
          !send_all(channel, w.bytes.data(), w.bytes.size()))
        return;
      next = steady_clock::now() + period;
    } else if (steady_clock::now() >= next) {
      work.pass();
      next = std::max(next + period, steady_clock::now());
    }
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    cpu_ns.store(static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec));
  }
}

}  // namespace

looker::looker(pid_t pid, look_options options) : pid_(pid), options_(options) {
  void* const memory = mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) board_ = {new (memory) board{}, [](board* b) { munmap(b, sizeof(board)); }};
  if (board_) start();
}

looker::~looker() {
  end();
}

void looker::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // Standard output may be a pipe whose reader waits for its end. Only the channel stays open.
    const int channel = fcntl(ends[1], F_DUPFD, 3) == 3 ? 3 : dup2(ends[1], 3);
    if (channel != 3 || syscall(SYS_close_range, 4u, ~0u, 0u) != 0) _exit(1);
    const int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3 && nothing >= 0; i++) dup2(nothing, i);
    for (const int s : {SIGINT, SIGQUIT, SIGHUP}) signal(s, SIG_IGN);  // the command ends its child
    try {
      passes work(pid_, options_.period, options_.most_threads, given_up_ == 0, board_->progress);
      serve(channel, work, options_.period, board_->cpu_ns);
    } catch (...) {  // no memory
    }
    _exit(0);
  }
  close(ends[1]);
  channel_ = ends[0];
  fcntl(channel_, F_SETFL, O_NONBLOCK);
  if (child_ < 0) close(std::exchange(channel_, -1));
}

void looker::end() {
  if (channel_ >= 0) close(std::exchange(channel_, -1));
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  const auto until = steady_clock::now() + 200ms;
  while (waitpid(child_, nullptr, WNOHANG) == 0 && steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  child_ = -1;
}

namespace {

/// Watches a child that makes no progress: whether it sleeps all the time, runs, or waits for a CPU.
class stalled_child {
 public:
  explicit stalled_child(pid_t child) : child_(child) { has_progress(); }

  void has_progress() {
    progress_at_ = asleep_since_ = steady_clock::now();
    first_run_ = run_ = times();
  }
  /// Why the child must be given up; none: not yet.
  look_trouble trouble() {
    const auto now = steady_clock::now();
    if (now - progress_at_ < longest_sleep) return look_trouble::none;
    const schedule_times t = times();
    // A child that has not run between two readings, and sleeps in both, has slept in one call all the time.
    if (t.runs != run_.runs || t.ran != run_.ran || !is_asleep()) asleep_since_ = now;
    run_ = t;
    if (now - asleep_since_ > longest_sleep) return look_trouble::blocked;
    if (t.ran - first_run_.ran > longest_run) return look_trouble::busy;
    return now - progress_at_ > longest_starvation ? look_trouble::starved : look_trouble::none;
  }

 private:
  std::string path(const char* file) const { return "/proc/" + std::to_string(child_) + "/" + file; }
  schedule_times times() const {
    return parse_schedule(support::content_of(AT_FDCWD, path("schedstat"), 128)).value_or(schedule_times{});
  }
  /// In a system call. A page fault of the child's own is none: then a disk is slow.
  bool is_asleep() const {
    const char state = support::stat_line::of_process(child_).state();
    return (state == 'S' || state == 'D') && !support::content_of(AT_FDCWD, path("syscall"), 16).starts_with("-1");
  }

  pid_t child_;
  schedule_times first_run_, run_;
  steady_clock::time_point progress_at_, asleep_since_;
};

}  // namespace

/// Receives a message. None: all of it has come, or this command was interrupted.
look_trouble looker::receive(std::string& bytes, const interruption& interrupted) {
  std::uint64_t size = 0, progress = board_->progress.load();
  std::size_t have = 0;
  stalled_child child(child_);
  char* to = reinterpret_cast<char*>(&size);
  std::size_t wanted = sizeof size;
  bool is_head = true;
  for (;;) {
    if (have == wanted && is_head) {
      if (size > longest_message) return look_trouble::ended;
      bytes.resize(size);
      to = bytes.data();
      wanted = size;
      have = 0;
      is_head = false;
    }
    if (have == wanted && !is_head) return look_trouble::none;
    const ssize_t n = recv(channel_, to + have, wanted - have, 0);
    if (n == 0) return look_trouble::ended;
    if (n > 0) {
      have += static_cast<std::size_t>(n);
      child.has_progress();
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return look_trouble::ended;
    if (interrupted()) return look_trouble::none;
    const std::uint64_t now = board_->progress.load();
    if (now != progress) progress = now, child.has_progress();
    if (const look_trouble why = child.trouble(); why != look_trouble::none) return why;
    pollfd p{channel_, POLLIN, 0};
    poll(&p, 1, 20);
  }
}

std::optional<sighting> looker::look(const interruption& interrupted) {
  while (board_ && child_ > 0 && !interrupted()) {
    std::string bytes;
    const char request = 'l';
    look_trouble why = send_all(channel_, &request, 1) ? receive(bytes, interrupted) : look_trouble::ended;
    if (interrupted()) return std::nullopt;
    if (why == look_trouble::none) {
      sighting s;
      byte_reader r(bytes);
      r(s);
      if (r.is_at_end()) return s;
      why = look_trouble::ended;
    }
    end();
    if (trouble_ == look_trouble::none) trouble_ = why;
    if (why == look_trouble::starved || ++given_up_ >= most_children) return std::nullopt;
    start();
  }
  return std::nullopt;
}

double looker::cpu_seconds() const {
  return board_ ? static_cast<double>(board_->cpu_ns.load()) * 1e-9 : 0;
}

}  // namespace usher::reader
