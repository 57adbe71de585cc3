// The threads that wait on a condition variable: a list in the order of append_probability and of priorities, from which a
// signal selects one and a broadcast all, in one step. Nothing is allocated; waiters lie on their threads' stacks.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §6.10 (an explicit list, mostly LIFO) and footnote 40 (no thread is
// woken only to find that the mutex is held).
//
// A broadcast wakes no herd: it detaches all waiters as a chain and grants the first. Whoever is granted has the rest of
// the chain, acquires the mutex, and then sees to the next. So at most one of them is awake without the mutex.
//
//     state    waiting ──selected by signal or broadcast──► selected ──the chain has come to it──► granted, handed
//              waiting ──time-out, cancellation──► leaving: takes itself off the list
//
// Who is granted acquires the mutex. Who is handed has it already: the thread that let it go left it locked.
//
// After select_all() has returned and close() has waited for those who were leaving, no waiter touches the queue: it may
// be destroyed though the waiters have yet to acquire the mutex, even by the thread that holds it. Chosen waiters only
// wait for the chain, which lies in their own nodes; a waiter whose time runs out when it has been selected stays in the
// chain, for it needs the mutex in any case.
//
// A waiter that can be cancelled must give a signal that has selected it to another waiter, and for that alone touch the
// queue once more. So a signal may *tie* the waiter that it selects to the queue. A waiter unties itself when it goes;
// close() severs those that are still tied: there is nobody left to whom they could pass the signal on.
//
//     tie      loose    selected by a broadcast, or not cancellable
//              tied ──the waiter goes──► departing: takes itself off the list of the tied
//              tied ──close()──► severed: must not touch the queue
//
// The word:  bit 0 locked · bit 1 somebody waits · bit 2 somebody is tied · bits 32–63 the fork epoch. After a fork, the
// queue of a child is empty: the threads in it are not here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "usher/core/waiter_list.hpp"

namespace usher::inline v1 {

template <platform_with_priorities P>
class wait_queue {
 public:
  /// One waiting thread. It must stay where it is until it has been granted or has left, and departed.
  struct waiter {
    enum : std::uint32_t { waiting, leaving, selected, granted, handed_over };
    enum : std::uint32_t { forwarding_none, forwarding_armed, forwarding_leaving, forwarding_detached };

    typename P::template atomic<std::uint32_t> state{waiting};  ///< where it sleeps
    typename P::template atomic<std::uint32_t> forwarding{forwarding_none};
    /// Its neighbours in the list. Once it is selected: the rest of the chain, and (of the chain's first) the last.
    typename P::template plain<waiter*> next, prev;
    typename P::template plain<waiter*> next_armed, prev_armed;
    waiter_rank<P> rank;
    std::uint32_t epoch = 0;  ///< of the process in which it entered
  };

  enum class forwarding { none, armed };

  // ---- the waiting thread -----------------------------------------------------------------------------------

  /// Joins the queue. Under the mutex, so that no signal sent after it was released is missed.
  void enter(waiter& w, append_probability probability) {
    w.rank.begin(has_waiters());
    w.epoch = lock_list();
    waiting_.push(w, probability);
    unlock_list();
  }

  /// Sleeps until the waiter is granted.
  static void sleep(waiter& w) {
    // (4) acquire: pairs with (3).
    while (const auto s = awake(w)) P::park(w.state, *s, every_sleeper);
  }

  /// The state in which the waiter may go on sleeping, or nullopt if it has been granted or handed the mutex.
  static std::optional<std::uint32_t> awake(const waiter& w) {
    const std::uint32_t s = w.state.load(std::memory_order_acquire);
    return s >= waiter::granted ? std::nullopt : std::optional(s);
  }

  /// Takes a waiter off the list. False if it has been selected: then it will be granted.
  bool leave(waiter& w) {
    if (left_by_fork(w)) return true;
    std::uint32_t seen = waiter::waiting;
    // (6) acquire on failure: pairs with (5), for the tie.
    if (!w.state.compare_exchange_strong(seen, waiter::leaving, std::memory_order_acq_rel, std::memory_order_acquire))
      return false;
    // close() and choose_*() leave it to us from here, and close() waits: the queue exists until (2).
    lock_list();
    waiting_.remove(w);
    unlock_list();
    return true;
  }

  /// The last step of a waiter that was granted.
  void depart(waiter& w) {
    if (!disarm(w)) return;
    lock_list();
    remove_armed(w);
    unlock_list();
  }

  /// As depart(), for one that was selected and cannot use it: selects another in its place, if a signal had selected it and
  /// anybody waits. The waiter remains part of its chain, and will be granted.
  waiter* forward_signal(waiter& w) {
    if (!disarm(w)) return nullptr;
    lock_list();
    remove_armed(w);
    waiter* const other = select(forwarding::armed);
    unlock_list();
    return other;
  }

