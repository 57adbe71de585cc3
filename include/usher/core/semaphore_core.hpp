// A counting semaphore for any platform. Its waiters are served first in, first out, or mostly last in, first out.
// wait() is the waiting loop for libusher.so, usher/semaphore.hpp and the checker; its caller provides the sleep.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §6.11 (an explicit list, the probability to append). Guarantees:
// credits are neither lost nor made. release() never waits for another thread and takes no node, so it may be called
// from a signal handler; it does not touch the semaphore after its first wake-up, so a woken thread may destroy the
// semaphore. An arriving thread takes a free credit even if other threads wait, so a semaphore used as a mutex does not
// pay a thread switch for each credit. A notified waiter that finds no credit returns to the head of the list. If it
// has waited for 1 ms, the next release hands its credit to this waiter, unless another thread takes the credit between
// the release's addition and the hand-over. The head is admitted with probability one. A waiter further down a list
// that is mostly last in, first out has no such guarantee. Waiters with a real-time priority come first, by priority
// (waiter_list.hpp); "head" means the first waiter of one priority. Cost without waiters: one compare-and-swap each.
//
// The word, 64 bits:
//
//     0–30   credits            31  locked: the list belongs to the thread that has set this bit
//     32     there are waiters  33–43  coming: the number of notified waiters that have not looked for a credit yet
//     44–63  fork epoch (its lower bits). The child of a fork has no waiters: their threads do not exist there.
//
// The thread that has locked the list *dispatches* before it unlocks: as long as there are more credits than notified
// waiters, it notifies the next waiter. It unlocks by a compare-and-swap, which fails if a credit was added meanwhile.
// So a release that finds the list locked only adds its credit and returns. A notified waiter that takes a credit also
// dispatches.
//
// A release holds the list's lock only while some waiter is in the list, or has been taken off it and not yet been
// woken. That waiter's thread is inside acquire(), so the semaphore must not be destroyed meanwhile.
//
// A waiter may leave by time-out, signal handler or cancellation while a release is notifying it. Its state at that
// moment decides which thread takes the credit:
//
//     in the list           it has no credit; leave() removes the waiter, and dispatches for a credit that was added
//                           while leave() held the list's lock
//     removed, no state yet leave() waits for the state, which the dispatching thread is about to write
//     notified              the waiter takes a free credit if there is one, and the wait succeeds; else it subtracts
//                           itself from "coming" and dispatches: a credit added meanwhile notifies the next waiter
//     granted               the waiter has the credit, and the wait succeeds
//
// A cancelled thread releases the credit that leave() has given it; the release notifies the next waiter.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/waiter_list.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_priorities P>
class semaphore_core {
  using order = std::memory_order;

 public:
  static constexpr std::uint32_t max = 0x7fffffff;

  /// The node of one waiting thread. It must not move until the thread's acquire has ended.
  struct waiter {
    enum : std::uint32_t { waiting, notified, granted };

    typename P::template atomic<std::uint32_t> state{waiting};  ///< the word on which the waiter sleeps
    typename P::template plain<waiter*> next, prev;
    // Protected by the list's lock. Once the waiter has been woken, only its own thread accesses them.
    waiter_rank<P> rank;
    typename P::template plain<std::uint32_t> queued;
    typename P::template plain<std::uint32_t> wants_handoff;  ///< the next credit is to be handed to this waiter
    typename P::template plain<std::uint32_t> becomes;        ///< the state that dispatch() will write
    typename P::template plain<std::uint64_t> since;
    typename P::template plain<std::uint64_t> epoch;
  };

  constexpr semaphore_core() : word_(0) {}
  constexpr explicit semaphore_core(std::uint32_t credits) : word_(credits) {}

  std::uint32_t value() const { return credits(word_.load(order::relaxed)); }

