// The words of a read-write lock, and how threads wait on them. The other parts of the lock derive from this one:
// read_write_windows.hpp, read_write_bias.hpp, read_write_core.hpp. The numbers of memory operations in the comments,
// (1) to (9) and (b1) to (b7), are common to these four headers.
//
//     in     bit 0        writing: a writer has claimed the lock. It owns the lock when the readers before it have left
//            bits 1–5     phase: changes when a writer unlocks, or lets waiting readers pass
//            bit 6        queue: writers are in the queue; only its head may claim the lock
//            bit 7        asleep: a thread sleeps on this word, or is about to
//            bit 8        biased: readers may enter by a slot of the table of visible readers: read_write_bias.hpp
//            bits 9–31    arrivals: the number of readers that have arrived
//     out    bit 0        sleeping: the claiming writer sleeps on this word, or is about to
//            bit 1        draining: the claiming writer waits for exits
//            bits 2–8     the lower 7 bits of the number of exits for which that writer waits: one exit in 128 wakes it
//            bits 9–31    exits: the number of readers that have left
//     queued   bits 0–23    the number of writers that are in the queue or on the way to it
//              bits 24–31   give-ups: the number of writers that have claimed the lock and then given up, since a
//                           writer last got the lock after it had waited for readers; at most most_give_ups. Only the
//                           claiming writer changes this field
//     timed    writers with a deadline, which wait beside the queue (timed_waiters.hpp)
//     inhibit  the time until which no reader sets `biased`, in units of 1024 ns; 0: no such time
//
// Arrivals less exits is the number of readers that hold the lock or wait for it. Both numbers wrap; there may be at
// most 2^23 − 1 such readers at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "usher/core/platform.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// How readers and waiting writers are ordered.
enum class reader_rule : std::uint8_t {
  phase_fair,  ///< a reader waits behind a waiting writer. A thread must not lock again for reading
  recursive,   ///< no reader waits without limit behind a waiting writer. A thread may lock again for reading
};

/// The words of a read-write lock, all zero at first.
template <class P>
struct read_write_words {
  typename P::template atomic<std::uint32_t> in, out, queued, timed, inhibit;
};

/// The `remaining` of a thread that waits without a limit. A type derived from it, like any `remaining`, may have a
/// function refuses(), true if the calling thread holds the lock for writing: then it does not wait.
struct no_limit {};

/// References to the words of one lock during one operation, and the functions that all parts of the lock use.
template <platform_with_asymmetric_fences P, class W, class Writers>
class read_write_base {
 protected:
  using order = std::memory_order;
  using word = typename P::template atomic<std::uint32_t>;

  read_write_base(read_write_words<P>& words, Writers& writers, reader_rule rule)
      : in_(words.in), out_(words.out), words_(words), writers_(writers), rule_(rule) {}

  // ---- the words' parts ---------------------------------------------------------------------------------------

  static constexpr std::uint32_t writing = 1, one_phase = 2, phases = 31 * one_phase, queue = 1 << 6, asleep = 1 << 7,
                                 biased = 1 << 8, one = 1 << 9;
  static constexpr std::uint32_t sleeping = 1, draining = 2, low_bits_of_target = 0x7f << 2;
  static constexpr std::uint32_t one_give_up = 1 << 24;  // in `queued`

  static constexpr std::uint32_t low_bits(std::uint32_t number) { return (number & 0x7f) << 2; }
  /// Returns the amount to add to `in` for the next phase: the phase wraps without a carry into the next field.
  static constexpr std::uint32_t to_next_phase(std::uint32_t seen) {
    return (seen & phases) == phases ? 0 - phases : one_phase;
  }

  static constexpr bool has_left(std::uint32_t out, std::uint32_t seen) { return out / one == seen / one; }

  /// Returns whether the exits equal the arrivals that `in` had when it was `seen`.
  bool has_left(std::uint32_t seen) const {
    // (4) acquire: pairs with (3), the unlock of each reader.
    return has_left(out_.load(order::acquire), seen);
  }

  // ---- waiting ------------------------------------------------------------------------------------------------

  template <class Remaining>
  static constexpr bool has_limit = !std::is_base_of_v<no_limit, Remaining>;

  /// Returns whether the calling thread would wait for itself.
  template <class Remaining>
  static bool refuses(const Remaining& remaining) {
    if constexpr (requires { remaining.refuses(); })
      return remaining.refuses();
    else
      return false;
  }

