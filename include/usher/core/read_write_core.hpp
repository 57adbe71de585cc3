// A read-write lock for any platform. It is phase-fair, has any lock of the catalogue as the queue of its writers, and
// is biased towards readers (BRAVO) if Biased is true. The functions work on words and a writers' lock that the caller
// provides, so that objects of another layout, such as a pthread_rwlock_t, can contain them. The locks: phase_fair.hpp.
//
// Source: Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time systems"
// (Real-Time Systems 2010), the phase-fair ticket lock PF-T; Dice and Kogan, "BRAVO – Biased Locking for Reader-Writer
// Locks" (ATC 2019), Listing 1. Three things differ from PF-T. Writers queue on a lock of the catalogue instead of a
// ticket lock, and only while another writer is there. The writer at the head of that queue claims the lock, unlocks
// the queue's lock, and only then enters its critical section: so unlock() is one operation, whether the writer has
// queued or not, and touches nothing afterwards. Waiters may sleep and may give up.
//
//     read_write_words.hpp     the words, and how threads wait on them
//     read_write_windows.hpp   a writer waits for the readers inside; the rule for recursive readers
//     read_write_bias.hpp      visible readers (BRAVO)
//
//     lock_shared()    in: arrivals + 1. If `writing` was set, waits until `writing` or `phase` has changed
//     unlock_shared()  out: exits + 1. The last reader for which a sleeping writer waits wakes it
//     lock()           in: sets `writing` if neither `writing`, `queue` nor `biased` is set. Else joins the queue; its
//                      head waits until `writing` is clear, and sets it. Then waits until the exits equal the number of
//                      arrivals at the time when it set `writing`
//     unlock()         in: clears `writing`, phase + 1
//
// Phase-fair. A reader waits for at most one writer: it is counted in the next writer's arrivals, so that writer does
// not own the lock before the reader has left. A writer that has claimed the lock waits only for the readers that had
// arrived before the claim. Between two writers all waiting readers are admitted.
//
// Upgrade: if a reader is the only one, and no writer holds the lock or waits, it becomes the writer in one step. It
// never waits, because two readers that each waited for the other to leave would deadlock.
//
// Forks. The child has a copy of the parent's words. renew() turns them into those of a lock that only the calling
// thread uses. The platform removes the ids of the parent's other visible readers from the child's table. It keeps each
// id that is in a slot of the thread that forked. One pair of threads in 4096 shares a slot, so such an id may be
// another thread's: then the lock counts a reader that the child does not have. A new object removes the ids of an
// earlier object at its address: forget_visible_readers(), renew().
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <new>
#include <type_traits>

#include "usher/core/platform.hpp"
#include "usher/core/read_write_bias.hpp"
#include "usher/core/timed_waiters.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_asymmetric_fences P, class W, class Writers, bool Biased>
class read_write_core : private read_write_bias<P, W, Writers, Biased> {
  using base = read_write_bias<P, W, Writers, Biased>;
  using typename base::order;
  using timed_waiters = timed_waiter_count<P>;

 public:
  read_write_core(read_write_words<P>& words, Writers& writers, reader_rule rule) : base(words, writers, rule) {}

  // ---- readers ------------------------------------------------------------------------------------------------

  /// `remaining()` returns the nanoseconds until the deadline, or is no_limit. Returns false if the time is over.
  template <class Remaining = no_limit>
  bool lock_shared(Remaining remaining = {}) {
    if constexpr (Biased)
      if (enter_visibly()) return true;
    const std::uint32_t seen = arrive();
    return has_to_wait(seen) ? lock_shared_after(seen, remaining) : true;
  }

  using base::enter_visibly;

  // lock_shared() in parts, for a caller whose fast path must contain no calls. If enter_visibly() is false or the lock
  // is not biased, it calls arrive(); then, if has_to_wait() is true, lock_shared_after().

