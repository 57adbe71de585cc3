// MCS: waiters form a linked list, and each watches a flag in its own node. A thread keeps its node while it holds the
// lock.
//
// Source: Mellor-Crummey & Scott (TOCS 1991), as the papers describe it: MCSg §2 and Algorithm 1 without lines 7–10,
// Malthusian §4 footnote 10.
// Guarantees: FIFO (doorway: the exchange of tail); no thread is overtaken or starves.
// Cost: lock one exchange; unlock a compare-and-swap if no thread waits, else a store into the next node (parking: an
// exchange).
// Layout: one 32-bit word, the handle of the last node in the queue (0: free). The holder's node is first.
// core/mcs_queue.hpp has the steps of lock() and their memory orders, core/hand_over.hpp those of the hand-over.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v2 {

/// The lock as in the papers: every operation takes the caller's node.
template <platform P, class W>
class mcs_with_node {
 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) [[likely]]
      return;
    wait_behind<P, W>(previous, mine);
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) grant<P, W>(next);
  }

  /// Called by the holder. Returns false only if another thread is certain to get the lock next.
  bool has_no_successor(node_handle mine) const { return tail_.load(std::memory_order_relaxed) == mine; }

  /// Returns the last node in the queue, or no_node if the lock is free. A hint: other threads may change it at any
  /// time.
  node_handle last() const { return tail_.load(std::memory_order_relaxed); }

 private:
  typename P::template atomic<node_handle> tail_;
};

template <platform P, class W>
class mcs : public with_thread_nodes<P, mcs_with_node<P, W>> {
 public:
  static constexpr lock_traits traits{
      .summary = "MCS queue lock: FIFO, each waiter watches its own word",
      .paper = "MCSg, Algorithm 1 without lines 7-10",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .context = true,
      .words = 1,
      .kinds = every_waiting_kind_there_is,
  };
};

}  // namespace usher::inline v2
