// Fairlock: one word in which each waiter has a bit; unlock passes the lock to the next bit upwards, round-robin, and
// the lock bit stays set through the hand-over, so that nobody barges in.
//
// Source: Sivasubramanian, Stultz, Vogel & McKenney, "Fairlocks – A High Performance Fair Locking Scheme", §5,
// Figs 4–6. Mended: Fig 5 line 5 must start again if the lock is *free*; Fig 6's mask is every bit but LOCK.
// In user space there are more threads than bits: a bit belongs to a thread only while it waits, claimed by the
// compare-and-swap that sets it. Waiters beyond 31 queue up (an MCS lock) for a bit to become free.
// Guarantees: once its bit is set, a waiter is overtaken at most 30 times; those queued for a bit are FIFO: nobody
// starves. trylock never overtakes a waiter that has a bit.
// Cost: lock and unlock one compare-and-swap each; contended unlock one atomic and.
// Layout: 64-bit word · turn (the bit served last: where the scan begins) · tail of the overflow queue: 16 bytes.
//
//     word   bit 0: LOCK     bits 1–31: that waiter waits      (the paper's word)
//            bit 32: the head of the overflow queue sleeps     bits 33–63: that waiter sleeps
//     A sleeper watches the upper half, with its bit as futex mask; the overflow queue's head has mask bit 0.
//     LOCK clear means that the whole word is 0.
#pragma once

#include <bit>

#include "usher/locks/mcs.hpp"

namespace usher {

template <platform P, class W>
class fairlock {
 public:
  static constexpr lock_traits traits{
      .summary = "a bit a waiter, served round-robin: nobody starves, no queue to keep",
      .paper = "Fairlocks, section 5, Figs 4-6",
      .bypass = 30,
      .starvation_free = true,
      .words = 4,
  };

  void lock() {
    P::doorway(this);
    if (!try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    std::uint64_t seen = 0;
    // (1) acquire: pairs with (2).
    return word_.compare_exchange_strong(seen, lock_bit, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    std::uint64_t seen = lock_bit;
    // (2) release: pairs with (1).
    if (!word_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      hand_over(std::uint32_t(seen));
  }

  /// The bit that is served next when `turn` was served last; `waiting` has a bit set above LOCK.
  static constexpr unsigned next_bit(std::uint32_t waiting, unsigned turn) {
    waiting &= ~std::uint32_t{lock_bit};
    const std::uint32_t above = waiting & ~((std::uint32_t{2} << turn) - 1);  // turn 31: 2 << 31 is 0, none above
    return unsigned(std::countr_zero(above != 0 ? above : waiting));
  }

 private:
  static constexpr std::uint64_t lock_bit = 1, overflow_asleep = std::uint64_t{1} << 32;
  static constexpr std::uint32_t waiter_bits = ~std::uint32_t{1};

  static constexpr std::uint64_t waits(unsigned bit) { return std::uint64_t{1} << bit; }
  static constexpr std::uint64_t sleeps(unsigned bit) { return std::uint64_t{1} << (bit + 32); }

  [[gnu::cold, gnu::noinline]] void hand_over(std::uint32_t waiting) {
    const unsigned bit = next_bit(waiting, turn_.get());
    turn_.set(bit);
    const wake_key key = P::key_of(word_);
    // (3) release: pairs with the acquire loads in wait_for_turn. LOCK stays set: the lock is the waiter's now.
    const std::uint64_t old =
        word_.fetch_and(~(waits(bit) | sleeps(bit) | overflow_asleep), std::memory_order_acq_rel);
    if constexpr (W::parks) {
      if (old & sleeps(bit)) P::wake(key, std::uint32_t{1} << bit, all);
      if (old & overflow_asleep) P::wake(key, 1, all);
    }
  }

  [[gnu::cold, gnu::noinline]] void contend() {
    // Whoever finds others queued for a bit queues behind them.
    unsigned bit = 0;
    for (;;) {
      if (overflow_tail() != no_node) break;
      const claim c = claim_bit(bit);
      if (c == claim::locked) return;
      if (c == claim::waiting) return wait_for_turn(bit);
      if (c == claim::no_bit) break;
      P::backoff(0);
    }
    node_handle h;
    while ((h = P::take_node()) == no_node) {
      P::backoff(100000);
      if (try_lock()) return;
    }
    overflow_.lock(h);
    const bool locked = claim_as_head(bit);
    overflow_.unlock(h);
    P::give_node(h);
    if (!locked) wait_for_turn(bit);
  }

  enum class claim { locked, waiting, no_bit, again };

  /// One attempt at the lock or at a bit. The search for a free bit begins at the thread's own.
  claim claim_bit(unsigned& bit) {
    std::uint64_t w = word_.load(std::memory_order_relaxed);
    if ((w & lock_bit) == 0) return try_lock() ? claim::locked : claim::again;  // Fig 5 line 5, mended
    const std::uint32_t free = ~std::uint32_t(w) & waiter_bits;
    if (free == 0) return claim::no_bit;
    bit = next_bit(free, P::thread_index() % 31);
    // Relaxed would do for the lock's data; the claim is ordered by the word itself.
    return word_.compare_exchange_strong(w, w | waits(bit), std::memory_order_relaxed, std::memory_order_relaxed)
               ? claim::waiting
               : claim::again;
  }

  /// As head of the overflow queue: until it has the lock (true) or a bit.
  bool claim_as_head(unsigned& bit) {
    const auto hope = [](std::uint64_t w) {
      return (w & lock_bit) == 0 || (~std::uint32_t(w) & waiter_bits) != 0;
    };
    for (;;) {
      switch (claim_bit(bit)) {
        case claim::locked: return true;
        case claim::waiting: return false;
        case claim::again: P::backoff(0); continue;
        case claim::no_bit: break;
      }
      if (W::poll(word_, hope)) continue;
      if constexpr (W::parks) {
        std::uint64_t w = word_.load(std::memory_order_relaxed);
        if (hope(w)) continue;
        if ((w & overflow_asleep) == 0 &&
            !word_.compare_exchange_strong(w, w | overflow_asleep, std::memory_order_relaxed,
                                           std::memory_order_relaxed))
          continue;
        P::park(word_, w | overflow_asleep, 1);
      }
    }
  }

  void wait_for_turn(unsigned bit) {
    const auto mine = [bit](std::uint64_t w) { return (w & waits(bit)) == 0; };
    if (W::poll(word_, mine)) return;
    if constexpr (W::parks) {
      for (;;) {
        std::uint64_t w = word_.load(std::memory_order_acquire);
        if (mine(w)) return;
        if ((w & sleeps(bit)) == 0 &&
            !word_.compare_exchange_strong(w, w | sleeps(bit), std::memory_order_acq_rel,
                                           std::memory_order_relaxed))
          continue;
        P::park(word_, w | sleeps(bit), std::uint32_t{1} << bit);
      }
    }
  }

  node_handle overflow_tail() const { return overflow_.last(); }

  typename P::template atomic<std::uint64_t> word_;
  typename P::template plain<std::uint32_t> turn_;
  mcs_with_node<P, W> overflow_;
};

}  // namespace usher
