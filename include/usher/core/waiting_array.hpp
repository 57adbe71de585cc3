// The waiting array of TWA and its variants: one for each process, shared by all its locks.
//
//     slot     bits 31…2: count of notifications     bit 1: a watcher sleeps or is about to     bit 0: watched
//
// A slot's value has no meaning. Whenever it changes, the slot's watchers read their lock's word again; a hash
// collision costs one such read. A slot's index is number × 127 XOR the lock's salt. So neighbouring numbers are 127
// words = 508 bytes apart, never in one 128-byte sector, and two locks with equal sequences of numbers use different
// slots.
//
// Only the parking forms of a lock use the two marks, bits 0 and 1. Their hand-over is an atomic operation anyway, so
// watchers can announce themselves by a mark, and a notification without watchers does not write to the array. (The
// unlock hands over, then reads the slot; a watcher marks the slot, then reads the lock; all these operations are
// sequentially consistent, so at least one of the two threads sees the other's write.) In spinning forms every
// notification writes to the array.
//
// The paper's slots have 64 bits so that they never wrap. A futex has 32 bits, and so have the slots here. If a watcher
// reads the slot, then does not run during exactly k × 2^30 notifications of it, and then waits, it misses them. At
// 10^8 notifications of one slot a second its pause would have to be 10.7 s long, exact to one notification. It then
// waits for the slot's next notification, which may be for another number or another lock, or may never come.
//
// Spinning forms may have the paper's 64-bit slots (private_array). Their count has 62 bits: at 10^8 notifications a
// second it wraps after 1462 years. So if a watcher reads the same value twice, there was no notification in between.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "usher/core/ticket_words.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

