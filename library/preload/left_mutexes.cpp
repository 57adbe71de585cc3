#include "library/preload/left_mutexes.hpp"

#include "library/preload/message.hpp"

namespace usher::preload {
namespace {

/// Sets the bit, unless the kind or the epoch has changed. The load of its lock came before: if the epoch is still 0,
/// the lock was the C library's.
bool leave(pthread_mutex_t* m, std::uint64_t seen) {
  return kind_and_epoch(m).compare_exchange_strong(seen, seen | left_to_c_library, std::memory_order_seq_cst);
}

/// Called for a mutex that was valid, so that our functions have used it. Not for an adaptive one, whose epoch may be the
/// C library's spin count.
void say_once() {
  static constinit std::atomic<bool> said{false};
  if (said.exchange(true, std::memory_order_relaxed)) return;
  say(": a mutex that is used through this library was locked by the C library's functions (RTLD_DEEPBIND, dlsym). It "
      "is left to the C library now; threads that wait for it may not be woken.");
}

}  // namespace

void leave_if_held_by_c_library(pthread_mutex_t* m) {
  std::uint64_t seen = kind_and_epoch(m).load(std::memory_order_acquire);
  while (is_ours(kind_of(seen)) && epoch_of(seen) != native::fork_epoch() && is_held_by_c_library(m, seen)) {
    if (leave(m, seen)) return;
    seen = kind_and_epoch(m).load(std::memory_order_acquire);
  }
}

bool leave_if_locked_in_c_library(pthread_mutex_t* m) {
  leave_if_held_by_c_library(m);
  const std::uint64_t seen = kind_and_epoch(m).load(std::memory_order_acquire);
  if (!is_ours(kind_of(seen))) return true;
#if defined(__GLIBC__)
  if (!is_held_by_c_library(m, seen) || m->__data.__owner != native::thread_id() || !leave(m, seen)) return false;
  if (type_of(kind_of(seen)) != PTHREAD_MUTEX_ADAPTIVE_NP) say_once();
  return true;
#else
  return false;
#endif
}

}  // namespace usher::preload
