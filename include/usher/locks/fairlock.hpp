// Fairlock: each waiter has a bit in one word. Unlock hands the lock to the waiter with the next higher bit,
// round-robin. The lock bit stays set during the hand-over, so no arriving thread can take the lock.
//
// Source: Sivasubramanian, Stultz, Vogel & McKenney, "Fairlocks – A High Performance Fair Locking Scheme", §5, Figs
// 4–6. Two corrections: Fig 5 line 5 must start again if the lock is *free*; Fig 6's mask is every bit but LOCK. A
// process may have more threads than the word has bits. Therefore a thread has a slot (a bit) only while it waits, and
// claims it by the compare-and-swap that sets the bit. Threads that find no free slot wait in an overflow queue, an MCS
// lock.
// Guarantees: a waiter is overtaken at most 30 times after its doorway, the compare-and-swap that sets its bit: no
// waiter starves. trylock never overtakes a waiter. The way to the doorway is not bounded: the compare-and-swap fails
// whenever another thread has changed the word, so a thread may starve before it. (A fetch-and-or cannot replace it: it
// cannot check in the same operation that the slot is neither another waiter's nor the holder's.) Threads in the
// overflow queue are FIFO among each other.
// Cost: lock and unlock one compare-and-swap each, also to hand over.
// Layout: 64-bit word · tail of the overflow queue: 12 bytes, aligned to 8.
//
//     LOCK          bit 0        set by the thread that takes the free lock, cleared by the unlock that frees it. A
//                                hand-over leaves it set
//     waiters       bits 1–31    a thread waits in that slot. Set by the thread, cleared by the unlock that hands it
//                                the lock
//     slot          bits 32–36   the holder's slot, 0 if it did not wait. Written by the unlock that hands over; read
//                                by the next unlock, which begins its scan there, and by arrivals, which may not claim
//                                that slot
//     asleep        bit 37       a waiter sleeps, or is about to. Set by that waiter. Cleared by the unlock that leaves
//                                no waiter; read by each unlock, which wakes the thread that it hands over to
//     head_asleep   bit 38       the head of the overflow queue sleeps, or is about to. Set by it, cleared and read by
//                                unlock, which wakes it
//     (The paper's word has LOCK and the waiters only.)
//
//     LOCK,waiters,slot; W is a set of slots
//     0,-,0    free: the whole word is 0
//     1,-,0    held by a thread that did not wait
//     1,-,s    held by a thread that waited in slot s
//     1,W,s    the same, and threads wait in the slots W; s is not in W
//     If no slot is left to claim, further threads wait in the overflow queue.
//
//     0,-,0 -> 1,-,0     lock(), try_lock()
//     1,W,s -> 1,W+i,s   claim_slot(): i is neither in W nor s
//     1,W,s -> 1,W-j,j   unlock_contended(): j is the next of W above s, round-robin; j's thread has the lock
//     1,-,s -> 0,-,0     unlock(), if s is 0; unlock_contended()
//
// No waiter claims the holder's slot before the holder has unlocked. Otherwise a hand-over could be lost: unlock clears
// a waiter's bit, a new waiter sets it again before the first reads it, and neither takes the lock. A waiter sleeps
// only if the upper half of the word is unchanged; every hand-over changes that half, because the next holder's slot
// differs from the present one's.
#pragma once

#include <bit>

#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"
#include "usher/locks/mcs.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W>
class fairlock {
 public:
  static constexpr lock_traits traits{
      .summary = "a bit for each waiter, served round-robin",
      .paper = "Fairlocks, section 5, Figs 4-6",
      .bypass = 30,
      .starvation_free = true,
      .words = 3,
  };

