#include "watch/reader/attach/standing_deadlocks.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "library/preload/status_record.hpp"
#include "support/process/files.hpp"
#include "support/process/process_ids.hpp"
#include "support/process/running_process.hpp"
#include "usher/locks/steady.hpp"
#include "usher/platform/native/state_layout.hpp"
#include "watch/contract/module_identity.hpp"
#include "watch/reader/attach/in_child.hpp"
#include "watch/reader/read/circle_walk.hpp"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

namespace usher::reader {
namespace {

using namespace std::chrono_literals;
using preload::status_record;

// Limits of one reading, and its period. Chosen.
constexpr std::size_t most_mappings = 65536, longest_maps = 16 << 20;
constexpr auto reading_limit = 2s;       // a longer reading is discarded
constexpr auto reading_budget = 1500ms;  // the time for reading threads, enough for several ten thousand on an idle CPU
constexpr auto shortest_period = 200ms;
constexpr unsigned pause_factor = 20;  // a pause is 20 times the reading's CPU time: at most 5 % of a CPU
constexpr auto long_enough = 1s;       // a wait that lasts so long counts as endless
// Wake-ups a second, and as many more: after 1 s of waiting a thread looks once a second
constexpr double most_looks = 2;
constexpr unsigned most_rereads = 8;   // of a circle's members, until all slept at the same moment
constexpr auto reread_budget = 300ms;  // for all circles of one reading
constexpr std::size_t most_circles = 64;
constexpr unsigned most_failures = 3;  // a failed reading may take the whole limit

/// The text of a field in a thread's status, up to the end of the line. Names in the file contain no line ends.
std::string_view field_of(std::string_view status, std::string_view name) {
  const std::size_t at = status.find(name);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = status.substr(at + name.size());
  return rest.substr(0, rest.find('\n'));
}
std::uint64_t number_in(std::string_view text) {
  return std::strtoull(std::string(text).c_str(), nullptr, 10);
}
// ---- mappings -------------------------------------------------------------------------------------------------------

std::vector<support::mapping> mappings_of(pid_t pid) {
  const std::string text = support::content_of(AT_FDCWD, fmt::format("/proc/{}/maps", pid), longest_maps);
  std::vector<support::mapping> all;
  for (std::size_t at = 0; at < text.size() && all.size() < most_mappings;) {
    const std::size_t line_end = std::min(text.find('\n', at), text.size());
    auto m = support::read_mapping(std::string_view(text).substr(at, line_end - at));
    at = line_end + 1;
    if (m) all.push_back(*std::move(m));
  }
  return all;
}

/// The module whose file is mapped at the address, or is mapped directly before the anonymous mapping (.bss) there.
standing_module module_at(const std::vector<support::mapping>& all, std::uint64_t address,
                          const target_memory& memory) {
  standing_module found;
  auto at = std::find_if(all.begin(), all.end(),
                         [&](const support::mapping& m) { return m.range.begin <= address && address < m.range.end; });
  if (at == all.end()) return found;
  found.end = at->range.end;
  while (at != all.begin() && at->path.empty() && std::prev(at)->range.end == at->range.begin) --at;
  const std::string& path = at->path;
  if (!path.starts_with('/')) return found;
  while (at != all.begin() && !(at->path == path && at->offset == 0)) --at;
  if (at->path != path || at->offset != 0) return found;
  found.begin = at->range.begin;
  Elf64_Ehdr head{};
  constexpr unsigned most_segments = 64;
  constexpr std::uint64_t page = 4096;
  if (!memory.read(found.begin, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_phentsize != sizeof(Elf64_Phdr))
    return found;
  bool is_known = false;
  for (unsigned i = 0; i < head.e_phnum && i < most_segments && !is_known; i++) {
    Elf64_Phdr p{};
    if (!memory.read(found.begin + head.e_phoff + i * sizeof p, p)) return found;
    is_known = p.p_type == PT_LOAD && p.p_offset < page;
    found.bias = found.begin - p.p_vaddr / page * page;
  }
  if (!is_known) return found;
  found.identity = contract::module_identity(
      [&](std::uint64_t place, void* to, std::size_t size) { return memory.read(found.begin + place, to, size); },
      [&](std::uint64_t, std::uint64_t in_file) { return found.bias + in_file - found.begin; });
  found.path = path.substr(0, 4096);
  return found;
}

// ---- records of threads ---------------------------------------------------------------------------------------------

/// Finds the threads whose records have a certain tag: the low 32 bits of the record's address, with bit 0 set. The
/// high bits are unknown, so each writable mapping with such an address is searched.
class tag_finder {
 public:
  tag_finder(pid_t pid, const target_memory& memory) : pid_(pid), memory_(memory) {}

  /// The id of the only thread that has the tag in this fork epoch; 0 if no thread or several have it.
  std::uint32_t find(std::uint32_t tag, std::uint32_t epoch) {
    using native_detail::thread_record;
    if (tag <= 2 || (tag & 0x7f) != 1) return 0;  // unknown, or no tag
    if (maps_.empty()) {
      maps_ = mappings_of(pid_);
      std::erase_if(maps_, [](const support::mapping& m) { return !m.rights.starts_with("rw"); });
    }
    std::uint32_t found = 0;
    for (const support::mapping& m : maps_) {
      std::uint64_t at = (m.range.begin & ~std::uint64_t{0xffffffff}) | (tag & ~1u);
      if (at < m.range.begin) at += std::uint64_t{1} << 32;
      if (at >= m.range.end || m.range.end - at < sizeof(thread_record)) continue;
      const std::uint32_t owner = owner_at(at, epoch);
      if (owner != 0 && found != 0 && owner != found) return 0;
      if (owner != 0) found = owner;
    }
    return found;
  }

 private:
  std::uint32_t owner_at(std::uint64_t at, std::uint32_t epoch) const {
    using native_detail::thread_record;
    alignas(thread_record) char bytes[sizeof(thread_record)];
    if (!memory_.read(at, bytes, sizeof bytes)) return 0;
    const auto& r = *reinterpret_cast<const thread_record*>(bytes);
    const std::uint64_t owner = r.owner.load();
    const std::uint32_t number = r.number.load();
    const bool is_record = owner >> 32 == epoch && r.random.load() != 0 && r.free[0].load() == no_node && number != 0 &&
                           number <= native_detail::most_records;
    return is_record ? static_cast<std::uint32_t>(owner) : 0;
  }

  pid_t pid_;
  const target_memory& memory_;
  std::vector<support::mapping> maps_;
};

// ---- a reading, in a child ------------------------------------------------------------------------------------------

/// The beginning of a reading's text; the sleeping threads follow.
struct reading_head {
  std::uint32_t threads = 0, unread = 0, sleepers = 0;
};

std::string as_text(const thread_reading& r) {
  const reading_head head{r.threads, r.unread, static_cast<std::uint32_t>(r.sleepers.size())};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) +
         std::string(reinterpret_cast<const char*>(r.sleepers.data()), r.sleepers.size() * sizeof r.sleepers[0]);
}

std::optional<thread_reading> as_reading(const std::string& text) {
  reading_head head;
  if (text.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, text.data(), sizeof head);
  if (head.threads == 0 || text.size() != sizeof head + head.sleepers * sizeof(sleeping_thread)) return std::nullopt;
  thread_reading r{head.threads, head.unread, std::vector<sleeping_thread>(head.sleepers)};
  if (!r.sleepers.empty())
    std::memcpy(r.sleepers.data(), text.data() + sizeof head, head.sleepers * sizeof r.sleepers[0]);
  return r;
}

/// A thread that sleeps in a futex call until another thread wakes it.
std::optional<sleeping_thread> sleeper_at(pid_t pid, const std::string& tid, const target_memory& memory,
                                          known_locks locks, tag_finder& tags) {
  const std::string folder = fmt::format("/proc/{}/task/{}", pid, tid);
  // The number of context switches is read first. If a later reading has the same number, the thread has not run since,
  // and was in the call that is read next.
  const std::string status = support::content_of(AT_FDCWD, folder + "/status", 1 << 16);
  const auto call = futex_sleep_of(support::content_of(AT_FDCWD, folder + "/syscall", 256));
  if (!call || status.empty() || (call->looks && !locks.look)) return std::nullopt;
  sleeping_thread t;
  t.looks = t.is_unsure = call->looks;
  t.tid = static_cast<std::int32_t>(number_in(tid));
  t.own = support::own_id_in(status).id;
  t.address = call->address;
  t.switches = number_in(field_of(status, "\nvoluntary_ctxt_switches:\t")) +
               number_in(field_of(status, "\nnonvoluntary_ctxt_switches:\t"));
  mutex_words words{};
  if (!memory.read(call->address, words)) return t;
  const mutex_owner o = owner_in(words, *call, locks.are_of_usher);
  t.owner = o.tag != 0 ? tags.find(o.tag, words.epoch) : o.tid;
  return t;
}

/// Reads the circles' members again until two successive readings have the same numbers of context switches: then all
/// of them slept between these readings. Only for circles with a member that looks.
void look_again(const std::function<std::optional<sleeping_thread>(std::int32_t)>& read_thread,
                std::chrono::steady_clock::time_point until, thread_reading& r) {
  std::unordered_map<std::int32_t, sleeping_thread*> by_tid;
  for (sleeping_thread& t : r.sleepers) by_tid[t.tid] = &t;
  for (const auto& circle : circles_of(r.sleepers)) {
    if (std::none_of(circle.begin(), circle.end(), [](const sleeping_thread& t) { return t.looks; })) continue;
    bool is_same = false;
    for (unsigned i = 0; i < most_rereads && !is_same && std::chrono::steady_clock::now() < until; i++) {
      is_same = true;
      for (const sleeping_thread& member : circle) {
        sleeping_thread& t = *by_tid.at(member.tid);
        const auto now = read_thread(t.tid);
        is_same = is_same && now == t;
        if (now) t = *now;
      }
    }
    if (!is_same) continue;
    for (const sleeping_thread& member : circle) by_tid.at(member.tid)->is_unsure = false;
  }
}

/// Reads which locks the process uses: 'u', Usher's; 'c', those of a C library whose mutexes are known; or '-'. The
/// lock's name follows.
std::string read_locks(pid_t pid, const target_memory& memory) {
  status_record status{};
  const auto library = support::library_of(pid);
  const auto at = library ? memory.find(*library, status_record::expected.data()) : std::nullopt;
  if (!at || !memory.read(*at, &status, sizeof status)) return "-";
  char name[status_record::longest_name + 1] = {};
  const preload::outcome decided = status.decided.load();
  if (decided != preload::outcome::ours)
    return decided == preload::outcome::undecided || decided == preload::outcome::not_glibc ? "-" : "cpthread";
  memory.read(reinterpret_cast<std::uint64_t>(status.lock.load()), name, status_record::longest_name);
  for (char& c : name)
    if (c != '\0' && std::strchr("abcdefghijklmnopqrstuvwxyz0123456789-_", c) == nullptr) c = '?';
  return std::string("u") + name;
}

}  // namespace

// ---- words ----------------------------------------------------------------------------------------------------------

std::optional<futex_sleep> futex_sleep_of(std::string_view line) {
  const std::string text(line.substr(0, 256));
  char* rest = nullptr;
  const long number = std::strtol(text.c_str(), &rest, 10);
  // If a stop, such as that of the attach, interrupts a call with a time limit, it continues as restart_syscall. The
  // registers still have its arguments.
  const bool is_restarted = number == SYS_restart_syscall;
  if (rest == text.c_str() || (number != SYS_futex && !is_restarted)) return std::nullopt;
  std::uint64_t arguments[6];  // address, operation, value, time limit, second address, mask
  for (std::uint64_t& a : arguments) {
    char* const before = rest;
    a = std::strtoull(before, &rest, 16);
    if (rest == before) return std::nullopt;
  }
  const auto operation = static_cast<std::uint32_t>(arguments[1]);
  const std::uint32_t command = operation & static_cast<std::uint32_t>(FUTEX_CMD_MASK);
  const bool waits = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET,
             inherits = command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
  if ((!waits && !inherits) || arguments[0] % alignof(std::uint32_t) != 0) return std::nullopt;
  const auto mask = static_cast<std::uint32_t>(arguments[5]);
  const bool looks = arguments[3] != 0 && command == FUTEX_WAIT_BITSET &&
                     (mask == steady_sleepers::the_standby || mask == steady_sleepers::in_queue);
  if ((arguments[3] != 0 || is_restarted) && !looks) return std::nullopt;
  return futex_sleep{arguments[0], static_cast<std::uint32_t>(arguments[2]), (operation & FUTEX_PRIVATE_FLAG) != 0,
                     inherits, looks};
}

mutex_owner owner_in(const mutex_words& m, const futex_sleep& call, bool is_of_usher) {
  constexpr std::uint32_t type_bits = 3, recursive = 1, error_checking = 2, adaptive = 3;
  constexpr std::uint32_t robust = 0x10, inheriting = 0x20, shared = 0x80, elision = 0x300;
  const std::uint32_t type = m.kind & type_bits;
  if (is_of_usher && (m.kind & ~(type_bits | elision)) == 0) {
    if (m.lock == 0 || m.epoch == 0 || call.inherits_priority || !call.is_private) return {};
    if (type != recursive && type != error_checking) return {0, m.count};
    return m.count == 0 || (type == error_checking && m.count != 1) ? mutex_owner{} : mutex_owner{m.owner, 0};
  }
  if ((m.kind & ~(type_bits | robust | inheriting | shared | elision)) != 0) return {};
  const bool is_robust = (m.kind & robust) != 0, inherits = (m.kind & inheriting) != 0;
  if (inherits != call.inherits_priority) return {};
  // The C library passes the flag for private futexes for all mutexes except shared and robust ones.
  if (!is_robust && call.is_private == ((m.kind & shared) != 0)) return {};
  if (is_robust || inherits) {  // the lock word has the holder's id and the bit for waiters
    if ((m.lock & FUTEX_TID_MASK) != m.owner || (m.lock & FUTEX_WAITERS) == 0) return {};
    if (!inherits && call.value != m.lock) return {};
  } else if (m.lock != 2 || call.value != 2) {
    return {};
  }
  constexpr std::uint32_t most_users = 1 << 20;  // the holder, and threads that wait for condition variables; chosen
  const std::uint32_t held_once = is_robust || inherits ? 1 : 0;
  const bool is_counted = type == recursive ? m.count != 0 : m.count == held_once;
  if (!is_counted || m.users == 0 || m.users > most_users) return {};
  if (type != adaptive && (m.kind & elision) == 0 && m.epoch != 0) return {};
  return {m.owner, 0};
}

std::vector<std::vector<sleeping_thread>> circles_of(const std::vector<sleeping_thread>& threads) {
  const auto n = static_cast<std::uint32_t>(threads.size());
  std::unordered_map<std::uint32_t, std::uint32_t> by_own;
  for (std::uint32_t i = 0; i < n; i++)
    if (threads[i].own != 0) by_own.emplace(threads[i].own, i);
  const auto next = [&](std::uint32_t i) {
    const auto owner = by_own.find(threads[i].owner);
    return owner != by_own.end() ? owner->second : n;
  };
  const auto any = [](const auto&) { return true; };
  std::vector<std::vector<sleeping_thread>> found;
  for (const std::vector<std::uint32_t>& indices : find_circles(n, most_circles, next, any)) {
    std::vector<sleeping_thread>& circle = found.emplace_back();
    for (const std::uint32_t i : indices) circle.push_back(threads[i]);
    std::rotate(circle.begin(),
                std::min_element(circle.begin(), circle.end(),
                                 [](const sleeping_thread& a, const sleeping_thread& b) { return a.tid < b.tid; }),
                circle.end());
  }
  return found;
}

static bool waits_for_same(sleeping_thread a, const sleeping_thread& b) {
  a.switches = b.switches;
  a.is_unsure = b.is_unsure;
  return a == b;
}

bool is_same_wait(const std::vector<sleeping_thread>& a, const std::vector<sleeping_thread>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), waits_for_same);
}

