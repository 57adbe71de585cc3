// The exported pthread_cond_* functions: a condition variable that unlocks and locks whatever mutex it is given through
// our own functions. It has to be ours, because the C library's would unlock our mutexes by its own code.
//
//     offset  0…23, 40…47  the queue     wait_queue.hpp
//            24            clock         1: CLOCK_MONOTONIC
//            28, 36        shared        bit 0 of one of them says so in a process-shared variable, which is the C
//                                        library's: in the first since glibc 2.41, in the second before. Ours keep both 0
//
// Who is chosen by a thread that holds the mutex is moved to the mutex (moved.hpp), else woken. Of a broadcast's chain one
// thread is awake at a time, and sees to the next when it has the mutex.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "preload/c_library.hpp"
#include "preload/cancellable_wait.h"
#include "preload/cond.hpp"
#include "preload/counting.hpp"
#include "preload/export.hpp"
#include "preload/layout.hpp"
#include "preload/mixed_wait.hpp"
#include "preload/moved.hpp"
#include "preload/own_sleep.hpp"
#include "preload/selection.hpp"
#include "preload/timeouts.hpp"
#include "preload/users.hpp"

namespace usher::preload {
namespace {

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

pthread_waiter* of_pthread(pthread_queue::waiter* w) {
  return static_cast<pthread_waiter*>(w);
}

/// Sees to a chain of chosen waiters.
void deliver(pthread_waiter& chain) {
  if (!move_to_mutex(layout(chain.mutex), chain)) pthread_queue::grant(chain);
}

struct waiting_thread : pthread_waiter {
  pthread_queue* queue;
};

/// Locks the mutex again, unless that has been handed to this thread, then sees to the rest of the chain.
int relock(waiting_thread& me, bool granted) {
  int error = 0;
  if (pthread_queue::was_handed(me))  // perhaps in the moment in which a handler forked, so that it is left behind, too
    layout(me.mutex).held.store(native::thread_mark(), std::memory_order_relaxed);
  else
    error = pthread_mutex_lock(me.mutex);
  leave_users(me.mutex, me.counted);
  if (granted && !pthread_queue::forgotten(me))
    if (pthread_waiter* const next = of_pthread(pthread_queue::rest(me))) deliver(*next);
  return error;
}

/// A waiter that goes without having been granted: whether it was after all.
bool withdraw(waiting_thread& me) {
  if (me.queue->leave(me)) return false;
  // A signal may have chosen this thread: another is to have it.
  if (pthread_waiter* const other = of_pthread(me.queue->pass_on(me))) deliver(*other);
  pthread_queue::sleep(me);
  return true;
}

void on_cancel(void* argument) {
  auto& me = *static_cast<waiting_thread*>(argument);
  current_sleep = {};
  relock(me, withdraw(me));
}

int wait(pthread_cond_t* cond, pthread_mutex_t* mutex, bool realtime, const timespec* until) {
  waiting_thread me;
  me.mutex = mutex;
  me.queue = &cond_of(cond).queue;
  // If the program lets itself be cancelled anywhere, then not while this thread has the queue's lock.
  const usher_cancel_type type = usher_defer_cancellation();
  current_sleep = {&me.state, waiting_thread::granted};
  native::self();  // a record: so that the mutex says that this thread has it, when it has it again
  me.counted = enter_users(mutex);
  me.queue->enter(me, cond_append());
  int result = pthread_mutex_unlock(mutex);
  if (result != 0) {
    if (withdraw(me))
      if (pthread_waiter* const next = of_pthread(pthread_queue::rest(me))) pthread_queue::grant(*next);
    leave_users(mutex, me.counted);
    current_sleep = {};
    usher_restore_cancellation(type);
    return result;
  }
  bool granted = true;
  while (const auto state = pthread_queue::awake(me)) {
    const bool chosen = *state != waiting_thread::waiting;
    result = usher_cancellable_wait(reinterpret_cast<std::uint32_t*>(&me.state), *state, chosen ? nullptr : until,
                                    realtime, on_cancel, &me);
    // A fork in a signal handler has left us behind: for once we wake for no reason.
    const bool left_behind = result == EINTR && pthread_queue::forgotten(me);
    if (left_behind || (result == ETIMEDOUT && me.queue->leave(me))) {
      granted = false;
      break;
    }
  }
  if (granted) me.queue->depart(me);
  current_sleep = {};
  const int error = relock(me, granted);
  usher_restore_cancellation(type);
  return error != 0 ? error : !granted && result == ETIMEDOUT ? ETIMEDOUT : 0;
}

int check_and_wait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  if (until != nullptr && !is_time(*until)) return EINVAL;
  return wait(cond, mutex, clock == CLOCK_REALTIME, not_before_1970(until));
}

/// Who waits with a mutex.
enum class waits { here, c_library, mixed };
waits who_waits(pthread_cond_t* cond, pthread_mutex_t* mutex) {
  if (passes_through()) return waits::c_library;
  if (cond_of(cond).is_private()) return waits::here;
  // It would unlock one of our mutexes by its own code.
  return is_ours(kind_of(layout(mutex).kind_and_stamp.load(std::memory_order_relaxed))) ? waits::mixed
                                                                                        : waits::c_library;
}

[[gnu::cold, gnu::noinline]] int signal(pthread_queue& queue) {
  if (pthread_waiter* const w = of_pthread(queue.choose_one(pthread_queue::choice::tied))) deliver(*w);
  return 0;
}

[[gnu::cold, gnu::noinline]] int broadcast(pthread_queue& queue) {
  if (pthread_waiter* const first = of_pthread(queue.choose_all())) deliver(*first);
  return 0;
}

}  // namespace

int cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  int shared = PTHREAD_PROCESS_PRIVATE;
  if (attributes != nullptr) pthread_condattr_getpshared(attributes, &shared);
  if (passes_through() || shared != PTHREAD_PROCESS_PRIVATE) return c_library::cond_init(c, attributes);
  clockid_t clock = CLOCK_REALTIME;
  if (attributes != nullptr) pthread_condattr_getclock(attributes, &clock);
  std::memset(c, 0, sizeof *c);
  cond_of(c).queue.spare(0) = clock == CLOCK_MONOTONIC ? 1 : 0;
  return 0;
}

int cond_destroy(pthread_cond_t* c) {
  if (passes_through() || !cond_of(c).is_private()) return c_library::cond_destroy(c);
  return cond_of(c).queue.close() ? 0 : EBUSY;
}

int cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  count_wait();
  switch (who_waits(c, m)) {
    case waits::c_library:
      return c_library::cond_wait(c, m);
    case waits::mixed:
      return mixed_wait::wait(c, m, -1, nullptr);
    default:
      return check_and_wait(c, m, CLOCK_MONOTONIC, nullptr);
  }
}

int cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  count_wait();
  switch (who_waits(c, m)) {
    case waits::c_library:
      return c_library::cond_timedwait(c, m, until);
    case waits::mixed:
      return is_time(*until) ? mixed_wait::wait(c, m, -1, until) : EINVAL;
    default:
      return check_and_wait(c, m, cond_of(c).is_monotonic() ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
  }
}

int cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  count_wait();
  switch (who_waits(c, m)) {
    case waits::c_library:
      return c_library::cond_clockwait(c, m, clock, until);
    case waits::mixed:
      return is_waitable(clock) && is_time(*until) ? mixed_wait::wait(c, m, clock, until) : EINVAL;
    default:
      return is_waitable(clock) ? check_and_wait(c, m, clock, until) : EINVAL;
  }
}

namespace {

// Apart, so that the functions below need no stack.
[[gnu::noinline]] int signal_elsewhere(pthread_cond_t* c) {
  if (passes_through()) return c_library::cond_signal(c);
  if (!cond_of(c).is_private()) return mixed_wait::signal(c);
  return signal(cond_of(c).queue);
}
[[gnu::noinline]] int broadcast_elsewhere(pthread_cond_t* c) {
  if (passes_through()) return c_library::cond_broadcast(c);
  if (!cond_of(c).is_private()) return mixed_wait::broadcast(c);
  return broadcast(cond_of(c).queue);
}

}  // namespace

int cond_signal(pthread_cond_t* c) {
  if (!is_ushers() || !cond_of(c).is_private()) [[unlikely]]
    return signal_elsewhere(c);
  pthread_queue& queue = cond_of(c).queue;
  return queue.anyone() ? signal(queue) : 0;
}

int cond_broadcast(pthread_cond_t* c) {
  if (!is_ushers() || !cond_of(c).is_private()) [[unlikely]]
    return broadcast_elsewhere(c);
  pthread_queue& queue = cond_of(c).queue;
  return queue.anyone() ? broadcast(queue) : 0;
}

}  // namespace usher::preload

using namespace usher::preload;  // NOLINT(google-build-using-namespace): this file is the room's surface

USHER_EXPORT int pthread_cond_init(pthread_cond_t* c, const pthread_condattr_t* attributes) {
  return cond_init(c, attributes);
}
USHER_EXPORT int pthread_cond_destroy(pthread_cond_t* c) {
  return cond_destroy(c);
}
USHER_EXPORT int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return cond_wait(c, m);
}
USHER_EXPORT int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  return cond_timedwait(c, m, until);
}
USHER_EXPORT int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  return cond_clockwait(c, m, clock, until);
}
USHER_EXPORT int pthread_cond_signal(pthread_cond_t* c) {
  return cond_signal(c);
}
USHER_EXPORT int pthread_cond_broadcast(pthread_cond_t* c) {
  return cond_broadcast(c);
}
