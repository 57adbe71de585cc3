// TWA: a ticket lock in which only the next in line watches grant. Those further away watch a slot of a waiting array
// that all locks of the process share, so that a hand-over disturbs one cache and not all.
//
// Source: Dice & Kogan, "TWA – Ticket Locks Augmented with a Waiting Array" (Euro-Par 2019), Listing 1, lines 20–71;
// extended version §2.
// Guarantees: FIFO (doorway: the fetch-and-add); nobody is overtaken, nobody starves. As large as a ticket lock.
// Cost: lock one fetch-and-add. Unlock, spinning: a store, then one fetch-and-add on the array, after the hand-over.
// Unlock, parking: one exchange, then a look at the array, and a compare-and-swap on it if somebody watches there.
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
// The array: `ArraySize` words. A slot's value means nothing; that it changes tells those who watch it to look at
// grant again. Hash collisions cost a look and no more. Index: number × Multiplier XOR the lock's salt: neighbouring
// numbers are 127 words = 508 bytes apart, so never in one 128-byte sector, and two locks that run in step do not
// meet in the same slots.
//
//     slot     bits 31…2: count of notifications     bit 1: a watcher sleeps or is about to     bit 0: watched
//
// The marks are the parking form's. Since its unlock has an atomic exchange in it anyway, watchers can announce
// themselves (store-buffer pattern: exchange grant, then read the slot; mark the slot, then read grant; all sequentially
// consistent), and an unlock that nobody watches does not write to the array. The spinning form is the paper's: unlock
// has no atomic operation before the hand-over, and notifies blindly.
//
// The paper's slots have 64 bits so that they never wrap; a futex sees 32. A watcher that read the slot before
// exactly k × 2^30 notifications of it, and did not run during any of them, would miss them: at 10^8 notifications of one
// slot a second it would have to be suspended for 10.7 s, to within one notification.
#pragma once

#include "usher/locks/ticket_words.hpp"

namespace usher {

/// The process-wide array has one size, whatever lock uses it.
struct twa_array {
  static constexpr std::uint32_t size = 4096;
  static constexpr bool counts = true;
};

/// The papers' parameters are the defaults.
template <platform P, class W, std::uint32_t ArraySize = twa_array::size, std::uint32_t Multiplier = 127,
          std::uint32_t LongTermThreshold = 1>
class basic_twa {
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
      .counters = 2,
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
    const std::uint32_t next = ticket_words::number(grant_.load(std::memory_order_relaxed)) + ticket_words::one;
    word& slot = slot_of(next + LongTermThreshold * ticket_words::one);
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);      // (2) hand-over first …
      slot.fetch_add(notice, std::memory_order_release);  // (4) … then the array: outside the critical section
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1). At most LongTermThreshold threads watch grant. They are all woken and
      // the mark is gone with the exchange: those not yet served set it again. Sequentially consistent with
      // (4), (5) and (3).
      if (grant_.exchange(next, std::memory_order_seq_cst) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
      if (slot.load(std::memory_order_seq_cst) & watched) [[unlikely]]  // (4)
        notify(slot);
    }
  }

 private:
  using word = typename P::template atomic<std::uint32_t>;
  static constexpr std::uint32_t watched = 1, sleeping = 2, notice = 4;

  word& slot_of(std::uint32_t number) const {
    const std::uint32_t index = (number / ticket_words::one * Multiplier) ^ P::salt(this);
    return P::template table<twa_array>()[index & (ArraySize - 1)];
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (distance(mine, std::memory_order_acquire) > LongTermThreshold) wait_far(mine);
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
      // (3) acquire: pairs with (4). Slot first, then grant: if the slot's value is from after the
      // notification meant for us, grant is seen as it was then. If it is from before, the slot will change.
      // Without this look at grant between the two, a notification could fall in between and be lost.
      std::uint32_t seen = slot.load(std::memory_order_acquire);
      if constexpr (W::parks) {
        // (5) Mark, then look at grant: either that look sees the hand-over or (4) sees the mark.
        if ((seen & watched) == 0 && !set(slot, seen, watched)) continue;
        if (distance(mine, std::memory_order_seq_cst) <= LongTermThreshold) return;
      } else {
        if (distance(mine, std::memory_order_acquire) <= LongTermThreshold) return;
      }
      const auto notified = [seen](std::uint32_t v) { return v / notice != seen / notice; };
      if (W::poll(slot, notified)) continue;
      if constexpr (W::parks) {
        if ((seen & sleeping) == 0 && !set(slot, seen, sleeping)) continue;
        P::park(slot, seen, every_sleeper);
      }
    }
  }

  std::uint32_t distance(std::uint32_t mine, std::memory_order order) const {
    return ticket_words::distance(mine, grant_.load(order));
  }

  /// Sets a mark in a slot that is as it was seen.
  static bool set(word& slot, std::uint32_t& seen, std::uint32_t mark) {
    if (!slot.compare_exchange_strong(seen, seen | mark, std::memory_order_seq_cst, std::memory_order_relaxed)) {
      P::backoff(0);
      return false;
    }
    seen |= mark;
    return true;
  }

  /// Counts on and takes the marks off: watchers set them again if they still wait. If somebody else has just
  /// done it, those who watch for us look at grant, which has changed, before they mark again.
  [[gnu::cold, gnu::noinline]] static void notify(word& slot) {
    std::uint32_t seen = slot.load(std::memory_order_relaxed);
    while (seen & watched) {
      if (slot.compare_exchange_strong(seen, (seen | watched | sleeping) + 1, std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        if (seen & sleeping) P::wake(P::key_of(slot), every_sleeper, all);
        return;
      }
      P::backoff(0);
    }
  }

  word ticket_;
  word grant_;
};

/// With the papers' parameters.
template <platform P, class W>
using twa = basic_twa<P, W>;

}  // namespace usher
