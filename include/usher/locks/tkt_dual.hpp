// TKT-Dual: a ticket lock with two words that announce a number, each in a cache sector of its own. The next thread in
// line watches one of them, all other waiters watch the other.
//
// Source: TWA (extended version), §6, TKT-Dual.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves.
// Cost: lock one fetch-and-add and a store (spinning) or two fetch-and-adds (parking); unlock a store (spinning) or one
// exchange (parking).
// Layout: three 32-bit words, each in 128 bytes: 384 bytes.
//
//     ticket    the next number to be given out
//     grant     the number now served. Watched by the next thread in line
//     entered   the number after the holder's, written by the holder. Watched by all other waiters. The waiter whose
//               number it is becomes the next in line
//
//     lock()     ticket: n -> n + 1; waits until entered is n, then until grant is n; entered: n -> n + 1
//     unlock()   grant: n -> n + 1
//
// In the paper, unlock first advances grant, which hands the lock over, and then writes the second word, although the
// next owner may have unmapped the lock by then. In the reverse order, the write to the word that many threads watch
// would delay the hand-over. Here the new owner writes that word, `entered`, at the beginning of its critical section,
// so the hand-over remains one store to a word that one thread watches. Every owner writes it, because it cannot know
// whether another thread has drawn a number.
//
// ticket_words::front_end is not used, because each word has a sector of its own.
#pragma once

#include "usher/core/ticket_words.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class tkt_dual {
 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock with a word for the next and one for the rest",
      .paper = "TWA (extended), section 6, TKT-Dual",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 3,
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.word.fetch_add(ticket_words::one, std::memory_order_relaxed);
    // (1) acquire: pairs with (2), the write to grant in unlock().
    if (ticket_words::number(grant_.word.load(std::memory_order_acquire)) != mine) [[unlikely]]
      wait(mine);
    enter(mine);
    P::admitted(this);
  }

  bool try_lock() {
    if (!ticket_words::try_lock(ticket_.word, grant_.word)) return false;
    enter(ticket_words::number(grant_.word.load(std::memory_order_relaxed)));
    return true;
  }

  void unlock() {
    const std::uint32_t next = ticket_words::number(grant_.word.load(std::memory_order_relaxed)) + ticket_words::one;
    if constexpr (!W::parks) {
      grant_.word.store(next, std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      const wake_key key = P::key_of(grant_.word);
      // (2) release: pairs with (1), the load in lock(). At most one thread watches grant; the exchange clears the
      // mark.
      if (grant_.word.exchange(next, std::memory_order_release) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
  }

  void count_from(std::uint32_t n) {
    ticket_.word.store(n * ticket_words::one, std::memory_order_relaxed);
    grant_.word.store(n * ticket_words::one, std::memory_order_relaxed);
    entered_.word.store(n * ticket_words::one, std::memory_order_relaxed);
  }

 private:
  struct alignas(128) sector {
    typename P::template atomic<std::uint32_t> word;
  };

  /// Makes the thread with the next number watch grant. Relaxed: only grant hands the lock over.
  void enter(std::uint32_t mine) {
    if constexpr (!W::parks) {
      entered_.word.store(mine + ticket_words::one, std::memory_order_relaxed);
    } else {
      const std::uint32_t next = mine + ticket_words::one;
      if (entered_.word.fetch_add(ticket_words::one, std::memory_order_relaxed) & ticket_words::asleep) [[unlikely]]
        wake_next(next);
    }
  }

  /// Each sleeper has a futex mask of one bit, which its number selects, as in ticket.hpp.
  [[gnu::cold, gnu::noinline]] void wake_next(std::uint32_t next) {
    P::wake(P::key_of(entered_.word), ticket_words::mask_of(next), all);
    ticket_words::unmark(ticket_.word, entered_.word, next);
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (ticket_words::distance(mine, grant_.word.load(std::memory_order_relaxed)) > 1)
      ticket_words::wait_until<P, W>(entered_.word, mine, ticket_words::mask_of(mine));
    ticket_words::wait_until<P, W>(grant_.word, mine, every_sleeper);
  }

  sector ticket_, grant_, entered_;
};

}  // namespace usher::inline v2
