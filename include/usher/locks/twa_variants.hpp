// TWA with another array, or with another rule for when a waiter begins to watch grant. twa.hpp has the algorithm; this
// header has only the differences.
//
// Source: Dice & Kogan, "TWA – Ticket Locks Augmented with a Waiting Array", extended version, §2, §4.1, §6.
// Guarantees and cost: as TWA, except where the comment of the class says otherwise.
//
//     twa-sized       as many slots as suit the number of CPUs (§2)
//     twa-private     4096 slots in the lock itself (§4.1): no collisions with other locks, but a large lock
//     twa-quantized   one slot for each gang of Gang numbers (§6); every Gang-th unlock notifies the next gang, whose
//                     threads then watch grant: fewer notifications, but up to Gang threads watch one word
#pragma once

#include <bit>

#include "usher/core/waiting_array.hpp"
#include "usher/locks/twa.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_tables P, class W>
using twa_sized = basic_twa<P, W, array_by_cpus<P>>;

/// The next owner may destroy the lock, and with it the array, right after the hand-over. So unlock does not notify the
/// next slot: the new owner does this at the beginning of its critical section.
template <platform_with_tables P, class W, class Array>
class basic_twa_private : basic_twa<P, W, Array> {
  using base = basic_twa<P, W, Array>;

 public:
  static constexpr lock_traits traits = [] {
    lock_traits t = base::traits;
    t.kinds = Array::kinds;
    return t;
  }();

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = base::draw();
    if (!base::served(mine)) [[unlikely]]  // (1)
      base::wait(mine);
    notify_as_owner(mine);
    P::admitted(this);
  }

  bool try_lock() {
    if (!base::try_lock()) return false;
    notify_as_owner(ticket_words::number(base::grant_.load(std::memory_order_relaxed)));
    return true;
  }

  void unlock() { base::hand_over(base::following()); }

  using base::count_from;
  using base::slot_of;

  /// The same lock with an array that few threads fill, for tests.
  using small = basic_twa_private<P, W, typename Array::small>;

 private:
  void notify_as_owner(std::uint32_t mine) {
    // waiting_array::notify() requires a sequentially consistent read of the new grant before it.
    if constexpr (W::parks) (void)base::grant_.load(std::memory_order_seq_cst);
    waiting_array::notify<P, W>(slot_of(mine + ticket_words::one));
  }
};

template <platform_with_tables P, class W>
using twa_private = basic_twa_private<P, W, private_array<P>>;

/// With 64-bit slots, as in the paper's Listing 1, line 32. Waiters spin. Not in the catalogue.
template <platform_with_tables P, class W>
using twa_private_64 = basic_twa_private<P, W, private_array<P, P::template table_size<twa_array>(), std::uint64_t>>;

/// Numbers form gangs of Gang: g·Gang to (g + 1)·Gang − 1. A gang has one slot, and all its threads begin to watch
/// grant at the same time:
///
///     distance of the gang's first number   watched by its threads
///     1 at most                             grant
///     above 1                               the gang's slot
template <platform_with_tables P, class W, std::uint32_t Gang>
class basic_twa_quantized : basic_twa<P, W> {
  using base = basic_twa<P, W>;
  static_assert(std::has_single_bit(Gang), "numbers wrap at the end of a gang");

 public:
  static constexpr lock_traits traits = [] {
    lock_traits t = base::traits;
    t.summary = "TWA that brings waiters near in gangs";
    t.paper = "TWA (extended), section 6, quantized";
    return t;
  }();

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = base::draw();
    if (!base::served(mine)) [[unlikely]]  // (1)
      wait(mine);
    P::admitted(this);
  }

  using base::try_lock;

  void unlock() {
    const std::uint32_t next = base::following();
    auto& slot = slot_of(next + ticket_words::one);
    base::hand_over(next);  // first the hand-over: it ends the critical section
    if (brings_gang_near(next)) waiting_array::notify<P, W>(slot);
  }

  using base::count_from;

  /// Returns the slot that the threads of this number's gang watch as long as they do not watch grant.
  auto& slot_of(std::uint32_t number) { return base::slot_of(number / Gang & ~ticket_words::asleep); }

  /// The same lock with gangs that few threads fill, for tests.
  using small = basic_twa_quantized<P, W, (Gang > 2 ? 2 : Gang)>;

 private:
  /// Returns whether the next gang's threads must begin to watch grant after the hand-over to `next`.
  static bool brings_gang_near(std::uint32_t next) { return (next / ticket_words::one + 1) % Gang == 0; }

  /// Returns whether at most one unlock remains until the gang's first number is served.
  bool is_near(std::uint32_t mine, std::memory_order order) const {
    return base::distance_of(mine, order) <= 1 + mine / ticket_words::one % Gang;
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (!is_near(mine, std::memory_order_acquire))
      waiting_array::watch<P, W>(slot_of(mine), [&](std::memory_order order) { return is_near(mine, order); });
    ticket_words::wait_until<P, W>(base::grant_, mine, every_sleeper);
  }
};

/// Four numbers a gang, chosen and not measured: the paper gives no size.
template <platform_with_tables P, class W>
using twa_quantized = basic_twa_quantized<P, W, 4>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
