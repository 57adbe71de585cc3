// Usher's condition variables. A wait unlocks and locks its mutex by our pthread_mutex_unlock() and
// pthread_mutex_lock(), whichever library the mutex belongs to. The C library's condition variable would unlock our
// mutexes with its own code.
//
//     offset  0…23, 40…47  the queue     wait_queue.hpp
//            24            clock         1: CLOCK_MONOTONIC, 0: CLOCK_REALTIME
//            28, 36        shared        in a process-shared variable, which is the C library's, bit 0 of one of them
//                                        is set: of the first since glibc 2.41, of the second before. Ours keep both 0
//
// A wait and a signal (core/condition_wait.hpp, core/wait_morphing.hpp):
//
//     waiter     enter(): its node, on its stack, joins the queue. It unlocks the mutex, and sleeps on the node's state
//     signal     takes the first node off the queue. If the calling thread holds the waiter's mutex, as the owner tag
//                shows, the node is requeued to the mutex (waited_mutex::requeue); else the waiter is woken
//     unlock     of the mutex: wakes the first requeued waiter when the mutex is free, or hands the mutex over to it
//     waiter     relock(): locks the mutex, unless it was handed over
//
// A broadcast takes all nodes off the queue as one chain, and requeues it or wakes its first waiter. A waiter of the
// chain that has the mutex requeues the rest, so that one thread of a broadcast at a time is awake without the mutex.
//
// The queue's word contains the fork epoch: in the child of a fork the queue counts as empty, because the waiters do
// not exist there. A waiter whose signal handler has forked leaves the wait in the child: own_sleep.hpp.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "preload/c_library_functions.hpp"
#include "preload/cancellable_wait.h"
#include "preload/layout.hpp"
#include "preload/mixed_wait.hpp"
#include "preload/ours.hpp"
#include "preload/own_sleep.hpp"
#include "preload/selection.hpp"
#include "preload/timeouts.hpp"
#include "preload/users.hpp"
#include "usher/core/condition_wait.hpp"

namespace usher::preload {
namespace {

/// The mutex that a waiter uses, ours or the C library's. A signalling thread may requeue the waiter to it.
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

  bool is_private() { return ((queue.spare(1) | queue.spare(3)) & 1) == 0; }
  bool is_monotonic() { return queue.spare(0) != 0; }
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
  // Defers cancellation: a thread must not be cancelled while it holds the queue's lock.
  const usher_cancel_type type = usher_defer_cancellation();
  current_sleep = {&me.state, waiting_thread::granted};
  USHER_PROBE2(cond_wait_begin, cond, mutex);
  wait_on::enter(me, cond_of(cond).queue, waited_mutex{mutex}, cond_append());
  int result = pthread_mutex_unlock(mutex);
  if (result != 0) {
    wait_on::undo_enter(me);  // the mutex checks its owner, or is the C library's
    current_sleep = {};
    usher_restore_cancellation(type);
    return result;
  }
  const bool granted = wait_on::await_grant(me, [&](std::uint32_t state, bool selected) {
    result = usher_cancellable_wait(reinterpret_cast<std::uint32_t*>(&me.state), state, selected ? nullptr : until,
                                    realtime, on_cancel, &me);
    // This is a child that a signal handler has forked during the wait: the queue is not valid here, and the wait ends
    // spuriously.
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

/// Whether the mutex is the C library's. Only then may a process-shared condition variable, which is the C library's,
/// unlock it by the C library's wait; with other mutexes it waits with a helper mutex (mixed_wait.hpp).
bool is_c_librarys(pthread_mutex_t* m) {
  return !is_ours(kind_of(kind_and_epoch(m).load(std::memory_order_relaxed)));
}

[[gnu::cold, gnu::noinline]] int signal(pthread_queue& queue) {
  USHER_PROBE1(cond_signal, &queue);
  wait_on::signal(queue);
  return 0;
}

[[gnu::cold, gnu::noinline]] int broadcast(pthread_queue& queue) {
  USHER_PROBE1(cond_broadcast, &queue);
  wait_on::broadcast(queue);
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
  std::memset(c, 0, sizeof *c);
  cond_of(c).queue.spare(0) = clock == CLOCK_MONOTONIC ? 1 : 0;
  return 0;
}

int cond_destroy(pthread_cond_t* c) {
  if (!cond_of(c).is_private()) return c_library::cond_destroy(c);
  return cond_of(c).queue.close() ? 0 : EBUSY;
}

int cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  if (cond_of(c).is_private()) [[likely]]
    return wait(c, m, false, nullptr);
  return is_c_librarys(m) ? c_library::cond_wait(c, m) : mixed_wait::wait(c, m, -1, nullptr);
}

int cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  if (cond_of(c).is_private()) [[likely]]
    return check_and_wait(c, m, cond_of(c).is_monotonic() ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
  if (is_c_librarys(m)) return c_library::cond_timedwait(c, m, until);
  return is_time(*until) ? mixed_wait::wait(c, m, -1, until) : EINVAL;
}

int cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  const bool is_private = cond_of(c).is_private();
  if (!is_private && is_c_librarys(m)) return c_library::cond_clockwait(c, m, clock, until);
  if (!is_waitable(clock) || !is_time(*until)) return EINVAL;
  return is_private ? check_and_wait(c, m, clock, until) : mixed_wait::wait(c, m, clock, until);
}

int cond_signal(pthread_cond_t* c) {
  if (!cond_of(c).is_private()) [[unlikely]]
    return mixed_wait::signal(c);
  pthread_queue& queue = cond_of(c).queue;
  return queue.has_waiters() ? signal(queue) : 0;
}

int cond_broadcast(pthread_cond_t* c) {
  if (!cond_of(c).is_private()) [[unlikely]]
    return mixed_wait::broadcast(c);
  pthread_queue& queue = cond_of(c).queue;
  return queue.has_waiters() ? broadcast(queue) : 0;
}

}  // namespace ours
}  // namespace usher::preload
