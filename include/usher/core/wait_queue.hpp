// The waiters of a condition variable: a list in the order of append_probability and of priorities (waiter_list.hpp).
// In one step, a signal selects one waiter and a broadcast selects all. Nothing is allocated; waiters lie on their
// threads' stacks.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §6.10 (an explicit list, mostly LIFO) and footnote 40 (no thread is
// woken only to find that the mutex is held).
//
// A broadcast does not wake all waiters at once: it takes them off the list as a *chain* and grants the first. A
// granted waiter owns the rest of the chain. It acquires the mutex, and then delivers the rest: it grants the next
// waiter, or requeues the rest to the mutex. So at most one thread of a chain is awake without the mutex.
//
//     state    waiting ──signal or broadcast──► selected ──its turn in the chain──► granted, or handed_over
//              waiting ──time-out, cancellation──► leaving: the waiter removes itself from the list
//
// A granted waiter acquires the mutex. A waiter in the state handed_over owns the mutex: the previous owner has left
// the mutex locked for it.
//
// After select_all() has returned and close() has waited for the leaving waiters, no waiter touches the queue: the
// queue may be destroyed before the selected waiters have acquired the mutex, even by a thread that holds the mutex.
// Selected waiters need only their chain, which is linked through their own nodes. A waiter whose time runs out after
// it was selected stays in the chain, because it needs the mutex in any case.
//
// Signal forwarding. If a waiter is cancelled after a signal has selected it, the waiter must forward the signal to
// another waiter, and so accesses the queue once more. Therefore a signal *arms* the waiter that it selects; the waiter
// disarms itself when it departs. close() detaches the waiters that are still armed: no waiter is left to which they
// could forward the signal.
//
//     forwarding   none       selected by a broadcast, or not cancellable
//                  armed ──the waiter departs──► leaving: it removes itself from the list of armed waiters
//                  armed ──close()──► detached: must not touch the queue
//
// The word:  bit 0 locked · bit 1 there are waiters · bit 2 there are armed waiters · bits 32–63 the fork epoch. In the
// child of a fork the queue counts as empty, because its waiters' threads do not exist there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "usher/core/waiter_list.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_priorities P>
class wait_queue {
 public:
  /// The node of one waiting thread. It must not move until the thread has been granted or has left, and has departed.
  struct waiter {
    enum : std::uint32_t { waiting, leaving, selected, granted, handed_over };
    enum : std::uint32_t { forwarding_none, forwarding_armed, forwarding_leaving, forwarding_detached };

    typename P::template atomic<std::uint32_t> state{waiting};  ///< the word on which the waiter sleeps
    typename P::template atomic<std::uint32_t> forwarding{forwarding_none};
    /// Neighbours in the list. Once the waiter is selected, `next` links the rest of its chain; in the chain's first
    /// waiter, `prev` names the chain's last.
    typename P::template plain<waiter*> next, prev;
    typename P::template plain<waiter*> next_armed, prev_armed;
    waiter_rank<P> rank;
    typename P::template plain<std::uint32_t> epoch;  ///< the fork epoch in which it entered the queue
  };

  enum class forwarding { none, armed };

  // ---- the waiting thread -----------------------------------------------------------------------------------

  /// Adds a waiter to the queue. Called with the mutex held, so that the waiter misses no signal that is sent after the
  /// mutex's release.
  void enter(waiter& w, append_probability probability) {
    w.rank.begin(has_waiters());
    w.epoch.set(lock_list());
    waiting_.push(w, probability);
    unlock_list();
  }

  /// Sleeps until the waiter is granted.
  static void sleep(waiter& w) {
    // (4) acquire: pairs with (3).
    while (const auto s = awake(w)) P::park(w.state, *s, every_sleeper);
  }

  /// Returns the state in which the waiter may sleep, or nullopt if it has been granted or owns the mutex.
  static std::optional<std::uint32_t> awake(const waiter& w) {
    const std::uint32_t s = w.state.load(std::memory_order_acquire);
    return s >= waiter::granted ? std::nullopt : std::optional(s);
  }

  /// Removes a waiter from the list. Returns false if the waiter has been selected and will therefore be granted.
  bool leave(waiter& w) {
    if (left_by_fork(w)) return true;
    std::uint32_t seen = waiter::waiting;
    // (6) acquire on failure: pairs with (5), by which a signal selects this waiter, so that this thread sees the
    // signal's write to `forwarding`.
    if (!w.state.compare_exchange_strong(seen, waiter::leaving, std::memory_order_acq_rel, std::memory_order_acquire))
      return false;
    // From here on select_*() skips this waiter, and close() waits for it. So the queue is not destroyed before
    // unlock_list().
    lock_list();
    waiting_.remove(w);
    unlock_list();
    return true;
  }

  /// Called by a waiter that was granted. Removes it from the list of armed waiters (those that may forward their
  /// signal) if it is there.
  void depart(waiter& w) {
    if (!disarm(w)) return;
    lock_list();
    remove_armed(w);
    unlock_list();
  }

