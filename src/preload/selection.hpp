// The selection that the environment makes, once for a process.
#pragma once

#include "preload/calls.hpp"
#include "preload/mutex_table.hpp"
#include "usher/core/waiter_list.hpp"

namespace usher::preload {

/// The table that USHER_LOCK selects. Decided once, on the first call.
const mutex_table& selected();

/// The calls of the selected table, without the recording.
[[gnu::visibility("hidden")]] extern constinit call_pointers selected_calls;
inline const call_pointers& unrecorded() {
  selected();  // first: they are set by then
  return selected_calls;
}

/// Sets current_calls, after the selection and the beginning of a recording where one is wanted.
void connect();

/// By a function for a process with one thread, when it finds more: sets the pointers that lead to such functions to
/// those for several threads, for good, and calls `then`, which is one of these. For tail calls.
int end_one_thread_mode(pthread_mutex_t* m, int (*then)(pthread_mutex_t*));

/// USHER_COND_APPEND and USHER_SEM_APPEND.
append_probability cond_append();
append_probability sem_append();

}  // namespace usher::preload
