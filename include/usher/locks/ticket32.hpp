// A ticket lock in 32 bits: ticket and grant are fields of one word. The papers describe this form for the Linux
// kernel.
//
// Source: TWA (extended version), §4.9; Listing 1, lines 7–16.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. This holds as long as fewer than
// 2^16 threads wait (spinning) or 2^15 (parking).
// Cost: lock one fetch-and-add, which also returns whether the lock was free; unlock one fetch-and-add, since a store
// would overwrite the other field. While a waiter sleeps, unlock is a compare-and-swap.
// Layout: one 32-bit word.
//
//                 ticket         asleep     grant
//     spinning    bits 31…16                bits 15…0
//     parking     bits 31…17     bit 16     bits 14…0 (bit 15: 0)
//
//     ticket   the next number to be given out. Written by lock() and try_lock()
//     grant    the number now served. Written by unlock()
//     asleep   a waiter sleeps, or is about to. Set by that waiter. Read by unlock(), which wakes the next; cleared by
//              the unlock() that leaves no waiter
//
//     ticket,asleep,grant
//     n,0,n -> n+1,0,n      lock(), try_lock(): has the lock
//     m,a,n -> m+1,a,n      lock(): waits until grant is m
//     m,0,n -> m,1,n        wait_until(), before it sleeps
//     m,a,n -> m,a,n+1      unlock()
//     n+1,1,n -> n+1,0,n+1  unlock(), without waiters
//
// Numbers wrap. A carry out of ticket leaves the word. A carry out of grant would change the field above it. So the
// holder, which alone changes grant, subtracts the maximum when grant has reached it, and otherwise adds one.
//
// ticket_words::front_end is not used, because here one operation takes the number and reads grant.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <class W>
struct ticket32_word {
  static constexpr unsigned bits = W::parks ? 15 : 16;
  static constexpr std::uint32_t numbers = std::uint32_t{1} << bits;
  static constexpr std::uint32_t asleep = W::parks ? std::uint32_t{1} << 16 : 0;
  static constexpr std::uint32_t ticket_one = std::uint32_t{1} << (32 - bits);

  static constexpr std::uint32_t ticket(std::uint32_t w) { return w >> (32 - bits); }
  static constexpr std::uint32_t grant(std::uint32_t w) { return w & (numbers - 1); }
  /// Returns how many unlocks remain until the number `mine` is served.
  static constexpr std::uint32_t distance(std::uint32_t mine, std::uint32_t w) {
    return (mine - grant(w)) & (numbers - 1);
  }
  static constexpr std::uint32_t after(std::uint32_t number, std::uint32_t n) { return (number + n) & (numbers - 1); }
  /// Returns the number that the holder adds to the word to grant the next number without a carry out of the field.
  static constexpr std::uint32_t grant_step(std::uint32_t w) { return grant(w) == numbers - 1 ? 1 - numbers : 1; }

  template <class Word>
  static bool try_lock(Word& word) {
    std::uint32_t w = word.load(std::memory_order_relaxed);
    // Acquire: pairs with (2), the operation that advances grant. The whole state is in one word, so the
    // compare-and-swap fails after any change.
    return ticket(w) == grant(w) &&
           word.compare_exchange_strong(w, w + ticket_one, std::memory_order_acquire, std::memory_order_relaxed);
  }

  template <platform P, class Word>
  static void wait_until(Word& word, std::uint32_t mine, std::uint32_t mask) {
    const auto served = [mine](std::uint32_t w) { return grant(w) == mine; };
    if (W::poll(word, served)) return;  // acquire: pairs with (2)
    if constexpr (W::parks) {
      for (;;) {
        std::uint32_t w = word.load(std::memory_order_acquire);
        if (served(w)) return;
        // ticket,asleep,grant: m,0,n -> m,1,n. While this thread waits, the unlock() of ticket32 does not clear the
        // mark: the ticket in the same word shows the waiter. The unlock() of twa32 clears it and wakes the sleeper.
        if ((w & asleep) == 0 &&
            !word.compare_exchange_strong(w, w | asleep, std::memory_order_relaxed, std::memory_order_relaxed)) {
          P::backoff(0);
          continue;
        }
        P::park(word, w | asleep, mask);
      }
    }
  }

  static constexpr std::uint32_t of_number(std::uint32_t n) { return n % numbers * ticket_one | n % numbers; }
};

template <platform P, class W>
class ticket32 {
 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock in one 32-bit word",
      .paper = "TWA (extended), section 4.9",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 1,
  };

  void lock() {
    P::doorway(this);
    // (1) acquire: pairs with (2) in unlock(), since every other change is a read-modify-write and continues the
    // release sequence of (2).
    const std::uint32_t seen = word_.fetch_add(fields::ticket_one, std::memory_order_acquire);
    if (fields::ticket(seen) != fields::grant(seen)) [[unlikely]]
      wait(fields::ticket(seen));
    P::admitted(this);
  }

  bool try_lock() { return fields::try_lock(word_); }

  void unlock() {
    const std::uint32_t seen = word_.load(std::memory_order_relaxed);
    if constexpr (!W::parks) {
      word_.fetch_add(fields::grant_step(seen), std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      const wake_key key = P::key_of(word_);
      if (seen & fields::asleep) [[unlikely]]
        return unlock_asleep(seen, key);
      // (2) release: pairs with (1), the addition in lock(). If a waiter has set the mark since the load above, the
      // mark stays set for the next unlock.
      if (word_.fetch_add(fields::grant_step(seen), std::memory_order_release) & fields::asleep) [[unlikely]]
        P::wake(key, mask_of(fields::after(fields::grant(seen), 1)), all);
    }
  }

  void count_from(std::uint32_t n) { word_.store(fields::of_number(n), std::memory_order_relaxed); }

 private:
  using fields = ticket32_word<W>;

  /// Returns the futex mask of a number. Numbers that differ by a multiple of 32 share a bit, so a wake-up may reach a
  /// thread whose turn has not come.
  static constexpr std::uint32_t mask_of(std::uint32_t number) { return 1u << number % 32; }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    fields::template wait_until<P>(word_, mine, mask_of(mine));
  }

  /// The unlock while a waiter sleeps: grants the next number, and clears the mark if no thread waits. The
  /// compare-and-swap covers the whole word, so it fails if a thread has arrived meanwhile.
  [[gnu::cold, gnu::noinline]] void unlock_asleep(std::uint32_t seen, wake_key key) {
    for (;;) {
      std::uint32_t next = seen + fields::grant_step(seen);
      if (fields::grant(next) == fields::ticket(next)) next &= ~fields::asleep;
      // (2) release: pairs with (1)
      if (word_.compare_exchange_strong(seen, next, std::memory_order_release, std::memory_order_relaxed)) {
        P::wake(key, mask_of(fields::grant(next)), all);
        return;
      }
      P::backoff(0);
    }
  }

  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
