// Ends a wait in a child that was forked by a signal handler which had interrupted the wait.
//
// The child has a copy of the waiting thread, but not of the threads that could wake it, and the list that it waited in
// is empty there. If the handler restarts system calls, the copy would sleep for ever. So a handler of fork() sets the
// word on which the copy sleeps to a value that ends the wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace usher::preload {

struct own_sleep {
  std::atomic<std::uint32_t>* state = nullptr;  ///< the word on which the thread sleeps; null: it is in no wait
  std::uint32_t awake = 0;                      ///< the least of the values that end the sleep
};

inline constinit thread_local own_sleep current_sleep;

/// Ends the wait that was interrupted by the fork. Called by a handler of fork(), in the child's only thread.
inline void wake_in_child() {
  // A value of `awake` or more says that the wait has already ended, perhaps with a grant: then the value is kept.
  if (auto* const state = current_sleep.state;
      state != nullptr && state->load(std::memory_order_relaxed) < current_sleep.awake)
    state->store(current_sleep.awake, std::memory_order_relaxed);
}

}  // namespace usher::preload