  /// Called in place of depart() by a selected waiter that cannot use the signal, for example because it was cancelled.
  /// If a signal selected it, not a broadcast, selects another waiter for that signal and returns the other waiter;
  /// null if there is none. The calling waiter remains part of its chain, and will be granted.
  waiter* forward_signal(waiter& w) {
    if (!disarm(w)) return nullptr;
    lock_list();
    remove_armed(w);
    waiter* const other = select(forwarding::armed);
    unlock_list();
    return other;
  }

  /// Returns whether the waiter entered before a fork. If so, no signal of this process finds it.
  static bool left_by_fork(const waiter& w) { return w.epoch.get() != P::fork_epoch(); }

  // ---- threads that signal ----------------------------------------------------------------------------------

  /// Returns whether there are waiters. Relaxed suffices: a waiter enters while it holds the mutex, and a thread whose
  /// signal must find the waiter has locked the mutex since. The bit stays set as long as the waiter is in the list.
  bool has_waiters() const {
    const std::uint64_t seen = word_.load(std::memory_order_relaxed);
    return (seen & some_wait) != 0 && seen >> 32 == P::fork_epoch();
  }

  /// Removes the first waiter from the list, and returns it as a chain of one, or null. The caller does not touch the
  /// queue afterwards.
  waiter* select_one(forwarding how) {
    if (!has_waiters()) return nullptr;
    lock_list();
    waiter* const w = select(how);
    unlock_list();
    return w;
  }

  /// Removes all waiters from the list, and returns them as a chain, or null.
  waiter* select_all() {
    if (!has_waiters()) return nullptr;
    lock_list();
    waiter* first = nullptr;
    waiter* last = nullptr;
    for (waiter* w = waiting_.front(); w != nullptr;) {
      waiter* const next = w->next.get();
      if (mark_selected(*w)) {
        waiting_.remove(*w);
        w->next.set(nullptr);
        if (first == nullptr)
          first = w;
        else
          last->next.set(w);
        last = w;
      }
      w = next;
    }
    if (first != nullptr) first->prev.set(last);
    unlock_list();
    return first;
  }

  /// Grants the first waiter of a chain. The waiter may free its node before the wake-up, which then finds no sleeper
  /// or wakes another thread in vain.
  static void grant(waiter& first) { wake_as(first, waiter::granted); }

  /// As grant(), called by the owner of the mutex, which leaves the mutex locked for the waiter.
  static void hand_over(waiter& first) { wake_as(first, waiter::handed_over); }

  static bool was_handed_over(const waiter& w) {
    return w.state.load(std::memory_order_relaxed) == waiter::handed_over;
  }

  /// Returns the rest of the chain after a waiter that has been granted, or null.
  static waiter* rest(waiter& granted) {
    waiter* const next = granted.next.get();
    if (next != nullptr) next->prev.set(granted.prev.get());
    return next;
  }

  /// Joins two chains by priority; among equals the waiters of `chain` go before those of `more`. Returns the first
  /// waiter.
  static waiter& append(waiter& chain, waiter& more) {
    waiter* const last = chain.prev.get();
    if (last->rank.get() >= more.rank.get()) [[likely]] {
      last->next.set(&more);
      chain.prev.set(more.prev.get());
      return chain;
    }
    return merge(chain, more);
  }

  /// Called before the queue's memory is freed. Returns false if there are waiters that have not been selected.
  /// Otherwise waits for the leaving waiters, each of which executes one short critical section, and returns true.
  bool close() {
    for (std::uint32_t pause = 1000;; pause = pause < 100000 ? 2 * pause : pause) {
      // Acquire: pairs with (2) in unlock_list(), by which a waiter last writes to the queue.
      const std::uint64_t seen = word_.load(std::memory_order_acquire);
      if ((seen & (locked | some_wait | some_armed)) == 0 || seen >> 32 != P::fork_epoch()) return true;
      lock_list();
      bool blocked = false;
      for (waiter* w = waiting_.front(); w != nullptr && !blocked; w = w->next.get())
        blocked = w->state.load(std::memory_order_relaxed) == waiter::waiting;
      if (!blocked) detach_armed();
      const bool empty = waiting_.front() == nullptr && armed_.get() == nullptr;
      unlock_list();
      if (blocked) return false;
      if (empty) return true;
      P::backoff(pause);
    }
  }

  /// Four words for the class that embeds the queue, all zero at first; spare_at() is their offset in bytes.
  std::uint32_t& spare(unsigned i) { return spare_[i]; }
  static constexpr std::size_t spare_at() { return offsetof(wait_queue, spare_); }

 private:
  static constexpr std::uint64_t locked = 1, some_wait = 2, some_armed = 4;

  static void wake_as(waiter& first, std::uint32_t state) {
    const wake_key key = P::key_of(first.state);
    first.state.store(state, std::memory_order_release);  // (3) release: pairs with (4)
    P::wake(key, every_sleeper, 1);
  }

