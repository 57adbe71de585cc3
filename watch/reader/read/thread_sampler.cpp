#include "watch/reader/read/thread_sampler.hpp"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <string>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "support/process/owned_descriptor.hpp"
#include "support/process/process_ids.hpp"
#include "support/process/running_process.hpp"
#include "watch/contract/module_identity.hpp"
#include "watch/reader/read/cpu_use.hpp"
#include "watch/reader/read/small_file.hpp"

namespace usher::reader {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
constexpr auto relaxed = std::memory_order_relaxed;

constexpr std::uint64_t period_ns = 100'000'000;  // from pass to pass
/// A pass is followed by a pause of so many times its CPU time, so that passes use at most 2.5 % of a CPU.
constexpr std::uint64_t pause_for_pass = 40;
constexpr std::uint64_t enough_ns = period_ns / pause_for_pass;  // CPU time of a pass
constexpr auto too_long = 1s;                                    // limit of a pass in a child; chosen

// Sizes, chosen.
constexpr std::uint32_t most_processes = 1024;  // in a pass
constexpr std::uint32_t most_threads = 65536;   // in a pass, and slots of the record
constexpr std::uint32_t fewest_threads = 32;    // a pass reads at least so many threads, if there are as many
constexpr std::uint32_t most_places = 2048, most_modules = 512, text_size = 1 << 17;
constexpr std::uint32_t places_of_calls = 512;           // reserved in most_places for calls whose caller is not known
constexpr std::uint32_t most_unread = 8;                 // number of processes whose memory is no longer read
constexpr std::size_t most_maps = std::size_t{1} << 20;  // bytes of /proc/PID/maps
constexpr std::size_t most_ranges = 4096;                // of code in a process
constexpr std::size_t searched_stack = 2048;             // bytes
constexpr std::size_t most_candidates = 16;              // words of a stack that may be return addresses
constexpr std::uint64_t pause_for_maps = 16;  // number of passes before the mappings of a process are read again

std::uint64_t nanoseconds(clockid_t which) {
  timespec t{};
  clock_gettime(which, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

/// The memory shared by the sampler and the observer; initially all zeros. The observer writes the part up to
/// `is_over`; the sampler, one at a time, writes the rest.
struct thread_sampler::board {
  std::atomic<std::uint32_t> processes;  ///< entries of `process`
  /// Number of processes; if larger than `processes`, the entries are a random sample
  std::atomic<std::uint32_t> all_processes;
  std::atomic<std::uint64_t> process[most_processes];  ///< entry_of()
  /// Ids in this PID namespace, by slot of a thread in another PID namespace
  std::atomic<std::int32_t> seen[most_threads];
  std::atomic<std::uint32_t> not_read[most_unread], unread;  ///< processes whose memory blocks the reader
  std::atomic<std::uint32_t> is_over;

  std::atomic<std::uint32_t> is_done;
  std::atomic<std::uint64_t> passes;
  std::atomic<std::uint32_t> reads;  ///< id of the process whose memory or mappings are being read; 0: none
  std::atomic<std::uint64_t> cpu_ns;
  std::atomic<std::uint64_t> observations, unreadable, recorded[contract::kinds];
  std::atomic<std::uint32_t> of_a_part;

  struct place {
    std::int64_t number;
    bool is_join;
    module_offset pc, caller, below;
    std::atomic<std::uint64_t> samples;
  };
  place places[most_places];
  std::atomic<std::uint32_t> taken_places;
  struct module {
    std::uint32_t process;
    std::uint64_t begin, end, bias, identity;
    std::uint32_t path, length;
  };
  module modules[most_modules];
  std::atomic<std::uint32_t> taken_modules;
  char text[text_size];
  std::uint32_t taken_text;

  std::atomic<std::uint64_t> thousandth_cpus, own_ticks, waited_ns;
  std::atomic<std::uint64_t> first_ns, last_ns;  ///< CLOCK_MONOTONIC when the first and the last sums were made
  std::atomic<std::uint32_t> knows_waits;
};

namespace {

using board = thread_sampler::board;

constexpr std::uint64_t entry_of(std::uint32_t slot, pid_t pid, bool is_inside) {
  return std::uint64_t{slot} << 32 | std::uint64_t{is_inside} << 31 | static_cast<std::uint32_t>(pid);
}

/// Reads another process's memory. Returns the number of bytes read from the beginning; stops at the first page that is
/// not mapped.
std::size_t read_memory(pid_t pid, std::uint64_t at, void* to, std::size_t size) {
  constexpr std::uint64_t page = 4096;
  std::size_t done = 0;
  while (done < size) {
    const std::size_t n = std::min<std::size_t>(size - done, page - (at + done) % page);
    const iovec here{static_cast<char*>(to) + done, n};
    const iovec there{reinterpret_cast<void*>(at + done), n};  // NOLINT(performance-no-int-to-ptr): of the process
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(n)) break;
    done += n;
  }
  return done;
}

/// An executable mapping of a file in a process.
struct code_range {
  std::uint64_t begin = 0, end = 0, offset = 0;
  std::uint64_t header = 0;  ///< address at which the file's beginning is mapped; 0: not mapped
  std::string path;
  bool is_passed_over = false;
  std::uint32_t module = 0;  ///< index in the board's modules, + 1; 0: none yet
  std::uint64_t bias = 0;    ///< valid if `module` is not 0
};

struct known_process {
  std::uint32_t slot = 0;
  bool is_inside = false;
  std::uint64_t started = 0;                                               ///< start time + 1; 0: not read yet
  std::uint64_t own_first = 0, own = 0, children_first = 0, children = 0;  ///< clock ticks
  bool is_stopped = false;
  std::vector<pid_t> threads;
  std::uint64_t listed = 0;        ///< the last pass that listed all its threads
  std::vector<code_range> code;    ///< sorted
  std::uint64_t code_read_at = 0;  ///< number of the pass; 0: never
};

struct known_thread {
  pid_t process = 0;
  std::optional<schedule_times> last;
  bool is_older = false;         ///< it ran before the sampler started, so its first figures are not counted
  std::uint64_t sp = 0, pc = 0;  ///< in the sleep for which `caller` was found
  bool has_caller = false;
  module_offset at, caller, below;
  std::uint64_t listed = 0;  ///< number of the pass
};

class sampling {
 public:
  sampling(board& b, contract::live record, bool counts_from_now)
      : board_(b), record_(record), counts_from_now_(counts_from_now), random_(std::random_device{}()) {
    for (std::uint32_t i = 0; i < board_.taken_places.load(); i++) places_.emplace(key_of(board_.places[i]), i);
    // A child that replaces another child continues its sums.
    for (std::uint32_t i = 0; i < board_.taken_modules.load(); i++) {
      const board::module& m = board_.modules[i];
      modules_.emplace(std::pair(std::string(board_.text + m.path, m.length), m.identity), i + 1);
    }
    ended_own_ = board_.own_ticks.load();
    waited_ns_ = board_.waited_ns.load();
  }

  /// Makes passes until the board's `is_over` is set.
  void run();

 private:
  using place_key = std::tuple<std::int64_t, bool, module_offset, module_offset, module_offset>;
  static place_key key_of(const board::place& p) { return {p.number, p.is_join, p.pc, p.caller, p.below}; }

  /// A thread that was found asleep in this pass.
  struct found {
    enum class what { recorded, unreadable, place } is;
    std::uint32_t index;  ///< of the kind or of the place, depending on `is`
  };

  void pass(std::uint64_t interval_ns);
  void list_processes();
  bool list_threads(pid_t pid, known_process& p);
  static bool has_only_left(pid_t pid, known_process& p);
  void end(const known_process& p);
  void map_slots();
  bool has_thread(pid_t pid, const known_process& p, std::uint32_t own) const;
  void look_at(pid_t pid, known_process& p, pid_t tid, std::vector<found>& to);
  std::optional<kind> recorded_wait(std::uint32_t slot) const;
  void find_caller(pid_t pid, known_process& p, const kernel_entry& e, known_thread& t);
  void search_stack(pid_t pid, known_process& p, const kernel_entry& e, known_thread& t, std::string_view library);
  void read_code(pid_t pid, known_process& p);
  code_range* code_at(known_process& p, std::uint64_t address);
  module_offset located(pid_t pid, known_process& p, std::uint64_t address);
  void identify(pid_t pid, const known_process& p, code_range& c);
  std::optional<std::uint32_t> place_of(std::int64_t number, bool is_join, const module_offset& pc,
                                        const module_offset& caller, const module_offset& below);
  void sum_cpu();
  std::uint64_t spent() const { return nanoseconds(CLOCK_THREAD_CPUTIME_ID) - pass_began_; }
  bool may_read(pid_t pid) const;

  board& board_;
  contract::live record_;
  bool counts_from_now_;
  std::minstd_rand random_;
  std::map<place_key, std::uint32_t> places_;
  std::map<std::pair<std::string, std::uint64_t>, std::uint32_t> modules_;  ///< by path and identity
  std::unordered_map<pid_t, known_process> processes_;
  std::unordered_map<pid_t, known_thread> threads_;
  /// Thread slots, by process slot and id in this PID namespace
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;
  std::vector<std::pair<pid_t, pid_t>> listed_;  ///< process, thread
  std::uint64_t pass_ = 0, pass_began_ = 0;
  std::uint64_t ended_own_ = 0, ended_total_ = 0, waited_ns_ = 0;
  std::uint64_t older_than_ = 0;  ///< clock ticks since boot
  double part_of_processes_ = 1;
};

void sampling::run() {
  const auto rate = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  older_than_ = nanoseconds(CLOCK_BOOTTIME) / (1'000'000'000 / rate);
  std::uint64_t last = 0, planned = period_ns;
  std::uint64_t wait_ns = period_ns / 10;  // for the first census
  while (board_.is_over.load() == 0) {
    const timespec t{static_cast<time_t>(wait_ns / 1'000'000'000), static_cast<long>(wait_ns % 1'000'000'000)};
    syscall(SYS_futex, &board_.is_over, FUTEX_WAIT, 0, &t, nullptr, 0);
    if (board_.is_over.load() != 0) break;
    wait_ns = period_ns / 10;
    if (board_.processes.load() == 0) continue;
    const std::uint64_t now = nanoseconds(CLOCK_MONOTONIC);
    // If the observer was stopped, the interval counts only in part.
    const std::uint64_t interval = last == 0 ? period_ns : std::min(now - last, 4 * planned);
    last = now;
    pass_began_ = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    pass(interval);
    const std::uint64_t took = spent();
    board_.cpu_ns.fetch_add(took, relaxed);
    board_.passes.fetch_add(1);
    planned = std::max(period_ns, pause_for_pass * took);
    if (planned > period_ns * 3 / 2) board_.of_a_part.store(1, relaxed);
    const std::uint64_t over = nanoseconds(CLOCK_MONOTONIC) - now;
    wait_ns = planned > over ? planned - over : 1'000'000;
  }
}

bool sampling::may_read(pid_t pid) const {
  const std::uint32_t n = board_.unread.load();
  if (n >= most_unread) return false;
  for (std::uint32_t i = 0; i < n; i++)
    if (board_.not_read[i].load() == static_cast<std::uint32_t>(pid)) return false;
  return true;
}

// ---- processes and threads ----------------------------------------------------------------------------------------

void sampling::pass(std::uint64_t interval_ns) {
  pass_++;
  list_processes();
  map_slots();
  std::vector<found> asleep;
  const std::size_t n = listed_.size();
  std::size_t read = 0;
  const std::size_t first = n != 0 ? random_() % n : 0;
  for (; read < n && board_.is_over.load(relaxed) == 0 && (read < fewest_threads || spent() < enough_ns); read++) {
    const auto [pid, tid] = listed_[(first + read) % n];
    if (const auto at = processes_.find(pid); at != processes_.end()) look_at(pid, at->second, tid, asleep);
  }
  if (read < n || part_of_processes_ < 1) board_.of_a_part.store(1, relaxed);
  if (read == 0) return sum_cpu();
  const double weight = static_cast<double>(interval_ns) * 1000 / static_cast<double>(period_ns) *
                        static_cast<double>(n) / static_cast<double>(read) / part_of_processes_;
  const auto samples = static_cast<std::uint64_t>(weight);
  board_.observations.fetch_add(asleep.size(), relaxed);
  for (const found& f : asleep)
    (f.is == found::what::recorded     ? board_.recorded[f.index]
     : f.is == found::what::unreadable ? board_.unreadable
                                       : board_.places[f.index].samples)
        .fetch_add(samples, relaxed);
  sum_cpu();
}

void sampling::list_processes() {
  const std::uint32_t n = std::min(board_.processes.load(), most_processes);
  const std::uint32_t all = std::max(board_.all_processes.load(), n);
  listed_.clear();
  std::unordered_set<pid_t> living;
  std::uint32_t visited = 0;
  const std::uint32_t first = n != 0 ? static_cast<std::uint32_t>(random_() % n) : 0;
  for (std::uint32_t i = 0; i < n; i++) {
    const std::uint64_t entry = board_.process[(first + i) % n].load();
    const auto pid = static_cast<pid_t>(entry & 0x7fffffff);
    living.insert(pid);
    if ((visited >= fewest_threads && spent() > enough_ns / 2) || listed_.size() >= most_threads) continue;
    visited++;
    known_process& p = processes_[pid];
    p.slot = static_cast<std::uint32_t>(entry >> 32);
    p.is_inside = (entry >> 31 & 1) != 0;
    if (list_threads(pid, p)) continue;
    living.erase(pid);
  }
  part_of_processes_ = all != 0 && visited != 0 ? static_cast<double>(visited) / all : 1;
  // Processes that are not in the board's random sample may still live.
  if (all > n && processes_.size() < 16 * most_processes) return;
  for (auto at = processes_.begin(); at != processes_.end();) {
    if (living.contains(at->first) || has_only_left(at->first, at->second)) {
      ++at;
      continue;
    }
    end(at->second);
    at = processes_.erase(at);
  }
  // Threads of processes that this pass did not visit may live, and their waiting time so far is already counted.
  if (threads_.size() > 2 * listed_.size() + 1024)
    std::erase_if(threads_, [&](const auto& one) {
      const auto of = processes_.find(one.second.process);
      return of == processes_.end() || one.second.listed < of->second.listed;
    });
}

/// Whether a process that the observer no longer names still lives, for example a shell that starts recorded programs
/// one after the other. Its times are kept: the observer may name it again, and its CPU time must not count twice.
bool sampling::has_only_left(pid_t pid, known_process& p) {
  const auto times = parse_times(small_file("/proc/%d/stat", pid).text());
  if (!times || times->state == 'X' || times->state == 'Z' || p.started != times->started + 1) return false;
  p.own = std::max(times->own, p.own_first);
  p.children = std::max(times->children, p.children_first);
  p.threads.clear();
  return true;
}

/// Reads the times of a process and lists its threads. False if it has ended.
bool sampling::list_threads(pid_t pid, known_process& p) {
  const auto times = parse_times(small_file("/proc/%d/stat", pid).text());
  if (!times || times->state == 'X') return false;
  const bool is_new = p.started != times->started + 1;
  const bool is_older = counts_from_now_ && times->started <= older_than_;
  if (is_new) {
    end(p);
    known_process fresh;
    fresh.slot = p.slot;
    fresh.is_inside = p.is_inside;
    fresh.started = times->started + 1;
    p = std::move(fresh);
    if (is_older) p.own_first = times->own, p.children_first = times->children;
  }
  p.own = std::max(times->own, p.own_first);
  p.children = std::max(times->children, p.children_first);
  p.is_stopped = times->state == 'T' || times->state == 't';
  p.threads.clear();
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  const bool lives = support::each_number(path, [&](pid_t tid) {
    if (listed_.size() >= most_threads) return;
    p.threads.push_back(tid);
    listed_.emplace_back(pid, tid);
    known_thread& t = threads_[tid];
    if (t.process != pid) {
      t = {};
      t.process = pid;
      t.is_older = is_new && is_older;
    }
    t.listed = pass_;
  });
  if (listed_.size() < most_threads) p.listed = pass_;
  return lives;
}

/// Adds the times of an ended process to the sums.
void sampling::end(const known_process& p) {
  ended_total_ += p.own;
  ended_own_ += p.own - p.own_first;
}

/// Finds the slots of the record by the ids in this process's PID namespace.
void sampling::map_slots() {
  slots_.clear();
  std::unordered_map<std::uint32_t, bool> is_inside;
  for (const auto& [pid, p] : processes_) is_inside.emplace(p.slot, p.is_inside);
  const std::uint32_t n = std::min(record_.threads(), most_threads);
  for (std::uint32_t i = 0; i < n; i++) {
    const contract::thread_slot& t = *record_.thread(i);
    if (contract::read(t.over) != 0) continue;
    const std::uint32_t process = contract::read(t.process);
    const auto of = is_inside.find(process);
    if (of == is_inside.end()) continue;
    const auto seen = of->second ? static_cast<std::uint32_t>(board_.seen[i].load(relaxed)) : contract::read(t.tid);
    if (seen != 0) slots_[std::uint64_t{process} << 32 | seen] = i;
  }
}

/// The kind of the object for which the thread with this slot waits.
std::optional<kind> sampling::recorded_wait(std::uint32_t slot) const {
  const contract::thread_slot* const t = record_.thread(slot);
  const std::uint32_t object = t != nullptr ? contract::read(t->waits_for) : 0;
  const contract::object* const o = object != 0 ? record_.object(object - 1) : nullptr;
  const std::uint32_t k = o != nullptr ? contract::read(o->depth_and_kind) & 0xff : 0;
  return k != 0 && k <= contract::kinds ? std::optional(kind(k)) : std::nullopt;
}

/// Whether the process has a thread with this id in its own PID namespace.
bool sampling::has_thread(pid_t pid, const known_process& p, std::uint32_t own) const {
  const auto tid = static_cast<pid_t>(own);
  if (!p.is_inside)
    return std::find(p.threads.begin(), p.threads.end(), tid) != p.threads.end() ||
           !small_file("/proc/%d/task/%d/schedstat", pid, tid).text().empty();  // a new thread
  return std::any_of(slots_.begin(), slots_.end(), [&](const auto& one) {
    return one.first >> 32 == p.slot && contract::read(record_.thread(one.second)->tid) == own;
  });
}

void sampling::look_at(pid_t pid, known_process& p, pid_t tid, std::vector<found>& to) {
  known_thread& t = threads_[tid];
  if (const auto now = parse_schedule(small_file("/proc/%d/task/%d/schedstat", pid, tid).text())) {
    if (board_.knows_waits.load(relaxed) == 0) board_.knows_waits.store(1, relaxed);
    const std::uint64_t before = t.last ? t.last->waited : t.is_older ? now->waited : 0;
    // A new thread may have the id of an ended one; then its figures begin at 0.
    waited_ns_ += now->waited >= before ? now->waited - before : now->waited;
    if (!t.last || t.last->runs != now->runs) t.has_caller = false;
    t.last = now;
  } else {
    t.has_caller = false;
  }
  if (p.is_stopped) return;
  const auto at = slots_.find(std::uint64_t{p.slot} << 32 | static_cast<std::uint32_t>(tid));
  const auto recorded = [&] { return at != slots_.end() ? recorded_wait(at->second) : std::nullopt; };
  std::optional<kind> waits_for = recorded();
  const auto entry = parse_entry(small_file("/proc/%d/task/%d/syscall", pid, tid).text());
  if (entry && entry->is_running) return;
  if (!entry) {  // no permission, or the thread has ended
    const auto its = parse_times(small_file("/proc/%d/task/%d/stat", pid, tid).text());
    if (!its || (its->state != 'S' && its->state != 'D')) return;
  }
  // The wait may have been published after the first look. A wait that has ended by now counts, too: the thread has not
  // run since it was found asleep.
  if (!waits_for) waits_for = recorded();
  if (waits_for) {
    to.push_back({found::what::recorded, static_cast<std::uint32_t>(contract::index_of(*waits_for))});
    return;
  }
  if (!entry) {
    to.push_back({found::what::unreadable, 0});
    return;
  }
  const std::uint32_t other = awaited_thread(*entry);
  const bool is_join = other != 0 && has_thread(pid, p, other);
  if (!t.has_caller || t.sp != entry->sp || t.pc != entry->pc) find_caller(pid, p, *entry, t);
  const auto place = place_of(entry->number, is_join, t.at, t.caller, t.below);
  to.push_back(place ? found{found::what::place, *place} : found{found::what::unreadable, 0});
}

// ---- the caller ---------------------------------------------------------------------------------------------------

/// Tells the observer which process's memory is being read.
class announced {
 public:
  announced(board& b, pid_t pid) : board_(b) { board_.reads.store(static_cast<std::uint32_t>(pid)); }
  announced(const announced&) = delete;
  announced& operator=(const announced&) = delete;
  ~announced() { board_.reads.store(0); }

 private:
  board& board_;
};

void sampling::find_caller(pid_t pid, known_process& p, const kernel_entry& e, known_thread& t) {
  t.sp = e.sp;
  t.pc = e.pc;
  t.has_caller = true;
  t.at = t.caller = t.below = {};
  if (!may_read(pid)) return;
  const announced reading(board_, pid);
  const auto may_read_code = [&] { return p.code_read_at == 0 || pass_ - p.code_read_at >= pause_for_maps; };
  if (code_at(p, e.pc) == nullptr && may_read_code()) read_code(pid, p);
  const code_range* const own = code_at(p, e.pc);
  t.at = located(pid, p, e.pc);
  const bool is_direct = own == nullptr || !own->is_passed_over;
  if (is_direct) t.caller = t.at;
  if (!is_direct || (own != nullptr && is_futex(e.number) && is_library(own->path)))
    search_stack(pid, p, e, t, is_direct ? own->path : "");
}

/// Searches the stack for the caller, unless the caller is already known to be in the library with this path. For a
/// futex of a library, also searches for that library's caller.
void sampling::search_stack(pid_t pid, known_process& p, const kernel_entry& e, known_thread& t,
                            std::string_view library) {
  std::array<std::uint64_t, searched_stack / sizeof(std::uint64_t)> stack;
  if (e.sp % sizeof stack[0] != 0 || e.sp > ~std::uint64_t{0} - searched_stack) return;
  const std::size_t words = read_memory(pid, e.sp, stack.data(), sizeof stack) / sizeof stack[0];
  std::size_t candidates = 0;
  const auto is_code = [&](std::uint64_t address) { return code_at(p, address) != nullptr; };
  for (std::size_t i = 0; i < words && candidates < most_candidates; i++) {
    const code_range* const c = code_at(p, stack[i]);
    if (c == nullptr || c->is_passed_over || c->path == library || stack[i] - c->begin < bytes_before) continue;
    candidates++;
    std::array<unsigned char, bytes_before> before;
    if (read_memory(pid, stack[i] - bytes_before, before.data(), before.size()) != before.size()) continue;
    if (!ends_in_call(std::span<const unsigned char, bytes_before>(before), stack[i], is_code)) continue;
    if (!library.empty()) {
      t.below = located(pid, p, stack[i]);
      return;
    }
    t.caller = located(pid, p, stack[i]);
    if (!is_futex(e.number) || !is_library(c->path)) return;
    library = c->path;
    candidates = 0;
  }
}

code_range* sampling::code_at(known_process& p, std::uint64_t address) {
  auto after = std::upper_bound(p.code.begin(), p.code.end(), address,
                                [](std::uint64_t a, const code_range& c) { return a < c.begin; });
  if (after == p.code.begin() || (--after)->end <= address) return nullptr;
  return &*after;
}

/// Reads the process's mappings. The kernel escapes line ends in file names.
void sampling::read_code(pid_t pid, known_process& p) {
  p.code_read_at = pass_;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/maps", pid);
  const support::owned_descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return;
  std::string text;
  std::vector<code_range> code;
  std::string first_path;
  std::uint64_t first_begin = 0;
  std::size_t read_in_all = 0;
  char part[4096];
  for (ssize_t n = 0;
       read_in_all < most_maps && code.size() < most_ranges && (n = read(file.get(), part, sizeof part)) > 0;) {
    read_in_all += static_cast<std::size_t>(n);
    text.append(part, static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const auto m = support::read_mapping(std::string_view(text).substr(begin, end - begin));
      if (!m || !m->is_of_file) continue;
      if (m->offset == 0 && m->path != first_path) {
        first_path = m->path;
        first_begin = m->range.begin;
      }
      if (m->rights[2] != 'x' || code.size() >= most_ranges) continue;
      code.push_back({m->range.begin, m->range.end, m->offset, m->path == first_path ? first_begin : 0, m->path,
                      is_passed_over(m->path)});
    }
    text.erase(0, begin);
  }
  std::sort(code.begin(), code.end(), [](const code_range& a, const code_range& b) { return a.begin < b.begin; });
  // Ranges that were known before keep their modules.
  for (code_range& c : code)
    if (const code_range* const old = code_at(p, c.begin);
        old != nullptr && old->begin == c.begin && old->end == c.end && old->offset == c.offset && old->path == c.path)
      c.module = old->module, c.bias = old->bias;
  p.code = std::move(code);
}

module_offset sampling::located(pid_t pid, known_process& p, std::uint64_t address) {
  code_range* const c = code_at(p, address);
  if (c == nullptr) return {};
  if (c->module == 0) identify(pid, p, *c);
  return c->module != 0 ? module_offset{c->module, address - c->bias} : module_offset{};
}

/// Sets a range's module and bias from the ELF header in the process's memory. If the header is not mapped, the module
/// gets an identity that no file has, so that no names are looked up with a wrong bias.
void sampling::identify(pid_t pid, const known_process& p, code_range& c) {
  constexpr std::uint16_t most_headers = 64;  // chosen; linkers make about a dozen
  constexpr std::uint64_t of_no_file = 1, page = 4096;
  std::uint64_t identity = of_no_file;
  c.bias = c.begin - c.offset;
  Elf64_Ehdr h{};
  std::array<Elf64_Phdr, most_headers> headers;
  if (c.header != 0 && read_memory(pid, c.header, &h, sizeof h) == sizeof h &&
      std::memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 && h.e_phentsize == sizeof headers[0] && h.e_phoff <= page) {
    const std::size_t n = std::min(h.e_phnum, most_headers);
    const std::size_t size = n * sizeof headers[0];
    if (read_memory(pid, c.header + h.e_phoff, headers.data(), size) == size)
      for (std::size_t i = 0; i < n; i++) {
        const Elf64_Phdr& s = headers[i];
        const std::uint64_t begin = s.p_offset / page * page;
        if (s.p_type != PT_LOAD || c.offset < begin || c.offset - begin > s.p_filesz + s.p_offset % page) continue;
        if ((s.p_flags & PF_X) == 0) continue;
        c.bias = c.begin - c.offset + s.p_offset - s.p_vaddr;
        identity = contract::module_identity(
            [&](std::uint64_t at, void* to, std::size_t bytes) {
              return read_memory(pid, c.header + at, to, bytes) == bytes;
            },
            [&](std::uint64_t, std::uint64_t address) { return c.bias + address - c.header; });
        if (identity == 0) identity = of_no_file;
        break;
      }
  }
  const auto known = modules_.find({c.path, identity});
  if (known != modules_.end()) {
    c.module = known->second;
    return;
  }
  const std::uint32_t i = board_.taken_modules.load(relaxed);
  if (i >= most_modules) return;
  board::module& m = board_.modules[i];
  m = {p.slot, c.begin, c.end, c.bias, identity, 0, 0};
  if (c.path.size() <= text_size - board_.taken_text) {
    m.path = board_.taken_text;
    m.length = static_cast<std::uint32_t>(c.path.size());
    std::memcpy(board_.text + m.path, c.path.data(), c.path.size());
    board_.taken_text += m.length;
  }
  board_.taken_modules.store(i + 1, std::memory_order_release);
  modules_.emplace(std::pair(c.path, identity), i + 1);
  c.module = i + 1;
}

/// The entry of a place. If there is no room, an entry of the system call alone; nullopt if there is no room for this
/// either.
std::optional<std::uint32_t> sampling::place_of(std::int64_t number, bool is_join, const module_offset& pc,
                                                const module_offset& caller, const module_offset& below) {
  const place_key key{number, is_join, pc, caller, below};
  if (const auto known = places_.find(key); known != places_.end()) return known->second;
  const std::uint32_t i = board_.taken_places.load(relaxed);
  const bool is_call_alone = pc == module_offset{} && caller == module_offset{};
  if (i >= most_places - (is_call_alone ? 0 : places_of_calls))
    return is_call_alone ? std::nullopt : place_of(number, is_join, {}, {}, {});
  board::place& to = board_.places[i];
  to.number = number;
  to.is_join = is_join;
  to.pc = pc;
  to.caller = caller;
  to.below = below;
  board_.taken_places.store(i + 1, std::memory_order_release);
  places_.emplace(key, i);
  return i;
}

void sampling::sum_cpu() {
  std::uint64_t own = ended_own_, children = 0;
  const known_process* first = nullptr;
  pid_t first_pid = 0;
  for (const auto& [pid, p] : processes_) {
    own += p.own - p.own_first;
    children += p.children - p.children_first;
    if (first == nullptr || p.slot < first->slot) first = &p, first_pid = pid;
  }
  // A parent's ended children include recorded processes whose times are already in `own`.
  own += children > ended_total_ ? children - ended_total_ : 0;
  board_.own_ticks.store(std::max(own, board_.own_ticks.load(relaxed)), relaxed);
  board_.waited_ns.store(waited_ns_, relaxed);
  const std::uint64_t now = nanoseconds(CLOCK_MONOTONIC);
  if (board_.first_ns.load(relaxed) == 0) board_.first_ns.store(now, relaxed);
  board_.last_ns.store(now, relaxed);
  if (first != nullptr && pass_ % pause_for_maps == 1)
    if (const auto cpus = usable_cpus(first_pid, first->threads))
      board_.thousandth_cpus.store(static_cast<std::uint64_t>(*cpus * 1000), relaxed);
}

std::shared_ptr<board> new_board() {
  void* const memory = mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {new (memory) board, [](board* b) { munmap(b, sizeof(board)); }};
}

void sample(board& b, contract::live record, bool counts_from_now) {
  try {
    sampling(b, record, counts_from_now).run();
  } catch (...) {  // out of memory: the results so far remain
    b.of_a_part.store(1);
  }
  b.is_done.store(1);
}

}  // namespace

// ---- the observer's side --------------------------------------------------------------------------------------------

thread_sampler::thread_sampler(contract::live record, place where)
    : record_(record), where_(where), board_(new_board()), began_(clock::now()), progress_at_(began_) {
  if (board_) start();
}

thread_sampler::~thread_sampler() {
  stop();
}

void thread_sampler::start() {
  if (where_ == place::thread) {
    try {
      thread_ = std::thread([b = board_, r = record_] { sample(*b, r, false); });
    } catch (const std::system_error&) {
    }
    return;
  }
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // Standard output may be a pipe whose reader waits for the end of the file.
  for (int i = 0; i < 3; i++) dup2(STDIN_FILENO, i);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3 && nothing >= 0; i++) dup2(nothing, i);
  if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0)
    for (int i = 3; i < 1024; i++) close(i);
  sample(*board_, record_, true);
  _exit(0);
}

void thread_sampler::update(const access::seen_ids& ids, const std::vector<pid_t>& program) {
  if (!board_) return;
  std::vector<std::uint64_t> living;
  const std::uint32_t processes = std::min<std::uint32_t>(record_.processes(), std::uint32_t(ids.processes.size()));
  for (std::uint32_t i = 0; i < processes; i++) {
    const access::seen_ids::entry& e = ids.processes[i];
    if (e.seen > 0 && !e.is_hidden && contract::read(record_.process(i)->ended) == 0)
      living.push_back(entry_of(i, e.seen, e.is_inside));
  }
  constexpr std::uint32_t no_slot = ~std::uint32_t{0};
  if (living.empty())
    for (const pid_t pid : support::family_of(program)) living.push_back(entry_of(no_slot, pid, false));
  if (living.size() > most_processes) {
    static thread_local std::minstd_rand random(std::random_device{}());
    std::shuffle(living.begin(), living.end(), random);
  }
  const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(living.size(), most_processes));
  for (std::uint32_t i = 0; i < n; i++) board_->process[i].store(living[i], relaxed);
  board_->all_processes.store(static_cast<std::uint32_t>(living.size()));
  board_->processes.store(n);
  const std::uint32_t threads =
      std::min({record_.threads(), static_cast<std::uint32_t>(ids.threads.size()), most_threads});
  for (std::uint32_t i = 0; i < threads; i++) {
    const std::uint32_t process = contract::read(record_.thread(i)->process);
    if (process >= processes || !ids.processes[process].is_inside) continue;
    const access::seen_ids::entry& e = ids.threads[i];
    board_->seen[i].store(e.own == contract::read(record_.thread(i)->tid) ? e.seen : 0, relaxed);
  }
  if (child_ > 0) look_at_child();
}

