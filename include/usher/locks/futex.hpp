// The three-state mutex of C libraries: lock is a compare-and-swap, and if it fails the thread sleeps at once. It is a
// reference for the other locks: the checker and the simulator can run it, but not the C library's own mutex.
//
// Source: U. Drepper, "Futexes Are Tricky" (2011), mutex 2 with an exchange for the unlock.
// Guarantees: mutual exclusion; no order, no bound on bypass (an arriving thread may overtake a thread that was woken).
// Cost: lock one compare-and-swap, unlock one exchange.
// Layout: one 32-bit word, three_state.hpp.
#pragma once

#include "usher/core/three_state.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class futex {
 public:
  static constexpr lock_traits traits{
      .summary = "the three-state mutex of C libraries: sleeps at once",
      .paper = "Drepper, Futexes Are Tricky, mutex 2",
      .kinds = static_cast<unsigned>(waiting_kind::spin_then_park),
  };
  static constexpr bool zero_iff_free = true;  ///< the word is 0 iff the lock is free

  void lock() {
    P::doorway(this);
    if (!three_state::try_lock(word_)) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() { return three_state::try_lock(word_); }
  void unlock() { three_state::unlock<P>(word_); }

  auto uncontended() { return uncontended_word{word_, three_state::held}; }

 private:
  [[gnu::cold, gnu::noinline]] void contend() { three_state::park_until_locked<P>(word_); }

  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace usher::inline v2
