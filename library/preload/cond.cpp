// Usher's condition variables. The C library's would unlock Usher's mutexes with the C library's code. A wait here
// unlocks and locks the mutex, whichever library serves it, by Usher's pthread_mutex_unlock() and pthread_mutex_lock().
//
//     offset  0…23, 40…47  the queue     wait_queue.hpp
//            24            clock         1: CLOCK_MONOTONIC, 0: CLOCK_REALTIME
//            28, 36        C library's   both 0 in Usher's variables. In the C library's, 36 (28 since glibc 2.41) has
//                                        the number of waiters in bits 3 and up; bit 0: process-shared
//            32            is_ours       a magic number that Usher's first wait or initialisation stores. The C library
//                                        has small numbers there
//
// The C library serves process-shared condition variables. It also serves a variable while threads wait for it in the C
// library's functions. This occurs in a plugin opened with RTLD_DEEPBIND: the timed waits of std::condition_variable,
// which are inlined, call the C library, but its wait() and notify_all() call Usher (left_mutexes.hpp). So a wait with
// a mutex that is left to the C library calls the C library's wait, unless the variable is Usher's already. A signal of
// a variable with waiters in the C library calls the C library's signal.
//
// A wait and a signal (core/condition_wait.hpp, core/wait_morphing.hpp):
//
//     waiter     enter(): puts its node, on its stack, into the queue. Unlocks the mutex, sleeps on the node's state
//     signal     takes the first node off the queue. If the owner tag shows that the calling thread holds the waiter's
//                mutex, requeues the node to the mutex (waited_mutex::requeue); else wakes the waiter
//     unlock     of the mutex: frees the mutex and wakes the first requeued waiter, or hands the mutex over to it
//     waiter     relock(): locks the mutex, unless it was handed over
//
// A broadcast takes all nodes off the queue as one chain, and requeues the chain or wakes its first waiter. When a
// waiter of the chain has the mutex, it requeues the rest. So at most one waiter of a broadcast at a time is awake
// without the mutex.
//
// In the child of a fork the waiters do not exist, and the queue counts as empty: its word contains the fork epoch. If
// a waiter's signal handler forks, the copy of the waiter in the child ends its wait (own_sleep.hpp).
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/cancellable_wait.h"
#include "library/preload/layout.hpp"
#include "library/preload/left_mutexes.hpp"
#include "library/preload/mixed_wait.hpp"
#include "library/preload/ours.hpp"
#include "library/preload/own_sleep.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/timeouts.hpp"
#include "library/preload/users.hpp"
#include "usher/core/condition_wait.hpp"

namespace usher::preload {
namespace {

/// A waiter's mutex, Usher's or the C library's: the `Target` of core/condition_wait.hpp.
struct waited_mutex {
  pthread_mutex_t* mutex = nullptr;
  std::uint32_t counted = 0;  ///< the result of enter_users()

  bool requeue(requeued_waiter<native>& chain) const { return selected().requeue(mutex, chain); }
  bool claim() const { return selected().claim(mutex); }
  void entered() { counted = enter_users(mutex); }
  void left() const { leave_users(mutex, counted); }
};

using wait_on = condition_wait<native, waited_mutex>;
using pthread_queue = wait_on::queue;
using waiting_thread = wait_on::waiter;

struct cond_layout {
  pthread_queue queue;

  bool is_c_librarys() { return (spare(1) | spare(3)) != 0; }
  bool is_ours() { return spare(2) == ours; }
  /// Makes the variable Usher's. Erases what the C library has left: no thread waits there any more.
  void take(bool monotonic) {
    std::memset(static_cast<void*>(this), 0, sizeof(pthread_cond_t));
    std::atomic_ref(queue.spare(0)).store(monotonic ? 1 : 0, std::memory_order_relaxed);
    std::atomic_ref(queue.spare(2)).store(ours, std::memory_order_relaxed);
  }
  bool is_monotonic() { return is_ours() && spare(0) != 0; }