  /// Waits until `pred` holds for the word. Before the thread sleeps, it changes the word to `mark(word)`. Returns
  /// false if the time is over. The loads are acquire; the callers say with which operations they pair.
  template <class Pred, class Mark, class Remaining>
  static bool wait_on(word& w, Pred pred, Mark mark, Remaining remaining) {
    if constexpr (!has_limit<Remaining>) {
      if (W::poll(w, pred)) return true;
    } else {
      for (;;) {
        std::uint64_t left = remaining();
        if (W::parks && left > W::spin_budget()) left = W::spin_budget();
        if (P::await(w, pred, order::acquire, pacing::polling.within(left))) return true;
        if (W::parks) break;
        if (remaining() == 0) return false;
      }
    }
    if constexpr (W::parks)
      for (;;) {
        std::uint32_t seen = w.load(order::acquire);
        if (pred(seen)) return true;
        const std::uint32_t marked = mark(seen);
        // Relaxed: the mark orders nothing. The next thread to change the word sees the mark, or comes first: then this
        // fails.
        if (marked != seen && !w.compare_exchange_strong(seen, marked, order::relaxed, order::relaxed)) {
          P::backoff(0);
          continue;
        }
        if constexpr (!has_limit<Remaining>) {
          P::park(w, marked, every_sleeper);
        } else {
          const std::uint64_t left = remaining();
          if (left == 0) return false;
          if constexpr (requires { remaining.nap(w, marked, left); })
            remaining.nap(w, marked, left);
          else if constexpr (requires { P::park_until(w, marked, every_sleeper, remaining); })
            P::park_until(w, marked, every_sleeper, remaining);
          else
            P::park_for(w, marked, every_sleeper, left);
        }
      }
    return false;
  }

  /// Waits on `in`, whose sleepers are all woken when a writer unlocks or lets readers pass.
  template <class Pred, class Remaining>
  bool wait_on_in(Pred pred, Remaining remaining) {
    return wait_on(
        in_, pred, [](std::uint32_t v) { return v | asleep; }, remaining);
  }

  // ---- exits and phases ---------------------------------------------------------------------------------------

  /// Counts a reader's exit. If the claiming writer sleeps until this exit, wakes it.
  void count_exit() {
    const wake_key key = P::key_of(out_);
    // (3) release: pairs with (4), the writer's load of the exits. Nothing of the lock is touched after it.
    const std::uint32_t seen = out_.fetch_add(one, order::release);
    if constexpr (W::parks)
      if ((seen & sleeping) != 0) [[unlikely]]
        if (low_bits((seen + one) / one) == (seen & low_bits_of_target)) P::wake(key, every_sleeper, 1);
  }

  /// Waits until the phase of the reader's arrival is over. False: the time is over, and the arrival is subtracted
  /// again.
  template <class Remaining>
  [[gnu::cold, gnu::noinline]] bool wait_for_phase(std::uint32_t seen, Remaining remaining) {
    const std::uint32_t mine = seen & (writing | phases);
    const auto is_over = [mine](std::uint32_t v) { return (v & (writing | phases)) != mine; };
    if (refuses(remaining)) {  // this thread itself is the writer: the phase cannot end
      in_.fetch_sub(one, order::relaxed);
      return false;
    }
    if (wait_on_in(is_over, remaining)) return true;  // (1)
    // While the phase lasts, no writer waits for this reader, so the reader may subtract its arrival.
    std::uint32_t now = in_.load(order::acquire);
    while (!is_over(now)) {
      if (in_.compare_exchange_weak(now, now - one, order::acquire, order::acquire)) return false;
      P::backoff(0);
    }
    return true;
  }

  /// Ends the phase, and adds `more` to `in` in the same step. If threads sleep on the word, wakes them all.
  std::uint32_t end_phase(std::uint32_t more) {
    const wake_key key = P::key_of(in_);
    const std::uint32_t before = in_.load(order::relaxed);
    bool wakes = false;
    if constexpr (W::parks)
      if ((before & asleep) != 0) [[unlikely]] {
        wakes = true;
        in_.fetch_and(~asleep, order::relaxed);
      }
    // (2) release: pairs with (1) and (5). If this is an unlock, nothing of the lock is touched after it.
    const std::uint32_t seen = in_.fetch_add(to_next_phase(before) + more, order::release);
    if constexpr (W::parks)
      if (wakes || (seen & asleep) != 0) [[unlikely]]
        P::wake(key, every_sleeper, all);
    return seen;
  }

  void release(std::uint32_t more) { end_phase(more - writing); }

  word& in_;
  word& out_;
  read_write_words<P>& words_;
  Writers& writers_;
  const reader_rule rule_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
