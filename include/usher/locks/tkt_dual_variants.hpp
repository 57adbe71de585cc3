// TKT-Dual as in its paper: unlock writes both words, and several threads may watch grant. In the catalogue's form,
// tkt_dual.hpp, the new owner writes the second word.
//
// Source: TWA (extended version), §6, TKT-Dual: "The unlock operator first advances the short-term grant field, and, as
// needed, may advance the long-term grant field to shift one or more threads from long-term to short-term waiting".
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves.
// THE MEMORY OF THE LOCK MUST OUTLIVE EVERY CALL: unlock() accesses the lock after the hand-over. So only the
// simulator, the checker and the tests use this form; the catalogue and usher::mutex refuse it (core/lockable.hpp).
// Cost: lock one fetch-and-add. Unlock, spinning: a store, then, for every Batch-th number, a fetch-and-add; parking:
// an exchange, then the fetch-and-add and a load.
// Layout: three sectors of 128 bytes: ticket; grant; far and sleepers. With Apart = 4 grant is beside ticket.
//
//     ticket     the next number to be given out
//     grant      the number now served. Watched by the near threads
//     far        a copy of grant that lags behind it. Watched by all other waiters
//     sleepers   the number of threads that sleep on far, or are about to (parking only)
//
//     distance from grant   the thread      watches   until
//     0                     has the lock
//     1 to Near             is near         grant     grant has its number
//     above Near            is far          far       its distance from far is Near
//
//     lock()     ticket: n -> n + 1      far: waits until n − far <= Near; near: until grant is n
//     unlock()   grant: n -> n + 1       the hand-over
//                far: f -> f + Batch     if n + 1 is a multiple of Batch: brings Batch threads near
//
// unlock advances `far` by an atomic addition, because unlocking threads may overtake each other between their two
// writes: a store could set `far` back after the last advance that a waiter needs. The paper's "as needed" depends here
// on the number alone. To look at ticket for a far thread would need a full fence after the hand-over: without one, the
// unlocking thread may read ticket from before an arrival, while the arriving thread reads grant from before the
// hand-over.
//
// If an unlocking thread loses its CPU between its two writes, the threads that it would bring near wait for it, even
// after their number is served. TWA's notification has the same property.
#pragma once

#include <bit>
#include <cstddef>

#include "usher/core/ticket_words.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// Near: the largest distance at which a thread watches grant, the paper's "perhaps a small number of other threads
/// 'near' the front". Batch: how many threads one advance of `far` brings near. Apart: the alignment of grant; 4 puts
/// it beside the ticket, as in TWA, while the paper isolates it.
template <platform P, class W, std::uint32_t Near = 1, std::uint32_t Batch = 1, std::size_t Apart = 128>
class basic_tkt_dual_releaser {
  static_assert(std::has_single_bit(Batch), "numbers wrap at the end of a batch");
  static_assert(Near >= Batch, "the next in line must be near before each advance");
  static_assert(Batch <= 32, "the sleepers that an advance wakes have one bit each");

 public:
  static constexpr lock_traits traits{
      .summary = "TKT-Dual whose unlock writes both words",
      .paper = "TWA (extended), section 6, TKT-Dual",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 4,
      .checker_threads = Batch > 1 ? 4 : 3,  // a batch brings several waiters near
  };
  /// unlock() accesses the lock after the hand-over.
  static constexpr bool touched_after_hand_over = true;

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = ticket_.fetch_add(ticket_words::one, std::memory_order_relaxed);
    // (1) acquire: pairs with (2), the write to grant in unlock().
    if (ticket_words::number(grant_.load(std::memory_order_acquire)) != mine) [[unlikely]]
      wait(mine);
    P::admitted(this);
  }

  bool try_lock() { return ticket_words::try_lock(ticket_, grant_); }

  void unlock() {
    const std::uint32_t next = ticket_words::number(grant_.load(std::memory_order_relaxed)) + ticket_words::one;
    const wake_key far_key = P::key_of(far_);
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1). The exchange clears the mark and all near sleepers are woken; those not yet served
      // set the mark again.
      if (grant_.exchange(next, std::memory_order_release) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
    if (next / ticket_words::one % Batch == 0) bring_near(far_key);
  }

  void count_from(std::uint32_t n) {
    ticket_.store(n * ticket_words::one, std::memory_order_relaxed);
    grant_.store(n * ticket_words::one, std::memory_order_relaxed);
    far_.store(n / Batch * Batch * ticket_words::one, std::memory_order_relaxed);
  }

 private:
  using word = typename P::template atomic<std::uint32_t>;

  /// Only grant hands the lock over, so a spinning form needs no order. Parking: unlock does (3), the advance, then
  /// (4), the load of `sleepers`; a sleeper first does (5), counts itself, then (6), loads `far`. All four are
  /// sequentially consistent, so either unlock wakes the sleeper or the sleeper sees the advance.
  void bring_near(wake_key far_key) {
    if constexpr (!W::parks) {
      far_.fetch_add(Batch * ticket_words::one, std::memory_order_relaxed);
    } else {
      const std::uint32_t before = far_.fetch_add(Batch * ticket_words::one, std::memory_order_seq_cst);  // (3)
      if (sleepers_.load(std::memory_order_seq_cst) == 0) [[likely]]                                      // (4)
        return;
      // Each number comes near by exactly one advance, and that advance wakes its sleeper.
      std::uint32_t mask = 0;
      for (std::uint32_t i = 1; i <= Batch; i++) mask |= ticket_words::mask_of(before + (Near + i) * ticket_words::one);
      P::wake(far_key, mask, all);
    }
  }

  static bool is_near(std::uint32_t mine, std::uint32_t served) { return ticket_words::distance(mine, served) <= Near; }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (!is_near(mine, grant_.load(std::memory_order_relaxed))) wait_until_near(mine);
    ticket_words::wait_until<P, W>(grant_, mine, every_sleeper);
  }

  void wait_until_near(std::uint32_t mine) {
    if (W::poll(far_, [mine](std::uint32_t f) { return is_near(mine, f); })) return;
    if constexpr (W::parks) {
      sleepers_.fetch_add(1, std::memory_order_seq_cst);  // (5)
      for (;;) {
        const std::uint32_t seen = far_.load(std::memory_order_seq_cst);  // (6)
        if (is_near(mine, seen)) break;
        P::park(far_, seen, ticket_words::mask_of(mine));
      }
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  alignas(128) word ticket_;
  alignas(Apart) alignas(word) word grant_;
  alignas(128) word far_;
  word sleepers_;
};

template <platform P, class W>
using tkt_dual_releaser = basic_tkt_dual_releaser<P, W>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
