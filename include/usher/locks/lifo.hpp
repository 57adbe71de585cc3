// LIFO-CR: waiters are on a stack and the unlocking thread pops the one that arrived last, so that few threads
// circulate; now and then it serves the eldest instead. The pure LIFO lock, `lifo`, never serves the eldest: then the
// fewest threads circulate that keep the lock busy, and a waiter may starve.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.2; footnote 41 on the pure form.
// Guarantees: not FIFO. Work-conserving: never free while a thread is on the stack. `lifo`: no bound on bypass, a
// waiter may starve. `lifo-cr`: every waiter on the stack is admitted with probability one: each unlock serves the
// eldest with probability 1/1000 (doorway: the compare-and-swap that pushes it). The way to the doorway is not bounded:
// the push is repeated whenever another thread has pushed or popped in between.
// Cost: lock and unlock one compare-and-swap each. Hand-over: one compare-and-swap that is not repeated; to the eldest:
// a walk down the stack.
// Layout: one 32-bit word. A thread needs a queue node only while it waits.
//
//     0             free
//     1             held, no thread waits
//     ≥ first_node  held; the node of the thread that arrived last. node.next: the one that arrived before it, 0 at the
//                   bottom
//
//     0 -> 1        lock(), try_lock(); push(), if the lock has become free
//     1 -> m        push(): m.next is 0
//     t -> m        push(): m.next is t
//     1 -> 0        unlock()
//     t -> t.next, or 1     take_latest(): the thread of t is granted; the lock stays held
//     t stays       take_latest(), if a push came in between: the second on the stack is granted; take_eldest(): the
//                   last
//
// The pop needs no version number, because only the holder takes nodes off the stack, at any depth. Between its read of
// top.next and its compare-and-swap the top node can neither leave nor come back with another next. A push needs none
// either, since it may put its node above any other node.
//
// Each push is a read-modify-write, so a thread that reads the top by acquire sees all nodes below as well (one release
// sequence). Links below the top change under the lock only.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

/// On average one unlock in FairnessPeriod serves the eldest; if it is 0, none does.
template <platform P, class W, std::uint32_t FairnessPeriod>
class basic_lifo {
 public:
  static constexpr lock_traits traits{
      .summary = FairnessPeriod != 0 ? "stack of waiters, now and then the eldest"
                                     : "stack of waiters: fewest circulate, the eldest may starve",
      .paper = "Malthusian Locks, appendix A.2",
      .starvation_free = FairnessPeriod != 0,
      .restricts = true,
      .words = 1,
  };
  static constexpr bool zero_iff_free = true;  ///< the word

  void lock() {
    P::doorway(this);
    std::uint32_t seen = free;
    // Takes the free lock: 0 -> held. (1) acquire: pairs with (2), the compare-and-swap in unlock().
    if (!top_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    std::uint32_t seen = free;
    return top_.load(std::memory_order_relaxed) == free &&
           top_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed);  // (1)
  }

  void unlock() {
    std::uint32_t seen = held;
    // Frees the lock: held -> 0. (2) release: pairs with (1), the operations that find the word 0. (3) acquire on
    // failure: pairs with (4), the push, since hand_over() reads the nodes.
    if (!top_.compare_exchange_strong(seen, free, std::memory_order_acq_rel, std::memory_order_acquire)) [[unlikely]]
      hand_over(seen);
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next.
  bool has_certain_successor() const { return top_.load(std::memory_order_relaxed) >= first_node; }

  auto uncontended() { return uncontended_word{top_, held}; }

 private:
  static constexpr std::uint32_t free = 0, held = 1;

  [[gnu::cold, gnu::noinline]] void contend() {
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // all nodes are in use: without a place on the stack
      while (!try_lock()) P::backoff(100000);
      return;
    }
    prepare<P>(mine);
    if (push(mine)) wait_for_grant<P, W>(mine);
    P::give_node(mine);  // the granter does not touch it again
  }

  /// Pushes the node on the stack and returns true. Returns false if the caller has found the lock free and taken it.
  bool push(node_handle mine) {
    std::uint32_t seen = top_.load(std::memory_order_relaxed);
    for (;; P::backoff(0)) {
      if (seen == free) {
        if (top_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed))
          return false;  // (1)
      } else {
        P::node(mine).next.store(seen == held ? no_node : seen, std::memory_order_relaxed);
        // top: held or another node -> this node. (4) release: publishes the prepared node to (3) and (5), by which the
        // holder reads the top.
        if (top_.compare_exchange_strong(seen, mine, std::memory_order_release, std::memory_order_relaxed)) return true;
      }
    }
  }

  [[gnu::cold, gnu::noinline]] void hand_over(node_handle top) {
    grant<P, W>(P::bernoulli(FairnessPeriod) ? take_eldest(top) : take_latest(top));
  }

  /// Removes and returns the top node, or the node below it if another thread has just pushed. The compare-and-swap is
  /// not repeated, so the time is constant.
  node_handle take_latest(node_handle top) {
    const node_handle below = link(top);
    node_handle seen = top;
    // top: t -> t.next, or held if t was the only node. (5) acquire on failure: pairs with (4), the push.
    if (top_.compare_exchange_strong(seen, below == no_node ? held : below, std::memory_order_acquire,
                                     std::memory_order_acquire))
      return top;
    // `top` is still on the stack, so the new top has a node below it. That node is removed.
    const node_handle second = link(seen);
    set_link(seen, link(second));
    return second;
  }

  node_handle take_eldest(node_handle top) {
    node_handle above = top, eldest = link(top);
    if (eldest == no_node) return take_latest(top);
    while (const node_handle below = link(eldest)) {
      above = eldest;
      eldest = below;
    }
    set_link(above, no_node);
    return eldest;
  }

  static node_handle link(node_handle h) { return P::node(h).next.load(std::memory_order_relaxed); }
  static void set_link(node_handle h, node_handle below) { P::node(h).next.store(below, std::memory_order_relaxed); }

  typename P::template atomic<std::uint32_t> top_;
};

template <platform P, class W>
using lifo = basic_lifo<P, W, 0>;

template <platform P, class W>
using lifo_cr = basic_lifo<P, W, 1000>;

}  // namespace usher::inline v1
