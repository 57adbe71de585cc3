// The functions to which the exported functions jump while `usher record` may open windows: mutexes, condition variables,
// semaphores. streams.hpp describes their course.
#include <cerrno>

#include "library/preload/cancellable_wait.h"
#include "library/preload/layout.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/thread_functions.h"
#include "library/preload/timeouts.hpp"
#include "watch/recorder/recorded_calls.hpp"
#include "watch/recorder/streams.hpp"
#include "watch/recorder/waiting_calls.hpp"

namespace usher::preload {
namespace {

using record::verb;

bool is_acquired(int result) {
  return result == 0 || result == EOWNERDEAD;
}
std::uint64_t flags_of(pthread_mutex_t* m) {
  const int kind = kind_of(m);
  return type_of(kind) == PTHREAD_MUTEX_RECURSIVE ? record::recursive_call : 0;
}

/// The writer for a call of a mutex; null: the call is not recorded. The unlock and lock within a wait for a condition are
/// a part of that wait.
stream_writer* mutex_writer() {
  stream_writer* const me = own_writer();
  return me != nullptr && !me->is_waiting ? me : nullptr;
}

// ---- mutexes -----------------------------------------------------------------------------------------------

/// Waits for the mutex by `lock`, which may have a deadline. The thread's slot says so meanwhile, also if no window is open: one
/// may open and close before the call returns.
template <class F>
int wait_for(stream_writer& me, pthread_mutex_t* m, std::uint64_t caller, std::uint64_t began, F lock) {
  sleeping_call call(me, verb::lock, m, caller, began);
  const int result = lock();
  if (is_acquired(result))
    call.end(verb::lock, flags_of(m));
  else if (result == ETIMEDOUT)
    call.end(verb::try_lock_failed);
  return result;
}

/// Locks the mutex in an open window.
template <class F>
int lock_in(std::uint64_t window, pthread_mutex_t* m, std::uint64_t caller, F lock) {
  stream_writer* const me = mutex_writer();
  if (me == nullptr) return lock();
  const std::uint64_t began = begin_call(*me, window);
  if (is_robust(kind_of(m))) return wait_for(*me, m, caller, began, lock);
  const int result = selected_calls.trylock(m);
  if (is_acquired(result)) {
    end_call(*me, window, verb::lock, m, caller, began, flags_of(m));
    return result;
  }
  return result == EBUSY ? wait_for(*me, m, caller, began, lock) : result;
}

/// Locks the mutex while no window is open.
template <class F>
[[gnu::noinline]] int wait_outside(pthread_mutex_t* m, std::uint64_t caller, F lock) {
  stream_writer* const me = mutex_writer();
  return me == nullptr ? lock() : wait_for(*me, m, caller, stream_ticks(), lock);
}
template <class F>
int lock_outside(pthread_mutex_t* m, std::uint64_t caller, F lock) {
  if (is_robust(kind_of(m))) [[unlikely]]
    return wait_outside(m, caller, lock);
  const int result = selected_calls.trylock(m);
  return result == EBUSY ? wait_outside(m, caller, lock) : result;
}

[[gnu::noinline]] int lock_now(std::uint64_t window, pthread_mutex_t* m, std::uint64_t caller) {
  return lock_in(window, m, caller, [m] { return unrecorded().lock(m); });
}

[[gnu::noinline]] int try_now(std::uint64_t window, pthread_mutex_t* m, std::uint64_t caller) {
  stream_writer* const me = mutex_writer();
  if (me == nullptr) return unrecorded().trylock(m);
  const std::uint64_t began = begin_call(*me, window);
  const int result = selected_calls.trylock(m);
  if (is_acquired(result))
    end_call(*me, window, verb::lock, m, caller, began, flags_of(m));
  else if (result == EBUSY)
    end_call(*me, window, verb::try_lock_failed, m, caller, began);
  return result;
}

[[gnu::noinline]] int unlock_now(std::uint64_t window, pthread_mutex_t* m, std::uint64_t caller) {
  stream_writer* const me = mutex_writer();
  if (me == nullptr) return unrecorded().unlock(m);
  const std::uint64_t flags = flags_of(m);  // before the unlock: afterwards the mutex may be gone
  const std::uint64_t began = begin_call(*me, window);
  const int result = selected_calls.unlock(m);
  if (result == 0) end_call(*me, window, verb::unlock, m, caller, began, flags);
  return result;
}

int streamed_lock(pthread_mutex_t* m) {
  const std::uint64_t window = open_window();
  if (window == 0) [[likely]]
    return lock_outside(m, USHER_CALLER, [m] { return unrecorded().lock(m); });
  return lock_now(window, m, USHER_CALLER);
}
int streamed_trylock(pthread_mutex_t* m) {
  const std::uint64_t window = open_window();
  if (window == 0) [[likely]]
    return selected_calls.trylock(m);
  return try_now(window, m, USHER_CALLER);
}
int streamed_unlock(pthread_mutex_t* m) {
  const std::uint64_t window = open_window();
  if (window == 0) [[likely]]
    return selected_calls.unlock(m);
  return unlock_now(window, m, USHER_CALLER);
}
int streamed_timedlock(pthread_mutex_t* m, const timespec* until) {
  const auto lock = [m, until] { return unrecorded().timedlock(m, until); };
  const std::uint64_t window = open_window();
  return window == 0 ? lock_outside(m, USHER_CALLER, lock) : lock_in(window, m, USHER_CALLER, lock);
}
int streamed_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  const auto lock = [m, clock, until] { return unrecorded().clocklock(m, clock, until); };
  const std::uint64_t window = open_window();
  if (!is_waitable(clock)) return lock();
  return window == 0 ? lock_outside(m, USHER_CALLER, lock) : lock_in(window, m, USHER_CALLER, lock);
}

// Nothing is recorded of these.
int streamed_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* a) {
  return unrecorded().mutex_init(m, a);
}
int streamed_mutex_destroy(pthread_mutex_t* m) {
  return unrecorded().mutex_destroy(m);
}
int streamed_cond_init(pthread_cond_t* c, const pthread_condattr_t* a) {
  return unrecorded().cond_init(c, a);
}
int streamed_cond_destroy(pthread_cond_t* c) {
  return unrecorded().cond_destroy(c);
}
int streamed_sem_init(sem_t* s, int shared, unsigned value) {
  return unrecorded().sem_init(s, shared, value);
}
int streamed_sem_destroy(sem_t* s) {
  return unrecorded().sem_destroy(s);
}
int streamed_sem_getvalue(sem_t* s, int* value) {
  return unrecorded().sem_getvalue(s, value);
}