  bool try_acquire() {
    std::uint64_t seen = word_.load(order::relaxed);
    while (credits(seen) != 0) {
      // (1) acquire: pairs with (2), so that this thread sees what the releasing thread wrote before release().
      if (word_.compare_exchange_weak(seen, seen - 1, order::acquire, order::relaxed)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// Adds a credit. Returns false if there are `max` credits already.
  bool release() {
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      if (credits(seen) == max) return false;
      std::uint64_t then = seen + 1;
      bool dispatches = false;
      if ((seen & (some_wait | locked)) != 0) [[unlikely]] {
        if (stale(seen)) then = renewed(then);
        dispatches = needs_dispatch(then);
      }
      if (dispatches) then |= locked;
      // (2) release: publishes this thread's writes to (1), (4) and (6), the operations that take a credit. Acquire is
      // needed if this operation locks the list.
      if (word_.compare_exchange_weak(seen, then, order::acq_rel, order::relaxed)) {
        if (dispatches) dispatch();
        return true;
      }
      P::backoff(0);
    }
  }

  /// Adds n credits in one step, or only as many as are missing to `max`.
  void release(std::uint32_t n) {
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      const std::uint32_t room = max - credits(seen);
      if (n == 0 || room == 0) return;
      std::uint64_t then = seen + (n < room ? n : room);
      if ((seen & (some_wait | locked)) != 0 && stale(seen)) then = renewed(then);
      const bool dispatches = needs_dispatch(then);
      if (dispatches) then |= locked;
      // (9) The memory orders are those of (2). dispatch() notifies as many waiters as there are credits.
      if (word_.compare_exchange_weak(seen, then, order::acq_rel, order::relaxed)) {
        if (dispatches) dispatch();
        return;
      }
      P::backoff(0);
    }
  }

  // ---- waiting ----------------------------------------------------------------------------------------------

  /// Why a waiting thread's sleep has ended.
  enum class wait_end {
    woken,  ///< a wake-up, perhaps a spurious one
    leave,  ///< the thread gives up: its time has run out, or a signal handler has interrupted the sleep
    cancel  ///< the thread is cancelled: it must not keep a credit
  };

  /// Waits for a credit after try_acquire() has failed. Returns true if the thread has a credit. `sleep()` sleeps while
  /// `me.state` is `waiting`, and returns the reason for its return. If a cancellation ends the thread within
  /// `sleep()`, the clean-up handler must call withdraw().
  template <class Sleep>
  bool wait(waiter& me, append_probability probability, Sleep sleep) {
    if (enter(me, probability)) return true;
    for (;;) {
      // (10) acquire: pairs with (3) in dispatch(). The dispatching thread acquired the credit by (2), (8) or (9).
      if (me.state.load(order::acquire) != waiter::waiting) {
        if (arrive(me)) return true;
        continue;  // in the list again; another thread may have notified the waiter since
      }
      switch (sleep()) {
        case wait_end::woken:
          break;
        case wait_end::leave:
          return leave(me);
        case wait_end::cancel:
          withdraw(me);
          return false;
      }
    }
  }

  /// Ends a cancelled thread's wait. If the thread got a credit meanwhile, releases it, for the next waiter if any.
  void withdraw(waiter& w) {
    if (leave(w)) release();
  }

  // The steps of wait():

  /// Returns true if the thread took a credit. False: it has joined the list, and sleeps while its state is `waiting`.
  bool enter(waiter& w, append_probability probability) {
    w.since.set(P::now());
    w.rank.begin((word_.load(order::relaxed) & some_wait) != 0);
    const bool at_tail = probability.at_tail<P>();
    w.epoch.set(lock_list());
    return take_or_queue(w, 0, at_tail);
  }

  /// Called when the waiter's state is not `waiting` any more. True: the waiter has a credit. False: it is in the list
  /// again.
  bool arrive(waiter& w) {
    if (w.state.load(order::relaxed) == waiter::granted) return true;
    if (take_notified(w)) return true;
    const std::uint64_t waited = P::now() - w.since.get();
    const std::uint64_t epoch = lock_list();
    const std::uint64_t arrival = arrived(w);
    w.epoch.set(epoch);
    w.wants_handoff.set(waited > handoff_after ? 1 : 0);
    w.state.store(waiter::waiting, order::relaxed);
    return take_or_queue(w, arrival, false);
  }

  /// Ends the wait. Returns true if there was a credit for the waiter: the waiter has taken it. If a signal handler of
  /// the waiter's thread has forked, the waiter in the child has a credit only if it was granted before the fork.
  bool leave(waiter& w) {
    if (left_by_fork(w)) return w.state.load(order::acquire) == waiter::granted;
    lock_list();
    if (w.queued.get() != 0) {
      list_.remove(w);
      dispatch();
      return false;
    }
    dispatch();
    // (5) acquire: pairs with (3). The thread that removed the waiter from the list is about to write its state.
    P::await(
        w.state, [](std::uint32_t s) { return s != waiter::waiting; }, order::acquire, pacing::polling_then_yielding);
    if (w.state.load(order::relaxed) == waiter::granted || take_notified(w)) return true;
    lock_list();
    std::uint64_t seen = word_.load(order::relaxed);
    while (!word_.compare_exchange_weak(seen, seen - arrived(w), order::relaxed, order::relaxed)) P::backoff(0);
    dispatch();
    return false;
  }

  /// Returns whether the waiter entered before a fork. If so, no release of this process finds it.
  bool left_by_fork(const waiter& w) const { return w.epoch.get() != my_epoch(); }

 private:
  static constexpr std::uint64_t locked = std::uint64_t{1} << 31, some_wait = std::uint64_t{1} << 32,
                                 one_coming = std::uint64_t{1} << 33, most_coming = 0x7ff,
                                 one_epoch = std::uint64_t{1} << 44;
  static constexpr std::uint64_t handoff_after = 1000000;  // ns; as for the standby of `loiter`: chosen, not measured

  static std::uint32_t credits(std::uint64_t w) { return std::uint32_t(w) & max; }
  static std::uint64_t coming(std::uint64_t w) { return w / one_coming & most_coming; }
  static std::uint64_t my_epoch() { return std::uint64_t{P::fork_epoch()} * one_epoch; }
  static bool stale(std::uint64_t w) { return w / one_epoch != my_epoch() / one_epoch; }
  /// The word for a child: its credits, without the waiters of the parent process.
  static std::uint64_t renewed(std::uint64_t w) { return my_epoch() | credits(w); }

  static bool needs_dispatch(std::uint64_t w) {
    return (w & some_wait) != 0 && (w & locked) == 0 && credits(w) > coming(w);
  }

  /// The amount that a notified waiter subtracts from the word when it looks for a credit: one from "coming". After a
  /// fork the amount is 0, because the child's word does not count the waiter.
  std::uint64_t arrived(const waiter& w) const { return left_by_fork(w) ? 0 : one_coming; }

  /// For a notified waiter: takes a free credit if there is one.
  bool take_notified(waiter& w) {
    std::uint64_t seen = word_.load(order::relaxed);
    while (credits(seen) != 0) {
      std::uint64_t then = seen - 1 - arrived(w);
      const bool dispatches = needs_dispatch(then) && !left_by_fork(w);
      if (dispatches) then |= locked;
      // (4) acquire: pairs with (2).
      if (word_.compare_exchange_weak(seen, then, order::acquire, order::relaxed)) {
        if (dispatches) dispatch();
        return true;
      }
      P::backoff(0);
    }
    return false;
  }

  /// Takes a credit, or joins the list. The caller holds the list's lock, which the function releases.
  bool take_or_queue(waiter& w, std::uint64_t arrived, bool at_tail) {
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      const bool free = credits(seen) != 0;
      // (6) acquire: pairs with (2), the addition of a credit. (dispatch() below acquires, too.)
      if ((!free && arrived == 0) ||
          word_.compare_exchange_weak(seen, seen - arrived - (free ? 1 : 0), order::acquire, order::relaxed)) {
        if (free) {
          dispatch();
          return true;
        }
        break;
      }
      P::backoff(0);
    }
    w.queued.set(1);
    if (at_tail)
      list_.push_back(w);
    else
      list_.push_front(w);
    dispatch();  // sees a credit that was added since the loop above
    return false;
  }

