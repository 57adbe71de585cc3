#include "library/preload/left_mutexes.hpp"

#include "library/preload/message.hpp"

namespace usher::preload {
namespace {

/// Sets the bit `left_to_c_library`, unless the kind or the epoch has changed from `seen`. The caller has loaded the
/// lock word before. If the epoch is still 0 now, Usher had not locked the mutex at that load, so the C library had.
bool leave(pthread_mutex_t* m, std::uint64_t seen) {
  return kind_and_epoch(m).compare_exchange_strong(seen, seen | left_to_c_library, std::memory_order_seq_cst);
}

/// Whether the calling thread has locked this mutex, with this kind and epoch, through the C library. The loop reads
/// the words twice: if the mutex crosses a cache line, the processor may load a waiter's address in two halves.
bool is_held_by_this_thread(pthread_mutex_t* m, std::uint64_t seen) {
#if defined(__GLIBC__)
  for (int i = 0; i < 2; i++) {
    if (!is_held_by_c_library(m, seen) || m->__data.__owner != native::thread_id()) return false;
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  return true;
#else
  return false;
#endif
}

/// Called for a mutex that had an epoch, so that Usher's functions have used it. Not called for an adaptive mutex,
/// whose epoch may be the C library's spin count.
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
  if (!is_held_by_this_thread(m, seen) || !leave(m, seen)) return false;
  if (type_of(kind_of(seen)) != PTHREAD_MUTEX_ADAPTIVE_NP) say_once();
  return true;
}

}  // namespace usher::preload
