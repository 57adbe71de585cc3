// Reads the environment once, at the first call of an exported function or at start-up. It selects the lock, the times
// for which waiters stay awake, and the order in which condition variables and semaphores serve waiters.
#include "library/preload/selection.hpp"

#include <atomic>
#include <optional>
#include <string_view>

#include "library/catalog/names.hpp"
#include "library/catalog/probability.hpp"
#include "library/preload/c_library_functions.hpp"
#include "library/preload/export.hpp"
#include "library/preload/layout.hpp"
#include "library/preload/message.hpp"
#include "library/preload/missing_locks.hpp"
#include "library/preload/mixed_wait.hpp"
#include "library/preload/mutex_families.hpp"
#include "library/preload/observer.hpp"
#include "library/preload/one_thread.hpp"
#include "library/preload/ours.hpp"
#include "library/preload/own_sleep.hpp"
#include "library/preload/rwlock_table.hpp"
#include "library/preload/status.hpp"

namespace usher::preload {
namespace {

// ---- the C library's own -----------------------------------------------------------------------------------

constexpr mutex_table c_library_table{"pthread",
                                      true,
                                      c_library::mutex_lock,
                                      c_library::mutex_trylock,
                                      c_library::mutex_unlock,
                                      c_library::mutex_clocklock};

/// Turns a normal mutex into an adaptive one. Called at the beginning of each lock function.
void adapt(pthread_mutex_t* m) {
  std::atomic_ref<int> kind(m->__data.__kind);
  if (kind.load(std::memory_order_relaxed) == PTHREAD_MUTEX_NORMAL)
    kind.store(PTHREAD_MUTEX_ADAPTIVE_NP, std::memory_order_relaxed);
}
int adaptive_lock(pthread_mutex_t* m) {
  adapt(m);
  return c_library::mutex_lock(m);
}
int adaptive_trylock(pthread_mutex_t* m) {
  adapt(m);
  return c_library::mutex_trylock(m);
}
int adaptive_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  adapt(m);
  return c_library::mutex_clocklock(m, clock, until);
}
constexpr mutex_table adaptive_table{"pthread-adaptive", true, adaptive_lock, adaptive_trylock, c_library::mutex_unlock,
                                     adaptive_clocklock};

// ---- the calls of a table ----------------------------------------------------------------------------------

/// Returns the exported functions' targets for this table: without atomic operations if the process has one thread.
calls calls_of(const mutex_table& t) {
  calls c = t.passes_through ? c_library_calls : our_calls;
  // The process may create a thread after this test. That is no error: lock_single() and its like repeat it.
  const bool single = t.lock_single != nullptr && has_one_thread();
  c.lock = c_library::without_check(single ? t.lock_single : t.lock);
  c.trylock = c_library::without_check(single ? t.trylock_single : t.trylock);
  c.unlock = c_library::without_check(single ? t.unlock_single : t.unlock);
  if (t.passes_through) c.clocklock = t.clocklock;
  return c;
}

// ---- the selection -----------------------------------------------------------------------------------------

constinit std::atomic<append_probability> order_of_conds{}, order_of_sems{};

void report_unknown_lock(std::string_view unknown) {
  nearest_name nearest(unknown);
  for_each_table([&](const mutex_table& t) { return nearest.consider(t.name), false; });
  nearest.consider(c_library_table.name);
  nearest.consider(adaptive_table.name);
  for (const char* name : missing_locks()) nearest.consider(name);
  const bool is_near = !nearest.best().empty();
  say(": no lock is called \"", clipped(unknown), "\" (USHER_LOCK)", is_near ? "; the nearest is \"" : "",
      nearest.best(), is_near ? "\"" : "", ". Running on the C library's locks.");
}

void report_missing_lock(std::string_view name) {
  say(": \"", clipped(name), "\" (USHER_LOCK)", where_it_is, "locks.");
}

void report_measurements_only(std::string_view name) {
  say(": \"", name,
      "\" (USHER_LOCK) excludes no thread: it is for measurements only. Running on the C library's locks.");
}

/// Whether a recorder is linked into the library.
bool has_observer() {
  return &usher_observer != nullptr;
}

constexpr const char* cond_variable = "USHER_COND_APPEND";
constexpr const char* sem_variable = "USHER_SEM_APPEND";

/// Returns the probability in an environment variable; 1, order of arrival, if it is not set; nullopt for another text.
std::optional<append_probability> probability(const char* name) {
  const std::string_view text = variable(name);
  if (text.empty()) return append_probability();
  const double p = parse_probability(text);
  if (p <= 0) return std::nullopt;
  return append_probability(p);
}

void report_bad_probability(const char* name) {
  say(": ", name, "=", clipped(variable(name)),
      " is not a probability above 0 and up to 1; waiters are served in order of arrival.");
}

/// Returns the nanoseconds in an environment variable; nullopt if its text is not a number of at most nine digits.
std::optional<std::uint32_t> nanoseconds(const char* name) {
  const std::string_view text = variable(name);
  if (text.empty() || text.size() > 9) return std::nullopt;
  std::uint32_t v = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    v = v * 10 + std::uint32_t(c - '0');
  }
  return v;
}

