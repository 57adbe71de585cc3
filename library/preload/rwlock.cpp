// The exported functions of pthread_rwlock_t, and the selection by USHER_RWLOCK.
#include "library/preload/rwlock_table.hpp"

#include <cerrno>
#include <string_view>

#include "library/catalog/names.hpp"
#include "library/catalog/read_write_names.hpp"
#include "library/preload/c_library_functions.hpp"
#include "library/preload/export.hpp"
#include "library/preload/find_next.hpp"
#include "library/preload/message.hpp"
#include "library/preload/missing_locks.hpp"
#include "library/preload/one_thread.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/status.hpp"
#include "library/preload/timeouts.hpp"

namespace usher::preload {
namespace {

// ---- the C library's functions --------------------------------------------------------------------------------

void look_up(rwlock_pointers& to);

// All functions come from the next library that has them, which may be another preloaded one that serves read-write
// locks. The first call of any looks up all. If a function is missing, each call of it looks again.
#define USHER_FIRST_IN_LIBRARY(member, name, parameters, arguments)         \
  [[gnu::cold, gnu::noinline]] int look_up_##member parameters {            \
    look_up(c_library::rwlocks);                                            \
    if (c_library::rwlocks.member.get() == look_up_##member) return ENOSYS; \
    return c_library::rwlocks.member arguments;                             \
  }
USHER_RWLOCKS(USHER_FIRST_IN_LIBRARY)

template <class... Args>
void look_up(call_pointer<int(Args...)>& to, const char* name) {
  if (void* const found = find_next(name)) to.set(reinterpret_cast<int (*)(Args...)>(found));
}

// The functions with a deadline replace a time before the clock's epoch (timeouts.hpp). Once the C library's functions
// are found, c_library::rwlocks leads to guarded_… below, which call the found ones.
#define USHER_TIMED_RWLOCKS(call)                                                                                \
  call(timedrdlock, (pthread_rwlock_t * l, const timespec* t), (l, not_before_epoch(t)))                         \
      call(timedwrlock, (pthread_rwlock_t * l, const timespec* t), (l, not_before_epoch(t)))                     \
          call(clockrdlock, (pthread_rwlock_t * l, clockid_t k, const timespec* t), (l, k, not_before_epoch(t))) \
              call(clockwrlock, (pthread_rwlock_t * l, clockid_t k, const timespec* t), (l, k, not_before_epoch(t)))
#define USHER_TIMED_RWLOCK(member, parameters, arguments)         \
  constinit call_pointer<int parameters> found_##member{nullptr}; \
  int guarded_##member parameters {                               \
    return found_##member arguments;                              \
  }
USHER_TIMED_RWLOCKS(USHER_TIMED_RWLOCK)
#define USHER_GUARD_TIMED(member, parameters, arguments)                                 \
  if (auto* const f = to.member.get(); f != look_up_##member && f != guarded_##member) { \
    found_##member.set(f);                                                               \
    to.member.set(guarded_##member);                                                     \
  }

void look_up(rwlock_pointers& to) {
  const int saved = errno;
#define USHER_LOOK_UP(member, name, parameters, arguments) \
  if (to.member.get() == look_up_##member) look_up(to.member, #name);
  USHER_RWLOCKS(USHER_LOOK_UP)
  USHER_TIMED_RWLOCKS(USHER_GUARD_TIMED)
  errno = saved;
}

// ---- the selection --------------------------------------------------------------------------------------------

constexpr const char* rwlock_variable = "USHER_RWLOCK";
constexpr rwlock_table the_c_librarys{};
constinit std::atomic<const rwlock_table*> selected_rwlock_table{nullptr};

const rwlock_table* find(std::string_view name) {
  for (const auto tables : {phase_fair_tables(), bravo_tables()})
    for (const rwlock_table& t : tables)
      if (name == t.name) return &t;
  return nullptr;
}

void report_missing(std::string_view name) {
  say(": \"", name, "\" (", rwlock_variable, ")", where_it_is, "read-write locks.");
}

void report_unknown(std::string_view unknown) {
  nearest_name nearest(unknown);
  for (const std::string_view name : read_write_names) nearest.consider(name);
  const bool is_near = !nearest.best().empty();
  say(": no read-write lock is called \"", clipped(unknown), "\" (", rwlock_variable, ")",
      is_near ? "; the nearest is \"" : "", nearest.best(), is_near ? "\"" : "",
      ". Running on the C library's read-write locks.");
}

[[gnu::cold, gnu::noinline]] const rwlock_table& select() {
  const std::string_view name = variable(rwlock_variable);
  const bool wants_ours = c_library::is_glibc() && !name.empty() && name != "pthread";
  const rwlock_table* const found = wants_ours ? find(name) : nullptr;
  if (found != nullptr) {
    prepare_own_locks();
    if (found->prepare != nullptr) found->prepare();
  }
  const rwlock_table* const table = found != nullptr ? found : &the_c_librarys;
  note_rwlocks(found != nullptr ? found->name : nullptr);
  const rwlock_table* none = nullptr;
  if (!selected_rwlock_table.compare_exchange_strong(none, table, std::memory_order_acq_rel)) return *none;
  if (wants_ours && found == nullptr) is_unusual_read_write_lock(name) ? report_missing(name) : report_unknown(name);
  return *table;
}

// ---- the exported functions -----------------------------------------------------------------------------------

#define USHER_FIRST_RWLOCK(member, name, parameters, arguments) \
  [[gnu::cold]] int first_##member parameters {                 \
    connect();                                                  \
    return current_rwlocks.member arguments;                    \
  }
USHER_RWLOCKS(USHER_FIRST_RWLOCK)

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define USHER_FIRST_POINTER(member, name, parameters, arguments) .member = call_pointer<int parameters>(first_##member),
}  // namespace

constinit rwlock_pointers current_rwlocks{USHER_RWLOCKS(USHER_FIRST_POINTER)};
constinit rwlock_pointers unrecorded_rwlocks{USHER_RWLOCKS(USHER_FIRST_POINTER)};
#define USHER_LIBRARY_POINTER(member, name, parameters, arguments) \
  .member = call_pointer<int parameters>(look_up_##member),
constinit rwlock_pointers c_library::rwlocks{USHER_RWLOCKS(USHER_LIBRARY_POINTER)};
// NOLINTEND(bugprone-macro-parentheses)

void c_library::look_up_rwlocks() {
  look_up(rwlocks);
}

const rwlock_table* selected_rwlocks() {
  const rwlock_table* t = selected_rwlock_table.load(std::memory_order_acquire);
  if (t == nullptr) t = &select();
  return t != &the_c_librarys ? t : nullptr;
}

void connect_rwlocks(const rwlock_calls* recorded) {
  if (const rwlock_table* const t = selected_rwlocks()) {
    rwlock_calls c = t->calls;
    // The process may create a thread after this test. That is no error: the functions for one thread repeat it.
    if (has_one_thread()) {
      c.rdlock = t->rdlock_single;
      c.wrlock = t->wrlock_single;
      c.rwlock_unlock = t->unlock_single;
    }
    unrecorded_rwlocks.set(c);
  } else {
    // The look-up is not repeated for single functions that an old C library lacks: the caller may be a lock function.
    if (c_library::rwlocks.rdlock.get() == look_up_rdlock) look_up(c_library::rwlocks);
    unrecorded_rwlocks.set(c_library::rwlocks);
  }
  if (recorded != nullptr)
    current_rwlocks.set(*recorded);
  else
    current_rwlocks.set(unrecorded_rwlocks);
}

int end_one_thread_mode(pthread_rwlock_t* l, int (*then)(pthread_rwlock_t*)) {
  const rwlock_table& t = *selected_rwlocks();
  // Changes only pointers that still lead to the functions for one thread, as the function for mutexes does.
  for (rwlock_pointers* to : {&current_rwlocks, &unrecorded_rwlocks}) {
    to->rdlock.change(t.rdlock_single, t.calls.rdlock);
    to->wrlock.change(t.wrlock_single, t.calls.wrlock);
    to->rwlock_unlock.change(t.unlock_single, t.calls.rwlock_unlock);
  }
  return then(l);
}

}  // namespace usher::preload

// Each exported function must compile to a tail jump, as those in calls.cpp.
#define USHER_EXPORTED_RWLOCK(member, name, parameters, arguments) \
  USHER_EXPORT int name parameters {                               \
    return usher::preload::current_rwlocks.member arguments;       \
  }
USHER_RWLOCKS(USHER_EXPORTED_RWLOCK)

// The C library exports some functions under a second name. A program may use both names for one lock, so both are
// exported here.
// NOLINTBEGIN(bugprone-reserved-identifier,bugprone-macro-parentheses)
#define USHER_SECOND_NAME(call, parameters) \
  USHER_EXPORT                              \
  [[gnu::nothrow, gnu::nonnull(1), gnu::alias("pthread_rwlock_" #call)]] int __pthread_rwlock_##call parameters;
USHER_SECOND_NAME(init, (pthread_rwlock_t*, const pthread_rwlockattr_t*))
USHER_SECOND_NAME(destroy, (pthread_rwlock_t*))
USHER_SECOND_NAME(rdlock, (pthread_rwlock_t*))
USHER_SECOND_NAME(tryrdlock, (pthread_rwlock_t*))
USHER_SECOND_NAME(wrlock, (pthread_rwlock_t*))
USHER_SECOND_NAME(trywrlock, (pthread_rwlock_t*))
USHER_SECOND_NAME(unlock, (pthread_rwlock_t*))
// NOLINTEND(bugprone-reserved-identifier,bugprone-macro-parentheses)