  std::uint32_t arrive() {
    // (1) acquire: pairs with (2), the unlock of the last writer.
    return in_.fetch_add(one, order::acquire);
  }
  /// Returns whether the reader must wait, or must set `biased`.
  static bool has_to_wait(std::uint32_t seen) { return (seen & writing) != 0 || sets_biased(seen); }
  template <class Remaining>
  bool lock_shared_after(std::uint32_t seen, Remaining remaining) {
    if ((seen & writing) != 0 && !wait_for_phase(seen, remaining)) return false;
    if constexpr (Biased)
      if (sets_biased(seen)) set_biased();
    return true;
  }

  bool try_lock_shared() {
    if constexpr (Biased)
      if (enter_visibly()) return true;
    std::uint32_t seen = in_.load(order::relaxed);
    while ((seen & writing) == 0) {
      if (in_.compare_exchange_weak(seen, seen + one, order::acquire, order::relaxed)) return true;  // (1)
      P::backoff(0);
    }
    return rule_ == reader_rule::recursive && try_take_back_an_exit();
  }

  using base::unlock_shared;

  // ---- writers ------------------------------------------------------------------------------------------------

  template <class Remaining = no_limit>
  bool lock(Remaining remaining = {}) {
    std::uint32_t seen;
    const bool claimed = claim_at_once(seen);
    if (claimed && has_left(seen)) [[likely]]
      return true;
    return lock_after(claimed, seen, remaining);
  }

  // lock() in parts, for callers as those of arrive().

  bool claim_at_once(std::uint32_t& seen) {
    seen = in_.load(order::relaxed);
    // (5) acquire: pairs with (2), the unlock of the last writer.
    return (seen & (writing | queue | biased)) == 0 &&
           in_.compare_exchange_strong(seen, seen + writing, order::acquire, order::relaxed);
  }
  using base::has_left;
  template <class Remaining>
  bool lock_after(bool claimed, std::uint32_t seen, Remaining remaining) {
    if (!claimed && !claim_in_turn(seen, remaining)) return false;
    return has_left(seen) || drain(seen, remaining);
  }

  bool try_lock() {
    std::uint32_t seen = in_.load(order::relaxed);
    for (;;) {
      if ((seen & writing) != 0) return false;
      if ((seen & (queue | biased)) != 0) return try_claim_in_queue(false);
      if (!has_left(seen)) return false;
      if (in_.compare_exchange_weak(seen, seen + writing, order::acquire, order::relaxed)) break;  // (5)
      P::backoff(0);
    }
    // This was true right before the claim. It is false now only if `in` has wrapped in between.
    if (has_left(seen)) return true;
    release(0);
    return false;
  }

  void unlock() { release(0); }

  /// The writer becomes a reader. No other writer can get the lock in between.
  void unlock_and_lock_shared() { release(one); }

  /// Makes the only reader the writer if no writer waits. False: the thread is still a reader. (Some attempts of other
  /// threads to lock may make it fail, too.)
  bool try_upgrade() {
    std::uint32_t seen = in_.load(order::relaxed);
    for (;;) {
      if ((seen & writing) != 0) return false;
      if ((seen & (queue | biased)) != 0) return try_claim_in_queue(true);
      if (!has_left(seen - one)) return false;
      // (5) This thread is removed from the arrivals. It acquired the last unlock when it became a reader. Acquire is
      // still needed for visible readers that a writer saw leave before that writer gave up and released the lock.
      if (in_.compare_exchange_weak(seen, seen - one + writing, order::acquire, order::relaxed)) break;
      P::backoff(0);
    }
    if (has_left(seen - one)) return true;
    release(one);
    return false;
  }

  // ---- the rest -----------------------------------------------------------------------------------------------

  /// Returns whether no thread holds the lock or waits for it. Acquire: for a caller that then destroys the lock.
  bool is_idle() const {
    const std::uint32_t seen = in_.load(order::acquire);
    return (seen & writing) == 0 && has_left(seen) && !has_queued() && !has_visible();
  }