constexpr const char* limit_variables[] = {"USHER_SPIN_NS", "USHER_YIELD_NS", "USHER_SLEEP_NS"};

void report_bad_limits() {
  for (const char* name : limit_variables)
    if (!variable(name).empty() && !nanoseconds(name))
      say(": ", name, "=", clipped(variable(name)),
          " is not a number of nanoseconds, of up to nine digits; the default holds.");
}

const mutex_table* find(std::string_view name) {
  if (!c_library::is_glibc() || name.empty() || name == c_library_table.name) return &c_library_table;
  if (name == adaptive_table.name) return &adaptive_table;
  name = without_default_suffix(name);
  const mutex_table* found = nullptr;
  for_each_table([&](const mutex_table& t) { return name == t.name && (found = &t); });
  return found;
}

outcome outcome_of(std::string_view name, const mutex_table* found) {
  if (!c_library::is_glibc()) return outcome::not_glibc;
  if (name.empty()) return outcome::not_set;
  if (found == nullptr) return is_missing(name) ? outcome::missing : outcome::unknown;
  if (found->lock == nullptr) return outcome::measurements_only;
  return found->passes_through ? outcome::c_library : outcome::ours;
}

/// Whether Usher serves the process's mutexes or read-write locks.
bool has_own_locks(const mutex_table& selected) {
  return !selected.passes_through || selected_rwlocks() != nullptr;
}

/// Makes the calling thread's record. Otherwise its first lock of a recursive mutex would make system calls, perhaps
/// after the thread has entered a sandbox. This also begins the fork epoch. A child of vfork() must not be the first to
/// do so: it shares the parent's memory, and would store its own id there.
void begin_process() {
  const mutex_table* const table = selected_table.load(std::memory_order_acquire);
  if (table != nullptr && has_own_locks(*table)) native::self();
}

/// The handler that fork() calls in the child. Mutexes do not depend on it: the kernel empties the page of the
/// process's epoch word in a child, so each mutex is found to be of another epoch at its first use there (layout.hpp).
/// If the kernel cannot empty the page, forget_parent() resets the word.
void at_fork_in_child() {
  native::forget_parent();
  begin_process();
  wake_in_child();
  mixed_wait::renew_in_child();
}

/// Makes the selection before the program can change its environment, and so that an error in USHER_LOCK is reported
/// even if the program never locks. Also makes the preparations that a lock call cannot or must not make.
[[gnu::constructor]] void at_start() {
  c_library::look_up_rwlocks();
  connect();
  c_library::look_up_all();
  c_library::register_child_handler(at_fork_in_child);
  if (has_own_locks(selected())) native::prepare_heavy_fences();
  begin_process();
  say_selection_if_verbose();
}

}  // namespace

constinit const calls our_calls{.lock = nullptr,  // calls_of() sets these three
                                .trylock = nullptr,
                                .unlock = nullptr,
                                .timedlock = ours::mutex_timedlock,
                                .clocklock = ours::mutex_clocklock,
                                .mutex_init = ours::mutex_init,
                                .mutex_destroy = ours::mutex_destroy,
                                .cond_wait = ours::cond_wait,
                                .cond_timedwait = ours::cond_timedwait,
                                .cond_clockwait = ours::cond_clockwait,
                                .cond_signal = ours::cond_signal,
                                .cond_broadcast = ours::cond_broadcast,
                                .cond_init = ours::cond_init,
                                .cond_destroy = ours::cond_destroy,
                                .sem_wait = ours::sem_wait,
                                .sem_trywait = ours::sem_trywait,
                                .sem_timedwait = ours::sem_timedwait,
                                .sem_clockwait = ours::sem_clockwait,
                                .sem_post = ours::sem_post,
                                .sem_getvalue = ours::sem_getvalue,
                                .sem_init = ours::sem_init,
                                .sem_destroy = ours::sem_destroy};