// ---- condition variables -----------------------------------------------------------------------------------

struct cond_call {
  enum class how { wait, timed, clock } which;
  pthread_cond_t* condition;
  pthread_mutex_t* mutex;
  clockid_t clock;
  const timespec* until;

  int wait() const {
    if (which == how::wait) return unrecorded().cond_wait(condition, mutex);
    if (which == how::timed) return unrecorded().cond_timedwait(condition, mutex, until);
    return unrecorded().cond_clockwait(condition, mutex, clock, until);
  }
};

struct cond_waiting {
  const cond_call& call;
  stream_writer& me;
  sleeping_call& sleep;
};

int run_cond(void* argument) {
  return static_cast<cond_waiting*>(argument)->call.wait();
}

/// The thread has locked the mutex again, also if it was cancelled.
void leave_cond(cond_waiting& w, int result) {
  w.me.is_waiting = false;
  if (result == 0 || result == ETIMEDOUT || result == ECANCELED)
    w.sleep.end(result == 0 ? verb::wait : verb::wait_timed_out);
}

void cancel_cond(void* argument) {
  leave_cond(*static_cast<cond_waiting*>(argument), ECANCELED);
}

int wait(const cond_call& call) {
  stream_writer* const me = mutex_writer();
  if (me == nullptr) return call.wait();
  // Cancellation is permitted only in the wait itself, so that the slot is left in order.
  const usher_cancel_type type = usher_defer_cancellation();
  sleeping_call sleep(*me, verb::wait, call.condition, reinterpret_cast<std::uintptr_t>(call.mutex));
  cond_waiting w{call, *me, sleep};
  me->is_waiting = true;
  const int result = usher_call_with_cleanup(run_cond, &w, cancel_cond);
  leave_cond(w, result);
  usher_restore_cancellation(type);
  return result;
}

