// The exported sem_* functions, for semaphores of one process. Process-shared ones, and so the named ones, are the C
// library's.
//
//     offset  0   the word     core/semaphore_core.hpp. A new semaphore's word is its value, as in the C library
//             8   shared       as the C library has it: 0 private, 0x80 shared
//            16   the list     not valid while no thread waits
//
// The word contains the fork epoch, too: in the child of a fork no thread waits, and the value is kept.
#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <new>

#include "preload/c_library.hpp"
#include "preload/cancellable_wait.h"
#include "preload/export.hpp"
#include "preload/own_sleep.hpp"
#include "preload/selection.hpp"
#include "preload/timeouts.hpp"
#include "record/recorded_calls.hpp"
#include "usher/core/semaphore_core.hpp"

namespace usher::preload {
namespace {

using core = semaphore_core<native>;
static_assert(sizeof(core) <= sizeof(sem_t) && alignof(core) <= alignof(sem_t));

core& core_of(sem_t* s) {
  return *std::launder(reinterpret_cast<core*>(s));
}

constexpr std::size_t shared_at = 8;

bool is_shared(const sem_t* s) {
  return reinterpret_cast<const std::uint32_t*>(s)[shared_at / sizeof(std::uint32_t)] != 0;
}

bool is_ours_for_certain(const sem_t* s) {
  return is_ushers() && !is_shared(s);
}
[[gnu::noinline]] bool is_ours(const sem_t* s) {
  return !passes_through() && !is_shared(s);
}
int fail(int error) {
  errno = error;
  return -1;
}

struct waiting_thread : core::waiter {
  core* semaphore;
};

/// A cancelled waiter gives back the credit that it was just given.
void on_cancel(void* argument) {
  auto& me = *static_cast<waiting_thread*>(argument);
  current_sleep = {};
  if (me.semaphore->leave(me)) me.semaphore->release();
}

[[gnu::cold, gnu::noinline]] int wait(core& s, bool realtime, const timespec* until) {
  // Asynchronous cancellation must not act while this thread has the list's lock.
  const usher_cancel_type type = usher_defer_cancellation();
  USHER_PROBE1(sem_wait_begin, &s);
  waiting_thread me;
  me.semaphore = &s;
  current_sleep = {&me.state, waiting_thread::notified};
  int error = 0;
  for (bool acquired = s.enter(me, sem_append()); !acquired;) {
    if (me.state.load(std::memory_order_acquire) != waiting_thread::waiting) {
      acquired = s.arrive(me);
      continue;
    }
    const int result = usher_cancellable_wait(reinterpret_cast<std::uint32_t*>(&me.state), waiting_thread::waiting,
                                              until, realtime, on_cancel, &me);
    if (result != EINTR && result != ETIMEDOUT) continue;
    acquired = s.leave(me);
    if (!acquired) error = result;
    break;
  }
  current_sleep = {};
  USHER_PROBE2(sem_wait_end, &s, error);
  usher_restore_cancellation(type);
  return error == 0 ? 0 : fail(error);
}

int wait_until(sem_t* s, clockid_t clock, const timespec* until) {
  if (!is_time(*until)) return fail(EINVAL);
  pthread_testcancel();
  core& c = core_of(s);
  return c.try_acquire() ? 0 : wait(c, clock == CLOCK_REALTIME, not_before_1970(until));
}

// ---- unrecorded calls --------------------------------------------------------------------------------------

int wait_on_ours(sem_t* s) {
  pthread_testcancel();  // a cancellation point, also if it does not wait
  core& c = core_of(s);
  return c.try_acquire() ? 0 : wait(c, false, nullptr);
}
int try_ours(sem_t* s) {
  return core_of(s).try_acquire() ? 0 : fail(EAGAIN);
}
int post_ours(sem_t* s) {
  return core_of(s).release() ? 0 : fail(EOVERFLOW);
}
int try_unrecorded(sem_t* s) {
  return is_ours(s) ? try_ours(s) : c_library::sem_trywait(s);
}
int post_unrecorded(sem_t* s) {
  return is_ours(s) ? post_ours(s) : c_library::sem_post(s);
}
int wait_unrecorded(const sem_call& call) {
  sem_t* const s = call.semaphore;
  const bool ours = is_ours(s);
  switch (call.which) {
    case sem_call::how::wait:
      return ours ? wait_on_ours(s) : c_library::sem_wait(s);
    case sem_call::how::timed:
      return ours ? wait_until(s, CLOCK_REALTIME, call.until) : c_library::sem_timedwait(s, call.until);
    case sem_call::how::clock:
      if (!ours) return c_library::sem_clockwait(s, call.clock, call.until);
      return is_waitable(call.clock) ? wait_until(s, call.clock, call.until) : fail(EINVAL);
  }
  return fail(EINVAL);
}

// For semaphores that are not certain to be ours, and recorded calls.
[[gnu::noinline]] int wait_slowly(sem_call call, std::uint64_t caller) {
  passes_through();  // first: the first call of all begins the recording
  call.try_unrecorded = try_unrecorded;
  call.wait_unrecorded = wait_unrecorded;
  return is_recorded() ? recorded_sem_wait(call, caller) : wait_unrecorded(call);
}
[[gnu::noinline]] int try_slowly(sem_t* s, std::uint64_t caller) {
  passes_through();
  return is_recorded() ? recorded_sem_trywait(s, try_unrecorded, caller) : try_unrecorded(s);
}
[[gnu::noinline]] int post_slowly(sem_t* s, std::uint64_t caller) {
  passes_through();
  return is_recorded() ? recorded_sem_post(s, post_unrecorded, caller) : post_unrecorded(s);
}

}  // namespace
}  // namespace usher::preload

using namespace usher::preload;  // NOLINT(google-build-using-namespace): the exported functions follow

USHER_EXPORT int sem_init(sem_t* s, int shared, unsigned value) {
  const int result = c_library::sem_init(s, shared, value);  // checks the value and writes `shared`
  if (result == 0 && is_ours(s)) ::new (s) core(value);
  if (result == 0 && is_recorded()) begin_initialised(s, usher::record::kind::semaphore, false);
  return result;
}

USHER_EXPORT int sem_destroy(sem_t* s) {
  const bool ours = is_ours(s);
  if (is_recorded()) end_destroyed(s);
  return ours ? 0 : c_library::sem_destroy(s);
}

USHER_EXPORT int sem_wait(sem_t* s) {
  if (is_ours_for_certain(s)) [[likely]]
    return wait_on_ours(s);
  return wait_slowly({sem_call::how::wait, s, 0, nullptr, nullptr, nullptr}, USHER_CALLER);
}

USHER_EXPORT int sem_trywait(sem_t* s) {
  return is_ours_for_certain(s) ? try_ours(s) : try_slowly(s, USHER_CALLER);
}

USHER_EXPORT int sem_timedwait(sem_t* s, const timespec* until) {
  return wait_slowly({sem_call::how::timed, s, 0, until, nullptr, nullptr}, USHER_CALLER);
}

USHER_EXPORT int sem_clockwait(sem_t* s, clockid_t clock, const timespec* until) {
  return wait_slowly({sem_call::how::clock, s, clock, until, nullptr, nullptr}, USHER_CALLER);
}

USHER_EXPORT int sem_post(sem_t* s) {
  return is_ours_for_certain(s) ? post_ours(s) : post_slowly(s, USHER_CALLER);
}

USHER_EXPORT int sem_getvalue(sem_t* s, int* value) {
  if (!is_ours(s)) return c_library::sem_getvalue(s, value);
  *value = int(core_of(s).value());
  return 0;
}
