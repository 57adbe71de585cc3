// K42 with a waiter's queue node in its call of lock(), as in the paper: the lock takes no queue node from a pool and
// no thread needs a record, so a program that embeds it may have any number of waiters, and threads that live briefly.
//
// Source: Auslander et al., the variant of MCS in the K42 kernel, as the MCSg paper describes it: §5.4 ("K42 uses the
// stack memory of the thread as the queue node"), §6.1. k42.hpp has the same algorithm over the platform's nodes, whose
// names have 32 bits; here a node's name is its address.
// Guarantees: as k42: FIFO (doorway: the compare-and-swap that puts the thread into the queue, or takes the free lock);
// in the queue no thread is overtaken or starves. The way to the doorway is not bounded.
// Cost: as k42: lock one compare-and-swap; unlock one if no thread waits, else a store into the next node (parking: an
// exchange). A thread that has waited pays one more to take its node out of the queue.
// Layout: tail · next: two 64-bit words, 16 bytes. `self` is 1, the other values are addresses of nodes.
//
//     tail           next      situation
//     0              0         free
//     1 (self)       0         held; no thread waits
//     n              0         held; n is the last waiter, and the first waiter has not written its link yet
//     n              f         held; n is the last waiter, f the first
//     n              stale     held by a thread that is taking its node out: only the holder writes `next` until the
//                              tail is `self`
//
//     tail, next
//     0,0 -> self,0         lock(), try_lock()
//     self,0 -> m,0         contend(): m is the first and the last waiter; then next: 0 -> m
//     n,* -> m,*            contend(): m is behind n; then n's link: 0 -> m
//     self,0 -> 0,0         unlock(), if no thread waits. Else the first waiter is granted, tail and next stay as they
//                           are
//     m,m -> m,0 -> self,0  take_out(): m was the only waiter, and is the holder now
//     n,m -> n,s            take_out(): m is the holder now, s is behind it
//
// The life of a node begins before its address is in the tail, and ends when lock() returns. Two other threads access
// it: the successor writes the link, and the thread that hands over writes the flag. A waiter leaves only after it has
// been granted the lock, which is the last access of that thread, and after it has read its link or has put `self` into
// the tail in place of its node: then no thread can find the node in the tail any more. A later node at the same
// address, of this or another lock, is a different one; no thread has kept the old name. A late wake-up may reach it,
// where it is a stray one.
//
// The program must keep the stack of a waiter in place until lock() returns. So while a thread waits, the program must
// not end it (asynchronous cancellation), make it leave lock() by longjmp() or an exception of a signal handler, or give
// its stack to another thread. The child of a fork must not use the lock if other threads of the parent waited for it,
// since their stacks are gone; libusher.so renews its locks there. Between processes an address has no meaning:
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
      first = W::await_soon(next_, [](handle h) { return h != none; });  // it is about to write the link
    }
    nodes::template grant<W>(first);  // (3) release: (7) in lifo.hpp. Touches its node only
  }

  /// Called by the holder. Returns false only if another thread is certain to get the lock next.
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
        // written after the 0 that take_out() has stored. Another node may have come to the address in the tail since
        // the load: that does no harm, because it is the last one of this queue now.
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

  /// Replaces the new holder's node in the queue by the lock itself. After that no other thread accesses the node.
  void take_out(node_type& node, handle mine) {
    handle second = node.next.load(std::memory_order_acquire);  // acquire: pairs with (6), the link
    if (second == none) {
      // tail,next: m,m -> m,0 -> self,0. The store precedes the change of the tail to `self`: after that change the
      // next arrival writes to next_.
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
