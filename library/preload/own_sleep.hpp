// Ends a thread's wait in the child of a fork, if a signal handler has interrupted the wait and forked.
//
// The child has a copy of the waiting thread, but not of the threads that could wake it, and its list of waiters is
// empty. If the kernel restarts system calls after the handler, the copy would sleep for ever. So a fork handler sets
// the word on which the copy sleeps to a value that ends the wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace usher::preload {

struct own_sleep {
  std::atomic<std::uint32_t>* state = nullptr;  ///< the word on which the thread sleeps; null if it does not wait
  std::uint32_t awake = 0;                      ///< this value and all greater ones end the sleep
};

inline constinit thread_local own_sleep current_sleep;

/// Ends the wait that the fork has interrupted, if any. A fork handler calls this in the child's only thread.
inline void wake_in_child() {
  // If the value is `awake` or more, the wait has ended already, perhaps with a grant, so the value must stay.
  if (auto* const state = current_sleep.state;
      state != nullptr && state->load(std::memory_order_relaxed) < current_sleep.awake)
    state->store(current_sleep.awake, std::memory_order_relaxed);
}

}  // namespace usher::preload
