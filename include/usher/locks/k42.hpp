// K42: an MCS lock whose callers provide no node. While a thread holds the lock, the lock itself stands for that thread
// in the queue, so a thread needs a node only while it waits.
//
// Source: Auslander et al., the variant of MCS in the K42 kernel, as the MCSg paper describes and measures it: §5.4,
// §6.1. `k42-tls` is the paper's K42-TLS: the node comes from a pool, not from the stack, so the lock works between
// processes. A thread-local variable keeps the node for the thread's next wait.
// Guarantees: FIFO (doorway: the compare-and-swap that puts the thread into the queue, or takes the free lock); no
// thread in the queue is overtaken or starves. The doorway is not bounded: the compare-and-swap fails whenever another
// thread has changed the tail, so a thread may starve before it.
// Cost: lock one compare-and-swap; unlock one if no thread waits, else a store into the next node (parking: an
// exchange). A thread that has waited needs one more to take its node out of the queue.
// Layout: tail · next: two 32-bit handles.
//
//     tail           next      situation
//     0              0         free
//     1 (self)       0         held; no thread waits
//     n              0         held; n is the last waiter; the first waiter has not yet written its handle to `next`
//     n              f         held; n is the last waiter, f the first
//     n              stale     held by a thread that is still replacing its node in the queue by the lock; until the
//                              tail is `self`, only this thread writes `next`
//
//     tail, next
//     0,0 -> self,0         lock(), try_lock()
//     self,0 -> m,0         contend(): m is the first and the last waiter; then next: 0 -> m
//     n,* -> m,*            contend(): m is behind n; then n's link: 0 -> m
//     self,0 -> 0,0         unlock(), if no thread waits. Otherwise it grants the first waiter, and tail and next do
//                           not change
//     m,m -> m,0 -> self,0  take_out() by m, the new holder; no other thread waits
//     n,m -> n,s            take_out() by m, the new holder; s is the next waiter
//
// A waiter that has been granted the lock replaces its node in the queue by the lock itself. Its node is free before
// the critical section begins.
//
// Here both forms take nodes from the platform, which has a few for each thread. `k42` takes one and gives it back;
// `k42-tls` uses the thread's cached node. k42_stack.hpp has the paper's nodes on the stack.
//
// The arrival is not enqueue() of mcs_queue.hpp but a compare-and-swap: if the tail is `self`, the link is a word of
// the lock.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// `LooksFirst`: an arriving thread loads the tail before its first attempt to change it.
template <platform P, class W, class Nodes, bool LooksFirst>
class basic_k42 {
 public:
  static constexpr lock_traits traits{
      .summary = "MCS that needs a queue node only while it waits",
      .paper = "MCSg, sections 5.4 and 6.1",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .words = 2,
      .checker_threads = 4,  // the nodes of waiters are on their stacks
  };

  void lock() {
    P::doorway(this);
    if (LooksFirst || !try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    node_handle expected = no_node;
    // Takes the free lock. tail,next: 0,0 -> self,0. (1) acquire: pairs with (2), the compare-and-swap in unlock(). If
    // the tail is 0, so is next.
    return tail_.compare_exchange_strong(expected, self, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    node_handle first = next_.load(std::memory_order_acquire);
    if (first == no_node) [[likely]] {
      node_handle expected = self;
      // Frees the lock. tail,next: self,0 -> 0,0. (2) release: pairs with (1), the compare-and-swap in try_lock().
      if (tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
        return;
      first = W::await_soon(next_, [](node_handle h) { return h != no_node; });  // the link is written soon
    }
    grant<P, W>(first);  // (3) release: (g2) in hand_over.hpp. Accesses only the node from here on
  }

  /// Called by the holder. Returns false only if another thread is certain to get the lock next.
  bool has_no_successor() const { return tail_.load(std::memory_order_relaxed) == self; }

 private:
  static constexpr node_handle self = 1;

  [[gnu::cold, gnu::noinline]] void contend() {
    node_handle mine = no_node;
    for (;;) {
      node_handle last = tail_.load(std::memory_order_relaxed);
      if (last == no_node) {
        if (try_lock()) break;
      } else if (mine == no_node && (mine = Nodes::take()) == no_node) {
        P::backoff(100000);  // all nodes are in use
        continue;
      } else {
        prepare<P>(mine);
        // tail: n -> m, this thread's node. (4) release: publishes the prepared node to the compare-and-swap (4) of the
        // successor. Acquire: pairs with the predecessor's (4), and with (5) in take_out(), so that the link below is
        // written after the 0 that take_out() has stored. If the node in the tail has left the queue and come back
        // since the load, it is the last node again: no harm.
        if (tail_.compare_exchange_strong(last, mine, std::memory_order_acq_rel, std::memory_order_relaxed)) {
          P::doorway(this);
          (last == self ? next_ : P::node(last).next).store(mine, std::memory_order_release);  // (6)
          wait_for_grant<P, W>(mine);                                                          // acquire: (3)
          take_out(mine);
          break;
        }
      }
      P::backoff(0);
    }
    if (mine != no_node) Nodes::give(mine);
  }

  /// Replaces the new holder's node in the queue by the lock itself.
  void take_out(node_handle mine) {
    node_handle second = P::node(mine).next.load(std::memory_order_acquire);  // acquire: pairs with (6), the link
    if (second == no_node) {
      // tail,next: m,m -> m,0 -> self,0. The store precedes the change of the tail to `self`, because after that change
      // the next arrival writes to next_.
      next_.store(no_node, std::memory_order_relaxed);
      node_handle expected = mine;
      // (5) release: publishes the store above to (4), the compare-and-swap in contend().
      if (tail_.compare_exchange_strong(expected, self, std::memory_order_release, std::memory_order_relaxed)) return;
      second = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
    }
    next_.store(second, std::memory_order_relaxed);  // n,m -> n,s. Read by this thread's unlock()
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template atomic<node_handle> next_;
};

template <platform P, class W>
using k42 = basic_k42<P, W, home_nodes<P>, false>;

template <platform P, class W>
using k42_tls = basic_k42<P, W, kept_nodes<P>, false>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
