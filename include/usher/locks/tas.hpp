// Test-and-set: the simplest lock. Each waiter repeats an atomic exchange (parking: a compare-and-swap) on the lock
// word until it succeeds.
//
// Source: the baseline of all five papers (Malthusian §5.1, Fairlocks §2).
// Guarantees: mutual exclusion and nothing else: no order, no bound on bypass; a waiter may starve.
// Cost: lock one read-modify-write; unlock a store (spinning) or one read-modify-write (parking).
// Layout: one 32-bit word, three_state.hpp.
#pragma once

#include "usher/core/three_state.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class tas {
 public:
  static constexpr lock_traits traits{
      .summary = "test-and-set: shortest path, no fairness",
      .paper = "baseline of all five papers",
      .kinds = waiting_kind::spin | waiting_kind::spin_then_park | waiting_kind::park,
  };
  static constexpr bool zero_iff_free = true;  ///< the word is 0 iff the lock is free

  void lock() {
    P::doorway(this);
    if (!try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    if constexpr (W::parks)
      return three_state::try_lock(word_);
    else  // (1) acquire: pairs with (2), the store in unlock()
      return word_.exchange(three_state::held, std::memory_order_acquire) == three_state::free;
  }

  void unlock() {
    if constexpr (W::parks)
      three_state::unlock<P>(word_);
    else  // (2) release: pairs with (1), the exchange in try_lock()
      word_.store(three_state::free, std::memory_order_release);
  }

  /// Waits as lock() does, for about `ns` nanoseconds at most. Returns true if it has taken the lock.
  bool lock_for(std::uint64_t ns) {
    const std::uint64_t spin_budget = W::spin_budget();
    for (const std::uint64_t since = P::now(); P::now() - since < (spin_budget < ns ? spin_budget : ns); P::backoff(0))
      if (try_lock()) return true;
    if constexpr (W::parks) return three_state::park_until_locked_for<P>(word_, ns);
    return false;
  }

  auto uncontended() { return uncontended_word{word_, three_state::held}; }

 private:
  [[gnu::cold, gnu::noinline]] void contend() {
    if constexpr (!W::parks) {
      while (!try_lock()) P::backoff(0);
    } else {
      for (const std::uint64_t end = P::now() + W::spin_budget(); P::now() < end; P::backoff(0))
        if (try_lock()) return;
      three_state::park_until_locked<P>(word_);
    }
  }

  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace usher::inline v2
