// MCSCRN: MCSCR for machines with several NUMA nodes. Threads of one node, called home, circulate. Unlock moves queued
// threads that run elsewhere to a list of remote threads. From time to time another node becomes home.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §9.1: "Our MCSCRN design starts with MCSCR, but we add two new
// fields".
// Guarantees: not FIFO. Work-conserving: never free while a thread waits. No bound on bypass, but every waiter is
// admitted with probability one (doorway: the exchange of tail). With probability 1/1000 an unlock moves home to the
// NUMA node of the eldest remote thread and serves that thread; otherwise it serves the eldest passive thread with the
// same probability.
// Cost: lock one exchange, as MCS; unlock a compare-and-swap if no thread waits, else the inspection of at most 8
// threads and the hand-over. A change of home walks over the list of remote threads. The size of the lock does not
// depend on the number of NUMA nodes, and without contention no operation queries a NUMA node.
// Layout: tail · passive threads · home and remote threads (numa_queue.hpp) · holder's node: four 32-bit words, 16
// bytes.
//
//     queue:    holder ─next→ a ─next→ b … ← tail      a remote and b known: a goes to the remote list
//                                                      both at home: a is surplus, and goes to the passive list
//     passive:  threads of home                        deficit: the youngest comes back
//     remote:   threads of other nodes                 no thread of home waits: home moves to the NUMA node of the
//                                                      eldest, whose listed threads all come back; passive threads
//                                                      become remote
//
//     First an unlock moves remote threads from the queue's front to the remote list: at most 8, and each only if its
//     link to the next thread is written.
//
//     first in the queue   passive   remote   unlock
//     none                 none      none     frees the lock
//     none                 some      any      deficit: grants the latest passive thread
//     none                 none      some     home moves: grants the eldest remote thread
//     of home              any       any      grants it; or, if another thread of home is behind it, makes it passive
//                                             and grants that thread
//     remote               some      any      puts the latest passive thread before it, and grants that thread
//     remote, not last     none      any      grants it
//     remote, last         none      some     home moves: grants the eldest remote thread
//     remote, last         none      none     home moves to its NUMA node: grants it
//     any                  any       some     once in FairnessPeriod: home moves
//     any                  some      any      once in FairnessPeriod: grants the eldest passive thread
//
// The lock itself protects the lists. Unlock changes them before the hand-over.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/numa_queue.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W, std::uint32_t FairnessPeriod = 1000>
class mcscrn_with_node {
 public:
  void lock(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) [[likely]]
      return;
    wait(mine, previous);
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    if (passive_.get() == no_node && remote_.empty()) [[likely]] {
      node_handle expected = mine;
      if (P::node(mine).next.load(std::memory_order_relaxed) == no_node &&  // successor() loads the link again
          tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
        return;
    }
    grant<P, W>(successor(mine));
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next.
  bool has_certain_successor(node_handle mine) const {
    return passive_.get() != no_node || !remote_.empty() || tail_.load(std::memory_order_relaxed) != mine;
  }

 private:
  using ring = node_ring<P>;

  [[gnu::cold, gnu::noinline]] void wait(node_handle mine, node_handle previous) {
    remote_.record_numa_node(mine);  // read by threads that have reached this node by its link
    wait_behind<P, W>(previous, mine);
  }

  /// Returns the next owner's node. There always is one: a thread is passive or remote, or unlock() has found another
  /// thread in the queue, whose link may not be written yet.
  [[gnu::cold, gnu::noinline]] node_handle successor(node_handle mine) {
    if (!remote_.empty() && P::bernoulli(FairnessPeriod)) return change_home(mine);
    if (passive_.get() != no_node && P::bernoulli(FairnessPeriod)) {
      const node_handle eldest = ring::eldest(passive_.get());
      passive_.set(ring::remove(passive_.get(), eldest));
      graft<P, W>(tail_, mine, {eldest, eldest});
      return eldest;
    }
    node_handle next = P::node(mine).next.load(std::memory_order_acquire);
    if (next == no_node) {
      // Deficit: the holder seems alone in the queue. If a thread has just arrived, threads from the passive and remote
      // lists go before it.
      if (passive_.get() != no_node) {
        const node_handle latest = take_latest();
        graft<P, W>(tail_, mine, {latest, latest});
        return latest;
      }
      if (!remote_.empty()) return change_home(mine);
      next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
    }
    next = remote_.cull(next);
    if (remote_.is_remote(next)) {
      if (passive_.get() == no_node) return remote_.next_owner(next);
      const node_handle latest = take_latest();
      P::node(latest).next.store(next, std::memory_order_relaxed);  // made visible by the grant
      return latest;
    }
    // Surplus: if another thread of the home node is behind `next`, `next` becomes passive. An unlock moves at most one
    // thread in this way.
    const node_handle after = P::node(next).next.load(std::memory_order_acquire);
    if (after == no_node || remote_.is_remote(after)) return next;
    passive_.set(ring::add(passive_.get(), next));
    return after;
  }

  node_handle take_latest() {
    const node_handle latest = passive_.get();
    passive_.set(ring::remove(latest, latest));
    return latest;
  }

  node_handle change_home(node_handle mine) {
    const node_chain c = remote_.change_home(passive_.get());
    passive_.set(no_node);
    graft<P, W>(tail_, mine, c);
    return c.first;
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> passive_;
  remote_threads<P, W> remote_;
};

template <platform P, class W>
class mcscrn : public with_thread_nodes<P, mcscrn_with_node<P, W>> {
 public:
  static constexpr lock_traits traits{
      .summary = "MCSCR that prefers threads of one NUMA node for a while",
      .paper = "Malthusian Locks, section 9.1",
      .starvation_free = true,
      .bounded_doorway = true,
      .restricts = true,
      .context = true,
      .words = 3,
  };
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