  /// Called in the child of a fork by its only thread, which holds the lock `reads` times for reading, or for writing.
  void renew(std::uint32_t reads, bool writes) {
    forget_visible_readers();
    forget_waiters();
    out_.store(0, order::relaxed);
    in_.store(reads * one + (writes ? writing : 0), order::relaxed);
  }

  using base::forget_visible_readers, base::has_visible_readers;

  /// As renew(), if the number of reads by the calling thread is not known: all of the parent's readers count as its
  /// own. A fork in the middle of this function leaves words that give the same result in that child.
  void renew_from_words(bool writes) {
    forget_waiters();
    const std::uint32_t left = out_.load(order::relaxed) & (0 - one);
    const std::uint32_t come = writes ? left : in_.load(order::relaxed) & (0 - one);
    in_.store(come | (writes ? writing : 0) | (has_visible() ? biased : 0), order::relaxed);
    out_.store(left, order::relaxed);
  }

  /// Returns whether 2^21 readers, a quarter of what the words can count, may be counted in the arrivals;
  /// has_too_many() gives the exact answer. `seen` is a value of `in`. The exits may include readers that arrived after
  /// `seen` was read: then the difference is negative, and it wraps if the thread did not run for a while.
  bool may_have_too_many(std::uint32_t seen) const {
    return std::int32_t(seen - out_.load(order::relaxed)) >= most_difference;
  }
  bool may_have_too_many() const { return may_have_too_many(in_.load(order::relaxed)); }
  bool has_too_many() const {
    for (;;) {
      const std::uint32_t left = out_.load(order::acquire), come = in_.load(order::acquire);
      if (out_.load(order::relaxed) / one == left / one) return std::int32_t(come - left) >= most_difference;
      P::backoff(0);
    }
  }

  // ---- by the only thread of a process ------------------------------------------------------------------------ The
  // functions below return false, and change nothing, if the lock is not free for the thread or has flags set; the
  // caller then calls the general function. The words are counters: after a signal handler's calls they may have other
  // values. So each is changed by one instruction that a handler cannot interrupt (P::add_alone(), P::replace_alone()).

  bool lock_shared_alone(std::uint32_t& seen) {
    if ((in_.load(order::acquire) & (writing | biased)) != 0) return false;
    seen = P::add_alone(in_, one);
    return true;
  }
  bool unlock_shared_alone() {
    if ((out_.load(order::relaxed) & sleeping) != 0 || (Biased && (in_.load(order::relaxed) & biased) != 0))
      return false;
    P::add_alone(out_, one);
    return true;
  }
  bool lock_alone() {
    const std::uint32_t seen = in_.load(order::acquire);
    if ((seen & (writing | queue | biased)) != 0 || !has_left(seen)) return false;
    return P::replace_alone(in_, seen, seen + writing);
  }
  bool unlock_alone() {
    const std::uint32_t seen = in_.load(order::relaxed);
    if ((seen & (queue | asleep)) != 0) return false;
    return P::replace_alone(in_, seen, seen - writing + to_next_phase(seen));
  }

  /// For tests: sets the arrivals and the exits of a free lock to n.
  void count_from(std::uint32_t n) {
    in_.store(n * one + (n & 31) * one_phase, order::relaxed);
    out_.store(n * one, order::relaxed);
    if constexpr (requires { writers_.count_from(n); }) writers_.count_from(n);
  }

 private:
  using base::asleep, base::biased, base::one, base::one_give_up, base::one_phase, base::phases, base::queue,
      base::sleeping, base::writing;
  using base::drain, base::has_visible, base::id, base::refuses, base::release, base::revoke, base::set_biased,
      base::sets_biased, base::to_next_phase, base::try_take_back_an_exit, base::wait_for_phase, base::wait_on_in;
  using base::in_, base::out_, base::words_, base::writers_, base::rule_;
  template <class Remaining>
  static constexpr bool has_limit = base::template has_limit<Remaining>;
  static constexpr std::int32_t most_difference = 1 << 30;  // 2^21 readers

