// CLH: an implicit queue. A thread that arrives leaves a node of its own in the tail and watches the node that it found
// there; it goes away with that one, and its own stays behind for its successor to watch.
//
// Source: Craig (1993), Magnusson, Landin & Hagersten (1994), as the MCSg paper describes it: §5.2, §6.1. `clh-tls` is
// its CLH-TLS: what a thread goes away with stays in a thread-local variable and is what it brings next time.
// Guarantees: FIFO (doorway: the exchange of tail); nobody is overtaken, nobody starves.
// Cost: lock one exchange; unlock one compare-and-swap if nobody waits, else a store to the own node (parking: an
// exchange). There are no links, so nobody waits for one.
// Layout: tail · holder's node: two 32-bit handles.
//
//     tail           meaning
//     0              free: stands for a dummy that has been released
//     ≥ first_node   the last in the queue; if that is the holder, nobody waits
//
// The paper's lock always has a node in it: at first a dummy, then that of the last holder. Here the last in the queue
// takes its node out and leaves zero: zero bytes are a free lock, and an idle one keeps no node. That costs a
// compare-and-swap where the paper's unlock has a store.
//
// What becomes of a predecessor's node: `clh` gives it back to the record that it came from, a write to a line that the
// thread has just read; nodes are near their threads again each time. `clh-tls` keeps it, and nodes wander as in both
// of the paper's forms. There, the other difference is that CLH takes its first node from an array that the program
// prepares and CLH-TLS from a pool; here nodes come from the platform in either.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

template <platform P, class W, class Nodes>
class basic_clh {
 public:
  static constexpr lock_traits traits{
      .summary = "CLH queue lock: FIFO, waiters watch their predecessors",
      .paper = "MCSg, sections 5.2 and 6.1",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .context = true,
      .words = 1,
  };

  void lock() {
    P::doorway(this);
    node_handle mine;
    while ((mine = Nodes::take()) == no_node) P::backoff(1000000);
    P::node(mine).flag.store(flag_waiting, std::memory_order_relaxed);
    // (1) release: the successor that finds this node here sees it prepared. Acquire: pairs with (3).
    const node_handle previous = tail_.exchange(mine, std::memory_order_acq_rel);
    if (previous != no_node) [[unlikely]] {
      wait_for_grant<P, W>(previous);  // pairs with (2)
      Nodes::give(previous);           // its owner has done with it: granting was the last that it did
    }
    holder_.set(mine);
    P::admitted(this);
  }

  bool try_lock() {
    if (tail_.load(std::memory_order_relaxed) != no_node) return false;
    const node_handle mine = Nodes::take();
    if (mine == no_node) return false;
    P::node(mine).flag.store(flag_waiting, std::memory_order_relaxed);
    node_handle expected = no_node;
    if (!tail_.compare_exchange_strong(expected, mine, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      Nodes::give(mine);
      return false;
    }
    holder_.set(mine);
    return true;
  }

  void unlock() {
    const node_handle mine = holder_.get();
    node_handle expected = mine;
    // (3) release: pairs with (1). Where somebody else is seen in the tail, the successor is certain, and a
    // compare-and-swap would only take the line from those who arrive.
    if (tail_.load(std::memory_order_relaxed) == mine &&
        tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
        [[likely]]
      Nodes::give(mine);  // touches the node only: the lock may be gone
    else
      grant<P, W>(mine);  // (2) release. From here on the node is the successor's
  }

  /// Asked by the holder. False only if another thread is certain to get the lock after it.
  bool has_no_successor() const { return tail_.load(std::memory_order_relaxed) == holder_.get(); }

 private:
  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> holder_;
};

template <platform P, class W>
using clh = basic_clh<P, W, home_nodes<P>>;

template <platform P, class W>
using clh_tls = basic_clh<P, W, kept_nodes<P>>;

}  // namespace usher::inline v1
