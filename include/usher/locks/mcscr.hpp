// MCSCR: MCS with concurrency restriction. When more threads queue than the lock can use, unlock moves surplus ones
// from the queue to a list of passive threads, so that few threads circulate and their data stays in the caches. With a
// small probability an unlock serves the eldest passive thread.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §4.
// Guarantees: not FIFO. Work-conserving: never free while a thread waits. No bound on bypass, but every waiter is
// admitted with probability one (doorway: the exchange of tail), because each unlock serves the eldest passive thread
// with probability 1/1000.
// Cost: lock one exchange, as MCS; unlock a compare-and-swap if no thread waits, else the hand-over and list changes in
// constant time. A hand-over that changes no list accesses the same cache lines as MCS's.
// Layout: tail · eldest passive thread · holder's node: three 32-bit handles, 12 bytes. The flag of the holder's node
// contains the latest passive thread:
//
//     bit 0: granted     bit 1: parked     bits 8-31: the latest passive thread's node, 0: none
//
// An unlock that knows the latest passive thread passes it to the next holder by the store that grants the node. If a
// word of the lock contained it, arriving threads would take the word's cache line away, and a holder would have to
// fetch this line, after the flag's, before the hand-over. The flag of a thread that finds the lock free is still 0:
// then no thread is passive.
//
// The lock itself protects the passive list. Unlock changes the list before the hand-over.
//
//     queue:    holder ─next→ a ─next→ b … ← tail          a is "surplus" when b exists
//     passive:  latest ─older→ … ─older→ eldest            newer: the reverse links. The latest node's `newer` is
//                                                          undefined, so its removal writes to no other node.
//
//     behind the holder   passive list   unlock
//     none                none           frees the lock: tail m -> 0
//     none                latest, …      deficit: the latest thread's node replaces the holder's in the tail (m -> latest)
//                                        and is granted
//     a                   any            a is granted
//     a, b, …             any            surplus: a becomes the latest passive thread, b is granted; the spinning form
//                                        does so once in CullPeriod, otherwise a is granted
//     any                 …, eldest      once in FairnessPeriod: the eldest is put behind the holder and granted
//
// CullPeriod: an unlock that looks for surplus reads the next node's cache line before it grants the node; other
// unlocks fetch the line by the grant's store. Also, if each surplus thread became passive at once, the queue would
// often be empty at the next unlock, which would bring the thread back. So a spinning unlock looks once in 8 on average
// (chosen). With 1, 2, 4 and 8 the simulated MutexBench on the machine X5-2 made 0.70, 0.75, 0.78 and 0.82 of MCS's
// operations with 36 threads, and the number of circulating threads was within one of its value (2026-11-26, before
// commit 790ee244 changed the simulator's transfers). In forms that may sleep each unlock looks: a thread that has just
// become passive is probably awake, those in a long queue are not.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/numa_queue.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W, std::uint32_t FairnessPeriod = 1000,
          std::uint32_t CullPeriod = W::way.pace == pacing::by::polling && !W::parks ? 8 : 1>
