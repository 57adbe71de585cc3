// What the environment selects, for this process and for good.
#pragma once

#include <atomic>

#include "preload/mutex_table.hpp"
#include "usher/core/waiter_list.hpp"

namespace usher::preload {

/// The table that USHER_LOCK selects. Decided once, on the first call.
const mutex_table& selected();

/// `recorded`: ours or the C library's, and `usher stat` looks on.
enum class provider { undecided, usher, recorded, c_library };
extern constinit std::atomic<provider> current_provider;

/// Has the pointers of the exported mutex functions lead to the selected table's, or to those that record.
void connect_mutexes();

/// The process has threads: has those pointers that lead to functions for a process with one lead to the others, for good; and
/// calls one of these. For tail calls.
int end_one_thread_mode(pthread_mutex_t* m, int (*then)(pthread_mutex_t*));

/// Decides current_provider; and begins to record if `usher stat -p` has asked for it (attach.hpp).
void decide_provider();

/// Whether it is known already that the locks are ours, and that no calls are recorded: the first question of what is to be
/// fast. If not, ask the next.
inline bool is_ushers() {
  return current_provider.load(std::memory_order_acquire) == provider::usher;
}

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
