#include "cli/process/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace usher::cli {
namespace {

std::uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000 + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t read_tsc() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

/// Whether the time stamp counter has a constant rate, never stops, and is the kernel's clock source, so that it is the same on all CPUs.
bool is_tsc_steady() {
#if !defined(__x86_64__)
  return false;
#endif
  std::string source;
  std::ifstream("/sys/devices/system/clocksource/clocksource0/current_clocksource") >> source;
  if (source != "tsc" && source != "kvm-clock") return false;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("flags")) continue;
    line += ' ';
    return line.find(" constant_tsc ") != std::string::npos && line.find(" nonstop_tsc ") != std::string::npos;
  }
  return false;
}

[[noreturn]] void fail_to_make(const std::string& what, int error, const char* advice = "") {
  throw std::runtime_error(fmt::format("cannot make {}: {}{}", what, std::strerror(error), advice));
}

/// Whether a process has ended, as a zombie or completely, and whether its first thread has ended.
struct life {
  bool is_over = false, first_is_over = false;
};

life read_life(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return {true, true};
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(in, text)) return {};  // /proc may hide processes of other users
  const std::size_t name_ends = text.rfind(')');
  if (name_ends == std::string::npos || name_ends + 2 >= text.size()) return {};
  const char state = text[name_ends + 2];
  if (state != 'Z' && state != 'X') return {};
  // A process whose first thread has ended before the others has the state of a zombie, too.
  std::size_t at = name_ends + 2;
  constexpr int fields_between = 17;  // from the state to the number of threads
  for (int i = 0; i < fields_between && at != std::string::npos; i++) at = text.find(' ', at + 1);
  const long threads = at == std::string::npos ? 1 : std::strtol(text.c_str() + at, nullptr, 10);
  return {threads <= 1, true};
}

std::uint32_t taken(const record::word32& n, std::uint32_t room) {
  return std::min(n.load(std::memory_order_relaxed), room);
}

constexpr auto relaxed = std::memory_order_relaxed;

}  // namespace

// ---- the clock ------------------------------------------------------------------------------------------------

tick_clock::tick_clock() : is_tsc_(is_tsc_steady()) {
  if (!is_tsc_) return;
  first_ = read_both();
  const timespec a_while{0, 3'000'000};
  nanosleep(&a_while, nullptr);
  const double per_ms = 1e-3 / seconds_a_tick();
  ticks_a_ms_ = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(per_ms));
}

std::uint64_t tick_clock::now() const {
  return is_tsc_ ? read_tsc() : monotonic_ns();
}

/// The shortest of some attempts, which was not interrupted between the two clocks.
tick_clock::reading tick_clock::read_both() {
  reading best{};
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 8; i++) {
    const std::uint64_t before = read_tsc(), ns = monotonic_ns(), took = read_tsc() - before;
    if (took < least) {
      least = took;
      best = {before + took / 2, ns};
    }
  }
  return best;
}

double tick_clock::seconds_a_tick() const {
  if (!is_tsc_) return 1e-9;
  const reading now = read_both();
  return static_cast<double>(now.ns - first_.ns) * 1e-9 / static_cast<double>(now.ticks - first_.ticks);
}

// ---- the file -------------------------------------------------------------------------------------------------

record_file::record_file(const record_options& o)
    : descriptor_(memfd_create(record::file_name, MFD_CLOEXEC | MFD_ALLOW_SEALING)),
      path_(fmt::format("/proc/{}/fd/{}", getpid(), descriptor_)) {
  if (descriptor_ < 0) fail_to_make("a record in memory", errno);
  fill(o, false);
  // The seals keep a process that has inherited it from truncating it, which would kill all processes that have it mapped.
  fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
}

record_file::record_file(const record_options& o, const visible& where) {
  std::string name = where.folder + "/usher-stat-XXXXXX";
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);  // for its owner alone
  if (descriptor_ < 0) fail_to_make("a record in " + where.folder, errno);
  to_be_removed_ = name;
  path_ = where.seen_as + name.substr(where.folder.size());
  if (fchown(descriptor_, where.user, where.group) != 0 && (where.user != geteuid() || errno != EPERM)) {
    const int error = errno;
    unlink(name.c_str());
    close(descriptor_);
    fail_to_make(name, error);
  }
  fill(o, true);
}

