// Preemption-tolerant MCS: an unlock skips waiters that have lost their CPU and evicts them from the queue. An evicted
// thread enters the queue again when it runs. If all waiters are evicted, the unlock frees the lock.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §7: unlock "can check for and evict such threads from the chain,
// forcing them to recirculate and 're-arrive' after they are eventually dispatched". The detection of preemption
// follows He, Scherer & Scott, "Preemption Adaptivity in Time-Published Queue-Based Spin Locks" (HiPC 2005), because
// Linux has no schedctl.
// Guarantees: FIFO among threads that keep running (doorway: the first exchange of tail). One call of
// lock() is evicted at most eight times; then its place is firm (cannot be evicted), so no thread starves. While a
// thread is out of the queue, any number of others may overtake it.
// Cost: lock one exchange; unlock a compare-and-swap if no thread waits, else a query of the clock and a store into
// the next node (parking: an exchange), and one compare-and-swap for each waiter that is evicted.
// Layout: one 32-bit word, the handle of the last node in the queue (0: free). The holder's node is first.
//
// Detection of preemption: a polling waiter writes the time into its node every 2 µs. If that time is more than 10 µs
// old, unlock assumes that another thread has the waiter's CPU, or that another virtual machine has its processor. A
// wrong guess costs only time. A sleeping waiter is woken, not evicted. (The checker's clock advances in leaps, so any
// waiter may seem preempted at any moment.)
//
//     flag of a node
//     waiting   set by its thread, in prepare(). Read by unlock: the thread polls, and may be evicted.
//     parked    set by its thread before it sleeps. Read by unlock: the thread must be woken, not evicted: it gave up
//               its CPU of its own accord.
//     granted   set by unlock, read by its thread, which has the lock.
//     evicted   set by unlock, read by its thread, which then enters the queue again. Before that it does not write
//               to its node.
//
//     waiting -> granted     grant(): the waiter was awake
//     waiting -> parked      wait(), when its spin budget is used up
//     parked  -> granted     grant(), and a wake-up
//     waiting -> evicted     hand_over(), evict_last()
//     parked  -> evicted     evict_last(), and a wake-up: the waiter fell asleep after unlock had found it awake
//
//     mark of a node: 0: the place is firm; else the time at which the waiter last polled, in units of 1024 ns, with
//     bit 0 set
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/thread_nodes.hpp"
#include "usher/core/waiting.hpp"
#include "usher/locks/mcs.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W>
class mcs_pt_with_node {
 public:
  void lock(node_handle mine) {
    for (unsigned evictions = 0;; evictions++) {
      const bool firm = evictions == most_evictions;
      prepare<P>(mine);
      P::node(mine).mark.store(
          0, std::memory_order_relaxed);  // firm until wait() writes a time: no query of the clock if the lock is free
      const node_handle previous = enqueue<P>(tail_, mine);
      if (previous == no_node) [[likely]]
        return;
      link_behind<P>(previous, mine);
      if (wait(mine, firm)) return;
    }
  }

  bool try_lock(node_handle mine) { return try_enqueue<P>(tail_, mine); }

