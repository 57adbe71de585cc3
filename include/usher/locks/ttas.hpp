// Test-and-test-and-set with randomised back-off: a waiter loads the word until the lock is free, then tries to take
// it. After a failed attempt it pauses for a random time, whose upper limit doubles with each failure.
//
// Source: the baseline "TATAS" of MCSg §2, "polite TTAS" of Malthusian §5.1 ("randomized back-off is more suitable
// for global spinning").
// Guarantees: mutual exclusion; no order, no bound on bypass; a waiter may starve.
// Cost: lock one read-modify-write; unlock a store (spinning) or one read-modify-write (parking).
// Layout: one 32-bit word, three_state.hpp.
#pragma once

#include "usher/core/three_state.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class ttas {
 public:
  static constexpr lock_traits traits{
      .summary = "test-and-test-and-set with randomised back-off",
      .paper = "baseline of MCSg and Malthusian (§5.1)",
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

  /// Waits as lock() does, for about `ns` nanoseconds at most. Returns true if it has taken the lock.
  bool lock_for(std::uint64_t ns) {
    if constexpr (W::parks) {
      return stay_awake() || three_state::park_until_locked_for<P>(word_, ns);
    } else {
      std::uint32_t window = first_window;
      for (const std::uint64_t since = P::now(); P::now() - since < ns; back_off(window))
        if (P::await(word_, is_free, std::memory_order_relaxed, pacing::polling.within(ns)) &&
            three_state::try_lock(word_))
          return true;
      return false;
    }
  }

  auto uncontended() { return uncontended_word{word_, three_state::held}; }

 private:
  // The upper limit of a pause, in ns: from about one cache miss to about a few critical sections; chosen, not
  // measured.
  static constexpr std::uint32_t first_window = 64, last_window = 4096;

  static constexpr bool is_free(std::uint32_t w) { return w == three_state::free; }

  [[gnu::cold, gnu::noinline]] void contend() {
    if constexpr (W::parks) {
      if (!stay_awake()) three_state::park_until_locked<P>(word_);
    } else {
      for (std::uint32_t window = first_window;; back_off(window)) {
        P::await(word_, is_free, std::memory_order_relaxed, pacing::polling);
        if (three_state::try_lock(word_)) return;
      }
    }
  }

  bool stay_awake() {
    for (std::uint32_t window = first_window; W::poll(word_, is_free); back_off(window)) {
      if (three_state::try_lock(word_)) return true;
      if (window >= last_window) break;  // all attempts have failed: the thread sleeps and frees its CPU
    }
    return false;
  }

  static void back_off(std::uint32_t& window) {
    P::backoff(P::random() % window);
    if (window < last_window) window *= 2;
  }

  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace usher::inline v2
