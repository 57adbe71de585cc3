// K42: an MCS lock whose callers bring nothing. The lock itself stands in the queue for its holder, so that a thread needs
// a node only while it waits: the paper's, on its stack.
//
// Source: Auslander et al., the variant of MCS in the K42 kernel, as the MCSg paper describes and measures it: §5.4,
// §6.1. `k42-tls` is its K42-TLS: the node is not on the stack but borrowed from a pool, and kept in a thread-local
// variable for the next time, which makes the lock fit for use between processes.
// Guarantees: FIFO (doorway: the compare-and-swap that puts the thread into the queue, or takes the free lock); in the queue
// nobody is overtaken, nobody starves. The way to the doorway is not bounded: the compare-and-swap fails for as long as others come
// and go in time, and a thread may starve before it.
// Cost: lock one compare-and-swap; unlock one if nobody waits, else a store into the next node (parking: an exchange). Who
// has waited pays one more to take its node out of the queue.
// Layout: tail · next: two 32-bit handles.
//
//     tail           meaning                     next
//     0              free                        0
//     1 (self)       held; nobody waits          0
//     ≥ first_node   held; the last who waits    the first who waits; 0 until it has written the link
//
// A waiter that has been granted the lock puts the lock in the place of its node: the tail becomes `self` where the node
// is the last, `next` its successor where it is not. Then the node is free, before the critical section.
//
// Nodes come from the platform here, on which a thread has some of its own. So what is left of the difference between
// the two: `k42` takes a node of the thread's own and gives it back; `k42-tls` uses the one that it keeps.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

template <platform P, class W, class Nodes>
class basic_k42 {
 public:
  static constexpr lock_traits traits{
      .summary = "MCS that needs a queue node only while it waits",
      .paper = "MCSg, sections 5.4 and 6.1",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .words = 2,
  };

  void lock() {
    P::doorway(this);
    if (!try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    node_handle expected = no_node;
    // (1) acquire: pairs with (2). A tail of 0 says that next is 0, too.
    return tail_.compare_exchange_strong(expected, self, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    node_handle first = next_.load(std::memory_order_acquire);
    if (first == no_node) [[likely]] {
      node_handle expected = self;
      // (2) release: pairs with (1).
      if (tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
        return;
      first = W::await_soon(next_, [](node_handle h) { return h != no_node; });  // it is about to write the link
    }
    grant<P, W>(first);  // (3) release: touches its node only
  }

  /// Asked by the holder. False only if another thread is certain to get the lock after it.
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
        P::backoff(100000);  // none to be had: perhaps the lock is free then
        continue;
      } else {
        prepare<P>(mine);
        // (4) release: the successor that finds this node here sees it prepared. Acquire: pairs with (4), and with
        // (5), so that what we write to next comes after what is written there. That a node may meanwhile have left
        // and come back does not matter: it is the last.
        if (tail_.compare_exchange_strong(last, mine, std::memory_order_acq_rel, std::memory_order_relaxed)) {
          P::doorway(this);
          (last == self ? next_ : P::node(last).next).store(mine, std::memory_order_release);  // (6)
          wait_for_grant<P, W>(mine);                                                          // pairs with (3)
          take_out(mine);
          break;
        }
      }
      P::backoff(0);
    }
    if (mine != no_node) Nodes::give(mine);
  }

  /// The lock takes the place of its new holder's node in the queue.
  void take_out(node_handle mine) {
    node_handle second = P::node(mine).next.load(std::memory_order_acquire);  // pairs with (6)
    if (second == no_node) {
      // Before the tail says `self`: from then on the next who comes writes here.
      next_.store(no_node, std::memory_order_relaxed);
      node_handle expected = mine;
      // (5) release: the store above.
      if (tail_.compare_exchange_strong(expected, self, std::memory_order_release, std::memory_order_relaxed)) return;
      second = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
    }
    next_.store(second, std::memory_order_relaxed);  // for our own unlock()
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template atomic<node_handle> next_;
};

template <platform P, class W>
using k42 = basic_k42<P, W, home_nodes<P>>;

template <platform P, class W>
using k42_tls = basic_k42<P, W, kept_nodes<P>>;

}  // namespace usher::inline v1