  void unlock(node_handle mine) {
    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) [[unlikely]]
      hand_over(next);
  }

 private:
  static constexpr std::uint32_t flag_evicted = 3;
  // Chosen: so large that the limit is rarely reached. If a thread with a firm place has no CPU when its turn comes,
  // the lock waits for up to a time slice. With a limit of 3 such waits kept most waiters preempted: simulated with 160
  // threads on 128 CPUs, the lock made 0.007 to 0.17 million operations a second; with 8, 16, 64 and 1000 it made 0.25
  // to 0.41.
  static constexpr unsigned most_evictions = 8;
  // These two times were chosen. They are short compared with the time in which the lock passes once through a long
  // queue (simulated: 31 µs with 160 threads on 128 CPUs, the load of M25 in lab/pages: simulated-claims). With longer
  // times, the turn of a thread could come just after it has lost its CPU, while its last time stamp is still too young
  // for unlock to notice. The lock would then wait for up to a time slice, until that thread has a CPU again.
  static constexpr std::uint64_t sign_of_life_every = 2000;  // ns
  static constexpr std::int32_t lifeless_after = 10;         // of 1024 ns

  static std::uint32_t time() { return std::uint32_t(P::now() / 1024) | 1; }

  static bool preempted(node_handle h) {
    if (P::node(h).flag.load(std::memory_order_relaxed) != flag_waiting) return false;  // it sleeps
    const std::uint32_t alive = P::node(h).mark.load(std::memory_order_relaxed);
    return alive != 0 && std::int32_t(time() - alive) > lifeless_after;
  }

  /// Returns true if this thread has been granted the lock, false if it has been evicted.
  [[gnu::cold, gnu::noinline]] bool wait(node_handle mine, bool firm) {
    auto& flag = P::node(mine).flag;
    const auto decided = [](std::uint32_t f) { return f == flag_granted || f == flag_evicted; };
    for (const std::uint64_t since = P::now();;) {
      if (!firm) P::node(mine).mark.store(time(), std::memory_order_relaxed);
      if (auto f = poll(flag, decided)) return *f == flag_granted;  // acquire: pairs with (3), (5)
      if (W::parks && P::now() - since >= W::spin_budget()) break;
    }
    if constexpr (W::parks) {
      std::uint32_t seen = flag_waiting;
      if (!flag.compare_exchange_strong(seen, flag_parked, std::memory_order_acq_rel, std::memory_order_acquire))
        return seen == flag_granted;
      while (!decided(seen = flag.load(std::memory_order_acquire))) P::park(flag, flag_parked, every_sleeper);
      return seen == flag_granted;
    }
  }

  template <class Word, class Pred>
  static auto poll(const Word& word, Pred pred) {
    if constexpr (W::kind == waiting_kind::yield_then_park)
      return P::await(word, pred, std::memory_order_acquire, pacing::yielding.within(sign_of_life_every));
    else
      return P::await(word, pred, std::memory_order_acquire, pacing::polling.within(sign_of_life_every));
  }

  [[gnu::cold, gnu::noinline]] void hand_over(node_handle to) {
    while (preempted(to)) {
      // Reads the successor before the eviction: after the eviction the evicted thread may write to its node.
      node_handle next = P::node(to).next.load(std::memory_order_acquire);
      if (next == no_node) {
        node_handle expected = to;
        // (6) release: frees the lock; pairs with the acquire of the exchange in enqueue(). The preempted waiter's node
        // `to` is still in the queue, so if the tail is `to`, no thread is behind it.
        if (tail_.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
          return evict_last(to);
        next = W::await_soon(P::node(to).next, [](node_handle h) { return h != no_node; });
      }
      std::uint32_t seen = flag_waiting;
      // (5) release: orders the load of the link before the eviction; pairs with the acquire loads of the flag in
      // wait(). Fails if the waiter has just set flag_parked: then it is granted the lock and woken.
      if (!P::node(to).flag.compare_exchange_strong(seen, flag_evicted, std::memory_order_release,
                                                    std::memory_order_relaxed))
        break;
      to = next;
    }
    grant<P, W>(to);  // (3) release: (g2) in hand_over.hpp
  }

  /// Called after the queue's last node has been taken out and the lock freed. Marks the node as evicted, and wakes its
  /// thread if that has fallen asleep meanwhile. Accesses only the node, which is type-stable, since other threads may
  /// have destroyed the lock.
  static void evict_last(node_handle h) {
    auto& flag = P::node(h).flag;
    const wake_key key = P::key_of(flag);
    if (flag.exchange(flag_evicted, std::memory_order_acq_rel) == flag_parked) P::wake(key, every_sleeper, 1);  // (5)
  }

  typename P::template atomic<node_handle> tail_;
};

template <platform P, class W>
class mcs_pt : public with_thread_nodes<P, mcs_pt_with_node<P, W>> {
 public:
  static constexpr lock_traits traits{
      .summary = "MCS that passes over waiters without a CPU",
      .paper = "Malthusian Locks, section 7",
      .starvation_free = true,
      .bounded_doorway = true,
      .context = true,
      .words = 1,
      .kinds = waiting_kind::spin | waiting_kind::spin_then_park | waiting_kind::yield_then_park,
  };
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
