// Usher's semaphores, for threads of one process. The C library serves process-shared ones, and so the named ones.
//
//     offset  0   the word     core/semaphore_core.hpp. In a new semaphore it is the value, as in the C library
//             8   shared       as in the C library: 0 private, 0x80 shared
//            16   the list     not valid while no thread waits
//
// The word also contains the fork epoch. In the child of a fork the list counts as empty, and the value is kept.
#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <new>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/cancellable_wait.h"
#include "library/preload/ours.hpp"
#include "library/preload/own_sleep.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/thread_functions.h"
#include "library/preload/timeouts.hpp"
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

int fail(int error) {
  errno = error;
  return -1;
}

struct waiting_thread : core::waiter {
  core* semaphore;
};

void on_cancel(void* argument) {
  auto& me = *static_cast<waiting_thread*>(argument);
  current_sleep = {};
  me.semaphore->withdraw(me);
}

[[gnu::cold, gnu::noinline]] int wait(core& s, bool realtime, const timespec* until) {
  // A thread must not be cancelled while it holds the list's lock.
  const usher_cancel_type type = usher_defer_cancellation();
  USHER_PROBE1(sem_wait_begin, &s);
  waiting_thread me;
  me.semaphore = &s;
  current_sleep = {&me.state, waiting_thread::notified};
  int error = 0;
  const bool acquired = s.wait(me, sem_append(), [&] {
    error = usher_cancellable_wait(reinterpret_cast<std::uint32_t*>(&me.state), waiting_thread::waiting, until,
                                   realtime, on_cancel, &me);
    return error == EINTR || error == ETIMEDOUT ? core::wait_end::leave : core::wait_end::woken;
  });
  if (acquired) error = 0;
  current_sleep = {};
  USHER_PROBE2(sem_wait_end, &s, error);
  usher_restore_cancellation(type);
  return error == 0 ? 0 : fail(error);
}

int wait_until(sem_t* s, clockid_t clock, const timespec* until) {
  if (!is_time(*until)) return fail(EINVAL);
  usher_test_cancel();
  core& c = core_of(s);
  return c.try_acquire() ? 0 : wait(c, clock == CLOCK_REALTIME, not_before_epoch(until));
}

}  // namespace

namespace ours {

int sem_init(sem_t* s, int shared, unsigned value) {
  const int result = c_library::sem_init(s, shared, value);  // checks the value and writes `shared`
  if (result == 0 && !is_shared(s)) ::new (s) core(value);
  return result;
}

int sem_destroy(sem_t* s) {
  return is_shared(s) ? c_library::sem_destroy(s) : 0;
}

int sem_wait(sem_t* s) {
  if (is_shared(s)) [[unlikely]]
    return c_library::sem_wait(s);
  usher_test_cancel();  // sem_wait() is a cancellation point even if it does not wait
  core& c = core_of(s);
  return c.try_acquire() ? 0 : wait(c, false, nullptr);
}

int sem_trywait(sem_t* s) {
  if (is_shared(s)) [[unlikely]]
    return c_library::sem_trywait(s);
  return core_of(s).try_acquire() ? 0 : fail(EAGAIN);
}

int sem_timedwait(sem_t* s, const timespec* until) {
  return is_shared(s) ? c_library::sem_timedwait(s, until) : wait_until(s, CLOCK_REALTIME, until);
}

int sem_clockwait(sem_t* s, clockid_t clock, const timespec* until) {
  if (is_shared(s)) return c_library::sem_clockwait(s, clock, until);
  return is_waitable(clock) ? wait_until(s, clock, until) : fail(EINVAL);
}

int sem_post(sem_t* s) {
  if (is_shared(s)) [[unlikely]]
    return c_library::sem_post(s);
  return core_of(s).release() ? 0 : fail(EOVERFLOW);
}

int sem_getvalue(sem_t* s, int* value) {
  if (is_shared(s)) return c_library::sem_getvalue(s, value);
  *value = int(core_of(s).value());
  return 0;
}

}  // namespace ours
}  // namespace usher::preload
