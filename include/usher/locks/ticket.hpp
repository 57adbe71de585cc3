// The ticket lock: a number is drawn on arrival, and the number being served is announced in one word that all
// waiters watch.
//
// Source: TWA (extended version), Listing 1, lines 7–16.
// Guarantees: FIFO (doorway: the fetch-and-add); nobody is overtaken, nobody starves.
// Cost: lock one fetch-and-add, unlock a store (spinning) or one fetch-and-add (parking).
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
// Parking: a sleeper waits on grant with the futex mask bit of its number, so that an unlock wakes the next in line
// alone (numbers 32 apart share a bit: those wake for nothing). The mark `asleep` stays set while there are waiters;
// a holder who has none takes it off.
#pragma once

#include "usher/locks/ticket_words.hpp"

namespace usher {

template <platform P, class W>
class ticket {
 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock: FIFO, all waiters watch one word",
      .paper = "TWA (extended), Listing 1, lines 7-16",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .words = 2,
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.fetch_add(ticket_words::one, std::memory_order_relaxed);
    // (1) acquire: pairs with (2).
    if (ticket_words::number(grant_.load(std::memory_order_acquire)) != mine) [[unlikely]]
      wait(mine);
    P::admitted(this);
  }

  bool try_lock() { return ticket_words::try_lock(ticket_, grant_); }

  void unlock() {
    const std::uint32_t g = grant_.load(std::memory_order_relaxed);
    if constexpr (!W::parks) {
      grant_.store(g + ticket_words::one, std::memory_order_release);  // (2)
    } else {
      if (g & ticket_words::asleep) [[unlikely]]
        unmark(g);
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1). The sum decides about the wake; the lock is not looked at again.
      if (grant_.fetch_add(ticket_words::one, std::memory_order_release) & ticket_words::asleep) [[unlikely]]
        P::wake(key, mask_of(ticket_words::number(g) + ticket_words::one), all);
    }
  }

  /// Asked by the holder. False only if another thread is certain to get the lock after it.
  bool alone() const {
    return ticket_.load(std::memory_order_relaxed) ==
           ticket_words::number(grant_.load(std::memory_order_relaxed)) + ticket_words::one;
  }

 private:
  static std::uint32_t mask_of(std::uint32_t number) { return 1u << (number / ticket_words::one % 32); }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    const auto served = [mine](std::uint32_t g) { return ticket_words::number(g) == mine; };
    if (W::poll(grant_, served)) return;
    if constexpr (W::parks) {
      for (;;) {
        const std::uint32_t g = grant_.load(std::memory_order_acquire);  // (1)
        if (served(g)) return;
        ticket_words::park_on<P>(grant_, g, mask_of(mine));
      }
    }
  }

  /// The holder takes the mark off if nobody waits.
  [[gnu::cold, gnu::noinline]] void unmark(std::uint32_t g) {
    const std::uint32_t next = ticket_words::number(g) + ticket_words::one;
    if (ticket_.load(std::memory_order_relaxed) != next) return;
    // A waiter draws its ticket before it sets the mark, and every sleeper sets it, also where it is set. So if its mark
    // came before this and is lost by it, then by acquiring it we also see the ticket, and put the mark back.
    grant_.fetch_and(~ticket_words::asleep, std::memory_order_acq_rel);
    if (ticket_.load(std::memory_order_acquire) != next)
      grant_.fetch_or(ticket_words::asleep, std::memory_order_relaxed);
  }

  typename P::template atomic<std::uint32_t> ticket_;
  typename P::template atomic<std::uint32_t> grant_;
};

}  // namespace usher
