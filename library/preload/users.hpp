// Counts the *users* of a mutex: threads that wait on a condition variable with it. pthread_mutex_destroy() refuses a
// mutex that has users, as the C library's does.
#pragma once

#include <pthread.h>

#include "library/preload/layout.hpp"
#include "usher/core/timed_waiters.hpp"

namespace usher::preload {

using timed_waiters = timed_waiter_count<native>;

/// Counts the calling thread as a user of the mutex. Called by the holder before it waits. Returns the argument for
/// leave_users(): 0 if the thread is not counted, because it does not hold the mutex, or the mutex is not valid yet in
/// this process or is robust (the C library destroys robust mutexes unchecked).
inline std::uint32_t enter_users(pthread_mutex_t* mutex) {
  // Read before the thread is counted. A signal handler may fork at any time: a count made before the fork must not be
  // returned with the child's epoch, in which it does not exist.
  const std::uint32_t epoch = native::fork_epoch();
  const std::uint64_t kind = kind_and_epoch(mutex).load(std::memory_order_relaxed);
  if (is_ours(kind_of(kind))) return epoch_of(kind) == epoch && timed_waiters::add_user(timed_of(mutex)) ? epoch : 0;
#if defined(__GLIBC__)
  // The C library counts users in __nusers, protected by the mutex: a lock adds 1, an unlock subtracts 1. Its
  // pthread_cond_wait() keeps the waiter counted, but Usher's wait unlocks by pthread_mutex_unlock(): so this adds 1.
  if (!is_robust(kind_of(kind)) && mutex->__data.__owner == native::thread_id()) {
    mutex->__data.__nusers++;
    return epoch;
  }
#endif
  return 0;
}

/// Reverses enter_users(). Called by the holder after it has waited. In the child of a fork a mutex of Usher's has been
/// reset and counts no thread, so nothing is subtracted there.
inline void leave_users(pthread_mutex_t* mutex, std::uint32_t counted) {
  if (counted == 0) return;
  if (is_ours(kind_of(mutex))) {
    if (counted == native::fork_epoch()) timed_waiters::remove_user(timed_of(mutex));
    return;
  }
#if defined(__GLIBC__)
  mutex->__data.__nusers--;
#endif
}

/// Whether threads of this process wait on a condition variable with this mutex, which Usher serves.
inline bool has_users(pthread_mutex_t* mutex) {
  return epoch_of(kind_and_epoch(mutex).load(std::memory_order_relaxed)) == native::fork_epoch() &&
         timed_waiters::has_users(timed_of(mutex));
}

}  // namespace usher::preload
