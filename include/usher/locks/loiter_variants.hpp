// LOITER with one part changed, to see what each part is worth: the parts that the paper names. The algorithm is in loiter.hpp; here is
// what differs from it.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.1 and footnote 39.
// Guarantees, cost and layout: as loiter, but for what is said below. loiter-numa has a word more: 16 bytes.
//
//     loiter-eager     the standby polls before it sleeps, as arrivals do
//     loiter-barging   the standby never becomes impatient, and may starve
//     loiter-cap       a limited number of arrivals spin
//     loiter-cull      an arrival that has so often seen the lock free and come too late gives up
//     loiter-defer     unlock does not wake the standby while arrivals spin: deferred unpark
//     loiter-numa      the inner lock prefers threads of one NUMA node, as MCSCRN
//     loiter-store     unlock is a plain store: footnote 39
//
// - Where arrivals that spin are counted, the count is in the outer word, so that the operation which frees the lock also
//   says whether anybody is awake to take it. If so, the standby is not woken and its mark stays in the free word: whoever
//   takes the lock decides anew when it unlocks. An arrival that gives up takes itself off the count; if it was the last
//   and the lock is free, it takes the lock. So a free lock with a sleeping standby has somebody awake who looks.
// - Footnote 39: unlock by a load and a plain store. If the standby sets its mark between the two, the store wipes it out,
//   and the lock is free, or goes from hand to hand, while the standby sleeps without a mark. The window is those two
//   instructions, unless the thread loses its CPU just there. The standby sleeps for 1 ms at the longest (P::nap), looks,
//   takes the lock if it is free and else marks it anew: so what the window costs is at most 1 ms for the one standby, and
//   the lock idle for as long if nobody else comes. (The paper stores first and loads then, which is a look at a lock that
//   may be gone; its window is the processor's store buffer.) A schedule that meets the window each time lets the standby
//   starve: so this form does not promise that nobody does.
#pragma once

#include "usher/core/numa_queue.hpp"
#include "usher/locks/loiter.hpp"

namespace usher::inline v1 {

/// `hands_over`: the standby does not starve.
template <platform_with_priorities P, class W>
constexpr lock_traits loiter_ablation(bool ranks, bool hands_over, unsigned words = 3) {
  lock_traits t = loiter<P, W>::traits;
  t.summary = "loiter with one part changed: to measure what it is worth";
  t.starvation_free = t.bounded_doorway = hands_over;
  t.by_priority = ranks;
  t.words = words;
  t.kinds = unsigned(waiting_kind::spin_then_park);
  return t;
}

template <platform_with_priorities P, class W>
class loiter_eager : public basic_loiter<P, W, loiter_eager<P, W>> {
  using base = basic_loiter<P, W, loiter_eager>;
  friend base;

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over);

 private:
  bool polls_before_it_sleeps(std::uint32_t w, std::uint64_t since) {
    const bool said = (w & base::impatient) != 0 || P::now() - since < base::impatience;
    return said && W::poll(base::outer_, base::may_enter);
  }
};

template <platform_with_priorities P, class W>
class loiter_barging : public basic_loiter<P, W, loiter_barging<P, W>> {
  using base = basic_loiter<P, W, loiter_barging>;
  friend base;

  static constexpr bool hands_over = false;

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, hands_over);
};

template <platform_with_priorities P, class W>
class loiter_cull : public basic_loiter<P, W, loiter_cull<P, W>> {
  using base = basic_loiter<P, W, loiter_cull>;
  friend base;

  static constexpr unsigned most_failures = 3;  // chosen, not measured

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over);

 private:
  bool spin(std::uint64_t patience) {
    std::uint32_t window = base::first_window;
    unsigned failures = 0;
    for (const std::uint64_t end = P::now() + patience; P::now() < end;) {
      P::backoff(window / 2 + P::random() % window);
      if (const std::uint32_t seen = base::outer_.load(std::memory_order_relaxed); base::is_free(seen)) {
        if (base::take(seen)) return true;
        if (++failures == most_failures) return false;  // others circulate fast enough
      }
      if (window < base::last_window) window *= 2;
    }
    return false;
  }
};

