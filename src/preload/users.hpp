// Counts the threads that wait on a condition variable with a mutex: pthread_mutex_destroy() refuses a mutex that has
// any, as the C library's does.
#pragma once

#include <pthread.h>

#include "preload/layout.hpp"
#include "usher/core/timed_waiters.hpp"

namespace usher::preload {

using timed_waiters = timed_waiter_count<native>;

/// By the holder, before it waits. Returns the argument for leave_users(): 0 if the thread is not counted, because the
/// mutex is not this thread's, is not valid yet in this process, or is robust (the C library does not check those at
/// destroy).
inline std::uint32_t enter_users(pthread_mutex_t* mutex) {
  // Read before the thread is counted: it may fork in a signal handler at any time.
  const std::uint32_t epoch = native::fork_epoch();
  const std::uint64_t kind = kind_and_epoch(mutex).load(std::memory_order_relaxed);
  if (is_ours(kind_of(kind))) return epoch_of(kind) == epoch && timed_waiters::add_user(timed_of(mutex)) ? epoch : 0;
#if defined(__GLIBC__)
  // The C library counts its users in this field, under the mutex: +1 when it is locked, −1 when it is unlocked, but
  // not while a thread waits in its own pthread_cond_wait().
  constexpr int robust = 0x10;
  if ((kind_of(kind) & robust) == 0 && mutex->__data.__owner == native::thread_id()) {
    mutex->__data.__nusers++;
    return epoch;
  }
#endif
  return 0;
}

/// By the holder, after it has waited. In a child a mutex of ours has been reset and counts no thread.
inline void leave_users(pthread_mutex_t* mutex, std::uint32_t counted) {
  if (counted == 0) return;
  if (is_ours(kind_of(kind_and_epoch(mutex).load(std::memory_order_relaxed)))) {
    if (counted == native::fork_epoch()) timed_waiters::remove_user(timed_of(mutex));
    return;
  }
#if defined(__GLIBC__)
  mutex->__data.__nusers--;
#endif
}

/// Whether threads of this process wait with a mutex of ours.
inline bool has_users(pthread_mutex_t* mutex) {
  return epoch_of(kind_and_epoch(mutex).load(std::memory_order_relaxed)) == native::fork_epoch() &&
         timed_waiters::has_users(timed_of(mutex));
}

}  // namespace usher::preload