  /// Called in the child of a fork, in which the writers that waited do not exist.
  void forget_waiters() {
    writers_.~Writers();
    ::new (&writers_) Writers{};
    words_.queued.store(0, order::relaxed);
    words_.timed.store(0, order::relaxed);
    words_.inhibit.store(0, order::relaxed);
  }

  // ---- a writer's way to the lock -----------------------------------------------------------------------------

  /// Claims the lock in the queue's order. `seen` becomes the value of `in` before the claim. False: the time is over.
  template <class Remaining>
  [[gnu::cold, gnu::noinline]] bool claim_in_turn(std::uint32_t& seen, Remaining remaining) {
    if (refuses(remaining)) return false;
    enter_queue();
    if constexpr (has_limit<Remaining>) {
      if (!timed_waiters::lock(writers_, words_.timed, remaining)) {
        if (writers_.try_lock())
          leave_queue();
        else
          words_.queued.fetch_sub(1, order::relaxed);  // `queue` may stay set, until the next writer leaves
        return false;
      }
    } else {
      writers_.lock();
    }
    if constexpr (Biased)
      if ((in_.load(order::relaxed) & biased) != 0) revoke();
    const bool claimed = wait_on_in([](std::uint32_t v) { return (v & writing) == 0; }, remaining);
    // No other thread sets `writing`: `queue` is set, and this thread has the writers' lock. wait_on_in() was (5).
    if (claimed) seen = in_.fetch_add(writing, order::relaxed);
    leave_queue();
    return claimed;
  }

  /// Joins the queue. Until the thread has left it, no later writer claims the lock directly, and no reader sets
  /// `biased`. A queued writer's doorway is that of the writers' lock.
  void enter_queue() {
    words_.queued.fetch_add(1, order::relaxed);
    in_.fetch_or(queue, order::release);  // (6) release: pairs with (7)
  }

  bool has_queued() const { return words_.queued.load(order::relaxed) % one_give_up != 0; }

  /// Called by the thread that has the writers' lock. Clears `queue` if the thread is the last one in the queue. Only a
  /// thread with the writers' lock clears `queue`, and before it unlocks, it sets `queue` again if a writer has joined
  /// meanwhile. So `queue` is set as long as a thread in the queue has the writers' lock.
  void leave_queue() {
    if (words_.queued.fetch_sub(1, order::relaxed) % one_give_up == 1) {
      // (7) acquire: pairs with (6). If this clears the flag that a new writer has just set, has_queued() sees that
      // writer. Release: pairs with (5). A thread that gives up may have seen by (b4) that visible readers had left; a
      // writer that then claims the lock without a search must come after these readers.
      in_.fetch_and(~queue, order::acq_rel);
      if (has_queued()) in_.fetch_or(queue, order::relaxed);
    }
    if (timed_waiters::has_waiters(words_.timed)) [[unlikely]]
      timed_waiters::unlock(writers_, words_.timed);
    else
      writers_.unlock();
  }

  /// try_lock() and try_upgrade() of a lock with `biased` or `queue` set: claims the lock without waiting, if no other
  /// thread has it. (`queue` stays set after a writer has given up.)
  [[gnu::cold, gnu::noinline]] bool try_claim_in_queue(bool reads) {
    if (!writers_.try_lock()) return false;
    enter_queue();
    std::uint32_t seen = in_.load(order::acquire);  // (5)
    bool claimed = (seen & writing) == 0;
    if constexpr (Biased)
      if (claimed && (seen & biased) != 0) revoke();
    const std::uint32_t own = reads ? one : 0;  // the caller's own arrival; if it was visible, revoke() counted it
    for (seen = in_.load(order::relaxed); claimed; P::backoff(0)) {
      claimed = has_left(seen - own);
      // Relaxed: (5) is above. No other thread has claimed the lock since, because this one has the writers' lock.
      if (claimed && in_.compare_exchange_weak(seen, seen - own + writing, order::relaxed, order::relaxed)) break;
    }
    leave_queue();
    return claimed;
  }
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
