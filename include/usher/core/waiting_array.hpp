// The waiting array that TWA and its variants share: one in a process, for all its locks.
//
//     slot     bits 31…2: count of notifications     bit 1: a watcher sleeps or is about to     bit 0: watched
//
// A slot's value has no meaning. Whenever it changes, the slot's watchers look at their lock again. A hash collision
// costs one such look. Index: number × 127 XOR the lock's salt: neighbouring numbers are 127 words = 508 bytes apart,
// so never in one 128-byte sector, and two locks that run in step do not meet in the same slots.
//
// Only parking forms use the two marks. Where the hand-over is an atomic operation anyway, watchers can announce
// themselves (store-buffer pattern: hand over, then read the slot; mark the slot, then look at the lock; all
// sequentially consistent), and a notification without watchers does not write to the array. Spinning forms always
// write.
//
// The paper's slots have 64 bits so that they never wrap; a futex has 32. A watcher that reads the slot, does not run
// during exactly k × 2^30 notifications of it, and then sleeps would miss them: at 10^8 notifications of one slot a
// second it would have to be suspended for 10.7 s, to within one notification.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "usher/core/lock_names.hpp"
#include "usher/core/ticket_words.hpp"

// gcc's -Wshadow warns if a parameter of a lambda or local class of this header has the name of an object of the
// including program. So the warning is off here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"

namespace usher::inline v1 {

namespace waiting_array {

inline constexpr std::uint32_t watched = 1, sleeping = 2, notice = 4;

/// The paper's hash of a ticket. `number` is the ticket as it stands in a lock's word.
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

/// Watches a slot until `near(order)`, which loads the lock's word with that memory order, returns true: the caller is
/// near enough to the lock's head.
template <platform P, class W, class Word, class Near>
void watch(Word& slot, Near near) {
  for (;;) {
    // (3) acquire: pairs with (4), the notification. The slot is read first, then the lock. If this load sees the
    // notification meant for this watcher, near() sees the hand-over before it; otherwise the slot changes later.
    // Without the look at the lock before the wait, a notification could be lost.
    std::uint32_t seen = slot.load(std::memory_order_acquire);
    if constexpr (W::parks) {
      // (5) Marks the slot, then looks at the lock: either that look sees the hand-over or (4) sees the mark. No
      // compare-and-swap: other locks' threads could make it fail again and again, and the lock would not be looked at.
      if ((seen & watched) == 0) {
        slot.fetch_or(watched, std::memory_order_seq_cst);
        seen = slot.load(std::memory_order_acquire);
      }
      if (near(std::memory_order_seq_cst)) return;
      if ((seen & watched) == 0) continue;  // notified since
    } else {
      if (near(std::memory_order_acquire)) return;
    }
    const auto notified = [seen](std::uint32_t v) { return v / notice != seen / notice; };
    if (W::poll(slot, notified)) continue;
    if constexpr (W::parks) {
      if ((seen & sleeping) == 0 && !set_sleeping<P>(slot, seen)) continue;
      P::park(slot, seen, every_sleeper);
    }
  }
}

/// Increments the count and clears the marks: watchers that still wait set them again. If another thread has just
/// cleared them, the watchers meant here look at their lock, which has changed, before they mark the slot again. The
/// exchange could be relaxed: a thread that reads its value then marks the slot and then looks at the lock, and both
/// operations are sequentially consistent, as are the caller's write to the lock and look at the slot. It is acq_rel so
/// that (3) and (4) alone explain a changed value.
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

/// Makes the watchers of a slot look at their lock again. Where threads park, the caller has written to the lock, or
/// read it, by a sequentially consistent operation before this call: a thread that marks the slot later sees the lock's
/// new value.
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

// The classes below say which array a lock uses; the defaults are the papers' parameters.

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

/// Uses as much of the process-wide array as suits the machine. The papers want it to be "sized as a function of the
/// number of CPUs" (§2) and give no function: 64 slots a CPU is the next power of two to their 4096 for 72 CPUs (§4),
/// the same for all locks of the process, at most 4096.
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

/// An array in each lock, which makes the lock large and avoids collisions with other locks.
template <platform_with_tables P, std::uint32_t Size = P::template table_size<twa_array>()>
class private_array {
  static_assert(std::has_single_bit(Size));

 public:
  static constexpr const char* summary = "TWA with an array of its own in each lock";
  static constexpr const char* paper = "TWA (extended), section 4.1";
  static constexpr bool in_lock = true;
  auto& slot(std::uint32_t number, const void*) { return words_[waiting_array::hash(number, 0) & (Size - 1)]; }

 private:
  typename P::template atomic<std::uint32_t> words_[Size];
};

}  // namespace usher::inline v1

#pragma GCC diagnostic pop
