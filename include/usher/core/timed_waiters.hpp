// Timed waiting for any lock: a waiter with a deadline cannot stand in a queue that it may not leave, so it stands
// aside, and the unlocking thread hands the lock to one that stands aside at every second unlock.
//
// The gate is one word beside the lock:
//
//     bits 0–12   timed waiters
//     bit 13      look: an unlock has freed the lock with timed waiters there. Whoever takes this bit off tries the lock
//     bits 14–25  threads that wait on a condition variable and will lock again: not an unlock's business, but a
//                 destroyer's. Beyond 4095 they are not counted
//     bits 26–28  how often in a row the holder has given the lock to a requeued thread, still held
//     bit 29      requeued: the holder has threads to see to that a condition variable has moved to this lock
//     bit 30      served: the last unlock served a timed waiter
//     bit 31      granted: the lock, still held, belongs to whichever timed waiter takes this bit off
//
// The requeued threads are not the gate's business: the holder of the lock sets the bit and takes it off before the
// gate's part of the unlock (libusher.so does).
//
// An unlock that reads the gate just before a timed waiter arrives frees the lock and wakes nobody. The waiter pays for
// that, in one of two ways:
//
// - Beside the lock there is an *owner tag*, non-zero from some point of the critical section on. An unlock clears it
//   *before* it reads the gate:
//
//       unlock            tag = 0;       fence_light;  read the gate     (3)
//       timed waiter      gate += 1;     fence_heavy;  read the tag      (4)
//
//   One of the two sees the other. If the waiter reads a tag, its holder has not read the gate yet and will find the
//   waiter there: the waiter sleeps until it is woken. If it reads none, an unlock may be in flight (perhaps of a thread
//   that lost its CPU between its read and its release), or a new holder has not written its tag yet: the waiter looks
//   again after a while. One heavy fence is enough for all looks of a waiter: an unlock that read the gate before the
//   fence had cleared its tag by then, so a tag that is seen later belongs to an unlock that reads the gate later. A heavy
//   fence disturbs all threads that run, so a waiter sleeps for 0.2 ms first: most need no more.
//
//   An unlock that frees the lock wakes one timed waiter. That one may be just about to sleep, with a value of the gate
//   that the gate has again by then. So the unlock also sets `look`, and no waiter sleeps on a value that has it. The
//   waiter that takes it off tries the lock; if the unlock has not freed that yet, it has cleared the tag before (5), so
//   this waiter looks again soon. If it leaves instead, it puts `look` back for another waiter, and wakes one.
//
// - Without a tag, or where the system has no heavy fence, the waiter looks again after 0.2 ms, then after twice as long
//   each time, at most 10 ms.
//
// Guarantees: as long as threads keep unlocking, each second unlock admits a timed waiter if there is one, whatever
// the lock's own order is. A granted lock is never stranded: a timed waiter that gives up while the bit is set takes
// the lock and returns success.
// Cost: unlock one load while nobody waits with a deadline.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/platform.hpp"

namespace usher::inline v1 {

template <platform_with_asymmetric_fences P>
class timed_waiter_count {
 public:
  using word = typename P::template atomic<std::uint32_t>;

  /// An owner tag while nobody knows who has the lock.
  static constexpr std::uint32_t unknown_owner = 1;

  /// Whether an unlock has to do more than to release the lock.
  static bool has_waiters(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & ~(users | in_a_row)) != 0;
  }

  /// How an unlock begins where there is an owner tag: clears the tag, then says what has_waiters() says.
  static bool clear_tag_and_check(word& tag, const word& timed_waiters) {
    tag.store(0, std::memory_order_relaxed);  // ordered before the release by the lock's own release
    P::fence_light();                         // (3)
    return has_waiters(timed_waiters);
  }

  /// Of a value that was read while nobody was at the lock: whether nobody is counted, served or requeued.
  static constexpr bool is_idle(std::uint32_t timed_waiters) { return (timed_waiters & ~(served | in_a_row)) == 0; }

