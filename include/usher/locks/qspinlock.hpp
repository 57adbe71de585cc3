// Qspinlock: the structure of the Linux kernel's spin lock. The low bits of a word are a test-and-set lock, the high
// bits the tail of an MCS queue. Of the queue only the head competes for the test-and-set lock, and leaves the queue
// when it has that lock. The first thread that has to wait does not enter the queue but sets a bit, `pending`.
//
// Source: written from the description in TWA (extended version), §4.9. The order of the steps is the kernel's.
// Guarantees: FIFO for threads that get queue nodes; past its doorway no thread is overtaken or starves. The doorway is
// the first of
//   - the compare-and-swap that takes the free word,
//   - the fetch-and-or that sets `pending` in a word that has neither `pending` nor a tail,
//   - the compare-and-swap that makes the thread the tail.
// The way to the doorway is not bounded: every change of the word makes the last of the three fail, and a thread may
// starve before it. Each failure means that another thread has made progress. (The kernel exchanges only the half of
// the word that contains the tail. Here a part of a word cannot be accessed atomically.)
// Cost: lock one compare-and-swap, unlock one fetch-and-and. (The kernel clears a byte by a store.) A node is needed
// only while a thread is queued.
// Layout: one 32-bit word.
//
//     tail      bits 31…9   the handle of the last node in the queue, 0 if there is none. Set by a thread that queues
//                           up, cleared by the head if it is the last. Read by arrivals, which queue up unless it is 0.
//     pending   bit 8       a thread outside the queue gets the lock next. Set and cleared by that thread. Read by the
//                           head, which waits until it is clear. So a single waiter needs no queue node.
//     held      bit 0       set by the thread that takes the lock, cleared by unlock()
//     asleep    bit 1       the pending thread or the head of the queue sleeps, or is about to. Set by that thread.
//                           Cleared and read by unlock() and take_pending_back(), which wake both. Parking only; not in
//                           the tables below.
//
//     tail,pending,held
//     0,0,0   free
//     0,0,1   held, no thread waits
//     0,1,1   held; one thread waits, the pending one
//     0,1,0   free; only the pending thread may take the lock
//     n,0,1   held; the head of the queue waits until the lock is free
//     n,0,0   free; only the head may take the lock
//     n,1,1   held; the pending thread is next, then the head. Or a thread has set `pending` although a queue exists, and
//             will clear it again
//     n,1,0   free; only the pending thread may take the lock, and the head waits until `pending` is clear. Or, as above,
//             a thread will clear `pending` again
//
// The tail has 23 bits; the kernel's has two for the depth of nesting and the rest for the CPU. Handles that exist have
// 20 (core/node.hpp). A thread that gets no node, or one whose handle needs more than 23 bits, does not queue: it
// repeats try_lock().
//
// Transitions; * is any value, m and n are nodes. Each is one atomic operation on the word.
//
//     0,0,0 -> 0,0,1    lock(), try_lock()               doorway
//     0,0,* -> 0,1,*    contend(): the first to wait     doorway; this thread is next, and alone clears `pending`
//     *,1,0 -> *,0,1    contend(): the pending thread has the lock
//     *,*,* -> m,*,*    queue_up(): m is the last        doorway; if the tail was 0, m is the head at once
//     n,0,* -> n,1,*    contend(): a queue has formed since its first look at the word: no doorway
//     n,1,* -> n,0,*    take_pending_back(); then the thread queues up
//     n,0,0 -> n,0,1    enter_as_head(): another thread is behind it in the queue
//     m,0,0 -> 0,0,1    enter_as_head(): m, the last in the queue
//     *,*,1 -> *,*,0    unlock()
//
// No arrival overtakes a thread that has passed its doorway. An arrival can take only 0,0,0; but from a thread's
// doorway until the thread has the lock, the word contains the `pending` that the thread has set, or the tail of its
// queue. `pending` belongs to one thread at a time: a fetch-and-or that finds it set changes nothing. While `pending`
// is set behind a queue, the head waits, and the tail stays in the word; so no other thread can set `pending` until it
// has been taken back.
//
// In the kernel, a thread that finds only `pending` set waits briefly until the pending thread has taken the lock. This
// wait comes before the doorway and would let later threads overtake the waiting one, so this lock does not have it.
//
// The tail is a field of the word, so threads enter the queue by a compare-and-swap and not by enqueue() of
// mcs_queue.hpp; the link and the wait are those of that header.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W>
class qspinlock {
 public:
  static constexpr lock_traits traits{
      .summary = "test-and-set and an MCS queue in one word, as in Linux",
      .paper = "TWA (extended), section 4.9",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .words = 1,
      .checker_threads = 4,  // only the third thread that comes needs a node
  };
  static constexpr bool zero_iff_free = true;  ///< the word is 0 iff the lock is free

  void lock() {
    P::doorway(this);
    std::uint32_t seen = 0;
    // Takes the free lock: the word changes from 0 to `held`. (1) acquire: pairs with (2), the fetch-and-and in
    // unlock().
    if (!word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      contend(seen);
    P::admitted(this);
  }

  bool try_lock() {
    std::uint32_t seen = 0;
    return word_.load(std::memory_order_relaxed) == 0 &&
           word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed);  // (1)
  }

