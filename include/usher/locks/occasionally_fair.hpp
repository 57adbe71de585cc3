// An unfair lock that now and then hands the lock to the thread that has waited longest. A thread first waits as in the
// unfair lock. After 1 ms it joins a queue, whose head asks the holder for a hand-over.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.2: "It is relatively simple to augment any given unfair
// lock so that starving threads are periodically given a turn via direct handoff."
// Guarantees: not FIFO. No thread starves: a thread waits for 1 ms as in the unfair lock, then in the queue (FIFO;
// doorway: the exchange of the queue's tail, which comes after 1 ms at the latest). When a thread has been the head of
// the queue for 1 ms, the next unlock hands it the lock. So at most one admission per millisecond is by the queue, and
// all others are by the unfair lock.
// Cost: that of the unfair lock, and one more load in unlock.
// Layout: the unfair lock · gate · tail of the queue.
//
//     gate
//     0 nobody   the head of the queue does not ask
//     1 wanted   set by the head, which asks for the lock; read by unlock, which hands the lock over instead of
//                releasing it
//     2 handed   the lock, still held, belongs to the head. Set by unlock, read and cleared by the head
//
//     nobody -> wanted -> handed -> nobody     ask(), unlock(), ask(): the lock has been handed over
//     nobody -> wanted -> nobody               ask(): the head found the lock free
//
// The unfair lock needs only try_lock(), unlock(), and lock_for(ns), which waits as its lock() does, for about `ns`
// nanoseconds. The gate is not in that lock's word. So an unlock may load the gate just before the head asks, and free
// the lock without waking the head. No memory order excludes this, because unlock may not access the lock after the
// release. If other threads use the lock, the next unlock sees the gate. Otherwise the head finds the lock free when it
// tries again, after 0.2 ms.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"
#include "usher/locks/tas.hpp"
#include "usher/locks/ttas.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W, class Lock>
class occasionally_fair {
 public:
  static constexpr lock_traits traits = [] {
    lock_traits t = Lock::traits;
    t.summary = "the lock before -fair; the eldest gets it now and then";
    t.paper = "Malthusian Locks, appendix A.2";
    t.starvation_free = t.bounded_doorway = true;
    t.words += 2;
    return t;
  }();

  void lock() {
    P::doorway(this);
    if (!lock_.try_lock()) [[unlikely]]
      contend();
    P::admitted(this);
  }

  // While the gate is `handed` the lock is held, so this fails.
  bool try_lock() { return lock_.try_lock(); }

  void unlock() {
    if (gate_.load(std::memory_order_relaxed) == nobody) [[likely]]
      return lock_.unlock();
    const wake_key key = P::key_of(gate_);
    // gate: wanted -> handed. (1) release: pairs with the acquire load in ask(). A store suffices: only the holder can
    // write `handed`, and the head does not write until it has the lock.
    gate_.store(handed, std::memory_order_release);
    if constexpr (W::parks) P::wake(key, every_sleeper, 1);
  }

 private:
  static constexpr std::uint32_t nobody = 0, wanted = 1, handed = 2;
  // Chosen, not measured; handoff_after has the same value as in loiter.hpp.
  static constexpr std::uint64_t handoff_after = 1000000, retry_after = 200000;  // ns

  [[gnu::cold, gnu::noinline]] void contend() {
    if (lock_.lock_for(handoff_after)) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // all nodes are in use: without a place in the queue
      while (!lock_.lock_for(handoff_after)) P::backoff(0);
      return;
    }
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous != no_node) wait_behind<P, W>(previous, mine);
    if (!lock_.lock_for(handoff_after)) ask();
    // This thread holds the lock, so the lock and its queue still exist.
    if (const node_handle next = successor_or_free<P, W>(tail_, mine)) grant<P, W>(next);
    P::give_node(mine);
  }

  /// Called by the head of the queue. Waits until the lock has been handed over to it, or until it has taken the free
  /// lock.
  void ask() {
    gate_.store(wanted, std::memory_order_relaxed);
    for (;;) {
      if (gate_.load(std::memory_order_acquire) == handed) break;  // pairs with (1), in unlock()
      if (lock_.try_lock()) break;  // it was free, so not handed over; from now on no other thread reads the gate
      if constexpr (W::parks)
        P::nap(gate_, wanted, every_sleeper, retry_after, handed);
      else
        P::backoff(P::random() % 1024);
    }
    gate_.store(nobody, std::memory_order_relaxed);
  }

  Lock lock_;
  typename P::template atomic<std::uint32_t> gate_;
  typename P::template atomic<node_handle> tail_;
};

template <platform P, class W>
using tas_fair = occasionally_fair<P, W, tas<P, W>>;

template <platform P, class W>
using ttas_fair = occasionally_fair<P, W, ttas<P, W>>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
