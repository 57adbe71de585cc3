// MCS that prefers waiters that are awake: an unlock skips waiters that sleep, moves them to a list of passive threads,
// and grants the first waiter that still polls. So most hand-overs need no wake-up. A passive thread gets the lock
// again only if no thread is queued, or when an unlock serves the eldest passive thread.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), footnote 19: "The lock might also favor succession to spinning
// threads over parked threads." The paper does not say for which lock, how far an unlock searches, or what happens to
// the threads that it skips. This is MCS as in mcs.hpp, with MCSCR's passive list (§4) for the sleepers.
// Guarantees: not FIFO; FIFO among the waiters that stay awake. Work-conserving: never free while a thread waits. No
// bound on bypass, but every waiter is admitted with probability one (doorway: the exchange of tail), because each
// unlock serves the eldest passive thread with probability 1/1000.
// Cost: as MCS. An unlock with a successor also loads the successor's flag, which is in the cache line that the grant
// writes. For each sleeper that it skips, at most eight, it loads the link and adds the node to the list.
// Layout: tail · latest passive thread · holder's node: three 32-bit handles, 12 bytes.
//
//     queue:    holder ─next→ a ─next→ b … ← tail      S: sleeps (the flag is `parked`), A: is awake
//     passive:  a ring of nodes; the lock stores the latest one: node_ring in core/numa_queue.hpp
//
//     behind the holder   passive list   unlock
//     none                none           frees the lock: tail m -> 0
//     none                latest, …      deficit: the latest takes the holder's place at the tail (m -> latest) and is
//                                        granted
//     A, …                any            the first is granted
//     S … S, A, …         any            the sleepers become passive; the first that is awake is granted
//     S … S, S            any            all but the last become passive; the last, which came last, is granted
//     any                 …, eldest      once in FairnessPeriod: the eldest is put behind the holder and granted
//
// "The last" is the last node whose link is known, or the ninth node. If a thread falls asleep just after the unlock
// has loaded its flag, the grant wakes it, as in MCS. The lock protects the list: unlock changes it before the
// hand-over. Only a grant wakes a passive thread.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/numa_queue.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W, std::uint32_t FairnessPeriod>
class mcs_awake_with_node {
  using ring = node_ring<P>;

 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) [[likely]]
      return;
    wait_behind<P, W>(previous, mine);
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    if (latest_.get() != no_node) [[unlikely]]
      return unlock_with_sleepers(mine);
    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) [[unlikely]]
      grant<P, W>(pass_over_sleepers(next));
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next.
  bool has_certain_successor(node_handle mine) const {
    return latest_.get() != no_node || tail_.load(std::memory_order_relaxed) != mine;
  }

 private:
  static constexpr unsigned most_passed = 8;  // sleepers that an unlock skips: bounds its time; chosen, not measured

  [[gnu::cold, gnu::noinline]] void unlock_with_sleepers(node_handle mine) {
    if (P::bernoulli(FairnessPeriod)) {
      const node_handle eldest = ring::eldest(latest_.get());
      latest_.set(ring::remove(latest_.get(), eldest));
      graft<P, W>(tail_, mine, {eldest, eldest});
      return grant<P, W>(eldest);
    }
    node_handle next = P::node(mine).next.load(std::memory_order_acquire);  // acquire: pairs with (q2), the link
    if (next == no_node) {
      if (replace_in_tail(mine)) return;
      next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
    }
    grant<P, W>(pass_over_sleepers(next));
  }

  /// Deficit: the holder is alone in the queue. Puts the latest passive thread into the tail in the holder's place, and
  /// grants it. Returns false if a thread has just arrived: then there is no deficit.
  bool replace_in_tail(node_handle mine) {
    const node_handle latest = latest_.get();
    P::node(latest).next.store(no_node, std::memory_order_relaxed);
    node_handle expected = mine;
    // Release: orders the store above before the link that the next arrival writes to this node, after it has found the
    // node in the tail; mcscr.hpp explains this at (3). No acquire: the tail was the holder's own node.
    if (!tail_.compare_exchange_strong(expected, latest, std::memory_order_release, std::memory_order_relaxed))
      return false;
    latest_.set(ring::remove(latest, latest));
    grant<P, W>(latest);
    return true;
  }

  /// Moves sleepers at the queue's front to the passive list, as long as the successor of the front is known. Returns
  /// the new front.
  node_handle pass_over_sleepers(node_handle front) {
    for (unsigned i = 0; i < most_passed; i++) {
      // Relaxed: the state flag_parked ends only by a grant, which is this thread's task.
      if (P::node(front).flag.load(std::memory_order_relaxed) != flag_parked) break;
      const node_handle behind = P::node(front).next.load(std::memory_order_acquire);  // acquire: pairs with (q2)
      if (behind == no_node) break;
      latest_.set(ring::add(latest_.get(), front));
      front = behind;
    }
    return front;
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> latest_;
};

template <platform P, class W, std::uint32_t FairnessPeriod>
class basic_mcs_awake : public with_thread_nodes<P, mcs_awake_with_node<P, W, FairnessPeriod>> {
 public:
  static constexpr lock_traits traits{
      .summary = "mcs that passes over sleepers; fair in the long run",
      .paper = "Malthusian Locks, footnote 19",
      .starvation_free = true,
      .bounded_doorway = true,
      .restricts = true,
      .context = true,
      .words = 2,
      .kinds = unsigned(waiting_kind::spin_then_park),
  };
};

template <platform P, class W>
using mcs_awake = basic_mcs_awake<P, W, 1000>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