namespace waiting_array {

inline constexpr std::uint32_t watched = 1, sleeping = 2, notice = 4;

/// The paper's hash of a ticket. `number` is the ticket in the form in which a lock's word contains it.
constexpr std::uint32_t hash(std::uint32_t number, std::uint32_t salt, std::uint32_t multiplier = 127) {
  return (number / ticket_words::one * multiplier) ^ salt;
}

/// Sets the mark `sleeping` in a slot if the slot still has the value `seen`.
template <platform P, class Word>
bool set_sleeping(Word& slot, std::uint32_t& seen) {
  if (!slot.compare_exchange_strong(seen, seen | sleeping, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    P::backoff(0);
    return false;
  }
  seen |= sleeping;
  return true;
}

/// Watches a slot until `near(order)` returns true: the caller is near the lock's head. near() loads the lock's word.
template <platform P, class W, class Word, class Near>
void watch(Word& slot, Near near) {
  for (;;) {
    // (3) acquire: pairs with (4), the notification. The slot is read first, then the lock. If this load sees the
    // notification meant for this watcher, near() sees the hand-over before it; otherwise the slot changes later. If
    // the watcher did not read the lock before it waits, it could miss a notification.
    auto seen = slot.load(std::memory_order_acquire);
    static_assert(!W::parks || sizeof seen == sizeof(std::uint32_t), "a thread can sleep only on 32 bits");
    if constexpr (W::parks) {
      // (5) Marks the slot, then reads the lock: either near() sees the hand-over, or (4) sees the mark. Not by a
      // compare-and-swap: other locks' threads could make it fail again and again, and delay the read of the lock.
      if ((seen & watched) == 0) {
        slot.fetch_or(watched, std::memory_order_seq_cst);
        seen = slot.load(std::memory_order_acquire);
      }
      if (near(std::memory_order_seq_cst)) return;
      if ((seen & watched) == 0) continue;  // a notification has cleared the mark since
    } else {
      if (near(std::memory_order_acquire)) return;
    }
    const auto notified = [seen](decltype(seen) v) { return v / notice != seen / notice; };
    if (W::poll(slot, notified)) continue;
    if constexpr (W::parks) {
      if ((seen & sleeping) == 0 && !set_sleeping<P>(slot, seen)) continue;
      P::park(slot, seen, every_sleeper);
    }
  }
}

/// Increments the count and clears the marks: watchers that still wait set them again. If another thread has just
/// cleared the marks, nothing remains to be done: before the caller's watchers mark the slot again, they read their
/// lock, which has already changed. The compare-and-swap could be relaxed: a thread that reads the value written by it
/// then marks the slot and then reads the lock. Both operations are sequentially consistent, as are the caller's write
/// to the lock and read of the slot. It is acq_rel so that the pair of (3) and (4) alone explains a changed value.
template <platform P, class Word>
[[gnu::cold, gnu::noinline]] void notify_watchers(Word& slot) {
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

/// Makes the watchers of a slot read their lock again. In parking forms the caller has written to the lock, or read it,
/// by a sequentially consistent operation before this call: a thread that marks the slot later sees it.
template <platform P, class W, class Word>
void notify(Word& slot) {
  if constexpr (!W::parks) {
    slot.fetch_add(notice, std::memory_order_release);  // (4)
  } else {
    if (slot.load(std::memory_order_seq_cst) & watched) [[unlikely]]  // (4)
      notify_watchers<P>(slot);
  }
}

}  // namespace waiting_array

/// The Tag of table<Tag>() for the process-wide array.
struct twa_array {
  static constexpr std::uint32_t size = 4096;
  static constexpr table_kind kind = table_kind::counts;
};

// The classes below determine which array a lock uses; the defaults are the papers' parameters.

/// Uses the process-wide array, or its first `Size` slots.
template <platform_with_tables P, std::uint32_t Size = P::template table_size<twa_array>(),
          std::uint32_t Multiplier = 127>
class shared_array {
  static_assert(std::has_single_bit(Size) && Size <= P::template table_size<twa_array>());

 public:
  static constexpr const char* summary = "ticket lock whose far waiters watch a shared array: FIFO";
  static constexpr const char* paper = "TWA, Listing 1, lines 20-71";
  static constexpr bool in_lock = false;
  auto& slot(std::uint32_t number, const void* lock) const {
    return P::template table<twa_array>()[waiting_array::hash(number, P::salt(lock), Multiplier) & (Size - 1)];
  }
};

/// Uses the first slots of the process-wide array, as many as suit the machine. The papers want the array "sized as a
/// function of the number of CPUs" (§2) and give no function. This class has 64 slots per CPU, rounded up to a power of
/// two; 64 is the power of two nearest to the papers' 4096 slots for 72 CPUs (§4). The size is the same for all locks
/// of the process, and at most 4096.
template <platform_with_tables P>
class array_by_cpus {
 public:
  static constexpr const char* summary = "TWA with an array sized by the number of CPUs";
  static constexpr const char* paper = "TWA (extended), section 2";
  static constexpr bool in_lock = false;
  static constexpr std::uint32_t slots_a_cpu = 64;
  static std::uint32_t size() {
    constexpr std::uint32_t most = P::template table_size<twa_array>();
    const std::uint32_t cpus = P::cpus();
    return cpus < most / slots_a_cpu ? std::bit_ceil(cpus * slots_a_cpu) : most;
  }
  auto& slot(std::uint32_t number, const void* lock) const {
    return P::template table<twa_array>()[waiting_array::hash(number, P::salt(lock)) & (size() - 1)];
  }
};

/// An array in each lock, which makes the lock large and avoids collisions with other locks. Slot is std::uint32_t or,
/// for locks whose waiters spin, std::uint64_t.
template <platform_with_tables P, std::uint32_t Size = P::template table_size<twa_array>(), class Slot = std::uint32_t>
class private_array {
  static_assert(std::has_single_bit(Size));

 public:
  /// For tests: with so few slots that few threads fill them.
  using small = private_array<P, 2, Slot>;
  static constexpr unsigned kinds =
      sizeof(Slot) == sizeof(std::uint32_t) ? every_waiting_kind_there_is : every_kind_without_parking;
  static constexpr const char* summary = "TWA with an array of its own in each lock";
  static constexpr const char* paper = "TWA (extended), section 4.1";
  static constexpr bool in_lock = true;
  auto& slot(std::uint32_t number, const void*) { return words_[waiting_array::hash(number, 0) & (Size - 1)]; }

 private:
  typename P::template atomic<Slot> words_[Size];
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