constinit std::atomic<const mutex_table*> selected_table{nullptr};
constinit behind_recorded_calls behind_recorded{};

void prepare_own_locks() {
  usher_process_state.told_of_forks.store(1, std::memory_order_relaxed);  // at_start() registers the fork handler
  native::fork_epoch();
  if (variable("USHER_FAKE_PRIORITIES") == "nice") native::set_priorities_by_nice(true);  // tests only
  // The child of a fork may reuse the queue nodes of threads that exist only in its parent, because it resets mutexes
  // and read-write locks, whose queues would contain these nodes.
  usher_process_state.orphaned_are_free.store(1, std::memory_order_relaxed);
  const wait_limits otherwise = native::limits();
  native::set_limits({nanoseconds(limit_variables[0]).value_or(otherwise.spin),
                      nanoseconds(limit_variables[1]).value_or(otherwise.yield),
                      nanoseconds(limit_variables[2]).value_or(otherwise.sleep)});
}

const mutex_table& select_table() {
  const std::string_view name = variable("USHER_LOCK");
  const mutex_table* found = find(name);
  const bool refused = found != nullptr && found->lock == nullptr;
  const mutex_table* table = found != nullptr && !refused ? found : &c_library_table;
  if (!table->passes_through) prepare_own_locks();  // before the table is published; several threads may be here
  const std::optional<append_probability> conds = probability(cond_variable), sems = probability(sem_variable);
  order_of_conds.store(conds.value_or(append_probability()), std::memory_order_relaxed);
  order_of_sems.store(sems.value_or(append_probability()), std::memory_order_relaxed);
  const outcome what = outcome_of(name, found);
  note_selection(what, table->name);
  selected_calls.set(calls_of(*table));
  const mutex_table* none = nullptr;
  if (!selected_table.compare_exchange_strong(none, table, std::memory_order_acq_rel)) return *none;
  // The rest is executed once in a process, by the thread whose compare-and-swap has succeeded.
  if (has_observer()) usher_observer.begin();
  if (what == outcome::missing) report_missing_lock(name);
  if (what == outcome::unknown) report_unknown_lock(name);
  if (refused) report_measurements_only(found->name);
  if (!table->passes_through && !conds) report_bad_probability(cond_variable);
  if (!table->passes_through && !sems) report_bad_probability(sem_variable);
  if (has_own_locks(*table)) report_bad_limits();
  return *table;
}

// Several threads may call connect() at once, while one of them begins or ends a recording, or while another process
// has stopped the threads to request one. A slow thread must not leave older pointers in place of newer ones. So each
// thread reads the observer's state again after it has set the pointers, and begins again if the state has changed:
//
// - A thread that has changed the state calls connect() next. Let T be the last such thread, and W another that sets
//   the pointers by an older state. If W's second fence precedes T's first one, all of W's writes precede T's. Else W's
//   last load finds T's state, and W sets the pointers again.
// - The other process writes its request and resets the pointers while W does not run. If this is before W's last call
//   of is_requested(), W begins the recording, or another thread does and sets the pointers again. Else W has set all
//   pointers before the reset, so the next call of any exported function calls connect().
void connect() {
  const mutex_table& table = selected();
  std::uint64_t seen = 0;
  do {
    if (has_observer() && usher_observer.is_requested()) usher_observer.begin_requested();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    seen = has_observer() ? usher_observer.state() : 0;
    const observed_calls observed = has_observer() ? usher_observer.connect(seen) : observed_calls{};
    current_calls.set(observed.mutexes != nullptr ? *observed.mutexes : calls_of(table));
    connect_rwlocks(observed.rwlocks);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } while (has_observer() && (usher_observer.state() != seen || usher_observer.is_requested()));
}

int end_one_thread_mode(pthread_mutex_t* m, int (*then)(pthread_mutex_t*)) {
  const mutex_table& t = selected();
  // Changes only pointers that still lead to the functions for one thread. A pointer may lead elsewhere: a recording
  // may have begun, or `usher stat -p` may have reset the pointers.
  for (call_pointers* to : {&current_calls, &selected_calls}) {
    to->lock.change(t.lock_single, t.lock);
    to->trylock.change(t.trylock_single, t.trylock);
    to->unlock.change(t.unlock_single, t.unlock);
  }
  return then(m);
}

append_probability cond_append() {
  return order_of_conds.load(std::memory_order_relaxed);
}
append_probability sem_append() {
  return order_of_sems.load(std::memory_order_relaxed);
}

}  // namespace usher::preload
