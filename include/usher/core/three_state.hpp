// The common part of locks that are one word: free, held, or held while waiters may be asleep on the word.
//
//     value      meaning                         unlock
//     0          free
//     1          held                            → 0
//     2          held, waiters may be asleep     → 0, wake one
//
// A waiter that has slept takes the lock as 2, not 1: it cannot know whether other waiters still sleep.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/waiting.hpp"

namespace usher::inline v2::three_state {

inline constexpr std::uint32_t free = 0, held = 1, contended = 2;

template <class Word>
bool try_lock(Word& word) {
  std::uint32_t seen = free;
  // (1) acquire: pairs with (2).
  return word.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed);
}

template <platform P, class Word>
void unlock(Word& word) {
  const wake_key key = P::key_of(word);
  // (2) release: pairs with (1) and (3), the operations that take the lock. The old value tells whether to wake a
  // sleeper, because the word must not be read once the lock is free.
  if (word.exchange(free, std::memory_order_release) == contended) P::wake(key, every_sleeper, 1);
}

template <platform P, class Word>
void park_until_locked(Word& word) {
  // (3) acquire: pairs with (2).
  while (word.exchange(contended, std::memory_order_acquire) != free) P::park(word, contended, every_sleeper);
}

/// As park_until_locked(), for about `ns` nanoseconds at most. A wake-up that this thread has consumed is not lost when
/// it gives up: it has just set the held word to `contended`, so the next unlock sends another wake-up.
template <platform P, class Word>
bool park_until_locked_for(Word& word, std::uint64_t ns) {
  for (const std::uint64_t since = P::now();;) {
    if (word.exchange(contended, std::memory_order_acquire) == free) return true;  // (3)
    const std::uint64_t waited = P::now() - since;
    if (waited >= ns) return false;
    P::park_for(word, contended, every_sleeper, ns - waited);
  }
}

}  // namespace usher::inline v2::three_state
