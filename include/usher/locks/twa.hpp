// TWA: a ticket lock in which only the next thread in line watches grant. Each waiter further away watches one slot of
// a waiting array that all locks of the process share. So an unlock invalidates one watcher's copy of grant, not that
// of every waiter.
//
// Source: Dice & Kogan, "TWA – Ticket Locks Augmented with a Waiting Array" (Euro-Par 2019), Listing 1, lines 20–71.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. As large as a ticket lock.
// Cost: lock one fetch-and-add. Unlock, spinning: a store, then one fetch-and-add on the array, after the hand-over.
// Unlock, parking: one exchange, then a load of the slot, and a compare-and-swap if a waiter watches it.
// Layout: two 32-bit words in one line, ticket_words.hpp. The array: waiting_array.hpp.
//
// A waiter's distance is the number of unlocks until it is served. The distance decides which word the waiter watches.
// T is the LongTermThreshold, here 1.
//
//     distance   the thread      watches     until
//     0          has the lock
//     1 to T     is near         grant       grant has its number
//     above T    is far          its slot    the slot changes; then it looks at its distance again
//
//     lock()     ticket: n -> n + 1                 the thread has number n
//     unlock()   grant: n -> n + 1                  distance 1 -> 0: the hand-over
//                slot of n + 1 + T: c -> c + 1      distance T + 1 -> T: that waiter reads grant
//
// The next owner may destroy the lock between the hand-over and the notification. So unlock computes the slot's address
// before the hand-over, and the slot is in the process-wide array. An array inside the lock needs another protocol:
// twa_variants.hpp.
//
// The array and the threshold are template parameters, so that the variants share this algorithm.
#pragma once

#include "usher/core/waiting_array.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// Array: the array that contains the slots. LongTermThreshold: the largest distance at which a waiter watches grant.
template <platform_with_tables P, class W, class Array = shared_array<P>, std::uint32_t LongTermThreshold = 1>
class basic_twa : protected ticket_words::front_end<P> {
  using base = ticket_words::front_end<P>;
  static_assert(LongTermThreshold >= 1, "a waiter must watch grant");

 public:
  static constexpr lock_traits traits{
      .summary = Array::summary,
      .paper = Array::paper,
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
      .kinds = every_waiting_kind_there_is,
      .checker_threads = 4,  // far waiters may share a slot
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = base::draw();
    if (!base::served(mine)) [[unlikely]]  // (1)
      wait(mine);
    P::admitted(this);
  }

  using base::try_lock;

  void unlock() {
    static_assert(!Array::in_lock, "unlock does not touch the lock after the hand-over");
    const std::uint32_t next = base::following();
    word& slot = slot_of(next + LongTermThreshold * ticket_words::one);
    hand_over(next);  // first, for it ends the critical section
    waiting_array::notify<P, W>(slot);
  }

  using base::count_from;

  /// Returns the slot that the thread with this number watches as long as it does not watch grant.
  auto& slot_of(std::uint32_t number) { return array_.slot(number, this); }

 protected:
  using base::grant_;
  using typename base::word;

  void hand_over(std::uint32_t next) {
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);  // (2) release: pairs with (1), the load in served()
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1), the load in served(). The exchange clears the mark `asleep`, and all threads that
      // sleep on grant are woken; those not yet served set the mark again. Sequentially consistent: (4) in
      // waiting_array.hpp, the load of the slot, requires this.
      if (grant_.exchange(next, std::memory_order_seq_cst) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
  }

  /// Returns whether this number is served after at most LongTermThreshold unlocks.
  bool is_near(std::uint32_t mine, std::memory_order order) const {
    return base::distance_of(mine, order) <= LongTermThreshold;
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (!is_near(mine, std::memory_order_acquire))
      waiting_array::watch<P, W>(slot_of(mine), [&](std::memory_order order) { return is_near(mine, order); });
    ticket_words::wait_until<P, W>(grant_, mine, every_sleeper);
  }

  [[no_unique_address]] Array array_;
};

/// Array and threshold as in the paper.
template <platform_with_tables P, class W>
using twa = basic_twa<P, W>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
