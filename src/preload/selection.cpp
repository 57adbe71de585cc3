// Reads the environment, once, at the first call of any exported function: the lock, how long its waiters stay awake,
// and the order of the waiters of condition variables and semaphores.
#include "preload/selection.hpp"

#include <atomic>
#include <optional>
#include <string_view>

#include "catalog/names.hpp"
#include "catalog/probability.hpp"
#include "preload/c_library.hpp"
#include "preload/catalog.hpp"
#include "preload/export.hpp"
#include "preload/layout.hpp"
#include "preload/message.hpp"
#include "preload/status.hpp"
#include "record/attach_point.hpp"
#include "record/recorder.hpp"

namespace usher::preload {
namespace {

// ---- the C library's own -----------------------------------------------------------------------------------

constexpr mutex_table c_library_table{"pthread",
                                      true,
                                      c_library::mutex_lock,
                                      c_library::mutex_trylock,
                                      c_library::mutex_unlock,
                                      c_library::mutex_clocklock};

/// A normal mutex becomes an adaptive one at its first use.
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

// ---- the selection -----------------------------------------------------------------------------------------

constinit std::atomic<append_probability> order_of_conds{}, order_of_sems{};

void report_unknown_lock(std::string_view unknown) {
  nearest_name nearest(unknown);
  for_each_table([&](const mutex_table& t) { return nearest.consider(t.name), false; });
  nearest.consider(c_library_table.name);
  nearest.consider(adaptive_table.name);
  const bool is_near = !nearest.best().empty();
  say(": no lock is called \"", clipped(unknown), "\" (USHER_LOCK)", is_near ? "; the nearest is \"" : "",
      nearest.best(), is_near ? "\"" : "", ". Running on the C library's locks.");
}

void report_measurements_only(std::string_view name) {
  say(": \"", name, "\" (USHER_LOCK) excludes nobody: it is for measurements only. Running on the C library's locks.");
}

constexpr const char* cond_variable = "USHER_COND_APPEND";
constexpr const char* sem_variable = "USHER_SEM_APPEND";

/// The probability in a variable; 1, the order of arrival, if the variable is not set. Null if its text is no
/// probability.
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

std::uint32_t nanoseconds(std::string_view text, std::uint32_t otherwise) {
  if (text.empty() || text.size() > 9) return otherwise;
  std::uint32_t v = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return otherwise;
    v = v * 10 + std::uint32_t(c - '0');
  }
  return v;
}

const mutex_table* find(std::string_view name) {
  if (!c_library::is_glibc() || name.empty() || name == c_library_table.name) return &c_library_table;
  if (name == adaptive_table.name) return &adaptive_table;
  name = without_default_suffix(name);
  const mutex_table* found = nullptr;
  for_each_table([&](const mutex_table& t) { return name == t.name && (found = &t); });
  return found;
}

constinit std::atomic<const mutex_table*> selected_table{nullptr};

outcome outcome_of(std::string_view name, const mutex_table* found) {
  if (!c_library::is_glibc()) return outcome::not_glibc;
  if (name.empty()) return outcome::not_set;
  if (found == nullptr) return outcome::unknown;
  if (found->lock == nullptr) return outcome::measurements_only;
  return found->passes_through ? outcome::c_library : outcome::ours;
}

/// Other threads may have set the pointers meanwhile, when nothing was recorded yet: sets them again.
void begin_recording(const char* path, const mutex_table& table) {
  record_in(path, table);
  if (is_recorded()) connect_mutexes();
}

[[gnu::cold, gnu::noinline]] const mutex_table& select_table() {
  const std::string_view name = variable("USHER_LOCK");
  const mutex_table* found = find(name);
  const bool refused = found != nullptr && found->lock == nullptr;
  const mutex_table* table = found != nullptr && !refused ? found : &c_library_table;
  if (!table->passes_through) {  // before the table is published; several threads may do the same
    usher_process_state.told_of_forks.store(1, std::memory_order_relaxed);  // at_start() will register the handler
    native::fork_epoch();
    if (variable("USHER_FAKE_PRIORITIES") == "nice") native::set_priorities_by_nice(true);  // for tests
    // Mutexes are reset in a child, so the nodes of threads that do not exist there may be used again.
    usher_process_state.orphaned_are_free.store(1, std::memory_order_relaxed);
    const wait_limits otherwise = native::limits();
    native::set_limits({nanoseconds(variable("USHER_SPIN_NS"), otherwise.spin),
                        nanoseconds(variable("USHER_YIELD_NS"), otherwise.yield),
                        nanoseconds(variable("USHER_SLEEP_NS"), otherwise.sleep)});
  }
  const std::optional<append_probability> conds = probability(cond_variable), sems = probability(sem_variable);
  order_of_conds.store(conds.value_or(append_probability()), std::memory_order_relaxed);
  order_of_sems.store(sems.value_or(append_probability()), std::memory_order_relaxed);
  note_selection(outcome_of(name, found), table->name);
  const mutex_table* none = nullptr;
  if (!selected_table.compare_exchange_strong(none, table, std::memory_order_acq_rel)) return *none;
  // One thread in each process gets here.
  if (const std::string_view file = variable(record::variable); !file.empty() && c_library::is_glibc())
    begin_recording(file.data(), *table);  // the path ends where the variable does
  decide_provider();
  if (found == nullptr) report_unknown_lock(name);
  if (refused) report_measurements_only(found->name);
  if (!table->passes_through && !conds) report_bad_probability(cond_variable);
  if (!table->passes_through && !sems) report_bad_probability(sem_variable);
  return *table;
}

}  // namespace

constinit std::atomic<provider> current_provider{provider::undecided};

void decide_provider() {
  const mutex_table& table = selected();
  std::uint32_t wanted = 1;
  if (usher_attach_v1.wanted.load(std::memory_order_acquire) == 1 &&
      usher_attach_v1.wanted.compare_exchange_strong(wanted, 0, std::memory_order_acq_rel) && c_library::is_glibc())
    begin_recording(usher_attach_v1.path, table);
  const provider plain = table.passes_through ? provider::c_library : provider::usher;
  as_recorded([plain](bool recorded) {
    current_provider.store(recorded ? provider::recorded : plain, std::memory_order_release);
  });
}

const mutex_table& selected() {
  const mutex_table* t = selected_table.load(std::memory_order_acquire);
  return t != nullptr ? *t : select_table();
}

append_probability cond_append() {
  return order_of_conds.load(std::memory_order_relaxed);
}
append_probability sem_append() {
  return order_of_sems.load(std::memory_order_relaxed);
}

}  // namespace usher::preload
