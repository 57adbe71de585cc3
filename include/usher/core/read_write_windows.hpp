// How the writer that has claimed a read-write lock waits for readers: until all that arrived before it have left
// (phase-fair), or by windows, between which later readers are admitted. The words: read_write_words.hpp.
//
// Give-ups. While a reader is counted, no writer that came later gets the lock. So once the writer for which the reader
// waits has unlocked or given up, only writers that give up change the phase. If 31 of them did so while the reader did
// not run, the next writer would give `writing` and `phase` the values that the reader saw: reader and writer would
// wait for each other. Therefore give-ups are counted. From most_give_ups on, a claiming writer waits by windows, as
// under the rule for recursive readers (below), until a writer gets the lock after waiting for readers. These windows
// have no upper limit, so that the writer still gets the lock if each reader leaves in bounded time. The phase may wrap
// then:
// - if a reader again finds the values that it saw, it waits for one window more.
// - if such a reader gives up, it is no longer one of the arrivals, but the writer waits for it until the window ends.
//   The writer cannot take a later reader's exit for this reader's, because no later reader is admitted before the
//   phase changes, and then the writer reads the arrivals again.
// A writer that finds no reader inside does not reset the count, so that its cost is the same. A count that is too high
// causes unnecessary windows, but no error.
//
// Recursive readers (reader_rule::recursive). A reader may lock again while a writer waits; or it may wait for another
// thread that is about to lock. Under the phase-fair rule both would deadlock, because the new reader waits for the
// writer, and the writer for the old reader. Under this rule, if a claiming writer does not get the lock within a
// *window*, it changes the phase: all readers that have arrived by then are admitted, and the writer waits for those as
// well, for twice as long. The first window is 0.25 ms, the longest 8 ms. So:
//
//   - no reader waits behind a waiting writer for longer than a window, 8 ms, and the time until the writer's thread
//     runs. (A reader that does not run while the phase changes exactly 32 times waits for one window more.)
//   - a writer gets the lock at the end of the first window in which all readers inside leave. If no reader inside
//     depends on a later one, and each leaves within D <= 8 ms of the beginning of a window, the writer waits for
//     less than 3 D. If readers stay longer, or depend on later ones again and again, the writer's wait
//     has no bound, as under the C library's default kinds.
//
// try_lock_shared() under this rule succeeds while a writer only waits, as the C library's does: otherwise std::lock()
// of two shared locks, and threads that try in a loop while they read, would wait for a window. The reader cannot add
// to the arrivals, since the writer does not wait for later ones. Instead it *takes back an exit*: exits - 1, by a
// compare-and-swap (8). This requires that the writer drains and that the lower bits of the exits differ from those of
// the writer's target. Both are in the same word: so the writer does not own the lock, and will not before this
// reader's own exit has replaced the exit that it took back. A writer publishes its target by (9) before it first reads
// the exits, and again when a window has changed the target: so the exits that end its wait are a later value of the
// same word. Exits that differ from the target by a multiple of 128 seem to equal it: then the try fails.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/read_write_words.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_asymmetric_fences P, class W, class Writers>
class read_write_windows : protected read_write_base<P, W, Writers> {
 protected:
  using base = read_write_base<P, W, Writers>;
  using base::base, base::in_, base::out_, base::words_, base::rule_;
  using base::draining, base::end_phase, base::has_left, base::low_bits, base::low_bits_of_target, base::one,
      base::one_give_up, base::release, base::sleeping, base::wait_on;
  using typename base::order, typename base::word;
  template <class Remaining>
  static constexpr bool has_limit = base::template has_limit<Remaining>;

  static constexpr std::uint32_t most_give_ups = 16;  // at most 31, the number of phases less 1. Chosen, not measured
  static constexpr std::uint64_t first_window = 250000, most_window = 8000000;  // ns; chosen, not measured
  static constexpr std::uint64_t endless_window = std::uint64_t{1} << 60;       // ns; in effect without limit

  /// Waits for the readers that had arrived when `in` was `seen`, the value before the writer claimed the lock. Returns
  /// false if the time is over; the lock is then released.
  template <class Remaining>
  [[gnu::cold, gnu::noinline]] bool drain(std::uint32_t seen, Remaining remaining) {
    const auto wait = [&](auto limit) {
      publish_target(seen);
      return wait_on(
          out_, [seen](std::uint32_t v) { return has_left(v, seen); },  // (4)
          [](std::uint32_t v) { return v | sleeping; }, limit);
    };
    // Relaxed: (5) orders this load after the give-ups of earlier writers.
    const std::uint32_t give_ups = words_.queued.load(order::relaxed) / one_give_up;
    bool done = false;
    if (rule_ == reader_rule::phase_fair && give_ups < P::count_limit(most_give_ups)) {
      done = wait(remaining);
      if (!done) words_.queued.fetch_add(one_give_up, order::relaxed);
    } else {
      const std::uint64_t most = rule_ == reader_rule::phase_fair ? endless_window : most_window;
      for (std::uint64_t ns = first_window;; ns = ns < most ? 2 * ns : ns) {
        done = wait(window<Remaining>{remaining, P::now(), ns});
        if (done) break;
        if constexpr (has_limit<Remaining>)
          if (remaining() == 0) break;
        seen = end_phase(0);
      }
    }
    out_.fetch_and(0 - one, order::relaxed);  // before release(), because the next writer publishes its own target
    if (done && give_ups != 0) words_.queued.fetch_and(one_give_up - 1, order::relaxed);
    if (!done) release(0);
    return done;
  }

  /// Publishes the exits for which the writer waits. (9) release: pairs with (8): the reader comes after the last
  /// writer.
  void publish_target(std::uint32_t seen) {
    std::uint32_t now = out_.load(order::relaxed);
    while (!out_.compare_exchange_weak(now, (now & (0 - one)) | low_bits(seen / one) | draining, order::release,
                                       order::relaxed))
      P::backoff(0);
  }

  /// Lets a reader enter while a writer drains: see the opening comment.
  [[gnu::cold, gnu::noinline]] bool try_take_back_an_exit() {
    std::uint32_t seen = out_.load(order::relaxed);
    while ((seen & draining) != 0 && low_bits(seen / one) != (seen & low_bits_of_target)) {
      // (8) acquire: pairs with (9).
      if (out_.compare_exchange_weak(seen, seen - one, order::acquire, order::relaxed)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// A `remaining` that returns the time left of a window, or of the writer's own deadline if that is less.
  template <class Remaining>
  struct window {
    Remaining remaining;
    std::uint64_t begin, ns;
    std::uint64_t operator()() const {
      const std::uint64_t over = P::now() - begin;
      std::uint64_t left = over < ns ? ns - over : 0;
      if constexpr (has_limit<Remaining>)
        if (const std::uint64_t other = remaining(); other < left) left = other;
      return left;
    }
    static void nap(word& w, std::uint32_t seen, std::uint64_t left) {
      P::nap(w, seen, every_sleeper, left < most_window ? left : most_window, 0);
    }
  };
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