int streamed_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return wait({cond_call::how::wait, c, m, 0, nullptr});
}
int streamed_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
  return wait({cond_call::how::timed, c, m, 0, until});
}
int streamed_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  return wait({cond_call::how::clock, c, m, clock, until});
}

int streamed_cond_signal(pthread_cond_t* c) {
  const std::uint64_t window = open_window();
  if (window == 0) [[likely]]
    return unrecorded().cond_signal(c);
  return call_in(window, verb::signal, c, USHER_CALLER, [c] { return unrecorded().cond_signal(c); });
}
int streamed_cond_broadcast(pthread_cond_t* c) {
  const std::uint64_t window = open_window();
  if (window == 0) [[likely]]
    return unrecorded().cond_broadcast(c);
  return call_in(window, verb::broadcast, c, USHER_CALLER, [c] { return unrecorded().cond_broadcast(c); });
}

// ---- semaphores --------------------------------------------------------------------------------------------

struct sem_waiting {
  const sem_call& call;
  sleeping_call& sleep;
};

int run_sem(void* argument) {
  return static_cast<sem_waiting*>(argument)->call.wait();
}
void cancel_sem(void* argument) {
  static_cast<sem_waiting*>(argument)->sleep.forget();  // no credit was taken
}

int wait(const sem_call& call, std::uint64_t caller) {
  stream_writer* const me = own_writer();
  if (me == nullptr || !call.is_valid()) return call.wait();
  usher_test_cancel();  // a cancellation point, also if it does not wait
  const std::uint64_t window = open_window();
  const std::uint64_t began = window != 0 ? begin_call(*me, window) : 0;
  const int saved = errno;
  if (unrecorded().sem_trywait(call.semaphore) == 0) {
    if (window != 0) end_call(*me, window, verb::semaphore_wait, call.semaphore, caller, began);
    return 0;
  }
  if (errno != EAGAIN) return -1;
  errno = saved;
  const usher_cancel_type type = usher_defer_cancellation();
  sleeping_call sleep(*me, verb::semaphore_wait, call.semaphore, caller, window != 0 ? began : stream_ticks());
  sem_waiting w{call, sleep};
  const int result = usher_call_with_cleanup(run_sem, &w, cancel_sem);
  if (result == 0) sleep.end(verb::semaphore_wait);
  usher_restore_cancellation(type);
  return result;
}

int streamed_sem_wait(sem_t* s) {
  return wait({sem_call::how::wait, s, 0, nullptr}, USHER_CALLER);
}
int streamed_sem_timedwait(sem_t* s, const timespec* until) {
  return wait({sem_call::how::timed, s, 0, until}, USHER_CALLER);
}
int streamed_sem_clockwait(sem_t* s, clockid_t clock, const timespec* until) {
  return wait({sem_call::how::clock, s, clock, until}, USHER_CALLER);
}
int streamed_sem_trywait(sem_t* s) {
  const std::uint64_t window = open_window();
  if (window == 0) [[likely]]
    return unrecorded().sem_trywait(s);
  return call_in(window, verb::semaphore_wait, s, USHER_CALLER, [s] { return unrecorded().sem_trywait(s); });
}
int streamed_sem_post(sem_t* s) {
  const std::uint64_t window = open_window();
  if (window == 0) [[likely]]
    return unrecorded().sem_post(s);
  return call_in(window, verb::semaphore_post, s, USHER_CALLER, [s] { return unrecorded().sem_post(s); });
}

#define USHER_STREAMED(member, name, parameters, arguments) .member = streamed_##member,

}  // namespace

constinit const calls streamed_calls{USHER_CALLS(USHER_STREAMED)};

}  // namespace usher::preload