  // By the holder only. Relaxed: what the bit is about is protected by the lock.
  static void set_requeued(word& timed_waiters) { timed_waiters.fetch_or(requeued, std::memory_order_relaxed); }
  static bool has_requeued(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & requeued) != 0;
  }
  static bool take_requeued(word& timed_waiters) {
    return has_requeued(timed_waiters) &&
           (timed_waiters.fetch_and(~requeued, std::memory_order_relaxed) & requeued) != 0;
  }

  /// By the holder: whether the next unlock by this is to serve a timed waiter.
  static bool serves_timed(const word& timed_waiters) {
    const std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);
    return (seen & count) != 0 && (seen & served) == 0;
  }
  // By the holder, who may give the lock to a requeued thread, still held, instead of an unlock().
  /// Whether that was done seven times in a row.
  static bool is_due(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & in_a_row) == in_a_row;
  }
  /// The next unlock serves a timed waiter if there is one.
  static void pass_by(word& timed_waiters) {
    std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);
    // Others change other bits.
    while (!timed_waiters.compare_exchange_strong(seen,
                                                  (seen & ~served) + ((seen & in_a_row) != in_a_row ? one_in_a_row : 0),
                                                  std::memory_order_relaxed, std::memory_order_relaxed))
      P::backoff(0);
  }

  // Threads that leave the lock for a condition variable and will come back. By the holder only; others may change the
  // rest of the word meanwhile.
  /// False: there are too many, this one is not counted.
  static bool add_user(word& timed_waiters) {
    if ((timed_waiters.load(std::memory_order_relaxed) & users) == users) return false;
    timed_waiters.fetch_add(one_user, std::memory_order_relaxed);
    return true;
  }
  static void remove_user(word& timed_waiters) { timed_waiters.fetch_sub(one_user, std::memory_order_relaxed); }
  static bool has_users(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & users) != 0;
  }

  /// Waits for `lock` until `remaining()` (nanoseconds) is 0. True if the caller now holds it.
  template <class Lock, class Remaining>
  static bool lock(Lock& lock, word& timed_waiters, Remaining remaining, const word* tag = nullptr) {
    if (!join(timed_waiters)) return look_now_and_then(lock, remaining);
    bool sees_holders = false, fenced = false;
    std::uint64_t nap = first_nap;
    for (bool looks = false;;) {
      // (6) acquire: pairs with (5), which another waiter may have answered.
      std::uint32_t seen = timed_waiters.load(std::memory_order_acquire);
      if (seen & granted) {
        if (take(timed_waiters, seen)) return true;
        continue;
      }
      if (seen & look) {
        if (!timed_waiters.compare_exchange_strong(seen, seen & ~look, std::memory_order_acquire,
                                                   std::memory_order_relaxed))
          continue;  // (6)
        seen &= ~look;
        looks = true;
        nap = first_nap;
      }
      if (lock.try_lock()) {
        // The lock was free, so no grant is pending: it would mean that the lock is held.
        timed_waiters.fetch_sub(1, std::memory_order_relaxed);
        return true;
      }
      const std::uint64_t left = remaining();
      if (left == 0) return leave(timed_waiters, looks);
      if (sees_holders && tag->load(std::memory_order_relaxed) != 0) {
        looks = false;  // that holder's unlock finds us
        P::park_for(timed_waiters, seen, every_sleeper, left);
      } else {
        P::nap(timed_waiters, seen, every_sleeper, left < nap ? left : nap, granted | look);
        if (!fenced && tag != nullptr) sees_holders = P::fence_heavy();  // (4)
        fenced = true;
        nap = next_nap(nap);
      }
    }
  }

  /// The rest of an unlock for which has_waiters() or clear_tag_and_check() was true. The caller holds the lock.
  template <class Lock>
  static void unlock(Lock& lock, word& timed_waiters, word* tag = nullptr) {
    const wake_key key = P::key_of(timed_waiters);
    for (std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);; P::backoff(0)) {
      if ((seen & count) == 0) {
        if (timed_waiters.compare_exchange_strong(seen, seen & (requeued | users), std::memory_order_relaxed,
                                                  std::memory_order_relaxed))
          return lock.unlock();
      } else if (seen & served) {
        // (5) release: the tag, which is 0; pairs with (6).
        if (timed_waiters.compare_exchange_strong(seen, (seen & ~(served | in_a_row)) | look, std::memory_order_release,
                                                  std::memory_order_relaxed)) {
          lock.unlock();
          return P::wake(key, every_sleeper, 1);
        }
      } else {
        if (tag != nullptr)
          tag->store(unknown_owner, std::memory_order_relaxed);  // it stays held; by whom, is to be seen
        // (1) release: pairs with (2). The lock is theirs; the gate may be gone: the wake is by key.
        if (timed_waiters.compare_exchange_strong(seen, seen | granted | served, std::memory_order_release,
                                                  std::memory_order_relaxed))
          return P::wake(key, every_sleeper, 1);
        if (tag != nullptr) tag->store(0, std::memory_order_relaxed);
      }
    }
  }

 private:
  static constexpr std::uint32_t granted = 1u << 31, served = 1u << 30, requeued = 1u << 29, one_in_a_row = 1u << 26,
                                 in_a_row = requeued - one_in_a_row, one_user = 1u << 14,
                                 users = one_in_a_row - one_user, look = 1u << 13, count = look - 1;
  static constexpr std::uint64_t first_nap = 200000;  // ns; as next_nap(): chosen, not measured
  static std::uint64_t next_nap(std::uint64_t nap) { return nap < 5000000 ? 2 * nap : 10000000; }

  /// False: there are as many timed waiters as can be counted.
  static bool join(word& timed_waiters) {
    std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);
    while ((seen & count) != P::count_limit(count)) {
      // Relaxed: it only counts; what it has to do with a tag is the fences' business.
      if (timed_waiters.compare_exchange_strong(seen, seen + 1, std::memory_order_relaxed, std::memory_order_relaxed))
        return true;
      P::backoff(0);
    }
    return false;
  }

  /// Of a waiter that is not counted: nobody hands the lock to it or wakes it.
  template <class Lock, class Remaining>
  [[gnu::cold]] static bool look_now_and_then(Lock& lock, Remaining remaining) {
    for (std::uint64_t nap = first_nap; !lock.try_lock(); nap = next_nap(nap)) {
      const std::uint64_t left = remaining();
      if (left == 0) return false;
      P::backoff(std::uint32_t(left < nap ? left : nap));
    }
    return true;
  }

  static bool take(word& timed_waiters, std::uint32_t seen) {
    // (2) acquire: pairs with (1).
    return timed_waiters.compare_exchange_strong(seen, (seen & ~granted) - 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed);
  }

  /// Gives up, unless the lock has just been granted. `looks`: has taken `look` off and not seen who has the lock.
  static bool leave(word& timed_waiters, bool looks) {
    const wake_key key = P::key_of(timed_waiters);
    for (std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);; P::backoff(0)) {
      if (seen & granted) {
        if (take(timed_waiters, seen)) return true;
        seen = timed_waiters.load(std::memory_order_relaxed);
        continue;
      }
      const bool passes_on = looks && (seen & count) > 1;
      const std::uint32_t then = (seen - 1) | (passes_on ? look : 0);
      // (5) release, in another's place.
      if (timed_waiters.compare_exchange_strong(seen, then, std::memory_order_release, std::memory_order_relaxed)) {
        if (passes_on) P::wake(key, every_sleeper, 1);
        return false;
      }
    }
  }
};

}  // namespace usher::inline v1
