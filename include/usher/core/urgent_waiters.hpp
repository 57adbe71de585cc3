// What locks share that serve threads with a real-time priority first: a stack of their nodes whose top is in the lock's word.
//
// Not the papers': POSIX (pthread_mutex_unlock) has the scheduling policy decide who gets the mutex. A thread that is about to sleep
// asks for its real-time priority. If it has one, it does not go to the lock's queue, where it would stand behind a thread that may
// get no CPU. It puts its node on the stack, and as long as there is one, unlock does not free the lock: it takes the best node off
// the stack and hands the lock, still held, to its thread. So there is no free word with a node in it: an urgent thread that finds the
// lock free takes it, and the unlock that frees does so by a compare-and-swap that sees whether anybody has come. Only the holder takes
// nodes off the stack, wherever they stand, so it needs no version number; a thread that sees the top by acquire sees all below: lifo.hpp has
// the argument. A hand-over walks over all urgent waiters. Programs without real-time threads pay for one question where a thread goes to
// sleep.
//
//     word      bit 0 held · bits 1–7 the lock's own · bits 8–31 the urgent waiter that came last: its node
//
//        held|… ──urgent arrival──► held|…|its node ──unlock──► held|…            handed to an urgent waiter by its node
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"

namespace usher::inline v1 {

/// The word, and what a lock does with the stack in it.
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
      // (4) release: the prepared node; pairs with (5).
      if (outer_.compare_exchange_strong(seen, mine * urgent | (seen & state_bits), std::memory_order_release,
                                         std::memory_order_relaxed)) {
        wait_for_grant<P, W>(mine);
        break;
      }
    }
    P::give_node(mine);  // the granter does not look at it again
  }

  /// By the holder, when there is one: takes off the stack who has the highest priority, of several the eldest, that is the
  /// lowest. The lock stays held, and is that thread's when its node is granted. The bits `lost` of the word are this thread's: they go.
  [[gnu::cold, gnu::noinline]] node_handle take_urgent(std::uint32_t lost) {
    // (5) acquire, and below on failure: pairs with (4).
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
      // Nobody is let in by this: the grant is the release.
      if (then != seen &&
          !outer_.compare_exchange_strong(seen, then, std::memory_order_acquire, std::memory_order_acquire))
        continue;  // somebody has come, perhaps a better one
      if (best != top) P::node(above).next.store(link(best), std::memory_order_relaxed);
      return best;
    }
  }

  typename P::template atomic<std::uint32_t> outer_;
};

}  // namespace usher::inline v1
