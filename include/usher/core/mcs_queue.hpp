// Arrival at the queue of MCS, for all locks whose waiters form a linked list of queue nodes. The departure is
// successor_or_free() in hand_over.hpp.
//
//     tail           meaning
//     no_node        the queue is empty
//     ≥ first_node   the node of the thread that arrived last
//
//     arriving thread            tail             next of its predecessor t     flag of its node m
//        prepare(m)                                                             ? -> waiting
//        enqueue(tail, m)        t -> m
//        link_behind(t, m)                        no_node -> m
//        wait_for_grant(m)                                                      waiting (-> parked) -> granted
//
// Between the exchange of the tail and the link, t is no longer the last node but has no link to its successor yet: the
// unlock of t's thread waits for the link. If t is no_node, the queue was empty: the arriving thread is its head and
// skips the rest.
//
// Some locks have operations of their own on the tail. CLH has no links (clh.hpp). K42 keeps the lock itself in the
// queue, and qspinlock keeps the tail in a field of its word: both need a compare-and-swap (k42.hpp, qspinlock.hpp).
// MCSg and MCSg+ use enqueue(), but a thread without a node (a guest) exchanges the tail for a mark. In MCSg+ a thread
// may also exchange the tail for the last node of a group, and waiters may sleep on `next` (mcsg.hpp, mcsg_plus.hpp).
#pragma once

#include <atomic>

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"

namespace usher::inline v2 {

/// Makes a prepared node the last of the queue. Returns the previous last node, or no_node if the queue was empty.
template <platform P>
[[gnu::always_inline]] inline node_handle enqueue(typename P::template atomic<node_handle>& tail, node_handle mine) {
  // (q1) Release: publishes the prepared node to the exchange by which the successor finds this node. Acquire: pairs
  // with the release of the predecessor's exchange, because (q2) writes to the predecessor's node. If the queue was
  // empty, acquire pairs with the releasing compare-and-swap in successor_or_free(), because the critical section
  // begins.
  return tail.exchange(mine, std::memory_order_acq_rel);
}

/// Enters the queue only if it is empty. The caller need not prepare the node.
template <platform P>
[[gnu::always_inline]] inline bool try_enqueue(typename P::template atomic<node_handle>& tail, node_handle mine) {
  node_handle expected = no_node;
  if (tail.load(std::memory_order_relaxed) != no_node) return false;
  prepare<P>(mine);
  return tail.compare_exchange_strong(expected, mine, std::memory_order_acq_rel, std::memory_order_relaxed);  // (q1)
}

/// Writes this node's handle into the predecessor's `next`.
template <platform P>
[[gnu::always_inline]] inline void link_behind(node_handle previous, node_handle mine) {
  // (q2) Release: publishes this thread's writes to its node to the acquire loads of `next`, in successor_or_free() and
  // in the locks that edit their queues.
  P::node(previous).next.store(mine, std::memory_order_release);
}

/// link_behind(), then waits until the node is granted.
template <platform P, class W>
[[gnu::always_inline]] inline void wait_behind(node_handle previous, node_handle mine) {
  link_behind<P>(previous, mine);
  wait_for_grant<P, W>(mine);
}

}  // namespace usher::inline v2
