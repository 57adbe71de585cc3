// Timed waiting for any lock: a waiter with a deadline cannot stand in a queue that it may not leave, so it stands
// aside, and the unlocking thread hands the lock to one that stands aside at every second unlock.
//
// The gate is one word beside the lock:
//
//     bits 0–28   how many wait          bit 29  errand: the holder has something else to see to when it unlocks
//     bit 30      served: the last unlock served a timed waiter
//     bit 31      granted: the lock, still held, belongs to whichever timed waiter takes this bit off
//
// The errand is not the gate's business: the holder of the lock sets it and takes it off before the gate's part of the
// unlock. (libusher.so: threads that a condition variable has moved to the mutex.)
//
// Guarantees: as long as threads keep unlocking, each second unlock admits a timed waiter if there is one, whatever
// the lock's own order is. A granted lock is never stranded: a timed waiter that gives up while the bit is set takes
// the lock and returns success.
// Cost: unlock one load while nobody waits with a deadline.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/platform.hpp"

namespace usher {

template <platform P>
class timed_gate {
 public:
  using word = typename P::template atomic<std::uint32_t>;

  /// Whether an unlock has to do more than to release the lock.
  static bool anyone(const word& gate) { return gate.load(std::memory_order_relaxed) != 0; }

  static bool anyone_timed(const word& gate) { return (gate.load(std::memory_order_relaxed) & ~errand) != 0; }

  // By the holder only. Relaxed: what the errand is about is protected by the lock.
  static void set_errand(word& gate) { gate.fetch_or(errand, std::memory_order_relaxed); }
  static bool has_errand(const word& gate) { return (gate.load(std::memory_order_relaxed) & errand) != 0; }
  static bool take_errand(word& gate) {
    return has_errand(gate) && (gate.fetch_and(~errand, std::memory_order_relaxed) & errand) != 0;
  }

  /// Waits for `lock` until `remaining()` (nanoseconds) is 0. True if the caller now holds it.
  template <class Lock, class Remaining>
  static bool lock(Lock& lock, word& gate, Remaining remaining) {
    gate.fetch_add(1, std::memory_order_relaxed);  // it only counts
    // An unlock that looked at the gate just before we came frees the lock and wakes nobody. It is rare, so a look
    // every now and then is enough: after 0.2 ms, then twice as long each time, at most 10 ms.
    std::uint64_t look = 200000;
    for (;;) {
      const std::uint32_t seen = gate.load(std::memory_order_relaxed);  // take() acquires, or the lock does
      if (seen & granted) {
        if (take(gate, seen)) return true;
        continue;
      }
      if (lock.try_lock()) {
        // The lock was free, so no grant is pending: it would mean that the lock is held.
        gate.fetch_sub(1, std::memory_order_relaxed);
        return true;
      }
      const std::uint64_t left = remaining();
      if (left == 0) return leave(gate);
      P::park_for(gate, seen, every_sleeper, left < look ? left : look);
      look = look < 5000000 ? 2 * look : 10000000;
    }
  }

  /// How an unlock begins when anyone() is true; the caller holds the lock.
  enum class outcome {
    handed_over,  ///< a timed waiter has the lock now: touch nothing
    release       ///< release the lock as usual, then wake one timed waiter by the key
  };
  static outcome unlock(word& gate) {
    std::uint32_t seen = gate.load(std::memory_order_relaxed);
    const wake_key key = P::key_of(gate);
    for (;;) {
      if ((seen & count) == 0) {
        if (gate.compare_exchange_strong(seen, seen & errand, std::memory_order_relaxed, std::memory_order_relaxed))
          return outcome::release;
      } else if (seen & served) {
        if (gate.compare_exchange_strong(seen, seen & ~served, std::memory_order_relaxed, std::memory_order_relaxed))
          return outcome::release;
      } else if (gate.compare_exchange_strong(seen, seen | granted | served, std::memory_order_release,
                                              std::memory_order_relaxed)) {
        // (1) release: pairs with (2). The lock is theirs; the gate may be gone: the wake is by key.
        P::wake(key, every_sleeper, 1);
        return outcome::handed_over;
      }
      P::backoff(0);
    }
  }

 private:
  static constexpr std::uint32_t granted = 1u << 31, served = 1u << 30, errand = 1u << 29, count = errand - 1;

  static bool take(word& gate, std::uint32_t seen) {
    // (2) acquire: pairs with (1).
    return gate.compare_exchange_strong(seen, (seen & ~granted) - 1, std::memory_order_acquire,
                                        std::memory_order_relaxed);
  }

  /// Gives up, unless the lock has just been granted.
  static bool leave(word& gate) {
    std::uint32_t seen = gate.load(std::memory_order_relaxed);
    for (;;) {
      if (seen & granted) {
        if (take(gate, seen)) return true;
        seen = gate.load(std::memory_order_relaxed);
      } else if (gate.compare_exchange_strong(seen, seen - 1, std::memory_order_relaxed, std::memory_order_relaxed)) {
        return false;
      }
      P::backoff(0);
    }
  }
};

}  // namespace usher
