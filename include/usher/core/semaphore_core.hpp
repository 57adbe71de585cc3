// A counting semaphore whose waiters are served first in, first out, or mostly last in, first out: for any platform. A
// platform's semaphore gives it the ways to sleep: usher/semaphore.hpp.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §6.11 (an explicit list, the probability to append).
// Guarantees: credits are neither lost nor made. release() never waits for another thread and takes no node, so it may be
// called from a signal handler; the last time that it touches the semaphore is before it wakes anybody, so whoever was
// woken may destroy it. An acquiring thread takes a credit that is free, though others wait: the thread that a release
// woke then goes back to the head; after 1 ms of that the next release hands its credit to it, unless a thread that keeps
// trying takes it between the two steps of that. So a semaphore used as a mutex does not pay a thread switch for each
// credit, and the head gets in, with probability one. (Not so a thread further down a list that is mostly last in, first
// out.) Waiters with a real-time priority come first, by priority: waiter_list.hpp; the head of which this speaks is that of
// a class of equals.
// Cost: release and acquire one compare-and-swap each while nobody waits.
//
// The word, 64 bits:
//
//     0–30   credits            31  locked: the list belongs to whoever set this
//     32     somebody waits     33–43  coming: how many were woken and have not looked for their credit yet
//     44–63  fork epoch (its lower bits). After a fork nobody waits in the child: the threads in the list are not here.
//
// Whoever takes the lock of the list settles before it lets go: as long as there are more free credits than threads
// coming for them, it calls the next waiter. It lets go by a compare-and-swap, which fails if a credit came meanwhile.
// So a release that finds the list locked leaves its credit there and goes. A thread that comes settles, too.
//
// A release holds the list's lock only while somebody is in the list, or out of it and not yet woken: somebody who is
// inside acquire(), on whose account nobody may destroy the semaphore.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/waiter_list.hpp"

namespace usher::inline v1 {

template <platform_with_priorities P>
class semaphore_core {
  using order = std::memory_order;

 public:
  static constexpr std::uint32_t max = 0x7fffffff;

  /// One waiting thread. It must stay where it is until acquiring has ended.
  struct waiter {
    enum : std::uint32_t { waiting, notified, granted };

    typename P::template atomic<std::uint32_t> state{waiting};  ///< where it sleeps
    typename P::template plain<waiter*> next, prev;
    // Protected by the list's lock; after the waiter has been taken off the list, its own.
    waiter_rank<P> rank;
    typename P::template plain<std::uint32_t> queued;
    typename P::template plain<std::uint32_t> wants_handoff;  ///< the next credit is to be handed to it
    typename P::template plain<std::uint32_t> becomes;        ///< its state, once the list's lock is free
    std::uint64_t since = 0;
    std::uint64_t epoch = 0;
  };

  constexpr semaphore_core() : word_(0) {}
  explicit semaphore_core(std::uint32_t credits) : word_(credits) {}

  std::uint32_t value() const { return credits(word_.load(order::relaxed)); }

