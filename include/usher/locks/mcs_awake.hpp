// MCS that prefers waiters that are awake: an unlock passes over waiters that sleep, which become passive, and grants
// the first one that still polls. So hand-overs without a wake-up are the rule, and threads that have fallen asleep
// circulate again only if no other thread waits, or when it is the turn of the eldest.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), footnote 19: "The lock might also favor succession to spinning
// threads over parked threads." The paper does not say which lock this is for, how far it searches, or what becomes of
// the threads that are passed over. Here it is MCS as in mcs.hpp, with MCSCR's passive list (§4) for the sleepers.
// Guarantees: not FIFO; among the waiters that stay awake, FIFO. Work-conserving: never free while a thread waits. No
// bound on bypass, but every waiter is admitted with probability one (doorway: the exchange of tail): each unlock
// serves the eldest passive thread with probability 1/1000.
// Cost: as MCS. An unlock with a successor also loads the successor's flag, in the line that it will write; for each
// sleeper, at most eight, it loads the link and adds the node to the list.
// Layout: tail · latest passive thread · holder's node: three 32-bit handles, 12 bytes.
//
//     queue:    holder ─next→ a ─next→ b … ← tail      S: sleeps (the flag is `parked`), A: is awake
//     passive:  a ring, named by its latest thread: node_ring in core/numa_queue.hpp
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
// "The last" is the last whose link is known, or the ninth. A thread may fall asleep just after the unlock has looked
// at its flag; then the grant wakes it, as in MCS. The lock protects the list, and unlock edits it before the hand-over.
// A passive thread sleeps on: only a grant wakes it.
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
  static constexpr unsigned most_passed = 8;  // in one unlock, so its time is constant; chosen, not measured

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

  /// Deficit: the holder is alone in the queue. The latest passive thread takes its place at the tail and is granted.
  /// Returns false if a thread has just arrived: then there is no deficit.
  bool replace_in_tail(node_handle mine) {
    const node_handle latest = latest_.get();
    P::node(latest).next.store(no_node, std::memory_order_relaxed);
    node_handle expected = mine;
    // Release: the store above comes before the link that the next arrival writes, after it has found this node in the
    // tail; mcscr.hpp explains this at (3). No acquire: the tail named the holder's own node.
    if (!tail_.compare_exchange_strong(expected, latest, std::memory_order_release, std::memory_order_relaxed))
      return false;
    latest_.set(ring::remove(latest, latest));
    grant<P, W>(latest);
    return true;
  }

  /// Makes sleepers at the queue's front passive while the front has a known successor. Returns the new front.
  node_handle pass_over_sleepers(node_handle front) {
    for (unsigned i = 0; i < most_passed; i++) {
      // Relaxed: only a grant ends this state.
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
