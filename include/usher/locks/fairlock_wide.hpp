// Wide Fairlock: Fairlock (fairlock.hpp) with many words, which have a bit for every thread that the process can have.
// Waiters are served round-robin. The lock bit stays set during the hand-over, so no arriving thread can take the lock.
//
// Source: Sivasubramanian, Stultz, Vogel & McKenney, "Fairlocks – A High Performance Fair Locking Scheme", §5, Figs
// 4–6, extended to more waiters than a word has bits. In the paper's one word, one compare-and-swap both checks that
// no thread waits and frees the lock. For this purpose the word with the lock bit here also counts the waiters.
// Guarantees: round-robin. After its doorway (the fetch-and-add that counts it) a waiter is overtaken at most once by
// the thread of each other slot, so at most (slots - 1) times: no waiter starves. trylock never overtakes a waiter. As
// in the paper, a thread keeps its slot. (A thread that gets no thread record has no slot, and repeats try_lock().)
// Cost: lock and unlock one compare-and-swap each. A waiter sets its bit, adds itself to the count and later subtracts
// itself; unlock then searches the words in use, 32 slots each, until it finds a set bit, and clears that bit.
// Layout: 64-bit word · how many words of bits are in use · the words of bits. 16 KiB, of which only the words in use
// are accessed. Because of its size the lock is meant to be used in its inflatable form.
//
//     word
//     LOCK     bit 0         set by the thread that takes the free lock; a hand-over leaves it set
//     count    bits 1–31     the number of waiters. Changed by each waiter for itself: + 1 when its bit is set, − 1
//                            when it has the lock. Read by unlock: if it is 0, the same operation frees the lock
//     slot     bits 32–63    the holder's slot, 0 if it did not wait. Written by the new holder; its unlock begins the
//                            scan there
//
//     bits of slots, a 64-bit word for 32 of them
//     bit i        the thread of slot i waits. Set by that thread, cleared by the unlock that hands it the lock
//     bit 32 + i   that thread sleeps, or is about to. Set by that thread, cleared and read by the same unlock, which
//                  wakes it
//
//     LOCK,count,slot
//     0,0,0    free
//     0,n,0    taken by the thread that was counted first and is about to set LOCK
//     1,n,s    held; n waiters are counted, and their bits are set, except that of a waiter to which the lock has just
//              been handed
//
//     0,0,0 -> 1,0,0              lock(), try_lock()
//     0,0,0 -> 0,1,0 -> 1,0,0     contend() by a thread that has found the lock free, and clears its bit between the two
//     1,n,s -> 1,n+1,s            contend(): its bit is set
//     1,n,s stays                 unlock(), n > 0: clears the bit of the next waiter, which thereby has the lock
//     1,n,s -> 1,n-1,m            contend() by that waiter, whose slot is m
//     1,0,s -> 0,0,0              unlock()
//
// A waiter sets its bit before it counts itself. So the bits of all counted waiters are set, and a holder that reads a
// count above 0 finds a bit. It may find the bit of a waiter that is not counted yet. Then that waiter gets the lock,
// LOCK stays set, and the waiter counts itself, finds its bit clear, and subtracts itself again.
//
// Only the holder clears bits of waiters and writes `slot`.
#pragma once

#include <bit>

#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The lock has `Words` words of bits, with `BitsAWord` slots in each.
template <platform P, class W, unsigned Words, unsigned BitsAWord = 32>
class basic_fairlock_wide {
  static_assert(Words >= 1 && BitsAWord >= 1 && BitsAWord <= 32 && std::size_t{Words} * BitsAWord <= 65536);

 public:
  static constexpr unsigned slots = Words * BitsAWord;
  static constexpr lock_traits traits{
      .summary = "fairlock for any number of waiters",
      .paper = "Fairlocks, section 5, Figs 4-6",
      .bypass = int(slots) - 1,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 4 + 2 * Words,
  };

  void lock() {
    P::doorway(this);
    if (!try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    std::uint64_t seen = 0;
    // Takes the free lock. LOCK,count,slot: 0,0,0 -> 1,0,0. (1) acquire: pairs with (2) and (3), the compare-and-swaps
    // in unlock() and unlock_contended().
    return word_.compare_exchange_strong(seen, lock_bit, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    std::uint64_t seen = lock_bit;
    // Frees the lock. LOCK,count,slot: 1,0,0 -> 0,0,0. (2) release: pairs with (1), the compare-and-swap in try_lock().
    // (5) acquire on failure: pairs with (4), by which a waiter counts itself, so that this thread sees the waiter's
    // bit.
    if (!word_.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_acquire)) [[unlikely]]
      unlock_contended(seen);
  }

  /// A small form for tests: four slots.
  using small = basic_fairlock_wide<P, W, 2, 2>;

 private:
  static constexpr std::uint64_t lock_bit = 1, one_waits = 2;

  static constexpr std::uint32_t holders_slot(std::uint64_t w) { return std::uint32_t(w >> 32); }
  static constexpr bool anyone_waits(std::uint64_t w) { return std::uint32_t(w) > lock_bit; }

  // Slots are numbered from 1. These functions give the bit of a slot, the word that contains it, and the slot's two
  // masks.
  static constexpr unsigned bit(std::uint32_t slot) { return (slot - 1) % BitsAWord; }
  auto& bits_of(std::uint32_t slot) { return bits_[(slot - 1) / BitsAWord]; }
  static constexpr std::uint64_t waits(std::uint32_t slot) { return std::uint64_t{1} << bit(slot); }
  static constexpr std::uint64_t asleep(std::uint32_t slot) { return waits(slot) << 32; }

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint64_t w) {
    while (!anyone_waits(w)) {
      // Frees the lock. LOCK,count,slot: 1,0,s -> 0,0,0. (3) release, as (2) in unlock(). Fails if a waiter has just
      // been counted; (5) acquire on failure: pairs with (4), by which the waiter counts itself.
      if (word_.compare_exchange_strong(w, 0, std::memory_order_acq_rel, std::memory_order_acquire)) return;
      P::backoff(0);
    }
    const std::uint32_t next = next_slot(holders_slot(w));
    auto& bits = bits_of(next);
    const wake_key key = P::key_of(bits);
    // Hands the lock over; LOCK stays set. (6) release: pairs with (7), the loads in wait_for_turn().
    const std::uint64_t old = bits.fetch_and(~(waits(next) | asleep(next)), std::memory_order_acq_rel);
    if constexpr (W::parks) {
      if (old & asleep(next)) P::wake(key, std::uint32_t{1} << bit(next), 1);
    }
  }