/// Where arrivals that spin are counted. MostSpinners: how many may spin; 0: any number. DeferWake: unlock leaves the standby asleep
/// while one spins.
template <platform_with_priorities P, class W, unsigned MostSpinners, bool DeferWake>
class loiter_with_count : public basic_loiter<P, W, loiter_with_count<P, W, MostSpinners, DeferWake>> {
  using base = basic_loiter<P, W, loiter_with_count>;
  friend base;
  using base::outer_, base::held, base::inner, base::asleep, base::impatient, base::handed, base::is_free;

  static constexpr bool ranks = false;  // the count is where the urgent waiters' stack would be
  static constexpr std::uint32_t spinner = 256, spinners = ~(spinner - 1);

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(ranks, base::hands_over);

 private:
  /// A test-and-set, which does not fail where the count has changed.
  bool take(std::uint32_t) { return is_free(outer_.fetch_or(held, std::memory_order_acquire)); }  // (1)

  bool spin(std::uint64_t patience) {
    const std::uint32_t before = outer_.fetch_add(spinner, std::memory_order_relaxed) / spinner;
    return (MostSpinners == 0 || before < MostSpinners) && base::spin(patience) ? leave_count() : give_up();
  }

  /// An arrival that has the lock is not one that spins.
  bool leave_count() {
    outer_.fetch_sub(spinner, std::memory_order_relaxed);
    return true;
  }

  /// One that gives up may be the last that was relied upon.
  bool give_up() {
    // Relaxed: it is one word, and who takes it does so by (1).
    const std::uint32_t left = outer_.fetch_sub(spinner, std::memory_order_relaxed) - spinner;
    return is_free(left) && base::try_lock();
  }

  void accept(std::uint32_t w) {
    outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);
  }

  static constexpr std::uint32_t taken_by_standby(std::uint32_t w) { return (w & spinners) | held | inner; }

  /// Keeps the count. Returns what was there; without asleep if the waking of the standby has been left to arrivals.
  std::uint32_t release(std::uint32_t seen, node_handle&) {
    for (;; P::backoff(0)) {
      const std::uint32_t spin = seen & spinners;
      const bool leave = DeferWake && spin != 0 && (seen & impatient) == 0;
      const std::uint32_t then = (seen & impatient) != 0 ? spin | held | handed : spin | (leave ? seen & asleep : 0);
      // (3) release: hands the lock over, still held, or frees it. What may have changed the word: the standby by its marks,
      // arrivals.
      if (outer_.compare_exchange_strong(seen, then, std::memory_order_acq_rel, std::memory_order_relaxed))
        return leave ? seen & ~asleep : seen;
    }
  }
};

template <platform_with_priorities P, class W>
using loiter_cap = loiter_with_count<P, W, 2, false>;  // two: chosen, not measured

template <platform_with_priorities P, class W>
using loiter_defer = loiter_with_count<P, W, 0, true>;

template <platform_with_priorities P, class W>
class loiter_numa : public basic_loiter<P, W, loiter_numa<P, W>> {
  using base = basic_loiter<P, W, loiter_numa>;
  friend base;
  using base::tail_;

  static constexpr std::uint32_t fairness_period = 1000;  // as MCSCR's

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over, 4);

  bool contended() const {
    return base::contended() || (tail_.load(std::memory_order_relaxed) != no_node && !remote_.empty());
  }

 private:
  void enter_inner(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) return;
    remote_.note_place(mine);
    wait_behind<P, W>(previous, mine);
  }

  node_handle inner_successor(node_handle mine) { return remote_.successor_or_free(tail_, mine, fairness_period); }

  remote_threads<P, W> remote_;
};

template <platform_with_priorities P, class W>
class loiter_store : public basic_loiter<P, W, loiter_store<P, W>> {
  using base = basic_loiter<P, W, loiter_store>;
  friend base;
  using base::outer_, base::held, base::impatience;

  static constexpr bool ranks = false;  // a plain store would overwrite the urgent waiters' stack

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(ranks, false);

  void unlock() {
    const std::uint32_t w = outer_.load(std::memory_order_relaxed);
    if (w != held) [[unlikely]]
      return base::unlock_contended(w);
    outer_.store(0, std::memory_order_release);  // (2)
  }

  bool unlock_is_due() const = delete;  // that may be, and the lock does not know it

 private:
  // A mark may be wiped out: the standby looks after a while even if nobody has woken it.
  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) { P::nap(outer_, seen, every_sleeper, ns, 0); }
  void wait_for_outer(std::uint32_t seen) { wait_for_outer(seen, impatience); }
};

}  // namespace usher::inline v1