  bool try_acquire() {
    std::uint64_t seen = word_.load(order::relaxed);
    while (credits(seen) != 0) {
      // (1) acquire: pairs with (2). What the thread that released it did before.
      if (word_.compare_exchange_weak(seen, seen - 1, order::acquire, order::relaxed)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// Adds a credit. False if there are `max` already.
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
      // (2) release: pairs with (1), (4) and (6). Acquire if it locks the list.
      if (word_.compare_exchange_weak(seen, then, order::acq_rel, order::relaxed)) {
        if (dispatches) dispatch();
        return true;
      }
      P::backoff(0);
    }
  }

  // ---- waiting ----------------------------------------------------------------------------------------------

  /// True: took a credit after all. False: the waiter is in the list, and sleeps while its state is waiting.
  bool enter(waiter& w, append_probability probability) {
    w.since = P::now();
    w.rank.begin((word_.load(order::relaxed) & some_wait) != 0);
    const bool at_tail = probability.at_tail<P>();
    w.epoch = lock_list();
    return take_or_queue(w, 0, at_tail);
  }

  /// The waiter's state is not waiting any more. True: it has a credit. False: it is in the list again.
  bool arrive(waiter& w) {
    if (w.state.load(order::relaxed) == waiter::granted) return true;
    if (take_notified(w)) return true;
    const std::uint64_t waited = P::now() - w.since;
    const std::uint64_t epoch = lock_list();
    const std::uint64_t gone = arrived(w);
    w.epoch = epoch;
    w.wants_handoff.set(waited > handoff_after ? 1 : 0);
    w.state.store(waiter::waiting, order::relaxed);
    return take_or_queue(w, gone, false);
  }

  /// Ends the waiting for a credit. True if there was one for the waiter: it has it. So has one that had been handed a credit, and
  /// could see that, when a handler of its thread forked; a credit that was on its way to it in that moment is not the child's.
  bool leave(waiter& w) {
    if (left_by_fork(w)) return w.state.load(order::acquire) == waiter::granted;
    lock_list();
    if (w.queued.get() != 0) {
      list_.remove(w);
      dispatch();
      return false;
    }
    dispatch();
    // (5) acquire: pairs with (3). Whoever took us off the list is just about to write it.
    P::await(
        w.state, [](std::uint32_t s) { return s != waiter::waiting; }, order::acquire, look::polling_then_yielding);
    if (w.state.load(order::relaxed) == waiter::granted || take_notified(w)) return true;
    lock_list();
    std::uint64_t seen = word_.load(order::relaxed);
    while (!word_.compare_exchange_weak(seen, seen - arrived(w), order::relaxed, order::relaxed)) P::backoff(0);
    dispatch();
    return false;
  }

  /// The semaphore was left behind by a fork: no release of this process will find the waiter.
  bool left_by_fork(const waiter& w) const { return w.epoch != my_epoch(); }

 private:
  static constexpr std::uint64_t locked = std::uint64_t{1} << 31, some_wait = std::uint64_t{1} << 32,
                                 one_coming = std::uint64_t{1} << 33, most_coming = 0x7ff,
                                 one_epoch = std::uint64_t{1} << 44;
  static constexpr std::uint64_t handoff_after = 1000000;  // ns; as loiter's standby: chosen, not measured

  static std::uint32_t credits(std::uint64_t w) { return std::uint32_t(w) & max; }
  static std::uint64_t coming(std::uint64_t w) { return w / one_coming & most_coming; }
  static std::uint64_t my_epoch() { return std::uint64_t{P::fork_epoch()} * one_epoch; }
  static bool stale(std::uint64_t w) { return w / one_epoch != my_epoch() / one_epoch; }
  /// Without the threads of another process.
  static std::uint64_t renewed(std::uint64_t w) { return my_epoch() | credits(w); }

  static bool needs_dispatch(std::uint64_t w) {
    return (w & some_wait) != 0 && (w & locked) == 0 && credits(w) > coming(w);
  }

  /// What a waiter that was called and has come subtracts. Nothing where nobody counts it: in a child.
  std::uint64_t arrived(const waiter& w) const { return left_by_fork(w) ? 0 : one_coming; }

  /// Of a waiter that was called: takes a free credit if there is one.
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

  /// Takes a credit, or joins the list. Holds the list's lock; lets it go.
  bool take_or_queue(waiter& w, std::uint64_t arrived, bool at_tail) {
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      const bool free = credits(seen) != 0;
      // (6) acquire: pairs with (2). (settle() below would do that, too.)
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
    dispatch();  // sees a credit that has come since
    return false;
  }

  /// Returns the stamp under which it is locked.
  std::uint64_t lock_list() {
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      if (!stale(seen) && (seen & locked) != 0) {
        seen = P::await(
            word_, [](std::uint64_t v) { return stale(v) || (v & locked) == 0; }, order::relaxed,
            look::polling_then_yielding);
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

  /// Gives out what is free and unlocks the list. Never waits.
  [[gnu::cold, gnu::noinline]] void dispatch() {
    waiter* first = nullptr;
    waiter* last = nullptr;
    std::uint64_t seen = word_.load(order::relaxed);
    for (;;) {
      waiter* const w = list_.front();
      const bool hands = w != nullptr && w->wants_handoff.get() != 0;
      std::uint64_t then = seen;
      const bool takes_off =
          w != nullptr && credits(seen) > coming(seen) && (hands || coming(seen) != P::count_limit(most_coming));
      if (takes_off)
        then = hands ? seen - 1 : seen + one_coming;
      else
        then = (seen & ~(locked | some_wait)) | (w != nullptr ? some_wait : 0);
      // (8) release: pairs with (7). Acquire: the credit's, for whom it is handed to.
      if (!word_.compare_exchange_weak(seen, then, order::acq_rel, order::relaxed)) {
        P::backoff(0);
        continue;
      }
      if (!takes_off) break;
      seen = then;
      list_.remove(*w);
      w->queued.set(0);
      w->becomes.set(hands ? waiter::granted : waiter::notified);
      w->next.set(nullptr);
      (last != nullptr ? last->next.set(w) : void(first = w));
      last = w;
    }
    // The semaphore may be gone from here.
    while (first != nullptr) {
      waiter& w = *first;
      first = w.next.get();
      const wake_key key = P::key_of(w.state);
      w.state.store(w.becomes.get(), order::release);  // (3) release: pairs with (5) and the waiter's own look
      P::wake(key, every_sleeper, 1);
    }
  }

  typename P::template atomic<std::uint64_t> word_;
  [[maybe_unused]] std::uint32_t reserved_[2] = {};  ///< where a sem_t says whether it is process-shared
  waiter_list<P, waiter> list_;
};

}  // namespace usher::inline v1
