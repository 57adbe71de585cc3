// The common part of locks that serve threads with a real-time priority first: a stack of their nodes, with its top in
// the lock's word.
//
// Source: ours; by POSIX (pthread_mutex_unlock) the scheduling policy determines which thread gets the mutex. A thread
// that is about to sleep asks for its real-time priority. If it has one, it does not join the lock's queue, where it
// would wait behind a thread that may get no CPU. Instead it pushes its node on the stack. While the stack is not
// empty, unlock does not free the lock: it removes the node of the highest priority and hands the lock, still held, to
// that node's thread. So the word of a free lock never contains a node: an urgent thread that finds the lock free locks
// it at once, and an unlock frees the lock by a compare-and-swap, which fails if a node has been pushed meanwhile. Only
// the owner removes nodes, at any place of the stack, so the top needs no version number. A thread that reads the top
// with acquire sees all nodes below it (lifo.hpp has the argument). A hand-over walks over all urgent waiters. A
// program without real-time threads pays for one query of the priority before each sleep.
//
//     word      bit 0 held · bits 1–7 the lock's own · bits 8–31 the node of the latest urgent waiter
//
//        held|… ──urgent arrival──► held|…|its node ──unlock──► held|…          handed to an urgent waiter by its node
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"

namespace usher::inline v2 {

/// The lock's word, and the operations on the stack of urgent waiters in it.
template <platform_with_priorities P, class W>
class urgent_waiters {
 protected:
  static constexpr std::uint32_t held = 1;
  static constexpr std::uint32_t urgent = 256, state_bits = urgent - 1;  // handles are below 2^24, as in numa_queue.hpp

  static constexpr bool is_free(std::uint32_t w) { return (w & held) == 0; }
  static constexpr node_handle latest_urgent(std::uint32_t w) { return w / urgent; }
  static node_handle link(node_handle h) { return P::node(h).next.load(std::memory_order_relaxed); }
  static std::uint32_t priority_of(node_handle h) { return P::node(h).mark.load(std::memory_order_relaxed); }

  [[gnu::cold, gnu::noinline]] void wait_by_priority(node_handle mine, std::uint32_t priority) {
    prepare<P>(mine);
    P::node(mine).mark.store(priority, std::memory_order_relaxed);
    std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    for (;; P::backoff(0)) {
      if (is_free(seen)) {
        if (outer_.compare_exchange_strong(seen, seen | held, std::memory_order_acquire, std::memory_order_relaxed))
          break;  // (1)
        continue;
      }
      P::node(mine).next.store(latest_urgent(seen), std::memory_order_relaxed);
      // (4) release: publishes the prepared node to (5), the owner's operations in take_urgent().
      if (outer_.compare_exchange_strong(seen, mine * urgent | (seen & state_bits), std::memory_order_release,
                                         std::memory_order_relaxed)) {
        wait_for_grant<P, W>(mine);
        break;
      }
    }
    P::give_node(mine);  // the granting thread does not touch the node after the grant
  }

  /// Called by the owner while the stack is not empty. Removes the node of the highest priority; of several such nodes
  /// the eldest, which is the lowest in the stack. The lock stays held, and belongs to that node's thread once the node
  /// is granted. Clears the bits `lost` of the word, which belong to the calling thread's hold.
  [[gnu::cold, gnu::noinline]] node_handle take_urgent(std::uint32_t lost) {
    // (5) acquire, here and in the compare-and-swap below: pairs with (4), by which an urgent waiter pushes its node.
    std::uint32_t seen = outer_.load(std::memory_order_acquire);
    for (;; P::backoff(0)) {
      const node_handle top = latest_urgent(seen);
      node_handle best = top, above = no_node;
      for (node_handle up = top, h = link(up); h != no_node; up = h, h = link(h))
        if (priority_of(h) >= priority_of(best)) {
          above = up;
          best = h;
        }
      const node_handle then_top = best == top ? link(best) : top;
      const std::uint32_t then = then_top * urgent | (seen & state_bits & ~lost);
      // No release is needed: the next owner is admitted by the grant of its node, not by this operation.
      if (then != seen &&
          !outer_.compare_exchange_strong(seen, then, std::memory_order_acquire, std::memory_order_acquire))
        continue;  // another urgent waiter has pushed its node, perhaps with a higher priority
      if (best != top) P::node(above).next.store(link(best), std::memory_order_relaxed);
      return best;
    }
  }

  typename P::template atomic<std::uint32_t> outer_;
};

}  // namespace usher::inline v2
