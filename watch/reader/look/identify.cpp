#include "watch/reader/look/identify.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "support/process/running_process.hpp"
#include "watch/reader/judge/stat_quantities.hpp"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

namespace usher::reader {

const char* name_of(awaited what) {
  switch (what) {  // clang-format off
    case awaited::mutex: return "mutex";
    case awaited::condition: return "condition";
    case awaited::semaphore: return "semaphore";
    case awaited::rwlock: return "rwlock";
    case awaited::barrier: return "barrier";
    case awaited::join: return "join";
    case awaited::once: return "once";
    case awaited::internal_lock: return "internal_lock";
    case awaited::futex: return "futex";
    case awaited::file_lock: return "file_lock";
    case awaited::call: return "call";
    case awaited::unknown: break;
  }  // clang-format on
  return "unknown";
}

// ---- the call ---------------------------------------------------------------------------------------------------------

std::optional<futex_call> futex_call_of(const kernel_entry& e) {
  const bool is_restarted = e.number == SYS_restart_syscall;
  if (e.is_running || (e.number != SYS_futex && !is_restarted)) return std::nullopt;
  const auto operation = static_cast<std::uint32_t>(e.arguments[1]);
  const std::uint32_t command = operation & static_cast<std::uint32_t>(FUTEX_CMD_MASK);
  futex_call c;
  c.inherits_priority = command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
  c.has_mask = command == FUTEX_WAIT_BITSET;
  if (!c.inherits_priority && !c.has_mask && command != FUTEX_WAIT) return std::nullopt;
  if (e.arguments[0] % sizeof(std::uint32_t) != 0) return std::nullopt;
  c.address = e.arguments[0];
  c.value = static_cast<std::uint32_t>(e.arguments[2]);
  c.mask = static_cast<std::uint32_t>(e.arguments[5]);
  c.is_private = (operation & FUTEX_PRIVATE_FLAG) != 0;
  c.has_time_limit = e.arguments[3] != 0;
  return c;
}

// ---- names of functions -------------------------------------------------------------------------------------------------

namespace {

struct known_function {
  std::string_view name;  ///< without leading underscores; a name with a final * is a beginning, with a first * a part
  named_wait its;
};

using enum awaited;
constexpr auto none = wanted_side::none, reading = wanted_side::reading, writing = wanted_side::writing;

// Of a C library, by the whole name.
constexpr known_function of_libc[] = {
    {"pthread_mutex_lock", {mutex, "", "", none}},
    {"pthread_mutex_lock_full", {mutex, "", "", none}},
    {"pthread_mutex_timedlock", {mutex, "", "", none}},
    {"pthread_mutex_clocklock", {mutex, "", "", none}},
    {"pthread_mutex_cond_lock", {mutex, "", "", none}},
    {"mtx_lock", {mutex, "", "", none}},
    {"mtx_timedlock", {mutex, "", "", none}},
    {"pthread_cond_wait", {condition, "", "", none}},
    {"pthread_cond_wait_common", {condition, "", "", none}},
    {"pthread_cond_timedwait", {condition, "", "", none}},
    {"pthread_cond_clockwait", {condition, "", "", none}},
    {"cnd_wait", {condition, "", "", none}},
    {"cnd_timedwait", {condition, "", "", none}},
    {"sem_wait", {semaphore, "", "", none}},
    {"new_sem_wait", {semaphore, "", "", none}},
    {"new_sem_wait_slow64", {semaphore, "", "", none}},
    {"sem_timedwait", {semaphore, "", "", none}},
    {"sem_clockwait", {semaphore, "", "", none}},
    {"pthread_rwlock_rdlock", {rwlock, "", "", reading}},
    {"pthread_rwlock_timedrdlock", {rwlock, "", "", reading}},
    {"pthread_rwlock_clockrdlock", {rwlock, "", "", reading}},
    {"pthread_rwlock_wrlock", {rwlock, "", "", writing}},
    {"pthread_rwlock_timedwrlock", {rwlock, "", "", writing}},
    {"pthread_rwlock_clockwrlock", {rwlock, "", "", writing}},
    {"pthread_barrier_wait", {barrier, "", "", none}},
    {"pthread_join", {join, "", "", none}},
    {"pthread_timedjoin_np", {join, "", "", none}},
    {"pthread_clockjoin_np", {join, "", "", none}},
    {"pthread_clockjoin_ex", {join, "", "", none}},
    {"thrd_join", {join, "", "", none}},
    {"pthread_once", {once, "", "", none}},
    {"pthread_once_slow", {once, "", "", none}},
    {"call_once", {once, "", "", none}},
    {"cxa_guard_acquire", {once, "", "of a static C++ variable", none}},
    {"lll_lock_wait_private", {internal_lock, "", "", none}},
};

constexpr const char* java_event = "the Java VM's own wait (monitor, park or sleep)";

// Of languages and their libraries, by a part of the name.
constexpr known_function of_runtimes[] = {
    {"futex::Mutex::lock", {mutex, "Rust std", "", none}},
    {"futex::Condvar::wait", {condition, "Rust std", "", none}},
    {"futex::RwLock::read", {rwlock, "Rust std", "", reading}},
    {"futex::RwLock::write", {rwlock, "Rust std", "", writing}},
    // The same with the names of newer compilers, which are not decoded.
    {"4sync5mutex5futex", {mutex, "Rust std", "", none}},
    {"4sync7condvar5futex", {condition, "Rust std", "", none}},
    {"6RwLock14read_contended", {rwlock, "Rust std", "", reading}},
    {"6RwLock15write_contended", {rwlock, "Rust std", "", writing}},
    {"4sync4once5futex", {once, "Rust std", "", none}},
    {"14thread_parking5futex", {awaited::futex, "Rust std", "a parked thread", none}},
    {"usher::preload::mutex_operations", {mutex, "Usher", "", none}},
    {"usher::preload::(anonymous namespace)::wait(pthread_cond_t", {condition, "Usher", "", none}},
    {"usher::preload::(anonymous namespace)::wait(usher::v2::semaphore_core", {semaphore, "Usher", "", none}},
    {"futex::Once::", {once, "Rust std", "", none}},
    {"thread_parking::futex::Parker::park", {awaited::futex, "Rust std", "a parked thread", none}},
    {"parking_lot::raw_mutex::RawMutex::lock_slow", {mutex, "parking_lot", "", none}},
    {"parking_lot::condvar::Condvar::wait", {condition, "parking_lot", "", none}},
    {"parking_lot::raw_rwlock::RawRwLock::lock_shared", {rwlock, "parking_lot", "", reading}},
    {"parking_lot::raw_rwlock::RawRwLock::lock_exclusive", {rwlock, "parking_lot", "", writing}},
    {"parking_lot::once::Once", {once, "parking_lot", "", none}},
    {"runtime.stopm", {awaited::futex, "Go", "an idle thread of the scheduler; goroutines are not visible", none}},
    {"runtime.sysmon", {awaited::futex, "Go", "the scheduler's monitor; goroutines are not visible", none}},
    {"runtime.lock2", {mutex, "Go", "of the runtime; goroutines are not visible", none}},
    {"runtime.notesleep", {awaited::futex, "Go", "a note of the runtime; goroutines are not visible", none}},
    {"runtime.futex", {awaited::futex, "Go", "of the runtime; goroutines are not visible", none}},
    {"ObjectMonitor::enter",
     {awaited::futex, "Java", "a monitor, to enter it; which object and holder is not known", none}},
    {"ObjectMonitor::wait", {awaited::futex, "Java", "Object.wait(); which object is not known", none}},
    {"Parker::park", {awaited::futex, "Java", "LockSupport.park(); for which lock is not known", none}},
    {"PlatformMonitor::wait", {awaited::futex, "Java", "a monitor of the virtual machine", none}},
    {"JavaThread::sleep", {awaited::futex, "Java", "Thread.sleep()", none}},
    {"PlatformEvent::park", {awaited::futex, "Java", java_event, none}},
    {"take_gil", {awaited::futex, "CPython", "the global interpreter lock", none}},
    {"PyEval_RestoreThread", {awaited::futex, "CPython", "the global interpreter lock", none}},
    {"PyThread_acquire_lock", {awaited::futex, "CPython", "a lock of Python", none}},
    {"PyMutex_Lock", {awaited::futex, "CPython", "a PyMutex", none}},
    {"PySemaphore_", {awaited::futex, "CPython", "a lock or an event of the interpreter (PySemaphore)", none}},
    {"std::__atomic_wait_address", {awaited::futex, "libstdc++", "std::atomic::wait", none}},
};

/// The name without leading underscores, version and arguments.
std::string_view plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  return name.substr(0, name.find_first_of("@("));
}

}  // namespace

