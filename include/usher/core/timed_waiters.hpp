// Timed waiting for any lock. A thread cannot leave a lock's queue, so a waiter with a deadline does not join the
// queue. It waits beside the lock, and every second unlock hands the lock to such a waiter.
//
// The state is one word beside the lock, `timed_waiters`. A grant is *taken up* by the thread that clears `granted`:
//
//     bits 0–11   the number of timed waiters
//     bit 12      unclaimed: the lock was granted beside its queue, but the granted thread did not take the grant up,
//                 and another thread took it. No unlock grants the lock again, until a thread to which it could be
//                 granted runs, and clears this bit
//     bit 13      freed: an unlock has freed the lock while there were timed waiters. The waiter that clears this bit
//                 tries the lock
//     bits 14–25  users: the number of threads that wait on a condition variable and will lock again. unlock() ignores
//                 them, the destruction of a mutex does not. Beyond 4095 they are not counted
//     bits 26–28  the number of successive hand-overs of the held lock to requeued threads
//     bit 29      requeued: threads have been requeued from a condition variable to this lock (wait_morphing.hpp)
//     bit 30      served: the last unlock served a timed waiter
//     bit 31      granted: the lock, still held, belongs to the thread that clears this bit. It was granted to the
//                 timed waiters, or to a requeued thread (wait_morphing.hpp)
//
// The lock's owner sets `requeued`, and decides about these threads before unlock() (wait_morphing.hpp).
//
// If unlock() reads timed_waiters before a timed waiter increments it, unlock() releases the lock without a wake-up.
// The waiter must then find the free lock itself. It does so in one of two ways:
//
// - Beside the lock is an *owner tag*, non-zero from some point of the critical section on. unlock() clears it *before*
//   it reads timed_waiters:
//
//       unlock            tag = 0;              fence_light;  read timed_waiters     (3)
//       timed waiter      timed_waiters += 1;   fence_heavy;  read the tag           (4)
//
//   At least one of the two threads sees the other's write. If the waiter reads a non-zero tag, the owner's unlock has
//   not read timed_waiters yet and will see the waiter: the waiter sleeps until it is woken. If the waiter reads 0, an
//   unlock may be in progress (perhaps its thread has lost its CPU between the read and the release), or a new owner
//   has not written its tag yet: the waiter tries the lock again after a while. One heavy fence suffices for all later
//   reads of the tag by a waiter. An unlock that read timed_waiters before the fence had already cleared its tag; so a
//   tag that the waiter reads later belongs to an owner whose unlock reads timed_waiters after the fence. A heavy fence
//   disturbs all running threads, so a waiter first sleeps for 0.2 ms: most waits are over by then.
//
//   An unlock that frees the lock wakes one timed waiter. But that waiter may be only about to sleep, and timed_waiters
//   may again have the value that the waiter's futex call compares. So the unlock also sets `freed`, and no waiter
//   sleeps on a value with `freed`. The waiter that clears `freed` tries the lock. If the lock is not free yet, the tag
//   is already clear, because the unlock cleared it before (5), and the waiter tries again soon. If this waiter gives
//   up instead, it sets `freed` again and wakes another waiter.
//
// - Without a tag, or where the system has no heavy fence, the waiter tries the lock again after 0.2 ms, then after
//   twice as long each time, at most 10 ms.
//
// If the lock has lock_or(), no thread waits for one that does not run (a signal handler may block it): if the lock was
// granted long ago, a thread that waits for the lock takes the grant, by clearing `granted`, and sets `unclaimed`.
//
// Guarantees: as long as threads keep unlocking, each second unlock admits a timed waiter, if a timed waiter takes the
// grant up in time, whatever the lock's own order is. A granted lock is never lost: a timed waiter that gives up while
// `granted` is set takes the lock and returns success. Cost: one load in unlock while no thread waits with a deadline.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "usher/core/platform.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_asymmetric_fences P>
class timed_waiter_count {
 public:
  using word = typename P::template atomic<std::uint32_t>;