bool has_slept_on(const sleeping_thread& first, const sleeping_thread& now, double seconds) {
  const double most = first.looks ? most_looks * (1 + seconds) : 0;
  return waits_for_same(first, now) && static_cast<double>(now.switches - first.switches) <= most;
}

thread_reading read_threads(pid_t pid, const target_memory& memory, known_locks locks,
                            std::chrono::milliseconds budget) {
  namespace fs = std::filesystem;
  const auto until = std::chrono::steady_clock::now() + budget;
  thread_reading r;
  tag_finder tags(pid, memory);
  std::error_code gone;
  for (fs::directory_iterator i(fmt::format("/proc/{}/task", pid), gone), end; !gone && i != end; i.increment(gone)) {
    if (r.threads != 0 && std::chrono::steady_clock::now() >= until) {
      const std::string status = support::content_of(AT_FDCWD, fmt::format("/proc/{}/status", pid), 1 << 16);
      const std::uint64_t all = number_in(field_of(status, "\nThreads:\t"));
      r.unread = static_cast<unsigned>(std::max<std::uint64_t>(all, r.threads + 1) - r.threads);
      r.threads += r.unread;
      break;
    }
    r.threads++;
    if (const auto t = sleeper_at(pid, i->path().filename().string(), memory, locks, tags)) r.sleepers.push_back(*t);
  }
  look_again([&](std::int32_t tid) { return sleeper_at(pid, std::to_string(tid), memory, locks, tags); },
             std::chrono::steady_clock::now() + reread_budget, r);
  return r;
}