  void lock() {
    P::doorway(this);
    if (!try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    std::uint64_t seen = 0;
    // Takes the free lock. LOCK,waiters,slot: 0,-,0 -> 1,-,0. (1) acquire: pairs with (2), the compare-and-swap in
    // unlock(), and (3), the one in unlock_contended().
    return word_.compare_exchange_strong(seen, lock_bit, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    std::uint64_t seen = lock_bit;
    // Frees the lock. LOCK,waiters,slot: 1,-,0 -> 0,-,0. (2) release: pairs with (1), the compare-and-swap in
    // try_lock().
    if (!word_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      unlock_contended(seen);
  }

  /// Returns the bit to serve after the bit `turn`, round-robin. `waiting` must have a bit set above LOCK.
  static constexpr unsigned next_bit(std::uint32_t waiting, unsigned turn) {
    waiting &= ~std::uint32_t{lock_bit};
    const std::uint32_t above = waiting & ~((std::uint32_t{2} << turn) - 1);  // turn 31: 2 << 31 is 0, none above
    return unsigned(std::countr_zero(above != 0 ? above : waiting));
  }

  auto uncontended() { return uncontended_word{word_, lock_bit}; }

 private:
  static constexpr std::uint64_t lock_bit = 1, asleep = std::uint64_t{1} << 37, head_asleep = std::uint64_t{1} << 38;
  static constexpr std::uint64_t slot_field = std::uint64_t{31} << 32;
  static constexpr std::uint32_t waiter_bits = ~std::uint32_t{1};
  static constexpr std::uint32_t head_mask = 1;  // futex mask of the overflow queue's head; a waiter's mask is its bit

  static constexpr std::uint64_t waits(unsigned slot) { return std::uint64_t{1} << slot; }
  static constexpr unsigned holders_slot(std::uint64_t w) { return unsigned((w & slot_field) >> 32); }
  static constexpr std::uint32_t waiting(std::uint64_t w) { return std::uint32_t(w) & waiter_bits; }
  static std::uint32_t claimable(std::uint64_t w) {
    const std::uint32_t slots = (std::uint32_t{2} << P::count_limit(31)) - 2;  // on the native platform all waiter_bits
    return ~std::uint32_t(w) & ~(std::uint32_t{1} << holders_slot(w)) & slots;
  }

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint64_t w) {
    const wake_key key = P::key_of(word_);
    for (;;) {
      std::uint64_t next = 0;
      unsigned slot = 0;
      if (waiting(w) != 0) {
        slot = next_bit(std::uint32_t(w), holders_slot(w));
        next = (w & ~(waits(slot) | slot_field | head_asleep)) | std::uint64_t{slot} << 32;
        if (waiting(next) == 0) next &= ~asleep;
      }
      // LOCK,waiters,slot: 1,W,s -> 1,W-j,j hands the lock to waiter j; 1,-,s -> 0,-,0 frees it. (3) release: pairs
      // with the acquire loads in wait_for_turn(), or with (1) in try_lock(). Fails only if another thread has claimed
      // a slot or set a sleep bit.
      if (word_.compare_exchange_strong(w, next, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        if constexpr (W::parks) {
          if (w & asleep) P::wake(key, std::uint32_t{1} << slot, all);
          if (w & head_asleep) P::wake(key, head_mask, all);
        }
        return;
      }
      P::backoff(0);
    }
  }

  [[gnu::cold, gnu::noinline]] void contend() {
    // If other threads are queued for a slot, this thread queues behind them.
    unsigned slot = 0;
    for (;;) {
      if (overflow_tail() != no_node) break;
      const claim c = claim_slot(slot);
      if (c == claim::locked) return;
      if (c == claim::waiting) return wait_for_turn(slot);
      if (c == claim::no_slot) break;
      P::backoff(0);
    }
    node_handle h;
    while ((h = P::take_node()) == no_node) {
      P::backoff(100000);
      if (try_lock()) return;
    }
    overflow_.lock(h);
    const bool locked = claim_as_head(slot);
    overflow_.unlock(h);
    P::give_node(h);
    if (!locked) wait_for_turn(slot);
  }

  enum class claim { locked, waiting, no_slot, again };

  /// Tries once to take the lock or to claim a slot; the search for a free slot begins at thread_index(). Threads from
  /// the overflow queue report their doorway here, too, since the bound on bypass counts from the moment when the bit
  /// is set.
  claim claim_slot(unsigned& slot) {
    std::uint64_t w = word_.load(std::memory_order_relaxed);
    if ((w & lock_bit) == 0) {  // Fig 5 line 5, corrected
      if (!try_lock()) return claim::again;
      P::doorway(this);
      return claim::locked;
    }
    const std::uint32_t free = claimable(w);
    if (free == 0) return claim::no_slot;
    slot = next_bit(free, P::thread_index() % 31);
    // LOCK,waiters,slot: 1,W,s -> 1,W+i,s claims slot i. Relaxed: a claim publishes nothing, and as a read-modify-write
    // it continues the release sequence of (3), the hand-over.
    if (!word_.compare_exchange_strong(w, w | waits(slot), std::memory_order_relaxed, std::memory_order_relaxed))
      return claim::again;
    P::doorway(this);
    return claim::waiting;
  }

  /// Called by the head of the overflow queue. Waits until it has acquired the lock (returns true) or has claimed a
  /// slot (returns false). Relaxed: claim_slot() takes the lock or the slot, and a mark publishes nothing.
  bool claim_as_head(unsigned& slot) {
    const auto hope = [](std::uint64_t w) { return (w & lock_bit) == 0 || claimable(w) != 0; };
    for (;;) {
      switch (claim_slot(slot)) {
        case claim::locked:
          return true;
        case claim::waiting:
          return false;
        case claim::again:
          P::backoff(0);
          continue;
        case claim::no_slot:
          break;
      }
      if (W::poll(word_, hope)) continue;
      if constexpr (W::parks) {
        std::uint64_t w = word_.load(std::memory_order_relaxed);
        if (hope(w)) continue;
        if ((w & head_asleep) == 0 &&
            !word_.compare_exchange_strong(w, w | head_asleep, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(word_, w | head_asleep, head_mask);
      }
    }
  }

  /// Waits until an unlock has cleared the slot's bit. The poll and the load are acquire: they pair with (3). The mark
  /// is relaxed: it publishes nothing, and as a read-modify-write it continues the release sequence of (3).
  void wait_for_turn(unsigned slot) {
    const auto mine = [slot](std::uint64_t w) { return (w & waits(slot)) == 0; };
    if (W::poll(word_, mine)) return;
    if constexpr (W::parks) {
      for (;;) {
        std::uint64_t w = word_.load(std::memory_order_acquire);
        if (mine(w)) return;
        if ((w & asleep) == 0 &&
            !word_.compare_exchange_strong(w, w | asleep, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(word_, w | asleep, std::uint32_t{1} << slot);
      }
    }
  }

  node_handle overflow_tail() const { return overflow_.last(); }

  typename P::template atomic<std::uint64_t> word_;
  mcs_with_node<P, W> overflow_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