/// Replaces a child that a process's memory has blocked; that process's memory is not read again.
void thread_sampler::look_at_child() {
  const std::uint64_t passes = board_->passes.load();
  const std::uint32_t reads = board_->reads.load();
  const bool is_stuck = passes == passes_seen_ && reads != 0 && clock::now() - progress_at_ > too_long;
  if (passes != passes_seen_ || reads == 0) progress_at_ = clock::now();
  passes_seen_ = passes;
  if (!is_stuck) return;
  end_child();
  const std::uint32_t n = board_->unread.load();
  board_->reads.store(0);
  if (n >= most_unread) return;
  board_->not_read[n].store(reads);
  board_->unread.store(n + 1);
  progress_at_ = clock::now();
  start();
}

void thread_sampler::end_child() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  const auto until = clock::now() + 200ms;
  while (waitpid(child_, nullptr, WNOHANG) == 0 && clock::now() < until) std::this_thread::sleep_for(1ms);
  child_ = -1;
}

void thread_sampler::stop() {
  if (!board_ || board_->is_over.load() != 0) return;
  ended_ = clock::now();
  board_->is_over.store(1);
  syscall(SYS_futex, &board_->is_over, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  const auto until = clock::now() + 500ms;
  while ((thread_.joinable() || child_ > 0) && board_->is_done.load() == 0 && clock::now() < until)
    std::this_thread::sleep_for(1ms);
  end_child();
  if (!thread_.joinable()) return;
  if (board_->is_done.load() != 0)
    thread_.join();
  else
    thread_.detach();  // the thread keeps the board, and no longer reads the record
}

std::optional<sampled_sleeps> thread_sampler::sleeps() const {
  if (passes() == 0) return std::nullopt;
  const board& b = *board_;
  sampled_sleeps s;
  s.observations = b.observations.load();
  s.unreadable = b.unreadable.load();
  for (int k = 0; k < contract::kinds; k++) s.recorded[k] = b.recorded[k].load();
  s.of_a_part = b.of_a_part.load() != 0;
  for (std::uint32_t i = 0; i < std::min(b.taken_modules.load(std::memory_order_acquire), most_modules); i++) {
    const board::module& m = b.modules[i];
    s.modules.push_back({m.process, m.begin, m.end, m.bias, m.identity, std::string(b.text + m.path, m.length)});
  }
  for (std::uint32_t i = 0; i < std::min(b.taken_places.load(std::memory_order_acquire), most_places); i++) {
    const board::place& p = b.places[i];
    if (p.samples.load() != 0) s.places.push_back({p.number, p.is_join, p.pc, p.caller, p.samples.load(), p.below});
  }
  return s;
}

std::optional<sampled_cpu> thread_sampler::cpu() const {
  if (passes() == 0) return std::nullopt;
  sampled_cpu c;
  c.elapsed = std::chrono::duration<double>(ended_ - began_).count();
  const std::uint64_t begin =
      where_ == place::child ? board_->first_ns.load() : static_cast<std::uint64_t>(began_.time_since_epoch() / 1ns);
  const std::uint64_t end = board_->last_ns.load();
  c.counted = end > begin ? static_cast<double>(end - begin) * 1e-9 : 0;
  c.cpus = static_cast<double>(board_->thousandth_cpus.load()) / 1000;
  c.seconds = static_cast<double>(board_->own_ticks.load()) / static_cast<double>(sysconf(_SC_CLK_TCK));
  c.waited = static_cast<double>(board_->waited_ns.load()) * 1e-9;
  c.knows_waits = board_->knows_waits.load() != 0;
  return c;
}

std::uint64_t thread_sampler::passes() const {
  return board_ ? board_->passes.load() : 0;
}

double thread_sampler::own_seconds() const {
  return board_ ? static_cast<double>(board_->cpu_ns.load()) * 1e-9 : 0;
}

}  // namespace usher::reader
