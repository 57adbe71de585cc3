#include "watch/access/census.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "support/process/running_process.hpp"

namespace usher::access {
namespace {

using contract::read;
constexpr auto relaxed = std::memory_order_relaxed;

/// The number of processes that one sample may search for. A program may forge thousands of ids, and each search reads
/// files of /proc. Chosen, not measured.
constexpr unsigned most_searches = 1024;

/// The name of the process at its first call. The program may write to the name during the copy.
std::string name_of(const contract::process_slot& p) {
  std::string name;
  for (const char& c : p.command) {
    const char now = *static_cast<const volatile char*>(&c);
    if (now == '\0') break;
    name += now;
  }
  return name;
}

/// Whether the process handles both signals of a pair by which a garbage collector stops and resumes threads: the Boehm
/// collector and Mono, the Boehm collector built with GC_USESIGRT_SIGNALS, or D's runtime.
bool has_collectors_handlers(pid_t pid) {
  const int pairs[][2] = {{SIGPWR, SIGXCPU}, {SIGRTMIN + 6, SIGRTMIN + 5}, {SIGRTMIN, SIGRTMIN + 1}};
  const std::uint64_t caught = std::strtoull(support::status_field(std::to_string(pid), "SigCgt").c_str(), nullptr, 16);
  const auto catches = [&](int signal) { return (caught >> (signal - 1) & 1) != 0; };
  return std::any_of(std::begin(pairs), std::end(pairs), [&](auto& p) { return catches(p[0]) && catches(p[1]); });
}

}  // namespace

// ---- living processes and threads -----------------------------------------------------------------------------

census::census(contract::live r, int descriptor, looks what)
    : record_(r),
      finder_(descriptor),
      looks_at_handlers_(what == looks::also_at_handlers),
      is_hiding_(support::are_processes_hidden()) {
  states_.resize(record_.room().processes);
  ids_.processes.resize(record_.room().processes);
  ids_.threads.resize(record_.room().threads);
}

/// Whether another slot belongs to this process, and its process is known to be alive.
bool census::is_taken(const support::seen_process& p, std::uint32_t by_other_than) const {
  const auto at = slots_.find(p.pid);
  return at != slots_.end() && at->second != by_other_than && states_[at->second].lives &&
         states_[at->second].seen.started == p.started;
}

/// Searches for a process that has not been found yet. Returns false if it has ended.
bool census::look_for(std::uint32_t slot, std::uint32_t own) {
  if (searches_left_ == 0) return true;  // continued in the next sample
  searches_left_--;
  process_state& s = states_[slot];
  seen_ids::entry& id = ids_.processes[slot];
  s.is_sought = true;
  const auto answer = finder_.find(own, name_of(*record_.process(slot)),
                                   [&](const support::seen_process& p) { return is_taken(p, slot); });
  if (!answer.process) {
    id.is_hidden =
        answer.is_possible || (is_hiding_ && own <= 0x7fffffff && support::has_process(static_cast<pid_t>(own)));
    return id.is_hidden;
  }
  id.is_hidden = false;
  id.seen = answer.process->process.pid;
  id.is_inside = answer.process->is_inside;
  s.seen = answer.process->process;
  s.lives = !s.seen.has_ended();
  if (s.lives) slots_[s.seen.pid] = slot;
  return s.lives;
}

/// Reads the state of a slot's process in /proc. Returns false if the process has ended.
bool census::look_at(std::uint32_t slot, std::uint32_t own) {
  process_state& s = states_[slot];
  seen_ids::entry& id = ids_.processes[slot];
  if (id.own != own) {  // another process has taken the slot, or the program has forged it
    s = {};
    id = {};
    id.own = own;
    threads_.erase(slot);
  }
  if (!s.lives) return s.is_sought && !id.is_hidden ? false : look_for(slot, own);
  const auto now = support::read_process(s.seen.pid);
  id.is_hidden = !now && is_hiding_ && support::has_process(s.seen.pid);
  if (id.is_hidden) return true;
  s.lives = now && now->started == s.seen.started && !now->has_ended();
  if (s.lives) s.seen = *now;
  return s.lives;
}

void census::sample_processes(std::uint64_t now) {
  samples_++;
  searches_left_ = most_searches;
  finder_.begin_sample();
  // If one process has several slots, only the last may be alive: the process has executed another program since it
  // used the others.
  std::unordered_map<pid_t, std::uint32_t> later;  // id: the later slot
  for (std::uint32_t i = record_.processes(); i-- > 0;) {
    contract::process_slot& p = *record_.process(i);
    const std::uint32_t own = read(p.pid);
    if (own == 0 || read(p.ended) != 0) continue;
    const bool lives = look_at(i, own);
    const process_state& s = states_[i];
    if (!lives) {
      p.ended.store(now, relaxed);
    } else if (s.lives) {
      const auto [at, is_last] = later.try_emplace(s.seen.pid, i);
      if (looks_at_handlers_ && !parks_threads_) parks_threads_ = has_collectors_handlers(s.seen.pid);
      if (is_last) continue;
      p.ended.store(std::max(read(p.began), read(record_.process(at->second)->began)), relaxed);
      states_[i].lives = false;
    }
  }
  slots_ = std::move(later);
}

/// Whether the thread lives. If its process has ended, so has the thread.
census::life census::thread_life(std::uint32_t thread, std::uint32_t own, std::uint32_t process) {
  const process_state& s = states_[process];
  const seen_ids::entry& of = ids_.processes[process];
  if (of.is_hidden || !s.is_sought) return life::unknown;
  if (!s.lives) return life::over;
  seen_ids::entry& id = ids_.threads[thread];
  if (id.own != own) id = {own};
  if (own == of.own) {
    id.seen = s.seen.pid;
    return s.seen.has_first_ended() ? life::over : life::lives;
  }
  threads_of_process& all = threads_[process];
  if (std::exchange(all.read_at, samples_) != samples_) all.is_visible = all.list.read(s.seen.pid, of.is_inside);
  const pid_t seen = all.list.seen(own);
  if (seen != 0) id.seen = seen;
  if (seen != 0) return life::lives;
  return all.is_visible || !is_hiding_ ? life::over : life::unknown;
}

void census::sample(std::uint64_t now) {
  sample_processes(now);
  const std::uint32_t processes = record_.processes(), threads = record_.threads();
  for (std::uint32_t i = 0; i < threads; i++) {
    contract::thread_slot& t = *record_.thread(i);
    // `over` is read before the other fields: the library reuses a slot only after this code has set `over`.
    if (t.over.load(std::memory_order_acquire) != 0) continue;
    const std::uint32_t tid = read(t.tid), process = read(t.process);
    if (tid == 0 || process >= processes || read(record_.process(process)->pid) == 0) continue;
    const life is = read(record_.process(process)->ended) != 0 ? life::over : thread_life(i, tid, process);
    if (is == life::over)
      t.over.store(1, relaxed);
    else if (is == life::lives && read(t.last) < now)
      t.last.store(now, relaxed);
  }
  std::erase_if(threads_, [this](const auto& one) { return one.second.read_at != samples_; });
}

unsigned census::living_processes() const {
  unsigned n = 0;
  for (std::uint32_t i = record_.processes(); i-- > 0;) {
    const process_state& s = states_[i];
    if (read(record_.process(i)->ended) != 0 || !s.lives) continue;
    const auto now = support::read_process(s.seen.pid);
    n += now && now->started == s.seen.started && !now->has_ended();
  }
  return n;
}

void census::finish(std::uint64_t now) {
  // Threads that lived at the last sample and do not live now count as living until now: they ended a moment ago,
  // together with the program.
  const std::uint32_t processes = record_.processes();
  for (std::uint32_t i = record_.threads(); i-- > 0;) {
    contract::thread_slot& t = *record_.thread(i);
    const std::uint32_t process = read(t.process);
    if (process >= processes || ids_.processes[process].is_hidden) continue;
    if (read(t.tid) != 0 && read(t.over) == 0 && read(t.last) < now) t.last.store(now, relaxed);
  }
  sample(now);
}

// ---- sums -----------------------------------------------------------------------------------------------------

namespace {

/// The ticks of the first and the last sample in which a thread lived.
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

recorded_calls sum_of(contract::view r) {
  const contract::header& h = r.head();
  recorded_calls s;
  s.processes = std::max(h.opened.load(relaxed), h.processes.load(relaxed));
  // Includes all calls on dropped objects, whose kinds are not known
  s.locks = h.calls.load(relaxed) + h.dropped.objects.load(relaxed);
  for (std::uint32_t i = 0; i < r.room().objects; i++) {
    const contract::object& o = r.object(i);
    if (o.key.load(relaxed) <= contract::object::vacant) continue;
    const std::uint64_t had = o.acquisitions.load(relaxed), timeouts = o.timeouts.load(relaxed);
    std::uint64_t failed = 0;  // failed tries
    if (const std::uint32_t d = o.detail.load(relaxed); d != 0 && d <= r.room().details)
      failed = r.detail(d - 1).failed_tries.load(relaxed);
    switch (contract::kind(o.depth_and_kind.load(relaxed) & 0xff)) {
      case contract::kind::mutex:
        failed += o.mutex.failed_tries.load(relaxed);
        s.locks += had + failed + timeouts;
        s.contended += o.contended.load(relaxed) + failed + timeouts;
        break;
      case contract::kind::condition:
        s.waits += had;
        break;
      case contract::kind::semaphore:
        s.semaphores += had + o.semaphore.posts.load(relaxed) + failed + timeouts;
        break;
      case contract::kind::rwlock:
        s.rwlocks += had + timeouts;
        s.contended_rwlocks += o.contended.load(relaxed) + timeouts;
        break;
      case contract::kind::spin:
      case contract::kind::barrier:
      case contract::kind::join:
        s.others += had + timeouts;
        break;
      case contract::kind::none:
      case contract::kind::recursive_mutex:
      case contract::kind::thread:
        break;
    }
  }
  constexpr int mutexes = contract::index_of(contract::kind::mutex),
                rwlocks = contract::index_of(contract::kind::rwlock);
  s.lives = h.retired_lives.load(relaxed);
  s.waited = h.retired_waited[mutexes].load(relaxed);
  s.waited_for_rwlocks = h.retired_waited[rwlocks].load(relaxed);
  std::vector<life_span> lives;
  for (std::uint32_t i = std::min(read(h.threads), r.room().threads); i-- > 0;) {
    const contract::thread_slot& t = r.thread(i);
    if (t.tid.load(relaxed) == 0) continue;
    const std::uint64_t first = t.first.load(relaxed), last = t.last.load(relaxed);
    s.lives += last > first ? last - first : 0;
    s.waited += t.waited[mutexes].load(relaxed);
    s.waited_for_rwlocks += t.waited[rwlocks].load(relaxed);
    lives.emplace_back(first, std::max(last, first + 1));
  }
  // The minimum, since the program may write any value.
  s.waited_for_shared_rwlocks = std::min(h.waited_for_shared.load(relaxed), s.waited_for_rwlocks);
  s.threads = most_at_once(lives);
  return s;
}

}  // namespace usher::access
