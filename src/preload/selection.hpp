// The selection that the environment makes, once for a process.
#pragma once

#include <atomic>

#include "preload/mutex_table.hpp"
#include "usher/core/waiter_list.hpp"

namespace usher::preload {

/// The table that USHER_LOCK selects. Decided once, on the first call.
const mutex_table& selected();

/// Which functions serve the calls. `recorded`: ours or the C library's, while `usher stat` records.
enum class provider { undecided, usher, recorded, c_library };
extern constinit std::atomic<provider> current_provider;

/// Sets the pointers of the exported mutex functions to those of the selected table, or to the recorded ones
/// (mutex.cpp).
void connect_mutexes();

/// By a function for a process with one thread, when it finds more: sets the pointers that lead to such functions to
/// those for several threads, for good, and calls `then`, which is one of these. For tail calls.
int end_one_thread_mode(pthread_mutex_t* m, int (*then)(pthread_mutex_t*));

/// Sets current_provider; begins to record if `usher stat -p` has asked for it (attach.hpp).
void decide_provider();

/// Whether it is known already that the locks are ours and that no calls are recorded: the check of fast paths. If it
/// is false, passes_through() decides.
inline bool is_ushers() {
  return current_provider.load(std::memory_order_acquire) == provider::usher;
}

/// Whether the C library serves the calls. The first call reads the environment, and begins a recording.
inline bool passes_through() {
  const provider p = current_provider.load(std::memory_order_acquire);
  if (p == provider::undecided) [[unlikely]]
    decide_provider();
  return p == provider::c_library || (p != provider::usher && selected().passes_through);
}

/// USHER_COND_APPEND and USHER_SEM_APPEND.
append_probability cond_append();
append_probability sem_append();

}  // namespace usher::preload
