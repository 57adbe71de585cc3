// The exported pthread_mutex_* functions.
//
// Lock, trylock and unlock jump through a pointer each, which leads to:
//
//     at first         first_lock() …, which reads USHER_LOCK and sets the pointers. These are constant-initialised, so
//                      it works before any constructor has run, ours included
//     with one thread  mutex_operations::lock_single() …, without atomic operations (one_thread.hpp). A call that finds
//                      more threads changes the pointers for good, so a process with threads does not ask
//     with threads     mutex_operations::lock() …: the selected lock in line
//     recorded         recorded_lock() …: the selected lock, and a record for `usher stat` (recorded_mutex.cpp)
//
// Where USHER_LOCK selects the C library's locks, they lead to the C library's functions, or to recorded ones.
#include <atomic>
#include <cerrno>

#include "preload/c_library.hpp"
#include "preload/export.hpp"
#include "preload/layout.hpp"
#include "preload/mixed_wait.hpp"
#include "preload/one_thread.hpp"
#include "preload/own_sleep.hpp"
#include "preload/selection.hpp"
#include "preload/status.hpp"
#include "preload/timeouts.hpp"
#include "preload/users.hpp"
#include "record/attach_point.hpp"
#include "record/recorded_calls.hpp"

namespace usher::preload {
namespace {

int first_lock(pthread_mutex_t*);
int first_trylock(pthread_mutex_t*);
int first_unlock(pthread_mutex_t*);

constinit std::atomic<int (*)(pthread_mutex_t*)> to_lock{first_lock};
constinit std::atomic<int (*)(pthread_mutex_t*)> to_trylock{first_trylock};
constinit std::atomic<int (*)(pthread_mutex_t*)> to_unlock{first_unlock};

[[gnu::cold]] void connect() {
  selected();
  decide_provider();
  connect_mutexes();
}
[[gnu::cold]] int first_lock(pthread_mutex_t* m) {
  connect();
  return pthread_mutex_lock(m);
}
[[gnu::cold]] int first_trylock(pthread_mutex_t* m) {
  connect();
  return pthread_mutex_trylock(m);
}
[[gnu::cold]] int first_unlock(pthread_mutex_t* m) {
  connect();
  return pthread_mutex_unlock(m);
}

/// A handler of fork(), in the child. Mutexes need none: the process's epoch word lies on a page that the kernel
/// empties in a child, so each is found to be of another epoch at its first use there (layout.hpp). Where the kernel
/// does not empty the page, forget_parent() does.
void at_fork_in_child() {
  native::forget_parent();
  wake_in_child();
  mixed_wait::renew_in_child();
}

/// Makes the selection before the program can change its environment, and reports a mistake in USHER_LOCK also in a
/// program that never locks. Then makes the preparations that a lock call must not, or cannot, make.
[[gnu::constructor]] void at_start() {
  connect();
  c_library::look_up_all();
  c_library::register_child_handler(at_fork_in_child);
  if (!selected().passes_through) native::prepare_heavy_fences();
  say_selection_if_verbose();
}

constexpr attach_point make_attach_point() {
  return {attach_point::expected,
          0,
          std::uint32_t(provider::undecided),
          &current_provider,
          {{&to_lock, first_lock}, {&to_trylock, first_trylock}, {&to_unlock, first_unlock}},
          {}};
}

}  // namespace

void connect_mutexes() {
  const mutex_table& t = selected();
  as_recorded([&t](bool recorded) {
    // The process may begin to have threads between this line and the next ones: the lock_single() functions check
    // again.
    const bool single = t.lock_single != nullptr && has_one_thread();
    to_lock.store(recorded ? recorded_lock : single ? t.lock_single : t.lock, std::memory_order_relaxed);
    to_trylock.store(recorded ? recorded_trylock : single ? t.trylock_single : t.trylock, std::memory_order_relaxed);
    to_unlock.store(recorded ? recorded_unlock : single ? t.unlock_single : t.unlock, std::memory_order_relaxed);
  });
}

int end_one_thread_mode(pthread_mutex_t* m, int (*then)(pthread_mutex_t*)) {
  const mutex_table& t = selected();
  // Only pointers that still lead to those functions: a recording may have begun, or `usher stat -p` may have reset
  // them.
  const auto change = [](auto& pointer, auto from, auto to) {
    pointer.compare_exchange_strong(from, to, std::memory_order_relaxed);
  };
  change(to_lock, t.lock_single, t.lock);
  change(to_trylock, t.trylock_single, t.trylock);
  change(to_unlock, t.unlock_single, t.unlock);
  return then(m);
}

void end_recording(recorder& r) {
  recorder* seen = &r;
  if (!current_recorder.compare_exchange_strong(seen, nullptr, std::memory_order_acq_rel)) return;
  connect();
}

}  // namespace usher::preload

/// Defined here, beside most of the pointers in it.
constinit usher::preload::attach_point usher_attach_v1 = usher::preload::make_attach_point();

using namespace usher::preload;  // NOLINT(google-build-using-namespace): the exported functions follow

USHER_EXPORT int pthread_mutex_lock(pthread_mutex_t* m) {
  return to_lock.load(std::memory_order_relaxed)(m);
}
USHER_EXPORT int pthread_mutex_trylock(pthread_mutex_t* m) {
  return to_trylock.load(std::memory_order_relaxed)(m);
}
USHER_EXPORT int pthread_mutex_unlock(pthread_mutex_t* m) {
  return to_unlock.load(std::memory_order_relaxed)(m);
}

USHER_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* m, const timespec* until) {
  if (is_recorded()) return recorded_clocklock(m, CLOCK_REALTIME, until, USHER_CALLER);
  if (selected().passes_through) return c_library::mutex_timedlock(m, until);
  return selected().clocklock(m, CLOCK_REALTIME, until);
}

USHER_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  if (selected().passes_through && !is_recorded()) return selected().clocklock(m, clock, until);
  if (!is_waitable(clock)) return EINVAL;
  if (is_recorded()) return recorded_clocklock(m, clock, until, USHER_CALLER);
  return selected().clocklock(m, clock, until);
}

USHER_EXPORT int pthread_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int error = c_library::mutex_init(m, attributes);  // checks the attributes and writes the kind
  if (error == 0 && !selected().passes_through) {
    const int kind = kind_of(kind_and_epoch(m).load(std::memory_order_relaxed));
    // A mutex that is normal by attribute has kind 0x200 (no lock elision), by default 0. Nothing is elided here, so
    // both become 0, which the fast path compares with.
    if (is_ours(kind)) kind_and_epoch(m).store(std::uint64_t(type_of(kind)), std::memory_order_relaxed);
  }
  if (error == 0 && is_recorded()) record_init(m);
  return error;
}

USHER_EXPORT int pthread_mutex_destroy(pthread_mutex_t* m) {
  if (is_recorded()) [[unlikely]]
    end_destroyed(m);
  const int kind = kind_of(kind_and_epoch(m).load(std::memory_order_relaxed));
  if (selected().passes_through || !is_ours(kind)) return c_library::mutex_destroy(m);
  if (selected().is_held(m) || has_users(m)) return EBUSY;
  kind_and_epoch(m).store(0xffffffffu, std::memory_order_relaxed);  // kind −1, as the C library marks it
  return 0;
}
