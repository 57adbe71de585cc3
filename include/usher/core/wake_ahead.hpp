// Unpark ahead of time: an unlock also wakes the waiter that is expected to be granted the lock next but one. So this
// waiter is already polling when its turn comes, and its wake-up overlaps another thread's critical section.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), footnote 19: "unparks a thread in advance, shifting it from parked
// state to spinning state". The footnote does not say which thread unparks, when, or for how long the woken thread
// spins. Here the unlocking thread chooses the waiter while it still owns the lock, and makes the wake-up's system call
// after the hand-over. The woken thread polls for the budget of its way of waiting, as an arriving thread does.
//
// The states of a waiter's flag are those of node.hpp, with one more transition:
//
//     waiting ──waiter──► parked ──owner──► waiting, and a wake-up: the waiter polls again, and may go back to sleep
//                         parked ──grant──► granted, and a wake-up
//
// No wake-up is lost. A waiter sleeps only while its flag is `parked`, and the thread that ends this state, by either
// transition, wakes it. If the grant comes between the owner's transition and the owner's wake-up, the grant finds
// `waiting` and wakes no thread. The waiter then owns the lock, but sleeps until the former owner's wake-up. Between
// transition and wake-up the former owner only completes its hand-over; but this may contain a system call, and the
// thread that it wakes may take its CPU.
//
// The owner changes the flags only of waiters that no other thread can grant before the hand-over. After the hand-over
// it uses only their keys.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// As wait_for_grant() of hand_over.hpp, for a lock that wakes waiters ahead of time.
template <platform P, class W>
[[gnu::cold]] void wait_for_grant_or_early_wake(typename P::template atomic<std::uint32_t>& flag) {
  if constexpr (requires { P::count_grant(); }) P::count_grant();
  for (;;) {
    if (W::poll(flag, [](std::uint32_t f) { return f == flag_granted; })) return;
    if constexpr (W::parks) {
      std::uint32_t seen = flag_waiting;
      // (e1) On failure the grant came first, and acquire pairs with the grant's exchange. Success needs no order: the
      // granting thread reads nothing that this thread has written. It is acquire, since the checker cannot model a
      // failure order that is stronger than the success order.
      if (!flag.compare_exchange_strong(seen, flag_parked, std::memory_order_acquire, std::memory_order_acquire))
        return;
      while ((seen = flag.load(std::memory_order_acquire)) == flag_parked) P::park(flag, flag_parked, every_sleeper);
      if (seen == flag_granted) return;
    }
  }
}

/// A waiter that is woken ahead of its turn. Made by the owner before the hand-over; wake() is called after it.
template <platform P>
class early_wake {
 public:
  /// Chooses the waiter with this flag, if it sleeps. Called by the owner while no other thread can grant the waiter.
  void choose(typename P::template atomic<std::uint32_t>& flag) {
    if (flag.load(std::memory_order_relaxed) != flag_parked) return;
    key_ = P::key_of(flag);
    // (e2) parked -> waiting. A store suffices, since only the owner ends the state `parked`. Relaxed: no data.
    flag.store(flag_waiting, std::memory_order_relaxed);
  }

  void wake() const {
    if (key_.word != nullptr) P::wake(key_, every_sleeper, 1);
  }

 private:
  wake_key key_{nullptr};
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