  /// Returns the slot to serve after the slot `turn`: the next higher slot whose bit is set, or else the lowest one. At
  /// least one bit is set.
  std::uint32_t next_slot(std::uint32_t turn) {
    const std::uint32_t used = used_.load(std::memory_order_relaxed);
    std::uint32_t i = turn / BitsAWord;  // the word of slot turn + 1
    std::uint32_t above = ~std::uint32_t{0} << turn % BitsAWord;
    for (;; i++, above = ~std::uint32_t{0}) {
      if (i >= used) i = 0;
      const std::uint32_t waiting = std::uint32_t(bits_[i].load(std::memory_order_relaxed)) & above;
      if (waiting != 0) return i * BitsAWord + unsigned(std::countr_zero(waiting)) + 1;
    }
  }

  [[gnu::cold, gnu::noinline]] void contend() {
    const std::uint32_t mine = P::thread_index();
    if (mine == 0 || mine > slots) {  // the thread has no record, so no slot
      while (!try_lock()) P::backoff(100000);
      return;
    }
    use((mine - 1) / BitsAWord + 1);
    bits_of(mine).fetch_or(waits(mine), std::memory_order_relaxed);  // published by (4)
    // Counts this thread as a waiter. LOCK,count,slot: 1,n,s -> 1,n+1,s, or 0,0,0 -> 0,1,0: then this thread has the
    // lock. (4) release: publishes this thread's bit to (5), by which unlock() reads the count. Acquire: as (1) in
    // try_lock(). Unlike a compare-and-swap, an addition cannot fail.
    const bool was_free = word_.fetch_add(one_waits, std::memory_order_acq_rel) == 0;
    P::doorway(this);
    if (was_free) {
      bits_of(mine).fetch_and(~waits(mine), std::memory_order_relaxed);
      word_.fetch_add(lock_bit - one_waits, std::memory_order_relaxed);
      return;
    }
    wait_for_turn(mine);
    // The new holder subtracts itself from the count and writes its slot. LOCK,count,slot: 1,n,s -> 1,n-1,mine.
    // Relaxed: other threads change only the count meanwhile, so the slot that was read is current.
    const std::uint64_t w = word_.load(std::memory_order_relaxed);
    word_.fetch_add((std::uint64_t{mine} << 32) - (w & ~std::uint64_t{0xffffffff}) - one_waits,
                    std::memory_order_relaxed);
  }

  void wait_for_turn(std::uint32_t mine) {
    auto& bits = bits_of(mine);
    const auto my_turn = [mine](std::uint64_t b) { return (b & waits(mine)) == 0; };
    if (W::poll(bits, my_turn)) return;  // (7) acquire: pairs with (6)
    if constexpr (W::parks) {
      for (;;) {
        std::uint64_t b = bits.load(std::memory_order_acquire);  // (7)
        if (my_turn(b)) return;
        // The thread sleeps only if the upper half of its word of bits is unchanged. The hand-over clears the thread's
        // mark there.
        if ((b & asleep(mine)) == 0 &&
            !bits.compare_exchange_strong(b, b | asleep(mine), std::memory_order_relaxed, std::memory_order_relaxed)) {
          P::backoff(0);
          continue;
        }
        P::park(bits, b | asleep(mine), std::uint32_t{1} << bit(mine));
      }
    }
  }

  /// Makes unlock() search the first n words.
  void use(std::uint32_t n) {
    std::uint32_t seen = used_.load(std::memory_order_relaxed);
    while (seen < n && !used_.compare_exchange_strong(seen, n, std::memory_order_relaxed, std::memory_order_relaxed))
      P::backoff(0);
  }

  typename P::template atomic<std::uint64_t> word_;
  typename P::template atomic<std::uint32_t> used_;
  typename P::template atomic<std::uint64_t> bits_[Words];
};

/// Has a slot for every possible thread_index(), which is below 2^16 on the native platform.
template <platform P, class W>
using fairlock_wide = basic_fairlock_wide<P, W, 2048>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
