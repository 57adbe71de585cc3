// Wide Fairlock: Fairlock with a bit for every thread that the process can have, in many words, served round-robin as
// there. The lock bit stays set through the hand-over, so that no arrival barges in.
//
// Source: Sivasubramanian, Stultz, Vogel & McKenney, "Fairlocks – A High Performance Fair Locking Scheme", §5, Figs
// 4–6, for more waiters than a word has bits. The paper has one word, and with it one compare-and-swap that both sees
// that no thread waits and frees the lock. Here the word of the lock bit counts the waiters; how is below.
// Guarantees: round-robin: once it is counted (doorway: the fetch-and-add), a waiter is overtaken at most once by each
// other slot, so at most (slots - 1) times, and at most once by each thread that waits: no waiter starves. trylock
// never overtakes a waiter. As in the paper a slot is a thread's for good. (A thread that can have no record has no
// slot, and waits without a place.)
// Cost: lock and unlock one compare-and-swap each. A waiter sets its bit, counts itself and takes itself off the count;
// unlock searches one word for each 32 threads that have ever waited here, until it finds a bit, and clears that bit.
// Layout: 64-bit word · how many words of bits are in use · the words of bits. 16 KiB, of which only the words in use
// are touched: meant for the inflatable form.
//
//     word
//     LOCK     bit 0         set by the thread that takes the free lock; a hand-over leaves it set
//     count    bits 1–31     the number of waiters. Changed by each waiter for itself: + 1 when its bit is set, − 1
//                            when it has the lock. Read by unlock: 0 lets it free the lock in the same operation
//     slot     bits 32–63    the holder's slot, 0 if it did not wait. Written by the new holder, read by its unlock:
//                            where the scan begins
//
//     bits of slots, a 64-bit word for 32 of them
//     bit i        the thread of that slot waits. Set by it, cleared by the unlock that hands it the lock
//     bit 32 + i   it sleeps, or is about to. Set by it, cleared and read by the same unlock, which wakes it
//
//     LOCK,count,slot
//     0,0,0    free
//     0,n,0    the lock is that of the thread that was counted first; it is about to set LOCK
//     1,n,s    held; n waiters are counted, and their bits are set, except that of a waiter to which the lock has just
//              been handed
//
//     0,0,0 -> 1,0,0              lock(), try_lock()
//     0,0,0 -> 0,1,0 -> 1,0,0     contend(), if it has found the lock free: clears its bit between the two
//     1,n,s -> 1,n+1,s            contend(): its bit is set
//     1,n,s stays                 unlock(), n > 0: clears the bit of the next waiter, whose lock it is
//     1,n,s -> 1,n-1,m            contend(), by that waiter, whose slot is m
//     1,0,s -> 0,0,0              unlock()
//
// A waiter sets its bit before it counts itself. So when a holder sees a count that is not 0, all counted waiters have
// their bits set, and it finds one. It may find a bit whose owner is not counted yet: then the lock is that owner's,
// LOCK stays set, and the owner counts itself, sees its bit clear, and takes itself off again.
//
// Only the holder clears bits of waiters. The holder's slot is the holder's to write, too.
#pragma once

#include <bit>

#include "usher/core/waiting.hpp"

// gcc's -Wshadow warns if a parameter of a lambda or local class of this header has the name of an object of the
// program that instantiates the template. So the warning is off in this header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"

namespace usher::inline v1 {

/// Slots: words of bits, and how many slots each has.
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
    // 0,0,0 -> 1,0,0. (1) acquire: pairs with (2) and (3), the compare-and-swaps in unlock() and unlock_contended().
    return word_.compare_exchange_strong(seen, lock_bit, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    std::uint64_t seen = lock_bit;
    // 1,0,0 -> 0,0,0. (2) release: pairs with (1), the compare-and-swap in try_lock(). (5) acquire on failure: pairs
    // with (4), by which a waiter is counted: its bit is seen.
    if (!word_.compare_exchange_strong(seen, 0, std::memory_order_acq_rel, std::memory_order_acquire)) [[unlikely]]
      unlock_contended(seen);
  }

  /// The form that few threads fill, for tests.
  using small = basic_fairlock_wide<P, W, 2, 2>;

 private:
  static constexpr std::uint64_t lock_bit = 1, one_waits = 2;

  static constexpr std::uint32_t holders_slot(std::uint64_t w) { return std::uint32_t(w >> 32); }
  static constexpr bool anyone_waits(std::uint64_t w) { return std::uint32_t(w) > lock_bit; }

  // Slots are numbered from 1 on. Bit and word of one:
  static constexpr unsigned bit(std::uint32_t slot) { return (slot - 1) % BitsAWord; }
  auto& bits_of(std::uint32_t slot) { return bits_[(slot - 1) / BitsAWord]; }
  static constexpr std::uint64_t waits(std::uint32_t slot) { return std::uint64_t{1} << bit(slot); }
  static constexpr std::uint64_t asleep(std::uint32_t slot) { return waits(slot) << 32; }

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint64_t w) {
    while (!anyone_waits(w)) {
      // 1,0,s -> 0,0,0. (3) release: pairs with (1), as (2). Fails if a waiter has just been counted; then acquire:
      // (5).
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

  /// The slot that is served next when `turn` was served last: the next one upwards whose bit is set, then from the
  /// lowest on. There is one.
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
    if (mine == 0 || mine > slots) {  // the thread can have no record: without a place
      while (!try_lock()) P::backoff(100000);
      return;
    }
    use((mine - 1) / BitsAWord + 1);
    bits_of(mine).fetch_or(waits(mine), std::memory_order_relaxed);  // published by (4)
    // 1,n,s -> 1,n+1,s, or 0,0,0 -> 0,1,0: then the lock is this thread's. (4) release: its bit; pairs with (5), by
    // which unlock() reads the count. Acquire: as (1). An addition, which cannot fail.
    const bool was_free = word_.fetch_add(one_waits, std::memory_order_acq_rel) == 0;
    P::doorway(this);
    if (was_free) {
      bits_of(mine).fetch_and(~waits(mine), std::memory_order_relaxed);
      word_.fetch_add(lock_bit - one_waits, std::memory_order_relaxed);
      return;
    }
    wait_for_turn(mine);
    // 1,n,s -> 1,n-1,mine. Relaxed: other threads only add to the count.
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
        // A sleeper watches the upper half: the hand-over clears its mark there.
        if ((b & asleep(mine)) == 0 &&
            !bits.compare_exchange_strong(b, b | asleep(mine), std::memory_order_relaxed, std::memory_order_relaxed)) {
          P::backoff(0);
          continue;
        }
        P::park(bits, b | asleep(mine), std::uint32_t{1} << bit(mine));
      }
    }
  }

  /// Has unlock search the first n words.
  void use(std::uint32_t n) {
    std::uint32_t seen = used_.load(std::memory_order_relaxed);
    while (seen < n && !used_.compare_exchange_strong(seen, n, std::memory_order_relaxed, std::memory_order_relaxed))
      P::backoff(0);
  }

  typename P::template atomic<std::uint64_t> word_;
  typename P::template atomic<std::uint32_t> used_;
  typename P::template atomic<std::uint64_t> bits_[Words];
};

/// A slot for every thread_index() that there can be: natively they are below 2^16.
template <platform P, class W>
using fairlock_wide = basic_fairlock_wide<P, W, 2048>;

}  // namespace usher::inline v1

#pragma GCC diagnostic pop
