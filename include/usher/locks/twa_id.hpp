// TWA-ID: a TWA in which a slot of the waiting array contains the identity of a waiter. A waiter exchanges its identity
// into the slot, and the unlock stores 0, without an atomic read-modify-write. When its slot changes, a waiter goes
// over to watching grant.
//
// Source: TWA (extended version), §6, TWA-ID.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. As large as a ticket lock.
// Cost: lock one fetch-and-add, far waiters one exchange more. Unlock, spinning: two stores, the second to the array,
// after the hand-over. Unlock, parking: one exchange, then a load of the slot, and an exchange if it has a waiter.
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
//     slot
//     0                  no waiter, or its waiter has been notified. Set by unlock
//     m (bits 30…0)      the identity of the waiter that arrived last. Set by that waiter
//     m, sleeping (31)   the same, and the waiter sleeps or is about to. Set by that waiter; read by the thread that
//                        replaces the value, which wakes the waiter
//
//     0, n -> m          wait_far() by waiter m. The displaced waiter n watches grant from then on
//     m -> m, sleeping   wait_far(), before it sleeps
//     any -> 0           unlock(), of this lock or of another that shares the slot
//
// The array is separate from TWA's, because a count there could equal an identity. An identity must belong to one
// waiter alone while it waits, so it is the handle of a queue node. A thread that gets no node watches grant from the
// beginning.
//
// A waiter publishes its identity by an exchange, not by a store, so that its load of grant comes after the exchange.
// The unlock stores to grant, then to the slot. If the exchange follows the unlock's store to the slot, the load sees
// the new grant; if it precedes the store, the slot changes. But between the two another unlock may have stored 0 to
// the slot. Then the exchange reads that 0, and on a machine where threads may see stores in different orders the load
// may miss the first unlock's store to grant. So where unlock has no read-modify-write, the waiter reads grant by a
// read-modify-write, which reads the newest value. (The pattern 2+2W remains: two threads write two words in opposite
// order. The language allows that each thread's first write becomes the last of its word; no machine does this if the
// writes are releases.)
#pragma once

#include "usher/core/node.hpp"
#include "usher/core/waiting_array.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

struct twa_id_array {
  static constexpr std::uint32_t size = 4096;
  static constexpr table_kind kind = table_kind::identities;
};

template <platform_with_tables P, class W>
class twa_id : ticket_words::front_end<P> {
  using base = ticket_words::front_end<P>;

 public:
  static constexpr lock_traits traits{
      .summary = "TWA with the waiters' identities in the array",
      .paper = "TWA (extended), section 6, TWA-ID",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
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
    const std::uint32_t next = base::following();
    word& slot = slot_of(next + ticket_words::one);
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);  // (2) release: pairs with (1). This is the hand-over
      // (4) release: pairs with (3), the exchange in leave().
      slot.store(0, std::memory_order_release);
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1), the load in served(). All threads that sleep on grant are woken; those not yet
      // served set the mark again. Sequentially consistent, as are (3) to (5): either the load of the slot finds a
      // waiter's identity, or that waiter sees the hand-over.
      if (grant_.exchange(next, std::memory_order_seq_cst) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
      if (slot.load(std::memory_order_seq_cst) != 0) [[unlikely]]  // (4)
        leave(slot, 0);
    }
  }

  using base::count_from;

 private:
  using base::grant_;
  using typename base::word;
  static constexpr std::uint32_t sleeping = std::uint32_t{1} << 31;

  word& slot_of(std::uint32_t number) const {
    return P::template table<twa_id_array>()[waiting_array::hash(number, P::salt(this)) &
                                             (P::template table_size<twa_id_array>() - 1)];
  }

  bool is_far(std::uint32_t mine, std::memory_order order) const { return base::distance_of(mine, order) > 1; }

  /// (5) Called by a thread that has put its identity into the slot. Returns whether more than one unlock remains until
  /// it is served.
  bool is_still_far(std::uint32_t mine) {
    if constexpr (W::parks)
      return is_far(mine, std::memory_order_seq_cst);
    else
      return ticket_words::distance(mine, grant_.fetch_or(0, std::memory_order_seq_cst)) > 1;
  }

  /// Writes a value to the slot. If a waiter sleeps on the old value, wakes it.
  [[gnu::cold, gnu::noinline]] static void leave(word& slot, std::uint32_t value) {
    // This exchange is (3) if a waiter calls, (4) if unlock() calls. Acquire: for the read of grant that follows (3).
    // Release: for the exchange or load of the slot that reads this value. Sequentially consistent: (2) in unlock()
    // requires this.
    const std::uint32_t old = slot.exchange(value, std::memory_order_seq_cst);
    if constexpr (W::parks) {
      if (old & sleeping) P::wake(P::key_of(slot), every_sleeper, all);
    }
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (is_far(mine, std::memory_order_relaxed)) wait_far(mine);
    ticket_words::wait_until<P, W>(grant_, mine, every_sleeper);
  }

  void wait_far(std::uint32_t mine) {
    const node_handle me = P::take_node();
    if (me == no_node) return;
    word& slot = slot_of(mine);
    leave(slot, me);           // (3)
    if (is_still_far(mine)) {  // without this look, an unlock before (3) would be missed
      const auto changed = [me](std::uint32_t w) { return w != me; };
      if (!W::poll(slot, changed)) {
        if constexpr (W::parks) {
          std::uint32_t seen = me;
          if (slot.compare_exchange_strong(seen, me | sleeping, std::memory_order_relaxed, std::memory_order_relaxed))
            while (slot.load(std::memory_order_relaxed) == (me | sleeping)) P::park(slot, me | sleeping, every_sleeper);
        }
      }
    }
    P::give_node(me);
  }
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