  /// The owner tag of a held lock whose owner is unknown.
  static constexpr std::uint32_t unknown_owner = 1;

  /// Returns whether an unlock must do more than release the lock.
  static bool has_waiters(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & ~(users | in_a_row)) != 0;
  }

  /// The first step of an unlock if the lock has an owner tag: clears the tag, then returns has_waiters().
  static bool clear_tag_and_check(word& tag, const word& timed_waiters) {
    tag.store(0, std::memory_order_relaxed);  // the release in the lock's own unlock() publishes it
    P::fence_light();                         // (3)
    return has_waiters(timed_waiters);
  }

  /// Returns whether a value that was read while the lock was unused shows no waiter, no user and no requeued thread.
  static constexpr bool is_idle(std::uint32_t timed_waiters) {
    return (timed_waiters & ~(served | in_a_row | unclaimed)) == 0;
  }

  /// Returns the word for a mutex that is renewed after a fork, in which its waiters do not exist. Keeps `granted`: the
  /// mutex may have been granted to the thread that forked.
  static std::uint32_t after_fork(const word& timed_waiters) {
    return timed_waiters.load(std::memory_order_relaxed) & granted;
  }

  // Only the owner calls these three functions. Relaxed: the bit shows only whether the list of requeued threads is
  // empty, and the lock protects that list.
  static void set_requeued(word& timed_waiters) { timed_waiters.fetch_or(requeued, std::memory_order_relaxed); }
  static bool has_requeued(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & requeued) != 0;
  }
  static bool take_requeued(word& timed_waiters) {
    return has_requeued(timed_waiters) &&
           (timed_waiters.fetch_and(~requeued, std::memory_order_relaxed) & requeued) != 0;
  }

  /// Called by the owner. Returns whether its unlock() would serve a timed waiter.
  static bool serves_timed(const word& timed_waiters) {
    const std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);
    return (seen & count) != 0 && (seen & (served | unclaimed)) == 0;
  }
  // Called by the owner when it hands the held lock to a requeued thread instead of calling unlock():
  /// Returns whether the owner may do so: the last grant has been taken up.
  static bool takes_up(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & unclaimed) == 0;
  }
  /// Returns whether seven hand-overs in a row have gone to requeued threads.
  static bool is_due(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & in_a_row) == in_a_row;
  }
  /// Grants the lock to a requeued thread, which the caller then wakes, and counts the hand-over. The next unlock
  /// serves a timed waiter if there is one.
  template <class Lock>
  static void grant_to_requeued(Lock&& lock, word& timed_waiters) {
    note_grant(lock);
    std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);
    // A loop, because other threads change other bits. (1) release: pairs with (2), also in take_granted().
    while (!timed_waiters.compare_exchange_strong(
        seen, ((seen & ~served) | granted) + ((seen & in_a_row) != in_a_row ? one_in_a_row : 0),
        std::memory_order_release, std::memory_order_relaxed))
      P::backoff(0);
  }

  /// The argument of lock_or(): lets the lock take a grant that was not taken up. `get` returns the word; an
  /// uncontended lock does not call it, and so does not compute the word's address.
  template <class Get>
  class grant_beside {
   public:
    explicit grant_beside(Get get) : get_(get) {}
    /// Acquire: pairs with (1), so that the lock sees the time of the grant (note_grant()).
    bool is_given() const { return (get_().load(std::memory_order_acquire) & granted) != 0; }
    bool take() const { return take_granted(get_(), unclaimed); }

   private:
    Get get_;
  };
  template <class Lock>
  static constexpr bool takes_grants = requires(Lock& l, grant_beside<word& (*)()> g) { l.lock_or(g); };

  // lock() and try_lock() of a lock that has timed waiters, or requeued threads, beside it.
  template <class Lock, class Get>
  static void lock_or_take(Lock&& lock, [[maybe_unused]] Get get) {
    if constexpr (takes_grants<std::remove_reference_t<Lock>>)
      lock.lock_or(grant_beside<Get>{get});
    else
      lock.lock();
  }
  template <class Lock, class Get>
  static bool try_lock_or_take(Lock&& lock, [[maybe_unused]] Get get) {
    if constexpr (takes_grants<std::remove_reference_t<Lock>>)
      return lock.try_lock_or(grant_beside<Get>{get});
    else
      return lock.try_lock();
  }

  /// Called by a requeued thread to which the lock was granted. Returns false if another thread has since taken it.
  static bool claim(word& timed_waiters) {
    if (take_granted(timed_waiters, 0)) return true;
    shows_that_it_runs(timed_waiters, timed_waiters.load(std::memory_order_relaxed));
    return false;
  }

  // Only the owner changes the number of users; other threads may change the rest of the word at the same time.
  /// Counts the calling thread as a user. Returns false, and counts nothing, if the count is at its limit.
  static bool add_user(word& timed_waiters) {
    if ((timed_waiters.load(std::memory_order_relaxed) & users) == users) return false;
    timed_waiters.fetch_add(one_user, std::memory_order_relaxed);
    return true;
  }
  static void remove_user(word& timed_waiters) { timed_waiters.fetch_sub(one_user, std::memory_order_relaxed); }
  static bool has_users(const word& timed_waiters) {
    return (timed_waiters.load(std::memory_order_relaxed) & users) != 0;
  }

  /// Waits for `lock` until `remaining()`, the nanoseconds until the deadline, is 0. Returns true if the caller has got
  /// the lock. With a platform's park_until(), a sleep ends by the deadline's clock, even if that is set.
  template <class Lock, class Remaining>
  static bool lock(Lock& lock, word& timed_waiters, Remaining remaining, const word* tag = nullptr) {
    if (!join(timed_waiters)) return try_now_and_then(lock, remaining);
    bool sees_holders = false, fenced = false;
    std::uint64_t nap = first_nap;
    for (bool saw_freed = false;;) {
      // (6) acquire: pairs with (5), directly or by way of a waiter that has cleared `freed` since.
      std::uint32_t seen = timed_waiters.load(std::memory_order_acquire);
      if (seen & granted) {
        if (take(timed_waiters, seen)) return true;
        continue;
      }
      if (shows_that_it_runs(timed_waiters, seen)) continue;
      if (seen & freed) {
        if (!timed_waiters.compare_exchange_strong(seen, seen & ~freed, std::memory_order_acquire,
                                                   std::memory_order_relaxed))
          continue;  // (6)
        seen &= ~freed;
        saw_freed = true;
        nap = first_nap;
      }
      if (lock.try_lock()) {
        // No grant is pending, because a granted lock is held, and this thread found the lock free.
        timed_waiters.fetch_sub(1, std::memory_order_relaxed);
        return true;
      }
      const std::uint64_t left = remaining();
      if (left == 0) return leave(timed_waiters, saw_freed);
      if (sees_holders && tag->load(std::memory_order_relaxed) != 0) {
        saw_freed = false;  // the unlock of the owner with this tag will see this waiter
        if constexpr (requires { P::park_until(timed_waiters, seen, every_sleeper, remaining); })
          P::park_until(timed_waiters, seen, every_sleeper, remaining);
        else
          P::park_for(timed_waiters, seen, every_sleeper, left);
      } else {
        P::nap(timed_waiters, seen, every_sleeper, left < nap ? left : nap, granted | freed);
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
      } else if (seen & (served | unclaimed)) {
        // (5) release: publishes the cleared tag to (6), the waiters' loads of this word.
        if (timed_waiters.compare_exchange_strong(seen, (seen & ~(served | in_a_row)) | freed,
                                                  std::memory_order_release, std::memory_order_relaxed)) {
          lock.unlock();
          return P::wake(key, every_sleeper, 1);
        }
      } else {
        if (tag != nullptr)
          tag->store(unknown_owner, std::memory_order_relaxed);  // the lock stays held; its next owner is unknown
        note_grant(lock);
        // (1) release: pairs with (2) in take(). From here on the next owner may destroy the lock and this word, so the
        // wake-up uses the key.
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
                                 users = one_in_a_row - one_user, freed = 1u << 13, unclaimed = 1u << 12,
                                 count = unclaimed - 1;
  static constexpr std::uint64_t first_nap = 200000;  // ns; as next_nap(): chosen, not measured
  static std::uint64_t next_nap(std::uint64_t nap) { return nap < 5000000 ? 2 * nap : 10000000; }

  /// Counts the caller as a timed waiter. Returns false if the count is at its limit.
  static bool join(word& timed_waiters) {
    std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);
    while ((seen & count) != P::count_limit(count)) {
      // Relaxed: the fences at (3) and (4) order this increment before the load of the tag.
      if (timed_waiters.compare_exchange_strong(seen, seen + 1, std::memory_order_relaxed, std::memory_order_relaxed))
        return true;
      P::backoff(0);
    }
    return false;
  }

  /// Waits without being counted as a timed waiter. No unlock grants it the lock or wakes it: it tries at intervals.
  template <class Lock, class Remaining>
  [[gnu::cold]] static bool try_now_and_then(Lock& lock, Remaining remaining) {
    for (std::uint64_t nap = first_nap; !lock.try_lock(); nap = next_nap(nap)) {
      const std::uint64_t left = remaining();
      if (left == 0) return false;
      P::backoff(std::uint32_t(left < nap ? left : nap));
    }
    return true;
  }

  /// Called before the lock is granted: a lock with lock_or() records the time.
  template <class Lock>
  static void note_grant([[maybe_unused]] Lock& lock) {
    if constexpr (requires { lock.note_grant(); }) lock.note_grant();
  }

  /// Takes the lock if it is granted, and sets the bits `and_set` of the word.
  static bool take_granted(word& timed_waiters, std::uint32_t and_set) {
    std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);
    for (; (seen & granted) != 0; P::backoff(0))
      // (2) acquire: pairs with (1).
      if (timed_waiters.compare_exchange_strong(seen, (seen & ~granted) | and_set, std::memory_order_acquire,
                                                std::memory_order_relaxed))
        return true;
    return false;
  }

  /// Called by a thread that could take a grant up. If `unclaimed` is set in `seen`, clears it and returns true.
  static bool shows_that_it_runs(word& timed_waiters, std::uint32_t seen) {
    if ((seen & unclaimed) == 0) return false;
    timed_waiters.fetch_and(~unclaimed, std::memory_order_relaxed);
    return true;
  }

  static bool take(word& timed_waiters, std::uint32_t seen) {
    // (2) acquire: pairs with (1).
    return timed_waiters.compare_exchange_strong(seen, (seen & ~granted) - 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed);
  }

  /// Ends the wait of a thread that gives up. Returns true if the lock has just been granted to it. `saw_freed`: this
  /// waiter has cleared `freed`, and has seen no owner tag since.
  static bool leave(word& timed_waiters, bool saw_freed) {
    const wake_key key = P::key_of(timed_waiters);
    for (std::uint32_t seen = timed_waiters.load(std::memory_order_relaxed);; P::backoff(0)) {
      if (seen & granted) {
        if (take(timed_waiters, seen)) return true;
        seen = timed_waiters.load(std::memory_order_relaxed);
        continue;
      }
      const bool passes_on = saw_freed && (seen & count) > 1;
      const std::uint32_t then = (seen - 1) | (passes_on ? freed : 0);
      // (5) release: if this sets `freed` again, it also publishes the clearing of the tag that came before `freed`.
      if (timed_waiters.compare_exchange_strong(seen, then, std::memory_order_release, std::memory_order_relaxed)) {
        if (passes_on) P::wake(key, every_sleeper, 1);
        return false;
      }
    }
  }
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
