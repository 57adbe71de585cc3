// TWA: a ticket lock in which only the next in line watches grant. Those further away watch a slot of a waiting array
// that all locks of the process share, so that a hand-over disturbs one cache and not all.
//
// Source: Dice & Kogan, "TWA – Ticket Locks Augmented with a Waiting Array" (Euro-Par 2019), Listing 1, lines 20–71;
// extended version §2.
// Guarantees: FIFO (doorway: the fetch-and-add); nobody is overtaken, nobody starves. As large as a ticket lock.
// Cost: lock one fetch-and-add; unlock a store (parking: an exchange), then one fetch-and-add on the array, after
// the hand-over.
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
// The array: `ArraySize` words. A slot's value means nothing; that it changes tells those who watch it to look at
// grant again. Hash collisions cost a look and no more. Index: number × Multiplier XOR the lock's salt: neighbouring
// numbers are 127 words = 508 bytes apart, so never in one 128-byte sector, and two locks that run in step do not
// meet in the same slots.
//
//     slot     bits 31…1: count of notifications         bit 0: a watcher sleeps or is about to
//
// The paper's slots have 64 bits so that they never wrap; a futex sees 32. A watcher that read the slot before
// exactly k × 2^31 notifications, and was descheduled through all of them, would miss them; at 10^8 unlocks a second
// that is a window of one notification in 20 s of being suspended, and it is over at the next collision.
#pragma once

#include "usher/locks/ticket_words.hpp"

namespace usher {

/// The process-wide array has one size, whatever lock uses it.
struct twa_array {
  static constexpr std::uint32_t size = 4096;
};

template <platform P, class W, std::uint32_t ArraySize = twa_array::size, std::uint32_t Multiplier = 127,
          std::uint32_t LongTermThreshold = 1>
class twa {
  static_assert((ArraySize & (ArraySize - 1)) == 0 && ArraySize <= twa_array::size);
  static_assert(LongTermThreshold >= 1, "somebody must watch grant");

 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock whose distant waiters watch a shared array: FIFO, scalable hand-over",
      .paper = "TWA, Listing 1, lines 20-71",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .words = 2,
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.fetch_add(ticket_words::one, std::memory_order_relaxed);
    // (1) acquire: pairs with (2).
    if (ticket_words::number(grant_.load(std::memory_order_acquire)) != mine) [[unlikely]]
      wait(mine);
    P::admitted(this);
  }

  bool try_lock() { return ticket_words::try_lock(ticket_, grant_); }

  void unlock() {
    const std::uint32_t next =
        ticket_words::number(grant_.load(std::memory_order_relaxed)) + ticket_words::one;
    auto& slot = slot_of(next + LongTermThreshold * ticket_words::one);  // while the lock is still ours
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);      // (2) hand-over first …
      slot.fetch_add(notice, std::memory_order_release);  // (4) … then the array: outside the critical section
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1). At most LongTermThreshold threads watch grant. They are all woken and the mark is
      // gone with the exchange: those not yet served set it again.
      if (grant_.exchange(next, std::memory_order_acq_rel) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
      if (slot.fetch_add(notice, std::memory_order_acq_rel) & watched) [[unlikely]]  // (4)
        rouse(slot);
    }
  }

 private:
  using word = typename P::template atomic<std::uint32_t>;
  static constexpr std::uint32_t notice = 2, watched = 1;

  word& slot_of(std::uint32_t number) const {
    const std::uint32_t index = (number / ticket_words::one * Multiplier) ^ P::salt(this);
    return P::template table<twa_array>()[index & (ArraySize - 1)];
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (ticket_words::distance(mine, grant_.load(std::memory_order_acquire)) > LongTermThreshold) wait_far(mine);
    const auto served = [mine](std::uint32_t g) { return ticket_words::number(g) == mine; };
    if (W::poll(grant_, served)) return;
    if constexpr (W::parks) {
      for (;;) {
        const std::uint32_t g = grant_.load(std::memory_order_acquire);  // (1)
        if (served(g)) return;
        ticket_words::park_on<P>(grant_, g, every_sleeper);
      }
    }
  }

  /// Long-term waiting: until at most LongTermThreshold threads are ahead.
  void wait_far(std::uint32_t mine) {
    word& slot = slot_of(mine);
    for (;;) {
      // (3) acquire: pairs with (4). Slot first, then grant: if the slot's value is from after the notification
      // meant for us, grant is seen as it was then. If it is from before, the slot will change. Without this look
      // at grant between the two, a notification could fall in between and be lost.
      const std::uint32_t seen = slot.load(std::memory_order_acquire);
      if (ticket_words::distance(mine, grant_.load(std::memory_order_acquire)) <= LongTermThreshold) return;
      const auto notified = [seen](std::uint32_t v) { return (v & ~watched) != (seen & ~watched); };
      if (W::poll(slot, notified)) continue;
      if constexpr (W::parks) {
        std::uint32_t expected = seen;
        if ((seen & watched) == 0 &&
            !slot.compare_exchange_strong(expected, seen | watched, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
          continue;
        P::park(slot, seen | watched, every_sleeper);
      }
    }
  }

  /// Wakes those who sleep on a slot. A watcher that marks the slot after our notification loses its mark here, but
  /// then it either has not slept yet and finds the slot changed, or it sleeps and is woken for nothing.
  [[gnu::cold, gnu::noinline]] static void rouse(word& slot) {
    slot.fetch_and(~watched, std::memory_order_acq_rel);
    P::wake(P::key_of(slot), every_sleeper, all);
  }

  word ticket_;
  word grant_;
};

}  // namespace usher
