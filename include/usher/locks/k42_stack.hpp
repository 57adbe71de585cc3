// K42 whose waiters have their queue nodes on their stacks, in lock(), as in the paper. Threads need neither nodes from
// a pool nor thread records, so a program that embeds the lock may have any number of waiters, and short-lived threads.
//
// Source: Auslander et al., the variant of MCS in the K42 kernel, as the MCSg paper describes it: §5.4 ("K42 uses the
// stack memory of the thread as the queue node"), §6.1. k42.hpp has the same algorithm with the platform's nodes, which
// have 32-bit handles; here a node's handle is its address.
// Guarantees and cost: as k42.
// Layout: tail · next: two 64-bit words, 16 bytes. `self` is 1, the other values are addresses of nodes. States and
// transitions are those in k42.hpp.
//
// A node exists from before its address is in the tail until lock() returns. Two other threads access it: the successor
// writes the link, and the thread that hands over writes the flag, as its last access. A waiter returns only after two
// steps: it has seen the grant, and it has read its link or has replaced its node in the tail by `self`. Then no other
// thread can reach the node. A later node at the same address, of this or another lock, is a different node, since no
// thread has kept the address. Only a late wake-up may reach it, as a stray one.
//
// The program must keep a waiter's stack in place until lock() returns. While a thread waits, the program must not
// cancel it asynchronously, leave lock() by longjmp() or by an exception from a signal handler, or give the stack to
// another thread. After a fork the child lacks the stacks of the parent's other threads: if one of them waited, the
// child must not use the lock. libusher.so renews its locks in the child. Addresses have no meaning in another process:
// usher::shared_mutex_in<usher::k42_stack> does not compile.
#pragma once

#include "usher/core/waiting.hpp"
#include "usher/locks/lifo.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_stack_objects P, class W>
class k42_stack {
  using nodes = lifo_stack_nodes<P>;
  using node_type = typename nodes::node_type;
  using handle = typename nodes::handle;

 public:
  static constexpr lock_traits traits{
      .summary = "k42 whose waiters are objects on their threads' stacks",
      .paper = "MCSg, sections 5.4 and 6.1",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .words = 4,
      .checker_threads = 4,  // the waiters are objects on their stacks
  };

  void lock() {
    P::doorway(this);
    if (!try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    handle expected = none;
    // Takes the free lock. tail,next: 0,0 -> self,0. (1) acquire: pairs with (2), the compare-and-swap in unlock(). If
    // the tail is 0, so is next.
    return tail_.compare_exchange_strong(expected, self, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    handle first = next_.load(std::memory_order_acquire);  // acquire: pairs with (6), the link
    if (first == none) [[likely]] {
      handle expected = self;
      // Frees the lock. tail,next: self,0 -> 0,0. (2) release: pairs with (1), the compare-and-swap in try_lock().
      if (tail_.compare_exchange_strong(expected, none, std::memory_order_release, std::memory_order_relaxed)) return;
      first = W::await_soon(next_, [](handle h) { return h != none; });  // the link is written soon
    }
    nodes::template grant<W>(first);  // (3) release: (7) in lifo.hpp. Accesses only the node from here on
  }

  bool has_no_successor() const { return tail_.load(std::memory_order_relaxed) == self; }

 private:
  static constexpr handle none = 0, self = 1;

  [[gnu::cold, gnu::noinline]] void contend() {
    typename P::template local<node_type> node;  // no link; the flag is `waiting`
    const handle mine = nodes::handle_of(*node);
    for (;;) {
      handle last = tail_.load(std::memory_order_relaxed);
      if (last == none) {
        if (try_lock()) return;
      } else {
        // tail: n -> m, this thread's node. (4) release: publishes the node to the compare-and-swap (4) of the
        // successor. Acquire: pairs with the predecessor's (4), and with (5) in take_out(), so that the link below is
        // written after the 0 that take_out() has stored. If the address in the tail has become that of another node
        // since the load, that node is the last of this queue now: no harm.
        if (tail_.compare_exchange_strong(last, mine, std::memory_order_acq_rel, std::memory_order_relaxed)) {
          P::doorway(this);
          (last == self ? next_ : nodes::node(last).next).store(mine, std::memory_order_release);  // (6)
          nodes::template wait<W>(mine);                                                           // acquire: (3)
          return take_out(*node, mine);
        }
      }
      P::backoff(0);
    }
  }

  /// Replaces the new holder's node in the queue by the lock itself, after which no other thread accesses it.
  void take_out(node_type& node, handle mine) {
    handle second = node.next.load(std::memory_order_acquire);  // acquire: pairs with (6), the link
    if (second == none) {
      // tail,next: m,m -> m,0 -> self,0. The store precedes the change of the tail to `self`, because after that change
      // the next arrival writes to next_.
      next_.store(none, std::memory_order_relaxed);
      handle expected = mine;
      // (5) release: publishes the store above to (4), the compare-and-swap in contend().
      if (tail_.compare_exchange_strong(expected, self, std::memory_order_release, std::memory_order_relaxed)) return;
      second = W::await_soon(node.next, [](handle h) { return h != none; });
    }
    next_.store(second, std::memory_order_relaxed);  // n,m -> n,s. Read by this thread's unlock()
  }

  typename P::template atomic<handle> tail_;
  typename P::template atomic<handle> next_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
