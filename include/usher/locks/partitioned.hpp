// Partitioned ticket locks: ticket locks with several grant words, each in a cache sector of its own. Number n is
// announced in word n % Words, so only every Words-th waiter watches the same word. With at least as many words as
// threads this is Anderson's array lock: each waiter watches a word of its own.
//
// Source: TWA (extended version), §3, describes both: Dice, "A Partitioned Ticket Lock" (SPAA 2011); Anderson, "The
// Performance of Spin Lock Alternatives" (IEEE TPDS 1990).
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. In `partitioned-ticket` every 8th
// waiter watches the same word. In `anderson` each waiter has a word of its own as long as at most 64 threads hold the
// lock or wait for it. If there are more threads, waiters share words. Anderson's lock would fail in this case, because
// his words are flags; ours contain the number.
// Cost: lock one fetch-and-add, unlock a store (spinning) or one exchange (parking).
// Layout: ticket and the holder's number in 128 bytes, then Words words of 32 bits, each in 128 bytes: 1,152 bytes
// (`partitioned-ticket`), 8,320 bytes (`anderson`).
//
//     grants[n % Words]     bits 31…1: n, the last number of that remainder that was served    bit 0: `asleep`
//     numbers and marks as in ticket_words.hpp. A zeroed lock serves number 0.
//
//     grants[n % Words]: n − Words -> n, by the unlock of number n − 1, which also clears `asleep`. A sleeper sets it.
//
// ticket_words::front_end is not used: the word that announces a number depends on the number, and the holder's number
// is in a word of its own.
#pragma once

#include <bit>

#include "usher/core/ticket_words.hpp"

namespace usher::inline v2 {

template <platform P, class W, std::uint32_t Words>
class basic_partitioned {
  static_assert(std::has_single_bit(Words), "numbers wrap");

 public:
  static constexpr std::uint32_t words = Words;
  static constexpr lock_traits traits{
      .summary = Words > 8 ? "array lock: 64 waiters watch a word of their own each"
                           : "ticket lock with eight grant words in the lock",
      .paper = "TWA (extended), section 3",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = Words + 2,
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.fetch_add(ticket_words::one, std::memory_order_relaxed);
    // (1) acquire: pairs with (2), the write to grant in unlock().
    if (ticket_words::number(grant_of(mine).load(std::memory_order_acquire)) != mine) [[unlikely]]
      wait(mine);
    holder_.set(mine);
    P::admitted(this);
  }

  bool try_lock() {
    const std::uint32_t next = ticket_.load(std::memory_order_relaxed);
    // As in ticket_words.hpp: if ticket is still `next` at the compare-and-swap, the grant word was still `next`, too.
    if (!ticket_words::try_lock(ticket_, grant_of(next))) return false;
    holder_.set(ticket_words::number(grant_of(next).load(std::memory_order_relaxed)));
    return true;
  }

  void unlock() {
    const std::uint32_t next = holder_.get() + ticket_words::one;
    word& grant = grant_of(next);
    if constexpr (!W::parks) {
      grant.store(next, std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      const wake_key key = P::key_of(grant);
      // (2) release: pairs with (1), the load in lock(). The exchange clears the mark, and all threads that sleep on
      // this word are woken. Those with a later number set the mark again.
      if (grant.exchange(next, std::memory_order_release) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
  }

  void count_from(std::uint32_t n) {
    const std::uint32_t next = n * ticket_words::one;
    ticket_.store(next, std::memory_order_relaxed);
    // Sets each grant word to the value that it has while number n is served.
    for (std::uint32_t i = 0; i < Words; i++, n--)
      grant_of(n * ticket_words::one).store(n * ticket_words::one, std::memory_order_relaxed);
  }

  /// The same lock with few words, for tests.
  using small = basic_partitioned<P, W, 2>;

 private:
  using word = typename P::template atomic<std::uint32_t>;
  struct alignas(128) sector {
    word value;
  };

  word& grant_of(std::uint32_t number) { return grants_[number / ticket_words::one % Words].value; }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    ticket_words::wait_until<P, W>(grant_of(mine), mine, every_sleeper);
  }

  alignas(128) word ticket_;
  typename P::template plain<std::uint32_t> holder_;
  sector grants_[Words];
};

/// Eight words, chosen and not measured: the paper says "constant-length" and names no number.
template <platform P, class W>
using partitioned_ticket = basic_partitioned<P, W, 8>;

template <platform P, class W>
using anderson = basic_partitioned<P, W, 64>;

}  // namespace usher::inline v2