 private:
  static constexpr std::uint32_t ours = 0xc0d1a800;
  std::uint32_t spare(unsigned i) { return std::atomic_ref(queue.spare(i)).load(std::memory_order_relaxed); }
};
static_assert(pthread_queue::spare_at() == 24);
static_assert(sizeof(cond_layout) <= sizeof(pthread_cond_t) && alignof(cond_layout) <= alignof(pthread_cond_t));

cond_layout& cond_of(pthread_cond_t* c) {
  return *reinterpret_cast<cond_layout*>(c);
}

int relock(waiting_thread& me, bool granted) {
  int error = 0;
  wait_on::come_back(me, granted, [&] { error = pthread_mutex_lock(me.target.mutex); });
  return error;
}

void on_cancel(void* argument) {
  auto& me = *static_cast<waiting_thread*>(argument);
  current_sleep = {};
  relock(me, wait_on::withdraw(me));
}

int wait(pthread_cond_t* cond, pthread_mutex_t* mutex, bool realtime, const timespec* until) {
  waiting_thread me;
  // A thread must not be cancelled while it holds the queue's lock.
  const usher_cancel_type type = usher_defer_cancellation();
  current_sleep = {&me.state, waiting_thread::granted};
  USHER_PROBE2(cond_wait_begin, cond, mutex);
  if (!cond_of(cond).is_ours()) [[unlikely]]
    cond_of(cond).take(false);
  wait_on::enter(me, cond_of(cond).queue, waited_mutex{mutex}, cond_append());
  int result = pthread_mutex_unlock(mutex);
  if (result != 0) {
    wait_on::undo_enter(me);  // an error from a mutex that checks its owner, or from the C library
    current_sleep = {};
    usher_restore_cancellation(type);
    return result;
  }
  const bool granted = wait_on::await_grant(me, [&](std::uint32_t state, bool selected) {
    result = usher_cancellable_wait(reinterpret_cast<std::uint32_t*>(&me.state), state, selected ? nullptr : until,
                                    realtime, on_cancel, &me);
    // A signal handler forked during the wait, and this is the child. Its queue is not valid: the wait ends spuriously.
    if (result == EINTR && pthread_queue::left_by_fork(me)) return wait_on::wait_end::abandoned;
    return result == ETIMEDOUT ? wait_on::wait_end::time : wait_on::wait_end::woken;
  });
  current_sleep = {};
  const int error = relock(me, granted);
  USHER_PROBE3(cond_wait_end, cond, mutex, int(granted));
  usher_restore_cancellation(type);
  return error != 0 ? error : !granted && result == ETIMEDOUT ? ETIMEDOUT : 0;
}

int check_and_wait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (!is_time(*until)) return EINVAL;
  return wait(cond, mutex, clock == CLOCK_REALTIME, not_before_epoch(until));
}

/// The code that performs a wait: Usher's, the C library's, or mixed_wait.hpp with a helper mutex.
enum class waits_by { us, c_library, helper };

/// Returns the code that must perform a wait. The C library's wait can unlock only a mutex of the C library's, so its
/// condition variables need a helper for other mutexes.
waits_by who_waits(pthread_cond_t* c, pthread_mutex_t* m) {
  leave_if_locked_in_c_library(m);
  const int kind = kind_of(m);
  if (cond_of(c).is_c_librarys()) [[unlikely]]
    return is_ours(kind) ? waits_by::helper : waits_by::c_library;
  return (kind & left_to_c_library) != 0 && is_ours(kind & ~left_to_c_library) && !cond_of(c).is_ours()
             ? waits_by::c_library
             : waits_by::us;
}

// If the variable is not Usher's, no thread waits: the bytes that look like a queue are left from the C library.

[[gnu::cold, gnu::noinline]] int signal(cond_layout& cond) {
  USHER_PROBE1(cond_signal, &cond);
  if (cond.is_ours()) wait_on::signal(cond.queue);
  return 0;
}

[[gnu::cold, gnu::noinline]] int broadcast(cond_layout& cond) {
  USHER_PROBE1(cond_broadcast, &cond);
  if (cond.is_ours()) wait_on::broadcast(cond.queue);
  return 0;
}

}  // namespace

namespace ours {

int cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  int shared = PTHREAD_PROCESS_PRIVATE;
  if (attributes != nullptr) c_library::condattr_getpshared(attributes, &shared);
  if (shared != PTHREAD_PROCESS_PRIVATE) return c_library::cond_init(c, attributes);
  clockid_t clock = CLOCK_REALTIME;
  if (attributes != nullptr) c_library::condattr_getclock(attributes, &clock);
  if (clock == CLOCK_MONOTONIC)
    cond_of(c).take(true);
  else
    std::memset(c, 0, sizeof *c);
  return 0;
}

int cond_destroy(pthread_cond_t* c) {
  if (cond_of(c).is_c_librarys()) return c_library::cond_destroy(c);
  return !cond_of(c).is_ours() || cond_of(c).queue.close() ? 0 : EBUSY;
}

int cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  const waits_by by = who_waits(c, m);
  if (by == waits_by::us) [[likely]]
    return wait(c, m, false, nullptr);
  return by == waits_by::c_library ? c_library::cond_wait(c, m) : mixed_wait::wait(c, m, -1, nullptr);
}

int cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  const waits_by by = who_waits(c, m);
  if (by == waits_by::us) [[likely]]
    return check_and_wait(c, m, cond_of(c).is_monotonic() ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
  if (by == waits_by::c_library) return c_library::cond_timedwait(c, m, until);
  return is_time(*until) ? mixed_wait::wait(c, m, -1, until) : EINVAL;
}

int cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  const waits_by by = who_waits(c, m);
  if (by == waits_by::c_library) return c_library::cond_clockwait(c, m, clock, until);
  if (!is_waitable(clock) || !is_time(*until)) return EINVAL;
  return by == waits_by::us ? check_and_wait(c, m, clock, until) : mixed_wait::wait(c, m, clock, until);
}

int cond_signal(pthread_cond_t* c) {
  if (cond_of(c).is_c_librarys()) [[unlikely]]
    return mixed_wait::signal(c);
  return cond_of(c).queue.has_waiters() ? signal(cond_of(c)) : 0;
}

int cond_broadcast(pthread_cond_t* c) {
  if (cond_of(c).is_c_librarys()) [[unlikely]]
    return mixed_wait::broadcast(c);
  return cond_of(c).queue.has_waiters() ? broadcast(cond_of(c)) : 0;
}

}  // namespace ours
}  // namespace usher::preload