std::optional<named_wait> wait_of_function(std::string_view function) {
  const std::string_view name = plain(function);
  for (const known_function& f : of_libc)
    if (f.name == name) return f.its;
  for (const known_function& f : of_runtimes)
    if (function.find(f.name) != std::string_view::npos) return f.its;
  return std::nullopt;
}

namespace {

// ---- words ------------------------------------------------------------------------------------------------------------

struct word_verdict : verdict {
  bool is_strong = false;  ///< the words alone are enough
};
using maybe = std::optional<word_verdict>;

struct evidence {
  const futex_call& call;
  const futex_words& words;
  const surroundings& around;

  std::uint32_t at(int bytes) const { return words.or_odd(bytes); }
  bool is_thread(std::uint32_t tid) const { return tid != 0 && around.is_thread && around.is_thread(tid); }
};

void set_owner(const evidence& e, std::uint32_t owner, word_verdict& v) {
  v.owner = owner;
  v.has_ended_owner = owner != 0 && !v.is_shared && !e.is_thread(owner);
}

constexpr std::uint32_t type_bits = 3, robust = 0x10, inheriting = 0x20, protecting = 0x40, pshared = 0x80,
                        elision = 0x300;

std::string mutex_kind(std::uint32_t kind) {
  constexpr const char* types[] = {"", "recursive", "error-checking", "adaptive"};
  std::string text = types[kind & type_bits];
  const auto add = [&](std::uint32_t bit, const char* word) {
    if ((kind & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(word);
  };
  add(robust, "robust");
  add(inheriting, "priority-inheriting");
  add(protecting, "priority-protecting");
  // pthread_mutex_init() sets the bit for every robust mutex, so it tells nothing there.
  if ((kind & robust) == 0) add(pshared, "process-shared");
  return text;
}

/// struct __pthread_mutex_s: lock, count, owner, nusers, kind, spins and elision.
maybe glibc_mutex(const evidence& e) {
  constexpr std::uint32_t most_users = 1 << 20;  // chosen
  const std::uint32_t lock = e.at(0), count = e.at(4), owner = e.at(8), users = e.at(12), kind = e.at(16);
  if (!e.words.at(16) || (kind & ~(type_bits | robust | inheriting | protecting | pshared | elision)) != 0) return {};
  const bool is_robust = (kind & robust) != 0, inherits = (kind & inheriting) != 0;
  if (inherits != e.call.inherits_priority || users > most_users) return {};
  if (!is_robust && e.call.is_private == ((kind & pshared) != 0)) return {};
  word_verdict v;
  v.what = mutex;
  v.library = "glibc";
  v.kind = mutex_kind(kind);
  v.object = e.call.address;
  v.is_shared = (kind & pshared) != 0;
  v.seen = fmt::format("lock {:#x}, owner {}, count {}, users {}, kind {:#x}", lock, owner, count, users, kind);
  if (is_robust || inherits) {
    if (!inherits && ((e.call.value & FUTEX_WAITERS) == 0 || e.call.has_mask)) return {};
    const std::uint32_t tid = lock & FUTEX_TID_MASK;
    v.is_free = tid == 0;
    set_owner(e, tid, v);
    v.is_strong = tid != 0 && (lock & FUTEX_WAITERS) != 0 && !v.has_ended_owner;
    return v;
  }
  if (e.call.value != 2 || lock > 2) return {};
  v.is_free = lock == 0;
  if (lock != 0) set_owner(e, owner, v);
  v.is_strong = lock == 2 && owner != 0 && users != 0 && e.is_thread(owner) && ((kind & type_bits) != 1 || count != 0);
  // Between an unlock and the next lock, or in a lock's first instructions, the owner is not written yet.
  if (lock != 0 && owner == 0) v.seen += " (the owner is not written yet)";
  return v;
}

/// struct __pthread_cond_s. `shift`: 0 in 2.36, 8 in 2.41. Threads sleep on one of the two words __g_signals.
maybe glibc_condition_at(const evidence& e, int begin, int shift) {
  const std::uint32_t wrefs = e.at(begin + 36 - shift), orig = e.at(begin + 32 - shift);
  const std::uint64_t wseq = std::uint64_t{e.at(begin + 4)} << 32 | e.at(begin),
                      start = std::uint64_t{e.at(begin + 12)} << 32 | e.at(begin + 8);
  constexpr std::uint32_t most = 1 << 24;  // chosen
  if (!e.words.at(begin) || !e.words.at(begin + 36 - shift) || !e.words.at(begin + 12)) return {};
  if (wrefs >> 3 == 0 || wrefs >> 3 > most || orig >> 2 > most || wseq >> 1 < start >> 1) return {};
  if (((wrefs & 1) != 0) == e.call.is_private || !e.call.has_mask) return {};
  if ((wseq >> 1) - (start >> 1) > most) return {};
  if (e.at(begin + 24 - shift) > most || e.at(begin + 28 - shift) > most) return {};
  word_verdict v;
  v.what = condition;
  v.library = "glibc";
  v.kind = (wrefs & 1) != 0 ? "process-shared" : "";
  v.object = e.call.address + static_cast<std::uint64_t>(std::int64_t{begin});
  v.is_shared = (wrefs & 1) != 0;
  v.is_strong = true;
  v.seen = fmt::format("waiters {}, sequence {}, signals {}", wrefs >> 3, wseq >> 1, e.at(0));
  return v;
}

maybe glibc_condition(const evidence& e) {
  // 2.36: the words are at 40 and 44; 2.41: at 32 and 36, and two words that are 0 follow.
  for (const int at : {40, 44})
    if (auto v = glibc_condition_at(e, -at, 0)) return v;
  for (const int at : {32, 36})
    if (auto v = glibc_condition_at(e, -at, 8)) return v;
  return {};
}

/// struct new_sem: value, waiters, private.
maybe glibc_semaphore(const evidence& e) {
  constexpr std::uint32_t most = 1 << 24;  // chosen
  const std::uint32_t value = e.at(0), waiters = e.at(4), shared = e.at(8);
  if (e.call.value != 0 || !e.call.has_mask || waiters == 0 || waiters > most || (shared != 0 && shared != 128))
    return {};
  if (e.call.is_private != (shared == 0)) return {};
  word_verdict v;
  v.what = semaphore;
  v.library = "glibc";
  v.kind = shared != 0 ? "process-shared" : "";
  v.is_shared = shared != 0;
  v.object = e.call.address;
  v.is_free = value != 0;
  v.is_strong = value == 0;
  v.seen = fmt::format("value {}, waiters {}", value, waiters);
  return v;
}

/// struct __pthread_rwlock_arch_t: readers, writers, wrphase_futex, writers_futex, two pads, cur_writer, shared.
maybe glibc_rwlock(const evidence& e, std::optional<wanted_side> side) {
  if (!e.call.has_mask) return {};
  for (const int at : {8, 12, 0}) {
    const int begin = -at;
    const std::uint32_t readers = e.at(begin), writers = e.at(begin + 4), phase = e.at(begin + 8),
                        writers_futex = e.at(begin + 12), writer = e.at(begin + 24), shared = e.at(begin + 28);
    if (!e.words.at(begin) || !e.words.at(begin + 28) || shared > 1 || phase > 3 || writers_futex > 3) continue;
    if (e.call.is_private != (shared == 0) || (writers >> 31 == 0 && writers > 1 << 20)) continue;
    if (at != 0 && (e.call.value > 3 || (e.call.value & 2) == 0)) continue;
    if (at == 0 && e.call.value != readers) continue;
    word_verdict v;
    v.what = rwlock;
    v.library = "glibc";
    v.kind = shared != 0 ? "process-shared" : "";
    v.is_shared = shared != 0;
    v.object = e.call.address + static_cast<std::uint64_t>(std::int64_t{begin});
    // Readers wait for the end of a write phase; a writer waits for its begin, or for other writers.
    v.side = side.value_or(at == 8 && (e.call.value & 1) != 0 ? reading : at == 0 ? reading : writing);
    const std::uint32_t reader_count = readers >> 3;
    if (writer != 0) set_owner(e, writer, v);
    v.is_free = writer == 0 && reader_count == 0;
    v.is_strong = writer != 0 && !v.has_ended_owner;
    v.seen = fmt::format("readers {}, writers {}, writer {}", reader_count, writers & 0x7fffffff, writer);
    return v;
  }
  return {};
}

/// struct pthread_barrier: in, current_round, count, shared.
maybe glibc_barrier(const evidence& e) {
  constexpr std::uint32_t most = 1 << 24;  // chosen
  const std::uint32_t in = e.at(-4), round = e.at(0), count = e.at(4), shared = e.at(8);
  if (!e.words.at(-4) || round != e.call.value || count == 0 || count > most || in - round - 1 >= count) return {};
  if ((shared != 0 && shared != 128) || e.call.is_private != (shared == 0) || e.call.has_mask) return {};
  word_verdict v;
  v.what = barrier;
  v.library = "glibc";
  v.kind = shared != 0 ? "process-shared" : "";
  v.is_shared = shared != 0;
  v.object = e.call.address - 4;
  v.is_strong = true;
  v.seen = fmt::format("{} of {} have come", in - round, count);
  return v;
}

maybe join_of(const evidence& e) {
  if (e.call.is_private || e.call.inherits_priority || !e.is_thread(e.call.value)) return {};
  if (const auto word = e.words.at(0); word && *word != e.call.value) return {};
  word_verdict v;
  v.what = join;
  v.object = e.call.address;
  v.is_strong = e.call.has_mask || e.call.value > 2;
  v.seen = fmt::format("the word has the id of thread {}", e.call.value);
  v.owner = e.call.value;
  return v;
}

/// musl: type, lock, waiters. Threads sleep on the second word.
maybe musl_mutex(const evidence& e) {
  const std::uint32_t type = e.at(-4), lock = e.at(0), waiters = e.at(4);
  if (!e.words.at(-4) || (type & ~0x8fu) != 0 || waiters > 1 << 20) return {};
  if (e.call.is_private != ((type & 128) == 0) || e.call.has_mask) return {};
  if (!e.call.inherits_priority && e.call.value >> 31 == 0) return {};
  word_verdict v;
  v.what = mutex;
  v.library = "musl";
  constexpr const char* types[] = {"", "recursive", "error-checking", "?"};
  v.kind = types[type & 3];
  for (const auto& [bit, word] : {std::pair(4u, "robust"), {8u, "priority-inheriting"}, {128u, "process-shared"}})
    if ((type & bit) != 0) v.kind += (v.kind.empty() ? "" : ", ") + std::string(word);
  v.is_shared = (type & 128) != 0;
  v.object = e.call.address - 4;
  v.is_free = (lock & 0x7fffffff) == 0;
  if ((type & 15) != 0) set_owner(e, lock & 0x3fffffff, v);
  v.is_strong = (type & 15) != 0 ? v.owner != 0 && !v.has_ended_owner : (lock & 0x7fffffff) == 16;
  v.seen = fmt::format("type {}, lock {:#x}, waiters {}", type, lock, waiters);
  return v;
}

maybe musl_rwlock(const evidence& e, std::optional<wanted_side> side) {
  const std::uint32_t lock = e.at(0), waiters = e.at(4);
  if (!e.words.at(4) || e.call.value >> 31 == 0 || waiters > 1 << 20) return {};
  word_verdict v;
  v.what = rwlock;
  v.library = "musl";
  v.side = side.value_or(none);
  v.object = e.call.address;
  v.is_free = (lock & 0x7fffffff) == 0;
  v.seen = fmt::format(
      "{}, waiters {}",
      (lock & 0x7fffffff) == 0x7fffffff ? "held to write" : fmt::format("{} readers", lock & 0x7fffffff), waiters);
  return v;
}

maybe musl_semaphore(const evidence& e) {
  word_verdict v;
  v.what = semaphore;
  v.library = "musl";
  v.object = e.call.address;
  if (const auto value = e.words.at(0)) {
    // Older versions have -1 while threads wait, newer ones the highest bit. Other values are of a layout that is not
    // known, as is one that has more credits than anybody posts.
    constexpr std::uint32_t waiting = 0x80000000, most = 1 << 24;  // chosen
    const std::uint32_t credits = *value == ~0u ? 0 : *value & ~waiting;
    if ((e.call.value == ~0u || e.call.value == waiting) && credits <= most) {
      v.is_free = credits != 0;
      v.seen = fmt::format("value {}", credits);
    }
  }
  return v;
}

/// A condition variable or barrier of musl that is no process-shared one: its threads sleep on words of their own stacks, so
/// the object's address is not known.
maybe musl_without_address(const evidence& e, awaited what) {
  if (!e.call.is_private) return {};
  word_verdict v;
  v.what = what;
  v.library = "musl";
  v.object = 0;
  return v;
}

maybe by_words(const evidence& e, awaited what, std::optional<wanted_side> side) {
  const bool is_musl = e.around.libc == c_library::musl;
  switch (what) {
    case mutex:
      if (!is_musl)
        if (maybe v = glibc_mutex(e)) return v;
      // A static program does not say which library it has.
      if (maybe v = e.around.libc != c_library::glibc ? musl_mutex(e) : maybe(); v && (is_musl || v->is_strong))
        return v;
      return {};
    case condition:
      return is_musl ? musl_without_address(e, what) : glibc_condition(e);
    case semaphore:
      return is_musl ? musl_semaphore(e) : glibc_semaphore(e);
    case rwlock:
      return is_musl ? musl_rwlock(e, side) : glibc_rwlock(e, side);
    case barrier:
      return is_musl ? musl_without_address(e, what) : glibc_barrier(e);
    case join:
      return join_of(e);
    default:
      return {};
  }
}

// ---- both ---------------------------------------------------------------------------------------------------------------

struct named_frame {
  named_wait its;
  std::string function;
  bool is_of_usher = false;  ///< the function is Usher's library's
};

/// Whether a function lies between a lock's function and its system call, by its name; that of a closure may be the
/// program's own.
bool is_between(std::string_view function) {
  const auto has = [function](std::string_view part) { return function.find(part) != std::string_view::npos; };
  if (has("parking_lot")) return true;
  if (has("closure") || has("lambda") || has("_FUN") || has("invoke")) return false;
  if (has("std::sys::") || has("3std3sys") || function.starts_with("std::__") || function.starts_with("usher::"))
    return true;
  const std::string_view name = plain(function);
  for (const std::string_view beginning : {"syscall", "GI_", "lll_", "futex_", "futexwait", "do_futex_wait",
                                           "timedwait", "new_sem_", "pthread_", "internal_syscall", "libc_"})
    if (name.starts_with(beginning)) return true;
  return false;
}

/// Whether a file is a virtual machine, whose locks call no function of a program.
bool is_virtual_machine(std::string_view module) {
  const std::string_view file = module.substr(module.rfind('/') + 1);
  return file.starts_with("libjvm.so") || file.starts_with("libpython") || file.starts_with("python");
}

/// The innermost known function, and the innermost one of a runtime above it, which tells more. Both are looked for up
/// to the first foreign function: further out may be a function that called the one which waits, as pthread_once() does.
std::pair<std::optional<named_frame>, std::optional<named_frame>> known_functions(std::span<const frame> functions) {
  constexpr std::size_t deepest = 16;
  std::optional<named_frame> first, runtime;
  bool is_in_machine = false;
  for (const frame& f : functions.first(std::min(functions.size(), deepest))) {
    if (const auto its = wait_of_function(f.function); its && !(is_in_machine && *its->library == '\0')) {
      if (!first) first = {*its, f.function, support::is_library_file(f.module)};
      // Java's event serves monitors and sleeps: the next function of the virtual machine tells which.
      const bool tells_more = runtime && runtime->its.kind == std::string_view(java_event);
      if ((!runtime && *its->library != '\0') || (tells_more && its->library == std::string_view("Java")))
        runtime = {*its, f.function, false};
    } else if (is_virtual_machine(f.module)) {
      is_in_machine = true;
    } else if (!is_passed_over(f.module) && !is_between(f.function)) {
      break;
    }
  }
  return {first, runtime};
}

std::string shown(const std::string& function) {
  return short_name(function);
}

verdict plain_futex(const evidence& e, const char* known_by) {
  verdict v;
  v.object = e.call.address;
  v.known_by = known_by;
  return v;
}

/// Whether the call can be that of pthread_once(): its word has "in progress", in musl with waiters.
bool is_of_once(const evidence& e) {
  if (e.call.has_mask || e.call.has_time_limit || e.call.inherits_priority) return false;
  return e.around.libc == c_library::musl ? e.call.value == 3 : (e.call.value & 3) == 1;
}

/// Of a wait for a lock of the C library, whose kind a function or the words tell.
verdict of_library(const evidence& e, const std::optional<named_frame>& said) {
  const std::optional<wanted_side> side = said && said->its.side != none ? std::optional(said->its.side) : std::nullopt;
  if (said && said->its.what == once && *said->its.kind == '\0' && !is_of_once(e))
    return plain_futex(e, "futex call; not that of pthread_once");
  if (said) {
    // A wait for a condition ends by locking the mutex again, inside of the same function.
    if (said->its.what == condition)
      if (maybe m = by_words(e, mutex, side); m && m->is_strong && !e.call.has_mask) {
        m->known_by = fmt::format("futex operation and words of a mutex, locked again in {}", shown(said->function));
        return *m;
      }
    if (maybe v = by_words(e, said->its.what, side)) {
      v->known_by = fmt::format("function {}{}", shown(said->function), v->object != 0 ? " and words" : "");
      if (v->side == none && side) v->side = *side;
      if (v->kind.empty()) v->kind = said->its.kind;
      return *v;
    }
    verdict v;
    v.what = said->its.what;
    v.kind = said->its.kind;
    v.side = said->its.side;
    v.object = e.call.address;
    v.known_by = fmt::format("function {}", shown(said->function));
    return v;
  }
  maybe only;
  for (const awaited what : {join, mutex, rwlock, barrier, condition, semaphore}) {
    maybe v = by_words(e, what, side);
    if (!v || !v->is_strong) continue;
    const bool names_thread = v->owner != 0 && e.is_thread(v->owner);
    if (only && !names_thread) return plain_futex(e, "futex call; the words fit several kinds");
    only = std::move(v);
    if (names_thread) break;
  }
  if (only) {
    only->known_by = only->owner != 0 && e.is_thread(only->owner)
                         ? "futex operation and words, which name a living thread"
                         : "futex operation and words";
    return *only;
  }
  return plain_futex(e, "futex call");
}

}  // namespace

std::optional<named_wait> wait_of_functions(std::span<const frame> functions) {
  const auto first = known_functions(functions).first;
  return first ? std::optional(first->its) : std::nullopt;
}

verdict identify(const futex_call& call, const futex_words& words, const surroundings& around,
                 std::span<const frame> functions) {
  const evidence e{call, words, around};
  const auto [first, runtime] = known_functions(functions);
  verdict v;
  if (around.is_under_usher && (!first || (first->is_of_usher && *first->its.library == '\0')) && !join_of(e)) {
    // The words of Usher's own locks are others: only the function tells.
    v.object = call.address;
    v.known_by = first ? fmt::format("function {}", shown(first->function)) : "futex call";
    if (first) v.what = first->its.what, v.side = first->its.side, v.kind = first->its.kind;
    v.library = first ? "Usher" : "";
  } else if (first && *first->its.library != '\0') {
    v.what = first->its.what;
    v.side = first->its.side;
    v.object = call.address;
    v.known_by = fmt::format("function {}", shown(first->function));
    // Mutex, condition and once of Rust's standard library are the futex word itself.
    if (v.what == mutex && std::string_view(first->its.library) == "Rust std")
      if (const auto word = words.at(0); word && *word <= 2 && call.value == 2)
        v.is_free = *word == 0, v.seen = fmt::format("word {}", *word);
  } else {
    v = of_library(e, first);
  }
  if (runtime) {
    v.library = runtime->its.library;
    if (*runtime->its.kind != '\0') {
      v.kind = runtime->its.kind;
      if (!first || first->function != runtime->function)
        v.known_by += fmt::format(", inside of {}", shown(runtime->function));
    }
  }
  // That a lock is free while threads sleep is said only of a layout that is certain.
  if (v.is_free.value_or(false) && v.library != "Rust std" &&
      (around.libc == c_library::unknown || v.library != (around.libc == c_library::musl ? "musl" : "glibc")))
    v.is_free.reset();
  if (v.seen.empty())
    if (const auto word = words.at(0)) v.seen = fmt::format("word {:#x}", *word);
  return v;
}

}  // namespace usher::reader