  void unlock() {
    const wake_key key = P::key_of(word_);
    // Clears `held`. (2) release: pairs with (1), the operations that find `held` clear, since every other change of
    // the word is a read-modify-write, too. Clears `asleep` and wakes both threads that may sleep on the word; the one
    // that still waits sets the bit again.
    const std::uint32_t old = word_.fetch_and(~(held | asleep), std::memory_order_release);
    if constexpr (W::parks) {
      if (old & asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
  }

  auto uncontended() { return uncontended_word{word_, held}; }

 private:
  static constexpr std::uint32_t held = 1, asleep = 2, pending = 1u << 8;
  static constexpr unsigned tail_shift = 9;
  static constexpr std::uint32_t tail_mask = ~std::uint32_t{0} << tail_shift;

  static constexpr node_handle tail(std::uint32_t w) { return w >> tail_shift; }

  /// `seen` is the value of the word at the failed first attempt.
  [[gnu::cold, gnu::noinline]] void contend(std::uint32_t seen) {
    // If another thread is pending or queued already, this thread does not set `pending`: it would have to clear
    // the bit again, and the bit would delay the head.
    if ((seen & (pending | tail_mask)) == 0) {
      // (3) tail,pending,held: 0,0,* -> 0,1,*. Acquire, as (1): the lock may be free, and then wait_until_clear() has
      // nothing to wait for.
      seen = word_.fetch_or(pending, std::memory_order_acquire);
      if ((seen & (pending | tail_mask)) == 0) {
        P::doorway(this);
        // This thread is next. No other thread clears `pending` now.
        wait_until_clear(held);
        // tail,pending,held: *,1,0 -> *,0,1. An addition keeps `asleep`, which the head of the queue may have set.
        word_.fetch_add(held - pending, std::memory_order_relaxed);
        return;
      }
      if ((seen & pending) == 0) take_pending_back();
    }
    queue_up(seen);
  }

  /// Clears `pending`, which this thread has set behind a queue, and wakes the head, which may sleep until `pending` is
  /// clear.
  void take_pending_back() {
    const std::uint32_t old = word_.fetch_and(~(pending | asleep), std::memory_order_relaxed);  // n,1,* -> n,0,*
    if constexpr (W::parks) {
      if (old & asleep) P::wake(P::key_of(word_), every_sleeper, all);
    }
  }

  /// Enters the queue and waits for the lock. `seen` is a recent value of the word.
  void queue_up(std::uint32_t seen) {
    node_handle me;
    while ((me = P::take_node()) == no_node || me > tail(tail_mask)) {
      if (me != no_node) P::give_node(me);
      if (try_lock()) return;
      P::backoff(100000);
    }
    prepare<P>(me);
    // (4) Makes this thread's node the tail. Release: publishes the prepared node to the successor's (4), which finds
    // it. Acquire: pairs with the predecessor's (4), since this thread writes the link to the predecessor's node.
    // Repeated whenever another thread has changed the word.
    while (!word_.compare_exchange_strong(seen, (seen & ~tail_mask) | me << tail_shift, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
      P::backoff(0);
    P::doorway(this);
    if (const node_handle previous = tail(seen)) {
      wait_behind<P, W>(previous, me);  // the link is read by the acquire load that follows enter_as_head()
    }
    if (!enter_as_head(me)) grant<P, W>(W::await_soon(P::node(me).next, [](node_handle h) { return h != no_node; }));
    P::give_node(me);
  }

  /// Takes the lock and leaves the queue. Returns true if no thread was behind this one in the queue.
  bool enter_as_head(node_handle me) {
    for (;;) {
      // `held` and `pending` are clear: no other thread can take the lock now. No thread sleeps on the word, because
      // unlock() and take_pending_back() clear `asleep`, and only the head would set it again.
      std::uint32_t seen = wait_until_clear(held | pending);
      if (tail(seen) != me) {
        // tail,pending,held: n,0,0 -> n,0,1, or n,1,1 if a thread has just set `pending` and will take it back.
        // Acquire, as (1) in lock().
        word_.fetch_or(held, std::memory_order_acquire);
        return false;
      }
      // tail,pending,held: m,0,0 -> 0,0,1. Fails if a thread has queued up, or has set `pending` and will take it back.
      // Each thread causes such a failure at most once before it waits behind this one.
      if (word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) return true;
      P::backoff(0);
    }
  }

  /// Waits until none of `bits` is set, and returns the word. Acquire, as (1) in lock().
  std::uint32_t wait_until_clear(std::uint32_t bits) {
    const auto clear = [bits](std::uint32_t w) { return (w & bits) == 0; };
    if (const auto w = W::poll(word_, clear)) return *w;
    std::uint32_t w = word_.load(std::memory_order_acquire);
    if constexpr (W::parks) {
      for (; !clear(w); w = word_.load(std::memory_order_acquire)) {
        if ((w & asleep) == 0 &&
            !word_.compare_exchange_strong(w, w | asleep, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(word_, w | asleep, every_sleeper);
      }
    }
    return w;
  }

  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