// ---- the observation ------------------------------------------------------------------------------------------------

bool standing_deadlocks::read(const interruption& interrupted) {
  if (failures_ == most_failures) return false;
  if (!is_prepared_) {
    const auto locks = in_child([this] { return read_locks(pid_, memory_); }, reading_limit, interrupted);
    if (!locks || locks->empty() || locks->front() == '-') return false;  // the process may select its lock later
    is_prepared_ = true;
    lock_ = locks->substr(1);
    locks_.are_of_usher = locks->front() == 'u';
    locks_.look = locks_.are_of_usher && lock_.starts_with("steady");
  }
  const auto text = in_child([this] { return as_text(read_threads(pid_, memory_, locks_, reading_budget)); },
                             reading_limit, interrupted);
  if (!text && !interrupted()) failures_++;
  const auto reading = text ? as_reading(*text) : std::nullopt;
  if (!reading) return false;
  threads_ = reading->threads;
  unread_[0] = std::exchange(unread_[1], reading->unread);
  now_ = clock::now();
  std::unordered_map<std::int32_t, observed> before = std::move(asleep_);
  asleep_.clear();
  std::vector<sleeping_thread> lasting;
  for (const sleeping_thread& t : reading->sleepers) {
    const auto known = before.find(t.tid);
    const bool sleeps_on =
        known != before.end() &&
        has_slept_on(known->second.thread, t, std::chrono::duration<double>(now_ - known->second.since).count());
    const observed& o = asleep_[t.tid] = sleeps_on ? known->second : observed{t, now_};
    if (now_ - o.since >= long_enough) lasting.push_back(t);
  }
  circles_ = circles_of(lasting);
  std::erase_if(circles_, [](const circle& c) {
    return std::any_of(c.begin(), c.end(), [](const sleeping_thread& t) { return t.is_unsure; });
  });
  present_ = circles_of(reading->sleepers);
  return true;
}

