// Test-and-test-and-set with Anderson's delay: a waiter that sees the lock free pauses for a short random time and then
// loads the word again before it tries to take the lock. So most of the waiters that saw a release find the lock taken
// at the second load, and do not write to the word.
//
// Source: Anderson (1990), quoted in Malthusian Locks, appendix A.1, which says that the delay is useful together with
// MWAIT.
// Guarantees: mutual exclusion; no order, no bound on bypass; a waiter may starve.
// Cost: lock one read-modify-write; unlock a store (spinning) or one read-modify-write (parking).
// Layout: one 32-bit word, three_state.hpp.
#pragma once

#include "usher/core/three_state.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W>
class tas_delay {
 public:
  static constexpr lock_traits traits{
      .summary = "test-and-set that looks twice before it tries: no herd",
      .paper = "Malthusian Locks, appendix A.1 (Anderson)",
      .kinds = waiting_kind::spin | waiting_kind::spin_then_park | waiting_kind::park,
  };
  static constexpr bool zero_iff_free = true;  ///< the word is 0 iff the lock is free

  void lock() {
    P::doorway(this);
    if (!three_state::try_lock(word_)) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() { return word_.load(std::memory_order_relaxed) == three_state::free && three_state::try_lock(word_); }

  void unlock() {
    if constexpr (W::parks)
      three_state::unlock<P>(word_);
    else  // release: pairs with the acquire in three_state::try_lock()
      word_.store(three_state::free, std::memory_order_release);
  }

  auto uncontended() { return uncontended_word{word_, three_state::held}; }

 private:
  // Chosen, not measured. longest_delay: about the time until all waiters have seen a release. attempts: how many times
  // a waiter may see the lock free and fail to take it before it sleeps (parking).
  static constexpr std::uint32_t longest_delay = 256;  // ns
  static constexpr unsigned attempts = 16;

  [[gnu::cold, gnu::noinline]] void contend() {
    constexpr auto is_free = [](std::uint32_t w) { return w == three_state::free; };
    for (unsigned i = 0; !W::parks || i < attempts; i++) {
      if (!W::poll(word_, is_free)) break;
      P::backoff(P::random() % longest_delay);
      if (try_lock()) return;  // loads the word first
    }
    if constexpr (W::parks) three_state::park_until_locked<P>(word_);
  }

  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