  /// Locks the list. Returns the fork epoch, shifted to its bits of the word.
  std::uint64_t lock_list() {
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      if (!stale(seen) && (seen & locked) != 0) {
        seen = P::await(
            word_, [](std::uint64_t v) { return stale(v) || (v & locked) == 0; }, order::relaxed,
            pacing::polling_then_yielding);
        continue;
      }
      const std::uint64_t then = (stale(seen) ? renewed(seen) : seen) | locked;
      // (7) acquire: pairs with (8).
      if (word_.compare_exchange_strong(seen, then, order::acquire, order::relaxed)) {
        if ((then & some_wait) == 0) list_.clear();
        return then & ~(one_epoch - 1);
      }
      P::backoff(0);
    }
  }

  /// Notifies waiters for the free credits and unlocks the list. Never waits for another thread.
  [[gnu::cold, gnu::noinline]] void dispatch() {
    waiter* first = nullptr;
    waiter* last = nullptr;
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      waiter* const w = list_.front();
      const bool hands_over = w != nullptr && w->wants_handoff.get() != 0;
      std::uint64_t then = seen;
      const bool takes_off =
          w != nullptr && credits(seen) > coming(seen) && (hands_over || coming(seen) != P::count_limit(most_coming));
      if (takes_off)
        then = hands_over ? seen - 1 : seen + one_coming;
      else
        then = (seen & ~(locked | some_wait)) | (w != nullptr ? some_wait : 0);
      // (8) release: pairs with (7), the operation that locks the list. Acquire: pairs with (2), for a handed credit.
      if (!word_.compare_exchange_weak(seen, then, order::acq_rel, order::relaxed)) {
        P::backoff(0);
        continue;
      }
      if (!takes_off) break;
      seen = then;
      list_.remove(*w);
      w->queued.set(0);
      w->becomes.set(hands_over ? waiter::granted : waiter::notified);
      w->next.set(nullptr);
      (last != nullptr ? last->next.set(w) : void(first = w));
      last = w;
    }
    // The semaphore is not touched from here on: a woken thread may destroy it.
    while (first != nullptr) {
      waiter& w = *first;
      first = w.next.get();
      const wake_key key = P::key_of(w.state);
      w.state.store(w.becomes.get(), order::release);  // (3) release: pairs with (5) and (10)
      P::wake(key, every_sleeper, 1);
    }
  }

  typename P::template atomic<std::uint64_t> word_;
  [[maybe_unused]] std::uint32_t reserved_[2] = {};  ///< the place of a sem_t's process-shared flag
  waiter_list<P, waiter> list_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