  /// The queue was left behind by a fork: no signal of this process will find the waiter.
  static bool left_by_fork(const waiter& w) { return w.epoch != P::fork_epoch(); }

  // ---- who signals ------------------------------------------------------------------------------------------

  /// Whether anybody waits. Relaxed: a signal that must find a waiter is sent under, or after, the mutex that the waiter
  /// held when it entered; from then on the word says so as long as the waiter is in the list.
  bool has_waiters() const {
    const std::uint64_t seen = word_.load(std::memory_order_relaxed);
    return (seen & some_wait) != 0 && seen >> 32 == P::fork_epoch();
  }

  /// A chain of the one waiter that is first in the list, or null. Nothing of the queue is touched afterwards.
  waiter* select_one(forwarding how) {
    if (!has_waiters()) return nullptr;
    lock_list();
    waiter* const w = select(how);
    unlock_list();
    return w;
  }

  /// A chain of all waiters, or null.
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

  /// Wakes the first of a chain. Its node may be gone before the wake, which is then a stray one.
  static void grant(waiter& first) { wake_as(first, waiter::granted); }

  /// The same by a thread that holds the mutex, and gives it away by this: it stays locked.
  static void hand_over(waiter& first) { wake_as(first, waiter::handed_over); }

  /// Of a waiter that does not sleep any more: whether it has the mutex.
  static bool was_handed_over(const waiter& w) {
    return w.state.load(std::memory_order_relaxed) == waiter::handed_over;
  }

  /// The rest of the chain after a waiter that has been granted, or null.
  static waiter* rest(waiter& granted) {
    waiter* const next = granted.next.get();
    if (next != nullptr) next->prev.set(granted.prev.get());
    return next;
  }

  /// Makes one chain of two, by priority; among equals those of `chain` go before. Returns its first.
  static waiter& append(waiter& chain, waiter& more) {
    waiter* const last = chain.prev.get();
    if (last->rank.get() >= more.rank.get()) [[likely]] {
      last->next.set(&more);
      chain.prev.set(more.prev.get());
      return chain;
    }
    return merge(chain, more);
  }

  /// Before the queue's memory goes away. False if threads wait that nobody has selected. Waits for those who are just
  /// leaving, who need nothing but a moment.
  bool close() {
    for (std::uint32_t pause = 1000;; pause = pause < 100000 ? 2 * pause : pause) {
      // Acquire: pairs with (2) of a waiter's last touch.
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

  /// Four words for whoever embeds the queue, all zero at first, and where they are in it.
  std::uint32_t& spare(unsigned i) { return spare_[i]; }
  static constexpr std::size_t spare_at() { return offsetof(wait_queue, spare_); }

 private:
  static constexpr std::uint64_t locked = 1, some_wait = 2, some_armed = 4;

  static void wake_as(waiter& first, std::uint32_t state) {
    const wake_key key = P::key_of(first.state);
    first.state.store(state, std::memory_order_release);  // (3) release: pairs with (4)
    P::wake(key, every_sleeper, 1);
  }

  /// Returns the stamp under which it is locked.
  std::uint32_t lock_list() {
    const std::uint64_t epoch = std::uint64_t{P::fork_epoch()} << 32;
    const auto stale = [epoch](std::uint64_t v) { return (v >> 32) != (epoch >> 32); };
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      if (!stale(seen) && (seen & locked) != 0) {
        seen = P::await(
            word_, [stale](std::uint64_t v) { return stale(v) || (v & locked) == 0; }, std::memory_order_relaxed,
            look::polling_then_yielding);
        continue;
      }
      // (1) acquire: pairs with (2). That somebody waits must remain to be seen: has_waiters() does not take the lock.
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

  /// Two chains, each in order.
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

  /// False: the waiter is leaving.
  static bool mark_selected(waiter& w) {
    std::uint32_t seen = waiter::waiting;
    // (5) release: pairs with (6).
    return w.state.compare_exchange_strong(seen, waiter::selected, std::memory_order_release,
                                           std::memory_order_relaxed);
  }

  waiter* select(forwarding how) {
    for (waiter* w = waiting_.front(); w != nullptr; w = w->next.get()) {
      // Before (5); one that is leaving does not look at it.
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

  /// True: the waiter is tied, and from now on close() waits for it to take itself off.
  bool disarm(waiter& w) {
    if (w.forwarding.load(std::memory_order_relaxed) == waiter::forwarding_none || left_by_fork(w)) return false;
    std::uint32_t seen = waiter::forwarding_armed;
    // (8) acquire on failure: pairs with (7). The waiter's memory is its thread's alone again.
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

  /// Keeps those who are on their way to the list; a severed waiter may be gone at once.
  void detach_armed() {
    waiter* w = armed_.get();
    armed_.set(nullptr);
    while (w != nullptr) {
      waiter* const next = w->next_armed.get();
      std::uint32_t seen = waiter::forwarding_armed;
      // (7) release: we have read what we need of the waiter; pairs with (8).
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

}  // namespace usher::inline v1