/// Frees all resources before it throws, since the destructor does not run after an exception in the constructor.
void record_file::fill(const record_options& o, bool take_memory_now) {
  record::capacities room;
  room.objects = std::bit_ceil(std::max(o.objects, std::uint32_t{64}));
  room.details = std::clamp(room.objects / 8, std::uint32_t{64}, std::uint32_t{65536});
  size_ = record::view::size_for(room);
  // A full file system must be an error here, not a SIGBUS in the program later.
  int error = take_memory_now ? posix_fallocate(descriptor_, 0, static_cast<off_t>(size_)) : 0;
  if (error == 0 && ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) error = errno;
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    if (!to_be_removed_.empty()) unlink(to_be_removed_.c_str());
    close(descriptor_);
    fail_to_make(
        fmt::format("a record of {} MiB{}{}", size_ >> 20, to_be_removed_.empty() ? "" : " as ", to_be_removed_), error,
        " (--objects with a smaller number makes it smaller)");
  }
  memory_ = memory;
  record::header& h = view().head();
  h.magic = record::magic;
  h.version = record::version;
  h.hold_times = o.hold_times ? 1 : 0;
  h.size = size_;
  h.room = room;
  h.ticks_are_tsc = clock_.is_tsc() ? 1 : 0;
  h.ticks_a_ms = clock_.ticks_a_ms();
  h.enabled.store(1);
}

void record_file::hide() {
  if (to_be_removed_.empty() || view().head().opened.load(relaxed) == 0) return;
  unlink(to_be_removed_.c_str());
  to_be_removed_.clear();
}

record_file::~record_file() {
  if (!to_be_removed_.empty()) unlink(to_be_removed_.c_str());
  munmap(memory_, size_);
  close(descriptor_);
}

// ---- living processes and threads -----------------------------------------------------------------------------

void census::sample_processes(std::uint64_t now) {
  const record::header& h = record_.head();
  // Of several slots with one process id only the last may be alive: exec ended the earlier ones.
  std::unordered_map<std::uint32_t, std::uint64_t> later;  // process id: when the later slot began
  for (std::uint32_t i = taken(h.processes, h.room.processes); i-- > 0;) {
    record::process_slot& p = record_.process(i);
    const std::uint32_t pid = p.pid.load(relaxed);
    if (pid == 0) continue;
    const std::uint64_t began = p.began.load(relaxed);
    const auto next = later.find(pid);
    if (p.ended.load(relaxed) == 0) {
      if (next != later.end())
        p.ended.store(std::max(began, next->second), relaxed);
      else if (read_life(static_cast<pid_t>(pid)).is_over)
        p.ended.store(now, relaxed);
    }
    later[pid] = began;
  }
}

void census::sample(std::uint64_t now) {
  sample_processes(now);
  const record::header& h = record_.head();
  const std::uint32_t processes = taken(h.processes, h.room.processes);
  const std::uint32_t threads = taken(h.threads, h.room.threads);
  std::uint32_t of = ~std::uint32_t{0};
  life of_process;
  for (std::uint32_t i = 0; i < threads; i++) {
    record::thread_slot& t = record_.thread(i);
    // Read first: the library gives the slot to another thread only after `over` was set here.
    if (t.over.load(std::memory_order_acquire) != 0) continue;
    const std::uint32_t tid = t.tid.load(relaxed), process = t.process.load(relaxed);
    if (tid == 0 || process >= processes) continue;
    const record::process_slot& p = record_.process(process);
    const auto pid = static_cast<pid_t>(p.pid.load(relaxed));
    if (pid == 0) continue;
    const std::uint64_t ended = p.ended.load(relaxed);
    bool over = ended != 0;
    if (!over && static_cast<pid_t>(tid) == pid) {
      if (of != process) of_process = read_life(pid);
      of = process;
      over = of_process.first_is_over;
    } else if (!over) {
      over = syscall(SYS_tgkill, pid, tid, 0) != 0 && errno == ESRCH;
    }
    if (over) {
      t.over.store(1, relaxed);
    } else if (t.last.load(relaxed) < now) {
      t.last.store(now, relaxed);
    }
  }
}

