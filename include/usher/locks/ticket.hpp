// The ticket lock: an arriving thread draws a number. One word, which all waiters watch, contains the number now
// served.
//
// Source: TWA (extended version), Listing 1, lines 7–16.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves.
// Cost: lock one fetch-and-add, unlock a store (spinning) or one fetch-and-add (parking).
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
//     lock()       ticket: n -> n + 1; waits until grant is n
//     unlock()     grant: n -> n + 1
//     try_lock()   ticket: n -> n + 1, only if grant is n
//
// Parking: a sleeper waits on grant with a futex mask of one bit, bit (number mod 32). An unlock wakes the sleepers
// that have the next number's bit: the next thread, and threads whose numbers are higher by a multiple of 32, which
// sleep again. The mark `asleep` in grant stays set until an unlock finds that no thread waits.
#pragma once

#include "usher/core/ticket_words.hpp"

namespace usher::inline v2 {

/// The ticket lock without the hooks doorway() and admitted(), for use as a part of other locks.
template <platform P, class W>
class ticket_core : public ticket_words::front_end<P> {
  using base = ticket_words::front_end<P>;

 public:
  void lock() {
    const std::uint32_t mine = base::draw();
    if (!base::served(mine)) [[unlikely]]
      wait(mine);
  }

  void unlock() {
    // Relaxed: only the holder changes the number, and (2) reads the mark `asleep` again.
    const std::uint32_t g = grant_.load(std::memory_order_relaxed);
    if constexpr (!W::parks) {
      grant_.store(g + ticket_words::one, std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      if (g & ticket_words::asleep) [[unlikely]]
        ticket_words::unmark(ticket_, grant_, ticket_words::number(g) + ticket_words::one);
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1), the load in served(). The old value shows whether a waiter sleeps, so the lock is
      // not accessed after its release.
      if (grant_.fetch_add(ticket_words::one, std::memory_order_release) & ticket_words::asleep) [[unlikely]]
        P::wake(key, ticket_words::mask_of(ticket_words::number(g) + ticket_words::one), all);
    }
  }

  /// Called by the holder. Returns false only if another thread is certain to get the lock next.
  bool has_no_successor() const { return ticket_.load(std::memory_order_relaxed) == base::following(); }

 protected:
  using base::ticket_, base::grant_;

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    ticket_words::wait_until<P, W>(grant_, mine, ticket_words::mask_of(mine));
  }
};

template <platform P, class W>
class ticket : ticket_core<P, W> {
  using base = ticket_core<P, W>;

 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock: FIFO, all waiters watch one word",
      .paper = "TWA (extended), Listing 1, lines 7-16",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
      .kinds = every_waiting_kind_there_is,
  };

  void lock() {
    P::doorway(this);
    base::lock();
    P::admitted(this);
  }
  using base::count_from;
  using base::has_no_successor;
  using base::try_lock;
  using base::unlock;
};

}  // namespace usher::inline v2
