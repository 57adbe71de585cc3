// A ticket lock with proportional back-off: between two loads of grant a waiter pauses for a time proportional to the
// number of threads ahead of it. So waiters load grant less often, but all of them still load the same word.
//
// Source: Mellor-Crummey & Scott (TOCS 1991) as TWA (extended version), §3, describes it.
// Guarantees: those of `ticket`. A thread that is granted the lock during a pause enters only after the pause.
// Cost: lock one fetch-and-add, unlock a store (spinning) or one fetch-and-add (parking).
// Layout: two 32-bit words in one line, ticket_words.hpp.
#pragma once

#include "usher/locks/ticket.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class ticket_backoff : ticket_core<P, W> {
  using base = ticket_core<P, W>;

 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock; waiters back off by their distance",
      .paper = "TWA (extended), section 3",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
      .kinds = waiting_kind::spin | waiting_kind::spin_then_park,
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = base::draw();
    if (!base::served(mine)) [[unlikely]]
      stay_away(mine);
    P::admitted(this);
  }
  using base::count_from;
  using base::try_lock;
  using base::unlock;

 private:
  /// a_thread is the pause for each thread ahead: about the time of a hand-over and a short critical section; chosen,
  /// not measured. The paper: "platform- and load-dependent, and requires tuning".
  static constexpr std::uint32_t a_thread = 128, longest = 1000000;  // ns

  [[gnu::cold, gnu::noinline]] void stay_away(std::uint32_t mine) {
    const std::uint64_t spin_budget = W::spin_budget(), since = P::now();
    for (;;) {
      // Acquire: pairs with (2), the write to grant in unlock(): ticket.hpp.
      const std::uint32_t ahead = ticket_words::distance(mine, this->grant_.load(std::memory_order_acquire));
      if (ahead == 0) return;
      const std::uint64_t waited = P::now() - since;
      if (waited >= spin_budget) break;  // never true in the spinning form, whose budget has no limit
      std::uint64_t pause = ahead < longest / a_thread ? ahead * a_thread : longest;
      if (pause > spin_budget - waited) pause = spin_budget - waited;
      P::backoff(std::uint32_t(pause));
    }
    if constexpr (W::parks) ticket_words::sleep_until<P>(this->grant_, mine, ticket_words::mask_of(mine));
  }
};

}  // namespace usher::inline v2