unsigned census::living_processes() const {
  const record::header& h = record_.head();
  unsigned n = 0;
  for (std::uint32_t i = taken(h.processes, h.room.processes); i-- > 0;) {
    const record::process_slot& p = record_.process(i);
    const auto pid = static_cast<pid_t>(p.pid.load(relaxed));
    n += pid != 0 && p.ended.load(relaxed) == 0 && !read_life(pid).is_over;
  }
  return n;
}

void census::finish(std::uint64_t now) {
  const record::header& h = record_.head();
  // Threads that lived at the last sample and are gone now have ended with the program, a moment ago.
  for (std::uint32_t i = taken(h.threads, h.room.threads); i-- > 0;) {
    record::thread_slot& t = record_.thread(i);
    if (t.tid.load(relaxed) != 0 && t.over.load(relaxed) == 0 && t.last.load(relaxed) < now) t.last.store(now, relaxed);
  }
  sample(now);
}

// ---- sums -----------------------------------------------------------------------------------------------------

namespace {

/// Ticks of a thread's first and last sample.
using life_span = std::pair<std::uint64_t, std::uint64_t>;

/// The largest number of threads that lived at the same time.
std::uint64_t most_at_once(const std::vector<life_span>& lives) {
  std::vector<std::pair<std::uint64_t, int>> changes;
  for (const auto& [first, last] : lives) {
    changes.emplace_back(first, 1);
    changes.emplace_back(last, -1);  // sorted before the threads that begin at the same tick
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t now = 0, most = 0;
  for (const auto& change : changes) most = std::max(most, now += change.second);
  return static_cast<std::uint64_t>(most);
}

}  // namespace

recorded_calls sum_of(record::view r) {
  const record::header& h = r.head();
  recorded_calls s;
  s.processes = std::max(h.opened.load(relaxed), h.processes.load(relaxed));
  s.locks = h.calls.load(relaxed) + h.dropped.objects.load(relaxed);  // the kinds of dropped objects are not known
  for (std::uint32_t i = 0; i < h.room.objects; i++) {
    const record::object& o = r.object(i);
    if (o.key.load(relaxed) <= record::object::vacant) continue;
    const std::uint64_t had = o.acquisitions.load(relaxed), timeouts = o.timeouts.load(relaxed);
    std::uint64_t signals = o.signals.load(relaxed);
    if (const std::uint32_t d = o.detail.load(relaxed); d != 0 && d <= h.room.details)
      signals += r.detail(d - 1).failed_tries.load(relaxed);
    switch (record::kind(o.depth_and_kind.load(relaxed) & 0xff)) {
      case record::kind::mutex:
        s.locks += had + signals + timeouts;
        s.contended += o.contended.load(relaxed) + signals + timeouts;
        break;
      case record::kind::condition:
        s.waits += had;
        break;
      case record::kind::semaphore:
        s.semaphores += had + signals + timeouts;
        break;
      case record::kind::none:
        break;
    }
  }
  const auto mutexes = std::size_t(record::kind::mutex) - 1;
  s.lives = h.retired_lives.load(relaxed);
  s.waited = h.retired_waited[mutexes].load(relaxed);
  std::vector<life_span> lives;
  for (std::uint32_t i = taken(h.threads, h.room.threads); i-- > 0;) {
    const record::thread_slot& t = r.thread(i);
    if (t.tid.load(relaxed) == 0) continue;
    const std::uint64_t first = t.first.load(relaxed), last = t.last.load(relaxed);
    s.lives += last > first ? last - first : 0;
    s.waited += t.waited[mutexes].load(relaxed);
    lives.emplace_back(first, std::max(last, first + 1));
  }
  s.threads = most_at_once(lives);
  return s;
}

}  // namespace usher::cli
