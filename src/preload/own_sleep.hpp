// The wait that the calling thread is in, for a child that it forks meanwhile: in a signal handler that interrupted it.
//
// The child has a copy of the thread, but not of those who could wake it, and the lists that it stood in are empty there.
// If the handler restarts system calls, the kernel would let it sleep on. So in the child it finds itself awake.
#pragma once

#include <atomic>
#include <cstdint>

namespace usher::preload {

struct own_sleep {
  std::atomic<std::uint32_t>* state = nullptr;  ///< where it sleeps
  std::uint32_t awake = 0;                      ///< the least of the values that make it look round
};

inline constinit thread_local own_sleep current_sleep;

/// Between the handlers' first and last lines, in the child's only thread.
inline void wake_in_child() {
  // It may be awake already, and have been given something.
  if (auto* const state = current_sleep.state;
      state != nullptr && state->load(std::memory_order_relaxed) < current_sleep.awake)
    state->store(current_sleep.awake, std::memory_order_relaxed);
}

}  // namespace usher::preload
