// Inflatable locks: any lock in eight bytes. A lock with a larger state takes an *inflated state* from a pool of the
// process when threads first contend, and returns it when its last user unlocks; meanwhile the eight bytes contain the
// handle of the inflated state.
//
// Source: ours. Inflated locks are an old idea (Bacon and others, "Thin Locks", PLDI 1998). Here the large state is
// also returned, so that ten million mutexes need only as many inflated states as mutexes are contended at one time.
// Guarantees: those of the large lock while the lock is inflated, a ticket lock's (FIFO) while it is not; the change
// from one to the other lets no thread overtake an earlier one. The doorway (drawing a number, or the large lock's
// doorway) is not bounded: a number, or a place among the users, is taken by a compare-and-swap, which other threads
// can make fail again and again. try_lock() fails while the lock is inflated, because a thread owns it or is about to.
// If the pool is empty the lock remains a ticket lock. Cost: without contention one compare-and-swap in each of lock
// and unlock. Inflated: the large lock's cost, and one compare-and-swap more, on `users`, in each. Layout: one 64-bit
// word.
//
//     bit 0 clear   ticket:    bits 1–31  next number to be given out     bit 32  a thread sleeps on the word
//                              bits 33–63 number now served; the lock is free if the two numbers are equal
//     bit 0 set     inflated:  bits 1–31  handle of the inflated state    bits 33–63 its generation. Bit 32 is 0: so a
//                              waiter of the ticket lock that is about to sleep cannot find the upper half unchanged
//
// An inflated state has the large lock and `users`: bits 0–31 the number of threads that hold the lock or wait for it,
// 0: closed; bits 33–63 the generation, one more each time the state is taken. A thread enters by a compare-and-swap
// that adds one to the count. It succeeds only if the count is not 0 and the generation is the one that the thread read
// in the word: so a thread never enters a state that has meanwhile gone to another lock.
//
//     ticket, held, no waiter ──an arrival locks a new inflated state for the owner, too──► inflated, two users
//     inflated, two or more users ──unlock: one user less, then the large lock's unlock──► inflated
//     inflated, one user          ──unlock: users closed, word cleared──► free; the state is returned
//
// The inflating thread acquires the large lock on the owner's behalf; the owner may unlock it, because any thread may
// unlock a lock of Usher. After an unlock has decremented `users`, it only hands over the large lock. The state remains
// in use until then, because the waiter that gets the large lock is still counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "usher/core/lockable.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_inflation P, class W, class Large>
class inflatable {
 public:
  static constexpr lock_traits traits = [] {
    lock_traits t = Large::traits;
    t.words = 2;
    t.bounded_doorway = false;
    t.by_priority = false;  // neither the ticket lock nor `users` takes account of priorities
    t.checker_threads = 4;  // large locks come from a pool
    return t;
  }();
  static constexpr bool announces_doorway = true;  ///< it calls P::doorway() while it is not inflated

  void lock() {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    // (1) acquire: pairs with (2) and (4), by which unlock() and unlock_inflated() free the lock.
    if ((seen & inflated) == 0 && is_free(seen) &&
        word_.compare_exchange_strong(seen, drawn(seen), std::memory_order_acquire, std::memory_order_relaxed))
        [[likely]]
      return admit();
    contend(seen);
  }