  /// Locks the list. Returns the fork epoch in which it was locked.
  std::uint32_t lock_list() {
    const std::uint64_t epoch = std::uint64_t{P::fork_epoch()} << 32;
    const auto stale = [epoch](std::uint64_t v) { return (v >> 32) != (epoch >> 32); };
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      if (!stale(seen) && (seen & locked) != 0) {
        seen = P::await(
            word_, [stale](std::uint64_t v) { return stale(v) || (v & locked) == 0; }, std::memory_order_relaxed,
            pacing::polling_then_yielding);
        continue;
      }
      // (1) acquire: pairs with (2) in unlock_list(). The bit some_wait keeps its value while the list is locked,
      // because has_waiters() reads it without the lock.
      const std::uint64_t then = (stale(seen) ? epoch : seen) | locked;
      if (word_.compare_exchange_strong(seen, then, std::memory_order_acquire, std::memory_order_relaxed)) break;
      P::backoff(0);
    }
    if (stale(seen)) [[unlikely]] {
      waiting_.clear();
      armed_.set(nullptr);
    }
    return std::uint32_t(epoch >> 32);
  }

  void unlock_list() {
    const std::uint64_t seen = word_.load(std::memory_order_relaxed);
    // (2) release: pairs with (1).
    word_.store((seen & ~std::uint64_t{0xffffffff}) | (waiting_.front() != nullptr ? some_wait : 0) |
                    (armed_.get() != nullptr ? some_armed : 0),
                std::memory_order_release);
  }

  /// Merges two chains, each sorted by priority, and returns the first waiter.
  [[gnu::cold, gnu::noinline]] static waiter& merge(waiter& chain, waiter& more) {
    waiter* const ends[] = {chain.prev.get(), more.prev.get()};
    waiter *a = &chain, *b = &more, *first = nullptr, *last = nullptr;
    while (a != nullptr && b != nullptr) {
      waiter*& taken = a->rank.get() >= b->rank.get() ? a : b;
      (last != nullptr ? last->next.set(taken) : void(first = taken));
      last = taken;
      taken = taken->next.get();
    }
    last->next.set(a != nullptr ? a : b);
    first->prev.set(a != nullptr ? ends[0] : ends[1]);
    return *first;
  }

  /// Returns false if the waiter is leaving.
  static bool mark_selected(waiter& w) {
    std::uint32_t seen = waiter::waiting;
    // (5) release: pairs with (6).
    return w.state.compare_exchange_strong(seen, waiter::selected, std::memory_order_release,
                                           std::memory_order_relaxed);
  }

  waiter* select(forwarding how) {
    for (waiter* w = waiting_.front(); w != nullptr; w = w->next.get()) {
      // Written before (5), which publishes it; a leaving waiter does not read it.
      if (how == forwarding::armed) w->forwarding.store(waiter::forwarding_armed, std::memory_order_relaxed);
      if (!mark_selected(*w)) continue;
      waiting_.remove(*w);
      w->next.set(nullptr);
      w->prev.set(w);
      if (how == forwarding::armed) push_armed(*w);
      return w;
    }
    return nullptr;
  }

  /// Returns true if the waiter was armed. In that case close() waits until the waiter has removed itself from the list
  /// of armed waiters.
  bool disarm(waiter& w) {
    if (w.forwarding.load(std::memory_order_relaxed) == waiter::forwarding_none || left_by_fork(w)) return false;
    std::uint32_t seen = waiter::forwarding_armed;
    // (8) acquire on failure: pairs with (7), by which close() has detached the waiter. After (7) only the waiter's own
    // thread accesses its memory.
    return w.forwarding.compare_exchange_strong(seen, waiter::forwarding_leaving, std::memory_order_acq_rel,
                                                std::memory_order_acquire);
  }

  void push_armed(waiter& w) {
    waiter* const first = armed_.get();
    w.next_armed.set(first);
    w.prev_armed.set(nullptr);
    if (first != nullptr) first->prev_armed.set(&w);
    armed_.set(&w);
  }
  void remove_armed(waiter& w) {
    waiter* const after = w.next_armed.get();
    waiter* const before = w.prev_armed.get();
    (before != nullptr ? before->next_armed : armed_).set(after);
    if (after != nullptr) after->prev_armed.set(before);
  }

  /// Detaches all armed waiters; waiters that have disarmed themselves stay in the list. Once a waiter is detached, its
  /// thread may free the waiter's memory at any time.
  void detach_armed() {
    waiter* w = armed_.get();
    armed_.set(nullptr);
    while (w != nullptr) {
      waiter* const next = w->next_armed.get();
      std::uint32_t seen = waiter::forwarding_armed;
      // (7) release: this thread's reads of the waiter precede it; pairs with (8).
      if (!w->forwarding.compare_exchange_strong(seen, waiter::forwarding_detached, std::memory_order_release,
                                                 std::memory_order_relaxed))
        push_armed(*w);
      w = next;
    }
  }

  typename P::template atomic<std::uint64_t> word_;
  waiter_list<P, waiter> waiting_;
  std::uint32_t spare_[4] = {};
  typename P::template plain<waiter*> armed_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
