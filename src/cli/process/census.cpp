#include "cli/process/census.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace usher::cli {
namespace {

using record::read;

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

constexpr auto relaxed = std::memory_order_relaxed;

}  // namespace

// ---- living processes and threads -----------------------------------------------------------------------------

void census::sample_processes(std::uint64_t now) {
  // Of several slots with one process id only the last may be alive: exec ended the earlier ones.
  std::unordered_map<std::uint32_t, std::uint64_t> later;  // process id: when the later slot began
  for (std::uint32_t i = record_.processes(); i-- > 0;) {
    record::process_slot& p = *record_.process(i);
    const std::uint32_t pid = read(p.pid);
    if (pid == 0) continue;
    const std::uint64_t began = read(p.began);
    const auto next = later.find(pid);
    if (read(p.ended) == 0) {
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
  const std::uint32_t processes = record_.processes(), threads = record_.threads();
  std::uint32_t of = ~std::uint32_t{0};
  life of_process;
  for (std::uint32_t i = 0; i < threads; i++) {
    record::thread_slot& t = *record_.thread(i);
    // Read first: the library gives the slot to another thread only after `over` was set here.
    if (t.over.load(std::memory_order_acquire) != 0) continue;
    const std::uint32_t tid = read(t.tid), process = read(t.process);
    if (tid == 0 || process >= processes) continue;
    const record::process_slot& p = *record_.process(process);
    const auto pid = static_cast<pid_t>(read(p.pid));
    if (pid == 0) continue;
    bool over = read(p.ended) != 0;
    if (!over && static_cast<pid_t>(tid) == pid) {
      if (of != process) of_process = read_life(pid);
      of = process;
      over = of_process.first_is_over;
    } else if (!over) {
      over = syscall(SYS_tgkill, pid, tid, 0) != 0 && errno == ESRCH;
    }
    if (over) {
      t.over.store(1, relaxed);
    } else if (read(t.last) < now) {
      t.last.store(now, relaxed);
    }
  }
}

unsigned census::living_processes() const {
  unsigned n = 0;
  for (std::uint32_t i = record_.processes(); i-- > 0;) {
    const record::process_slot& p = *record_.process(i);
    const auto pid = static_cast<pid_t>(read(p.pid));
    n += pid != 0 && read(p.ended) == 0 && !read_life(pid).is_over;
  }
  return n;
}

void census::finish(std::uint64_t now) {
  // Threads that lived at the last sample and are gone now have ended with the program, a moment ago.
  for (std::uint32_t i = record_.threads(); i-- > 0;) {
    record::thread_slot& t = *record_.thread(i);
    if (read(t.tid) != 0 && read(t.over) == 0 && read(t.last) < now) t.last.store(now, relaxed);
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
  for (std::uint32_t i = 0; i < r.room().objects; i++) {
    const record::object& o = r.object(i);
    if (o.key.load(relaxed) <= record::object::vacant) continue;
    const std::uint64_t had = o.acquisitions.load(relaxed), timeouts = o.timeouts.load(relaxed);
    std::uint64_t signals = o.signals.load(relaxed);
    if (const std::uint32_t d = o.detail.load(relaxed); d != 0 && d <= r.room().details)
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
  for (std::uint32_t i = std::min(read(h.threads), r.room().threads); i-- > 0;) {
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
