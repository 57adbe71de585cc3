// The selection of a lock by environment variables, made once in a process.
#pragma once

#include <atomic>
#include <cstdint>

#include "library/preload/calls.hpp"
#include "library/preload/mutex_table.hpp"
#include "usher/core/waiter_list.hpp"

namespace usher::preload {

/// The data that each recorded call reads. The number and the pointers for mutexes fill one cache line.
struct alignas(64) behind_recorded_calls {
  std::atomic<std::uint64_t> recording{0};  ///< the recording's number; 0: nothing is recorded
  call_pointers selected{};
};
[[gnu::visibility("hidden")]] extern constinit behind_recorded_calls behind_recorded;
[[gnu::visibility("hidden")]] extern constinit std::atomic<const mutex_table*> selected_table;
[[gnu::cold, gnu::noinline]] const mutex_table& select_table();

/// Returns the table that USHER_LOCK selects. The first call makes the selection.
inline const mutex_table& selected() {
  const mutex_table* const t = selected_table.load(std::memory_order_acquire);
  return t != nullptr ? *t : select_table();
}

/// The functions of the selected table. They serve while nothing is recorded, and a recorder's functions call them.
inline constexpr call_pointers& selected_calls = behind_recorded.selected;
inline const call_pointers& unrecorded() {
  selected();  // sets selected_calls at its first call
  return selected_calls;
}

/// Prepares the process for Usher's locks, as the environment requests. Called before the first of them is used;
/// several threads may call it at once.
void prepare_own_locks();

/// Makes the selection, begins a recording if one is requested, and sets current_calls and current_rwlocks.
void connect();

/// Called, as its last step, by a function for a process with one thread that finds more threads. Replaces all such
/// functions for good by those for several threads. Then calls `then`, the caller's replacement.
int end_one_thread_mode(pthread_mutex_t* m, int (*then)(pthread_mutex_t*));

/// The probabilities in USHER_COND_APPEND and USHER_SEM_APPEND with which a waiter is appended at the list's tail.
append_probability cond_append();
append_probability sem_append();

}  // namespace usher::preload
