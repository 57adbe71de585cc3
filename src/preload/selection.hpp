// What the environment selects, for this process and for good.
#pragma once

#include <atomic>

#include "preload/mutex_table.hpp"
#include "usher/core/waiter_list.hpp"

namespace usher::preload {

/// The table that USHER_LOCK selects. Decided once, on the first call.
const mutex_table& selected();

/// `counted_usher`: ours, but with counting; only the fast path of semaphores asks for the difference.
enum class owner { undecided, usher, counted_usher, c_library };
extern constinit std::atomic<owner> owner_of_all;

/// Whether it is known already that the locks are ours, and that no calls are counted: the first question of what is to be
/// fast. If not, ask the next.
inline bool is_ushers() {
  return owner_of_all.load(std::memory_order_acquire) == owner::usher;
}

inline bool passes_through() {
  const owner o = owner_of_all.load(std::memory_order_acquire);
  return o == owner::undecided ? selected().passes_through : o == owner::c_library;
}

/// USHER_COND_APPEND and USHER_SEM_APPEND.
append_chance cond_append();
append_chance sem_append();

}  // namespace usher::preload
