// MCSg: an MCS lock that also admits guests, threads without a queue node. A guest takes the free lock by a mark in the
// tail word. A regular (a thread with a node) that exchanges the tail and finds the mark there puts it back by a second
// exchange. After the guest's unlock it enters again, together with the regulars that have queued behind it between the
// two exchanges.
//
// Source: Wang, Chabbi & Kimura, "Be My Guest – MCS Lock Now Welcomes Guests" (PPoPP 2016), Algorithm 1; back-off
// rules of §3.1 footnote 1 and §3.2. Algorithm 1 does not clear `next` on arrival; prepare() does.
// Guarantees: FIFO among regulars while no guest comes. After a guest, groups led by different regulars may overtake
// each other (Fig 2). Guests may starve.
// Cost: as MCS; for a guest one compare-and-swap each to lock and unlock.
// Layout: tail · holder's node: two 32-bit handles. The holder's node is 0 while a guest holds the lock.
//
//     tail
//     0                    free
//     1 (π, guest)         a guest holds the lock. Set by that guest, or put back by a leader; cleared by the guest's
//                          unlock. Read by arriving regulars, which must not take the lock
//     2 (guest_watched)    the same, and a group leader sleeps until the tail changes. Set by that leader (parking
//                          only; not in the paper); cleared and read by the guest's unlock, which wakes all leaders
//     ≥ first_node         the last regular in the queue; or, while a guest holds the lock, the last of a group whose
//                          leader is about to put the mark back
//
//     0 -> 1           guest's lock(), try_lock()
//     0, n -> m        regular's lock(): it has the lock (0) or queues behind n
//     1, 2 -> m        regular's lock(): it has removed the mark, and leads a group
//     m -> 1, 2        lead_group(): puts the mark back that it has found; the old tail, m or a later node, is the last
//                      of its group
//     1 -> 2           lead_group(), before it sleeps
//     0, n, 1, 2 -> g  lock() again, for the group whose last node is g: the leader has the lock (0), queues behind n,
//                      or leads again (1, 2)
//     1, 2 -> 0        guest's unlock(); waits while the tail is a node, whose leader is about to put the mark back
//     m -> 0           regular's unlock(), if m is its own node
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The pauses between attempts, which the paper leaves open. Forms of the lock with other pauses use another class.
template <platform P, class W>
class mcsg_pauses {
 public:
  static constexpr bool leader_watches = true;     ///< a leader tries again only after the mark is gone
  static constexpr bool guest_looks_first = true;  ///< a guest's unlock loads the tail before each attempt

  /// Called by a guest after each failed attempt at the lock. Exponential back-off (§3.1), in ns. The paper gives no
  /// bounds. With at most 8 µs, a hundred spinning guests kept the tail's cache line from the regulars
  /// (docs/simulation.md, G6).
  [[gnu::always_inline]] void after_failure() {
    P::backoff(P::random() % pause_ + pause_ / 2);
    if (pause_ < (W::parks ? 1u << 20 : 1u << 16)) pause_ *= 2;
  }

 private:
  std::uint32_t pause_ = 128;
};

/// The lock with its two interfaces: lock(node) for regulars, lock() for guests.
template <platform P, class W, class Pauses = mcsg_pauses<P, W>>
class mcsg_with_node {
  static_assert(Pauses::guest_looks_first || !W::parks, "a guest's unlock must see whether a leader sleeps");

 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    node_handle group_tail = mine;
    for (;;) {
      // Enqueues the caller's node, or the last node of its group: (q1) in mcs_queue.hpp. As in the paper, the tail is
      // polled only after the first pair of exchanges: a load before them would slow the common case.
      const node_handle previous = enqueue<P>(tail_, group_tail);
      if (previous == no_node) [[likely]]
        return;
      if (is_guest(previous)) [[unlikely]] {
        group_tail = lead_group(previous);
        continue;
      }
      wait_behind<P, W>(previous, mine);
      return;
    }
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) grant<P, W>(next);
  }

  /// Called by the holder with its node, or with no_node if it is a guest. Returns false only if another thread is
  /// certain to get the lock next.
  bool has_no_successor(node_handle mine) const {
    const node_handle last = tail_.load(std::memory_order_relaxed);
    return mine != no_node ? last == mine : is_guest(last);
  }

  // ---- guests

  void lock() {
    for (Pauses pauses; !try_lock();) pauses.after_failure();
  }

  bool try_lock() {
    node_handle expected = no_node;
    // tail: 0 -> 1. Acquire: pairs with the release of the operations that set the tail to 0.
    return tail_.compare_exchange_strong(expected, guest, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    const wake_key key = P::key_of(tail_);
    for (;;) {
      // tail: 1 or 2, the guest's mark -> 0. If a regular is between its two exchanges of the tail, waits until it has
      // put the mark back. Release: pairs with the acquire of the operations that find the tail 0.
      node_handle seen = Pauses::guest_looks_first ? W::await_soon(tail_, is_guest) : guest;
      if (tail_.compare_exchange_strong(seen, no_node, std::memory_order_release, std::memory_order_relaxed)) {
        if (seen == guest_watched) P::wake(key, every_sleeper, all);
        return;
      }
      P::backoff(0);
    }
  }

 private:
  static constexpr node_handle guest = 1, guest_watched = 2;
  static constexpr bool is_guest(node_handle h) { return h == guest || h == guest_watched; }

  /// Puts the guest's mark back and waits until it is gone. Returns the last node of the group that has queued behind
  /// this thread before the mark was back.
  [[gnu::cold, gnu::noinline]] node_handle lead_group(node_handle mark) {
    // (3) acquire: pairs with the release of the exchange that put the group's last node into the tail. The node's
    // owner cleared its link before that exchange. This thread will put the node into the tail again, where an arrival
    // finds it and writes the link; the clearing must come first. The checker (relacy) cannot show the need, since its
    // modification order is the order of execution. Release: pairs with the acquire of the next arrival.
    const node_handle group_tail = tail_.exchange(mark, std::memory_order_acq_rel);
    const auto changed = [](node_handle t) { return !is_guest(t); };
    if constexpr (!Pauses::leader_watches) P::backoff(0);
    while (Pauses::leader_watches && !W::poll(tail_, changed)) {
      if constexpr (W::parks) {
        node_handle seen = tail_.load(std::memory_order_relaxed);
        if (!is_guest(seen)) break;
        // tail: 1 -> 2 makes the guest's unlock wake this leader. Another leader's two exchanges may remove the mark
        // for a moment, but put the same mark back.
        if (seen == guest &&
            !tail_.compare_exchange_strong(seen, guest_watched, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(tail_, guest_watched, every_sleeper);
      }
    }
    return group_tail;
  }

  typename P::template atomic<node_handle> tail_;
};

template <platform P, class W>
class mcsg : public admits_guests<P, mcsg_with_node<P, W>> {
 public:
  static constexpr lock_traits traits{
      .summary = "MCS that also takes threads without a queue node",
      .paper = "MCSg, Algorithm 1",
      .starvation_free = false,
      .context = true,
      .words = 1,
  };
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
