// CLH: a queue without links. An arriving thread exchanges the tail for its own node and watches the node that it found
// there, its predecessor's. When it has the lock, it keeps the predecessor's node, and its own node stays for the
// successor to watch.
//
// Source: Craig (1993), Magnusson, Landin & Hagersten (1994), as the MCSg paper describes it: §5.2, §6.1. `clh-tls` is
// the paper's CLH-TLS: a thread-local variable holds the node that the thread has kept, and its next lock() uses that
// node.
// Guarantees: FIFO (doorway: the exchange of tail); no thread is overtaken or starves.
// Cost: lock one exchange; unlock one compare-and-swap if no thread waits, else a store to the thread's own node
// (parking: an exchange). Nodes have no links, so no unlock waits for a link.
// Layout: tail · holder's node: two 32-bit handles.
//
//     tail           meaning
//     0              free (in the paper: a dummy node that is granted)
//     ≥ first_node   the last node in the queue; if it is the holder's, no thread waits
//
//     0, n -> m      lock(): the thread has the lock (0) or watches node n
//     m -> 0         unlock() by the owner of m, if no successor watches m
//
//     flag of a node: waiting -> granted, by the unlock of the node's owner; its successor watches it (hand_over.hpp)
//
// The arrival is not that of mcs_queue.hpp: the node is prepared without a link, and the successor waits on the node
// that the exchange returns, not on its own.
//
// The paper's lock always contains a node: at first a dummy, later the last holder's. Here an unlock without waiters
// takes its node out and leaves 0. So zero bytes are a free lock, and an idle lock uses no node. This costs a
// compare-and-swap where the paper's unlock has a store.
//
// `clh` gives the predecessor's node back to the thread record that the node came from, by a write to a cache line that
// the thread has just read. `clh-tls` keeps the node, so nodes move from thread to thread, as in both of the paper's
// forms. In the paper, CLH takes a thread's first node from an array that the program prepares, and CLH-TLS from a
// pool; here both take it from the platform.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v2 {

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
    // (1) release: publishes the prepared node to the exchange (1) by which the successor finds it. Acquire: pairs with
    // the predecessor's exchange, or with (3), the compare-and-swap in unlock().
    const node_handle previous = tail_.exchange(mine, std::memory_order_acq_rel);
    if (previous != no_node) [[unlikely]] {
      wait_for_grant<P, W>(previous);  // acquire: pairs with (2), the grant
      Nodes::give(previous);           // its owner does not access it after the grant
    }
    holder_.set(mine);
    P::admitted(this);
  }

  bool try_lock() {
    // Relaxed: the compare-and-swap, which has the orders of (1), reads the tail again.
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
    // tail: m -> 0. (3) release: pairs with the acquire of (1), the exchange in lock(). If the tail is another node, a
    // successor exists: a compare-and-swap would fail, and would only take the cache line from arriving threads.
    if (tail_.load(std::memory_order_relaxed) == mine &&
        tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
        [[likely]]
      Nodes::give(mine);  // accesses the node only: the lock may be destroyed by now
    else
      grant<P, W>(mine);  // (2) release: (g2) in hand_over.hpp. From here on the node is the successor's
  }

  /// Called by the holder. Returns whether no thread waits in the queue. If it returns false, the first waiter is
  /// certain to get the lock next.
  bool has_no_successor() const { return tail_.load(std::memory_order_relaxed) == holder_.get(); }

 private:
  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> holder_;
};

template <platform P, class W>
using clh = basic_clh<P, W, home_nodes<P>>;

template <platform P, class W>
using clh_tls = basic_clh<P, W, kept_nodes<P>>;

}  // namespace usher::inline v2