class mcscr_with_node {
 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) [[likely]]
      return;
    wait(previous, mine);
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    if (latest_passive(mine) == no_node) [[likely]] {
      node_handle expected = mine;
      // Relaxed: the link is read again before it is followed.
      if (P::node(mine).next.load(std::memory_order_relaxed) == no_node &&
          tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
        return;
    }
    unlock_contended(mine);
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next.
  bool has_certain_successor(node_handle mine) const {
    return latest_passive(mine) != no_node || tail_.load(std::memory_order_relaxed) != mine;
  }

 private:
  static constexpr unsigned handle_at = 8;  // in the flag; handles are below 2^24: node.hpp

  /// Called by the holder. Relaxed: this thread has read the flag by acquire at its grant, or has written it itself.
  static node_handle latest_passive(node_handle mine) {
    return P::node(mine).flag.load(std::memory_order_relaxed) >> handle_at;
  }

  [[gnu::cold, gnu::noinline]] static void wait(node_handle previous, node_handle mine) {
    link_behind<P>(previous, mine);
    wait_for_flag<P, W>(mine, [](std::uint32_t f) { return (f & flag_granted) != 0; });
  }

  /// Hands the lock and the passive list to the thread that waits on this node.
  static void hand_over(node_handle h, node_handle latest) {
    grant_by_flag<P, W>(h, latest << handle_at | flag_granted);
  }

  [[gnu::cold, gnu::noinline]] void unlock_contended(node_handle mine) {
    const node_handle latest = latest_passive(mine);
    if (latest != no_node && P::bernoulli(FairnessPeriod)) return serve_eldest(mine, latest);
    node_handle next = P::node(mine).next.load(std::memory_order_acquire);  // pairs with (q2)
    if (next == no_node) {
      if (latest != no_node && replace_in_tail(mine, latest)) return;
      // The tail is another node, whose thread is about to write the link.
      next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
    }
    if ((CullPeriod == 1 || P::bernoulli(CullPeriod)) && cull(next, latest)) return;
    hand_over(next, latest);
  }

  void serve_eldest(node_handle mine, node_handle latest) {
    const node_handle eldest = eldest_.get();
    node_handle remaining = no_node;
    if (eldest != latest) {
      const node_handle newer = P::node(eldest).newer.get();
      P::node(newer).older.set(no_node);
      eldest_.set(newer);
      remaining = latest;
    }
    graft<P, W>(tail_, mine, {eldest, eldest});
    hand_over(eldest, remaining);
  }

  /// Deficit: the holder is alone in the queue. Puts the latest passive thread into the tail in the holder's place, and
  /// grants it. Returns false if a thread has just arrived: then there is no deficit, and nothing has changed.
  bool replace_in_tail(node_handle mine, node_handle latest) {
    node_handle expected = mine;
    // (3) release: pairs with the acquire of the exchange in enqueue(), by which an arrival finds this node in the
    // tail. In cull(), the node's `next` was set to no_node; by the hand-overs (g2) since then, that store happens
    // before this operation. So it precedes the arrival's link in the modification order of `next`; with a weaker order
    // it could overwrite the link. The checker (relacy) cannot show this, since its modification order is the order of
    // execution. No acquire: the tail was the holder's own node.
    if (!tail_.compare_exchange_strong(expected, latest, std::memory_order_release, std::memory_order_relaxed))
      return false;
    hand_over(latest, P::node(latest).older.get());
    return true;
  }

  /// Surplus: if another thread is behind `next`, makes `next` passive and grants the thread behind it. An unlock moves
  /// at most one thread, so its time is constant. Returns false if no thread is known to be behind `next`.
  bool cull(node_handle next, node_handle latest) {
    // Only the case of surplus needs this store. It precedes the load so that the cache line comes in the state in
    // which the grant can write it.
    P::node(next).older.set(latest);
    const node_handle after = P::node(next).next.load(std::memory_order_acquire);  // pairs with (q2)
    if (after == no_node) return false;
    P::node(next).next.store(no_node, std::memory_order_relaxed);  // for replace_in_tail()
    if (latest != no_node)
      P::node(latest).newer.set(next);
    else
      eldest_.set(next);
    hand_over(after, next);
    return true;
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> eldest_;  // undefined if no thread is passive
};

template <platform P, class W>
class mcscr : public with_thread_nodes<P, mcscr_with_node<P, W>> {
 public:
  static constexpr lock_traits traits{
      .summary = "MCS that sets surplus threads aside; fair in the long run",
      .paper = "Malthusian Locks, section 4",
      .starvation_free = true,
      .bounded_doorway = true,
      .restricts = true,
      .context = true,
      .words = 2,
      .kinds = every_waiting_kind_there_is,
  };
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
