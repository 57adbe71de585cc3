// MCS that wakes waiters ahead of their turn: an unlock grants its successor, and if the waiter behind the successor
// sleeps, wakes that waiter, too. In a FIFO queue the next owner has waited longest, so it usually sleeps, and MCS
// wakes it only when the lock is granted to it.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), footnote 19, on any lock with spin-then-park waiting; MCS as in
// mcs.hpp. The paper does not say to which lock the footnote applies.
// Guarantees: as MCS.
// Cost: as MCS. An unlock with a successor also loads the successor's link and, with two waiters or more, the flag of
// the waiter behind it. If that waiter sleeps, the unlock also stores to the flag, and wakes the waiter by a system
// call after the hand-over.
// Layout: as MCS. core/wake_ahead.hpp has the states of a waiter's flag.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"
#include "usher/core/wake_ahead.hpp"

namespace usher::inline v2 {

/// Distance: the place in the queue behind the successor of the waiter that is woken; 1: the next one.
template <platform P, class W, unsigned Distance>
class mcs_ahead_with_node {
 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) [[likely]]
      return;
    link_behind<P>(previous, mine);
    wait_for_grant_or_early_wake<P, W>(P::node(mine).flag);
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    const node_handle next = successor_or_free<P, W>(tail_, mine);
    if (next == no_node) return;
    early_wake<P> ahead;
    if constexpr (W::parks) {
      // The waiters behind `next` stay in the queue until `next` has had the lock. (1) acquire: pairs with (q2), the
      // write of the link, which publishes the waiter's prepared node.
      node_handle later = next;
      for (unsigned i = 0; i < Distance && later != no_node; i++)
        later = P::node(later).next.load(std::memory_order_acquire);
      if (later != no_node) ahead.choose(P::node(later).flag);
    }
    grant<P, W>(next);
    if constexpr (W::parks) ahead.wake();
  }

  bool has_no_successor(node_handle mine) const { return tail_.load(std::memory_order_relaxed) == mine; }

 private:
  typename P::template atomic<node_handle> tail_;
};

template <platform P, class W, unsigned Distance>
class basic_mcs_ahead : public with_thread_nodes<P, mcs_ahead_with_node<P, W, Distance>> {
 public:
  static constexpr lock_traits traits{
      .summary = "mcs that also wakes the waiter behind the next owner",
      .paper = "Malthusian Locks, footnote 19",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .context = true,
      .words = 1,
      .kinds = unsigned(waiting_kind::spin_then_park),
  };
};

template <platform P, class W>
using mcs_ahead = basic_mcs_ahead<P, W, 1>;

}  // namespace usher::inline v2