  bool try_lock() {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    return (seen & inflated) == 0 && is_free(seen) &&
           word_.compare_exchange_strong(seen, drawn(seen), std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    const wake_key key = P::key_of(word_);
    while ((seen & inflated) == 0) {
      // (2) release: pairs with (1) in lock() and (3) in queue_up(). It clears `asleep`. A woken thread whose number is
      // not served yet sets the bit again.
      if (word_.compare_exchange_strong(seen, served_next(seen), std::memory_order_release, std::memory_order_relaxed))
          [[likely]] {
        if constexpr (W::parks) {
          if (seen & asleep) P::wake(key, every_sleeper, all);
        }
        return;
      }
      P::backoff(0);
    }
    unlock_inflated();
  }

  /// For tests: sets both numbers of an unused lock, the next and the served one, to n.
  void count_from(std::uint32_t n) {
    const std::uint64_t number = std::uint32_t(n * one);
    word_.store(number << 32 | number, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t inflated = 1, one = 2, asleep = std::uint64_t{1} << 32;

  static constexpr std::uint32_t next(std::uint64_t w) { return std::uint32_t(w) & ~1u; }
  static constexpr std::uint32_t served(std::uint64_t w) { return std::uint32_t(w >> 32) & ~1u; }
  static constexpr bool is_free(std::uint64_t w) { return next(w) == served(w); }
  static constexpr bool nobody_queued(std::uint64_t w) { return next(w) - served(w) == one; }
  /// Returns the word after one more number has been given out. Only the lower half is incremented: a carry must not
  /// change the upper half, the number served.
  static constexpr std::uint64_t drawn(std::uint64_t w) {
    return (w & ~std::uint64_t{0xffffffff}) | std::uint32_t(next(w) + one);
  }
  static constexpr std::uint64_t served_next(std::uint64_t w) {
    return (w & 0xffffffff) | std::uint64_t{std::uint32_t(served(w) + one)} << 32;
  }
  static constexpr std::uint32_t count(std::uint64_t users) { return std::uint32_t(users); }
  static constexpr std::uint32_t generation(std::uint64_t w) { return std::uint32_t(w >> 32); }

  void admit() {
    P::doorway(this);
    P::admitted(this);
  }

  [[gnu::cold, gnu::noinline]] void contend(std::uint64_t seen) {
    for (;; P::backoff(0)) {
      if ((seen & inflated) != 0) {
        seen = word_.load(std::memory_order_acquire);  // (8) pairs with (7): the inflated state
        if ((seen & inflated) == 0) continue;
        if (enter(seen)) return P::template inflated<Large>(std::uint32_t(seen) >> 1).lock.lock();
        seen = word_.load(std::memory_order_relaxed);
      } else if (is_free(seen)) {
        if (word_.compare_exchange_strong(seen, drawn(seen), std::memory_order_acquire,
                                          std::memory_order_relaxed))  // (1)
          return admit();
      } else if (const std::uint32_t h = nobody_queued(seen) ? P::template take_inflated<Large>() : 0) {
        if (h == retake_inflated)  // another thread may have inflated the lock meanwhile
          seen = word_.load(std::memory_order_relaxed);
        else if (inflate(h, seen))
          return;
      } else if (queue_up(seen)) {
        return;
      }
    }
  }

  /// Counts the caller among the users of the inflated state. Returns false if the state is closed or belongs to
  /// another lock.
  bool enter(std::uint64_t seen) {
    auto& users = P::template inflated<Large>(std::uint32_t(seen) >> 1).users;
    std::uint64_t u = users.load(std::memory_order_relaxed);
    while (generation(u) == generation(seen) && count(u) != 0) {
      // (5) acquire: pairs with (6) in inflate(), which publishes the inflated state.
      if (users.compare_exchange_strong(u, u + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// Inflates a held lock that has no waiters, by the state `h`. Returns true if the caller has locked the lock.
  /// Returns false if it has given the state back: then `seen` is the current word.
  bool inflate(std::uint32_t h, std::uint64_t& seen) {
    auto& a = P::template inflated<Large>(h);
    if (!a.lock.try_lock()) {  // for the owner; fails only if no node is free
      P::template give_inflated<Large>(h);
      return queue_up(seen);
    }
    const std::uint64_t now = std::uint64_t{generation(a.users.load(std::memory_order_relaxed)) + 2u} << 32;
    a.users.store(now + 2, std::memory_order_release);  // (6) pairs with (5)
    // (7) release: publishes the inflated state to (8), the loads in contend() and unlock_inflated().
    if (word_.compare_exchange_strong(seen, now + h * one + inflated, std::memory_order_release,
                                      std::memory_order_relaxed)) {
      a.lock.lock();
      return true;
    }
    a.users.store(now, std::memory_order_relaxed);
    a.lock.unlock();
    P::template give_inflated<Large>(h);
    return false;
  }

  /// Draws a ticket and waits until its number is served. Returns false if the word has changed from `seen`.
  bool queue_up(std::uint64_t& seen) {
    const std::uint32_t mine = next(seen);
    if (!word_.compare_exchange_strong(seen, drawn(seen), std::memory_order_relaxed, std::memory_order_relaxed))
      return false;
    P::doorway(this);
    // If the word is inflated, this thread has the lock, too: it was the only waiter, and the inflating thread has
    // acquired the large lock on its behalf.
    const auto my_turn = [mine](std::uint64_t w) { return (w & inflated) != 0 || served(w) == mine; };
    if (!W::poll(word_, my_turn)) {  // (3) acquire: pairs with (2)
      if constexpr (W::parks) {
        for (;;) {
          std::uint64_t w = word_.load(std::memory_order_acquire);  // (3)
          if (my_turn(w)) break;
          if ((w & asleep) == 0 &&
              !word_.compare_exchange_strong(w, w | asleep, std::memory_order_relaxed, std::memory_order_relaxed)) {
            P::backoff(0);
            continue;
          }
          P::park(word_, w | asleep, every_sleeper);
        }
      }
    }
    P::admitted(this);
    return true;
  }

  [[gnu::cold, gnu::noinline]] void unlock_inflated() {
    // (8) acquire: pairs with (7) in inflate(). The word does not change as long as `users` counts this thread.
    const std::uint32_t h = std::uint32_t(word_.load(std::memory_order_acquire)) >> 1;
    auto& a = P::template inflated<Large>(h);
    std::uint64_t u = a.users.load(std::memory_order_relaxed);
    for (;;) {
      const bool last = count(u) == 1;
      // Relaxed: no thread enters a closed state, and (4) below or the large lock's release publishes the critical
      // section.
      if (a.users.compare_exchange_strong(u, u - 1, std::memory_order_relaxed, std::memory_order_relaxed)) {
        if (!last) return a.lock.unlock();
        break;
      }
      P::backoff(0);
    }
    word_.store(0, std::memory_order_release);  // (4) pairs with (1); another thread may destroy the lock
    a.lock.unlock();
    P::template give_inflated<Large>(h);
  }

  typename P::template atomic<std::uint64_t> word_;
};

/// The lock itself if it fits into the free bytes of a pthread_mutex_t, otherwise its inflatable form. The C library's
/// own locks stay as they are, for comparison.
template <platform P, class W, class Lock>
using embeddable_or_inflatable =
    std::conditional_t<Lock::traits.native_only || embeddable<Lock>, Lock, inflatable<P, W, Lock>>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
