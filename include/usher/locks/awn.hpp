// AWN, "array of waiting nodes": a ticket lock with an array. The waiter with number n stores the handle of its queue
// node in place n % Places and polls the node; unlock finds the node in the array. So places are single words and need
// no cache sectors of their own.
//
// Source: Ramalhete, "Ticket Lock – Array of Waiting Nodes" (2015), named in TWA (extended version), §3.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. Each waiter watches a word of its
// own as long as at most 64 threads hold the lock or wait for it. A further thread first waits until its place in the
// array is free.
// Cost: lock one fetch-and-add, unlock one exchange. A node is needed only while a thread waits.
// Layout: ticket · holder's number · 64 places of 64 bits: 520 bytes.
//
//     place of number n: n % Places
//     round    bits 63…33   ⌈n / Places⌉ of the place's current number n
//     waits    bit 32       0: n has been served     1: its thread waits. Set by that thread, cleared by the unlock of
//                                                    n − 1
//     node     bits 31…1    the waiter's node, if it waits and has one
//     asleep   bit 0        a thread sleeps at the place: a thread with a later number, (3) in wait(), or one without a
//                           node. Set by that thread, cleared and read by unlock, which wakes all sleepers there
//
//     round,waits,node
//     r-1,0,0    the number of the round before has been served
//     r,1,m      the thread with this round's number waits at node m
//     r,0,0      this round's number is served, or has been
//
//     r-1,0,0 -> r,1,m    wait(), by the thread with number n
//     r,1,m   -> r,0,0    unlock() of n − 1, which then grants m
//     r-1,0,0 -> r,0,0    unlock() of n − 1, if n's thread has not come yet: it will find that it has the lock
//
// A zeroed lock serves number 0, and all its other places are in the round before their first; therefore the round is
// rounded up. No word contains the number now served. In the original, unlock writes such a word and then looks for the
// waiter. Here one exchange on the place hands the lock over and returns the node to grant, so unlock does not access
// the lock again. A place is free again when the thread of its last number has unlocked, which shows in the next place.
// When that number is granted the place is not free yet: its thread may not have read it.
//
// ticket_words::front_end is not used: no word announces the number served, and numbers have 32 bits.
#pragma once

#include <bit>

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform P, class W, std::uint32_t Places>
class basic_awn {
  static_assert(std::has_single_bit(Places), "numbers wrap");

 public:
  static constexpr lock_traits traits{
      .summary = "ticket lock with an array of waiters' nodes",
      .paper = "TWA (extended), section 3",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2 + 2 * Places,
      .checker_threads = 4,  // waiters have nodes in an array
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.fetch_add(1, std::memory_order_relaxed);
    // (1) acquire: pairs with (2), the exchange in unlock().
    if ((place_of(mine).load(std::memory_order_acquire) & ~asleep) != served(mine)) [[unlikely]]
      wait(mine);
    holder_.set(mine);
    P::admitted(this);
  }

  bool try_lock() {
    std::uint32_t next = ticket_.load(std::memory_order_relaxed);
    // If the compare-and-swap below succeeds, ticket has not changed since the load, so no thread has used the place
    // since then.
    if ((place_of(next).load(std::memory_order_acquire) & ~asleep) != served(next) ||
        !ticket_.compare_exchange_strong(next, next + 1, std::memory_order_relaxed, std::memory_order_relaxed))
      return false;
    holder_.set(next);
    return true;
  }

  void unlock() {
    const std::uint32_t next = holder_.get() + 1;
    auto& place = place_of(next);
    const wake_key key = P::key_of(place);
    // (2) release: pairs with the acquire loads (1) in lock() and (3) in wait(). Acquire: pairs with (4), by which the
    // waiter has stored its prepared node.
    const std::uint64_t old = place.exchange(served(next), std::memory_order_acq_rel);
    if constexpr (W::parks) {
      if (old & asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
    if (const node_handle h = node_in(old)) grant<P, W>(h);
  }

  void count_from(std::uint32_t n) {
    ticket_.store(n, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < Places; i++) place_of(n - i).store(served(n - i), std::memory_order_relaxed);
  }

  using small = basic_awn<P, W, 2>;

 private:
  static constexpr std::uint64_t asleep = 1, waits = std::uint64_t{1} << 32;

  auto& place_of(std::uint32_t number) { return places_[number % Places]; }

  // Numbers wrap at 2^32, rounds at 2^32 / Places.
  static constexpr std::uint32_t round(std::uint32_t number) { return (number + (Places - 1)) / Places; }
  static constexpr std::uint64_t served(std::uint32_t number) { return std::uint64_t{round(number)} << 33; }
  static constexpr node_handle node_in(std::uint64_t place) { return node_handle(place) / 2; }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    // (3) acquire: pairs with (2), the exchange in unlock(). The place of `mine` is free when the thread of its last
    // number, mine − Places, has unlocked. The next place shows this: its own last number is served, or the thread of
    // mine + 1 waits there already.
    await(place_of(mine + 1), [mine](std::uint64_t v) {
      return (v & ~asleep) == served(mine + 1 - Places) || (v >> 33 == round(mine + 1) && (v & waits) != 0);
    });
    auto& place = place_of(mine);
    const node_handle me = P::take_node();
    if (me == no_node) {  // all nodes are in use: waits at the place
      await(place, [mine](std::uint64_t v) { return (v & ~asleep) == served(mine); });
      return;
    }
    prepare<P>(me);
    for (std::uint64_t seen = place.load(std::memory_order_acquire); (seen & ~asleep) != served(mine);) {  // (1)
      // Changes the fields (round, waits, node) of the place from (r-1, 0, 0) to (r, 1, me). (4) release: publishes the
      // node to (2), the exchange in unlock(). The bit `asleep` stays as it is: threads with later numbers may sleep there.
      if (place.compare_exchange_strong(seen, served(mine) | waits | std::uint64_t{me} * 2 | (seen & asleep),
                                        std::memory_order_acq_rel, std::memory_order_acquire)) {
        wait_for_grant<P, W>(me);
        break;
      }
      P::backoff(0);
    }
    P::give_node(me);
  }

  /// Waits until pred(v) is true for the place's value v, and returns v. Its loads are acquire.
  template <class Pred>
  std::uint64_t await(typename P::template atomic<std::uint64_t>& place, Pred pred) {
    if (const auto v = W::poll(place, pred)) return *v;
    std::uint64_t v = place.load(std::memory_order_acquire);
    if constexpr (W::parks) {
      for (; !pred(v); v = place.load(std::memory_order_acquire)) {
        if ((v & asleep) == 0 &&
            !place.compare_exchange_strong(v, v | asleep, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(place, v | asleep, every_sleeper);
      }
    }
    return v;
  }

  typename P::template atomic<std::uint32_t> ticket_;
  typename P::template plain<std::uint32_t> holder_;
  typename P::template atomic<std::uint64_t> places_[Places];
};

template <platform P, class W>
using awn = basic_awn<P, W, 64>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
