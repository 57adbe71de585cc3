// A table of the pthread mutex operations for one lock. The exported functions jump to those of the selected lock.
#pragma once

#include <pthread.h>
#include <time.h>

#include "usher/core/wait_morphing.hpp"
#include "usher/platform/native.hpp"

namespace usher::preload {

struct mutex_table {
  const char* name;
  bool passes_through;                      ///< the C library serves mutexes, condition variables and semaphores
  int (*lock)(pthread_mutex_t*) = nullptr;  ///< null if the lock excludes no thread: then it cannot be selected
  int (*trylock)(pthread_mutex_t*) = nullptr;
  int (*unlock)(pthread_mutex_t*) = nullptr;
  /// The caller must have checked that the clock is a valid one.
  int (*clocklock)(pthread_mutex_t*, clockid_t, const timespec*) = nullptr;
  // The next three serve condition variables, with mutexes of all kinds. They are null if `passes_through`.
  bool (*claim)(pthread_mutex_t*) = nullptr;  ///< morphing_mutex::claim
  bool (*requeue)(pthread_mutex_t*, requeued_waiter<native>&) = nullptr;
  bool (*is_held)(pthread_mutex_t*) = nullptr;  ///< for mutexes that are ours
  /// Versions without atomic operations, for a process with one thread. If they find more threads, they call
  /// end_one_thread_mode() (selection.hpp). Null if the lock has no uncontended word (core/lockable.hpp).
  int (*lock_single)(pthread_mutex_t*) = nullptr;
  int (*trylock_single)(pthread_mutex_t*) = nullptr;
  int (*unlock_single)(pthread_mutex_t*) = nullptr;
};

}  // namespace usher::preload