/// The CPU time of this thread and of its ended children.
static std::chrono::microseconds cpu_time() {
  std::chrono::microseconds sum{};
  for (const int whose : {RUSAGE_THREAD, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(whose, &used);
    for (const timeval& t : {used.ru_utime, used.ru_stime}) sum += 1s * t.tv_sec + 1us * t.tv_usec;
  }
  return sum;
}

// The pause depends on the CPU time: on busy CPUs a reading of 1 ms of CPU time may last 150 ms, and after a pause of
// twenty times that, a recording of a few seconds would not have two readings a second apart. A process that blocks its
// readers costs wall time and no CPU time: then readings take at most half of the time.
bool standing_deadlocks::sample(const interruption& interrupted) {
  const auto begin = clock::now();
  if (begin < next_) return false;
  const auto cpu_before = cpu_time();
  const bool is_read = read(interrupted);
  const auto end = clock::now();
  next_ = end + std::max<clock::duration>({shortest_period, end - begin, pause_factor * (cpu_time() - cpu_before)});
  return is_read;
}

double standing_deadlocks::seconds(const circle& c) const {
  clock::time_point since{};
  for (const sleeping_thread& t : c)
    if (const auto known = asleep_.find(t.tid); known != asleep_.end()) since = std::max(since, known->second.since);
  return std::chrono::duration<double>(now_ - since).count();
}

unsigned standing_deadlocks::sleepers() const {
  return static_cast<unsigned>(std::count_if(
      asleep_.begin(), asleep_.end(), [this](const auto& one) { return now_ - one.second.since >= long_enough; }));
}

std::vector<standing_module> standing_deadlocks::modules_at(const std::vector<std::uint64_t>& addresses,
                                                            const interruption& interrupted) {
  std::vector<standing_module> found(addresses.size());
  if (failures_ == most_failures) return found;
  const std::size_t n = std::min(addresses.size(), most_modules);
  const auto bytes = in_child(
      [&] {
        const std::vector<support::mapping> all = mappings_of(pid_);
        std::string result;
        for (std::size_t i = 0; i < n; i++) {
          const standing_module m = module_at(all, addresses[i], memory_);
          const std::uint64_t words[] = {m.begin, m.end, m.bias, m.identity, m.path.size()};
          result.append(reinterpret_cast<const char*>(words), sizeof words).append(m.path);
        }
        return result;
      },
      reading_limit, interrupted);
  if (!bytes && !interrupted()) failures_++;
  std::string_view rest = bytes ? std::string_view(*bytes) : std::string_view();
  for (std::size_t i = 0; i < n; i++) {
    std::uint64_t words[5];
    if (rest.size() < sizeof words) break;
    std::memcpy(words, rest.data(), sizeof words);
    rest.remove_prefix(sizeof words);
    if (words[4] > rest.size()) break;
    found[i] = {words[0], words[1], words[2], words[3], std::string(rest.substr(0, words[4]))};
    rest.remove_prefix(words[4]);
  }
  return found;
}

}  // namespace usher::reader
