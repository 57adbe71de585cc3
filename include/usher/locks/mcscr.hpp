// MCSCR: MCS with concurrency restriction. When more threads queue than the lock can use, the unlocking thread moves
// surplus ones from the queue to a list of passive threads, so that few threads circulate and their data stays in the
// caches; now and then the eldest passive thread gets a turn.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §4.
// Guarantees: not FIFO. Work-conserving: never free while a thread waits. No bound on bypass, but every waiter is
// admitted with probability one (doorway: the exchange of tail): each unlock serves the eldest passive thread with
// probability 1/1000.
// Cost: lock one exchange, as MCS; unlock a compare-and-swap if no thread waits, else some list editing in constant
// time and the hand-over.
// Layout: tail · head and tail of the passive list · holder's node: four 32-bit handles, 16 bytes.
//
// The passive list is protected by the lock itself. Unlock edits it before the hand-over.
//
//     queue:    holder ─next→ a ─next→ b … ← tail          a is "surplus" when b exists
//     passive:  head (latest to be culled) ─older→ … ─older→ eldest ← tail
//
//     behind the holder   passive list   unlock
//     none                empty          frees the lock: tail m -> 0
//     none                latest, …      deficit: the latest takes the holder's place at the tail (m -> latest) and is
//                                        granted
//     a                   any            a is granted
//     a, b, …             any            surplus: a becomes the latest passive thread, b is granted
//     any                 …, eldest      once in FairnessPeriod: the eldest is put behind the holder and granted
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/numa_queue.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"

// gcc's -Wshadow warns if a parameter of a lambda or local class of this header has the name of an object of the
// including program. So the warning is off here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"

namespace usher::inline v1 {

template <platform P, class W, std::uint32_t FairnessPeriod = 1000>
class mcscr_with_node {
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
    if (passive_head_.get() == no_node) [[likely]] {
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
    return passive_head_.get() != no_node || tail_.load(std::memory_order_relaxed) != mine;
  }

 private:
  [[gnu::cold, gnu::noinline]] void unlock_contended(node_handle mine) {
    if (passive_head_.get() != no_node && P::bernoulli(FairnessPeriod)) {
      const node_handle eldest = passive_tail_.get();
      remove_eldest();
      graft<P, W>(tail_, mine, {eldest, eldest});
      grant<P, W>(eldest);
      return;
    }
    node_handle next = P::node(mine).next.load(std::memory_order_acquire);
    if (next == no_node) {
      const node_handle latest = passive_head_.get();
      if (latest == no_node) {
        // The passive list is empty, and unlock() has just found another node in the tail: its thread is about to write
        // the link.
        next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
      } else {
        // Deficit: the holder is alone in the queue. The latest passive thread takes its place at the tail.
        remove_latest();
        P::node(latest).next.store(no_node, std::memory_order_relaxed);
        node_handle expected = mine;
        // (3) release: pairs with the acquire of the exchange in enqueue(), by which an arrival finds this node in the
        // tail. So in the modification order of the node's next the store of no_node comes before the arrival's link.
        // With a weaker order that store could overwrite the link. The checker (relacy) cannot show this, since its
        // modification order is the order of execution. No acquire: tail named the holder's own node.
        if (tail_.compare_exchange_strong(expected, latest, std::memory_order_release, std::memory_order_relaxed)) {
          grant<P, W>(latest);
          return;
        }
        insert_latest(latest);  // a thread has just arrived: no deficit
        next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
      }
    }
    // Surplus: if another thread is behind `next`, `next` becomes passive. An unlock moves at most one thread, so its
    // time is constant.
    if (const node_handle after = P::node(next).next.load(std::memory_order_acquire)) {
      insert_latest(next);
      next = after;
    }
    grant<P, W>(next);
  }

  void insert_latest(node_handle h) {
    const node_handle head = passive_head_.get();
    P::node(h).older.set(head);
    P::node(h).newer.set(no_node);
    if (head != no_node)
      P::node(head).newer.set(h);
    else
      passive_tail_.set(h);
    passive_head_.set(h);
  }

  void remove_latest() {
    const node_handle rest = P::node(passive_head_.get()).older.get();
    passive_head_.set(rest);
    if (rest != no_node)
      P::node(rest).newer.set(no_node);
    else
      passive_tail_.set(no_node);
  }

  void remove_eldest() {
    const node_handle rest = P::node(passive_tail_.get()).newer.get();
    passive_tail_.set(rest);
    if (rest != no_node)
      P::node(rest).older.set(no_node);
    else
      passive_head_.set(no_node);
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> passive_head_;
  typename P::template plain<node_handle> passive_tail_;
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
      .words = 3,
      .kinds = every_waiting_kind_there_is,
  };
};

}  // namespace usher::inline v1

#pragma GCC diagnostic pop
