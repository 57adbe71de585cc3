// A ticket lock whose unlock is an atomic addition, not a store. The paper measured with it whether an unlock without
// an atomic operation makes a ticket lock faster ("we observe no appreciable change in performance").
//
// Source: TWA (extended version), §1.
// Guarantees: those of `ticket`.
// Cost: lock one fetch-and-add, unlock one fetch-and-add.
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
// Only the spinning form differs from `ticket`: the parking form of `ticket` releases by an atomic addition, too.
#pragma once

#include "usher/locks/ticket.hpp"

namespace usher::inline v2 {

template <platform P, class W>
class ticket_xadd : ticket_core<P, W> {
  using base = ticket_core<P, W>;

 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock that releases by an atomic addition",
      .paper = "TWA (extended), section 1",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
      .kinds = waiting_kind::spin | waiting_kind::spin_then_park,
  };

  void lock() {
    P::doorway(this);
    base::lock();
    P::admitted(this);
  }

  void unlock() {
    if constexpr (W::parks)
      base::unlock();
    else  // release: pairs with the acquire load of grant in served()
      this->grant_.fetch_add(ticket_words::one, std::memory_order_release);
  }
  using base::count_from;
  using base::try_lock;
};

}  // namespace usher::inline v2
