// The pthread mutex operations of one lock: what the exported functions jump to.
#pragma once

#include <pthread.h>
#include <time.h>

#include "usher/core/wait_morphing.hpp"
#include "usher/platform/native.hpp"

namespace usher::preload {

struct mutex_table {
  const char* name;
  bool passes_through;                      ///< the C library's locks: nothing is ours
  int (*lock)(pthread_mutex_t*) = nullptr;  ///< null in the table of what is no lock: it is refused
  int (*trylock)(pthread_mutex_t*) = nullptr;
  int (*unlock)(pthread_mutex_t*) = nullptr;
  /// The clock has been checked.
  int (*clocklock)(pthread_mutex_t*, clockid_t, const timespec*) = nullptr;
  // For condition variables, of whatever mutexes; null where all locks are the C library's.
  void (*take_over)(pthread_mutex_t*) = nullptr;  ///< morphing_mutex::take_over
  bool (*requeue)(pthread_mutex_t*, requeued_waiter<native>&) = nullptr;
  bool (*is_held)(pthread_mutex_t*) = nullptr;  ///< of one of ours
  /// lock, trylock and unlock to begin with: without atomic operations as long as the process has one thread; then they call end_one_thread_mode()
  /// (selection.hpp). Null where the lock has no such way.
  int (*lock_single)(pthread_mutex_t*) = nullptr;
  int (*trylock_single)(pthread_mutex_t*) = nullptr;
  int (*unlock_single)(pthread_mutex_t*) = nullptr;
};

}  // namespace usher::preload
