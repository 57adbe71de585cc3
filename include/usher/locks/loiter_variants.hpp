// LOITER with one part changed, to measure the effect of each part that the paper names. loiter.hpp has the algorithm;
// this header has only the differences.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.1 and footnotes 17 and 39.
// Guarantees, cost and layout: as loiter, except where the comment of the class says otherwise.
//
//     loiter-eager     the standby polls before it sleeps, as arrivals do
//     loiter-adaptive  arrivals spin for longer after successes, for less after failures: footnote 17; simulator only
//     loiter-barging   the standby never becomes impatient, and may starve
//     loiter-cap       at most two arrivals spin at a time
//     loiter-cull      an arrival stops spinning after three lost attempts at a free lock
//     loiter-defer     unlock does not wake the standby while arrivals spin: deferred unpark
//     loiter-flux      an arrival stops spinning if more than eight others arrive meanwhile
//     loiter-numa      the inner lock prefers threads of one NUMA node, as MCSCRN does
//     loiter-store     unlock is a plain store: footnote 39
#pragma once

#include "usher/core/numa_queue.hpp"
#include "usher/locks/loiter.hpp"

namespace usher::inline v2 {

/// Returns the traits of an ablation. `ranks`: whether it serves threads with a real-time priority first. `hands_over`:
/// whether it guarantees that the standby does not starve.
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

/// The standby polls for its spin budget before it sleeps. Once it has waited for handoff_after, it sets the mark
/// `impatient` before it polls.
template <platform_with_priorities P, class W>
class loiter_eager : public basic_loiter<P, W, loiter_eager<P, W>> {
  using base = basic_loiter<P, W, loiter_eager>;
  friend base;

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over);

 private:
  bool polls_before_it_sleeps(std::uint32_t w, std::uint64_t since) {
    const bool said = (w & base::impatient) != 0 || P::now() - since < base::handoff_after;
    return said && W::poll(base::outer_, base::may_enter);
  }
};

/// The standby is never impatient: unlock does not hand the lock over, and the first thread that tries takes a free
/// lock.
template <platform_with_priorities P, class W>
class loiter_barging : public basic_loiter<P, W, loiter_barging<P, W>> {
  using base = basic_loiter<P, W, loiter_barging>;
  friend base;

  static constexpr bool hands_over = false;

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, hands_over);
};

/// An arrival stops spinning when it has lost most_failures attempts at a free lock: then enough other threads
/// circulate.
template <platform_with_priorities P, class W>
class loiter_cull : public basic_loiter<P, W, loiter_cull<P, W>> {
  using base = basic_loiter<P, W, loiter_cull>;
  friend base;

  static constexpr unsigned most_failures = 3;  // chosen, not measured

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over);

 private:
  bool spin(std::uint64_t spin_budget) {
    std::uint32_t window = base::first_window;
    unsigned failures = 0;
    for (const std::uint64_t end = P::now() + spin_budget; P::now() < end;) {
      P::backoff(window / 2 + P::random() % window);
      if (const std::uint32_t seen = base::outer_.load(std::memory_order_relaxed); base::is_free(seen)) {
        if (base::take(seen)) return true;
        if (++failures == most_failures) return false;
      }
      if (window < base::last_window) window *= 2;
    }
    return false;
  }
};

/// An arrival stops spinning when more than most_arrivals other threads have arrived since it began: the paper's
/// "arrival of spinners", as a count over the time for which this arrival has spun. Only arrivals that spin are
/// counted, in one more word. The count orders nothing and may wrap.
template <platform_with_priorities P, class W>
class loiter_flux : public basic_loiter<P, W, loiter_flux<P, W>> {
  using base = basic_loiter<P, W, loiter_flux>;
  friend base;

  static constexpr std::uint32_t most_arrivals = 8;  // chosen, not measured

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over, 4);

 private:
  bool spin(std::uint64_t spin_budget) {
    const std::uint32_t before = arrivals_.fetch_add(1, std::memory_order_relaxed) + 1;
    std::uint32_t window = base::first_window;
    for (const std::uint64_t end = P::now() + spin_budget; P::now() < end;) {
      P::backoff(window / 2 + P::random() % window);
      if (const std::uint32_t seen = base::outer_.load(std::memory_order_relaxed); base::is_free(seen))
        if (base::take(seen)) return true;
      if (arrivals_.load(std::memory_order_relaxed) - before > most_arrivals) return false;
      if (window < base::last_window) window *= 2;
    }
    return false;
  }

  typename P::template atomic<std::uint32_t> arrivals_;
};

/// Adaptive spinning: if an arrival gets the lock by spinning, the next ones spin for longer, up to the spin budget; if
/// not, they spin for less, down to about 1/20 of the budget. A step is an eighth of the remaining way; chosen, not
/// measured. One more word contains by how many 256ths of the budget an arrival spins less. If threads change it at the
/// same time, a step may be lost: this affects only times of spinning.
template <platform_with_priorities P, class W>
class loiter_adaptive : public basic_loiter<P, W, loiter_adaptive<P, W>> {
  using base = basic_loiter<P, W, loiter_adaptive>;
  friend base;

  static constexpr std::uint32_t whole = 256, most_less = 248, step = 8;

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over, 4);

 private:
  bool spin(std::uint64_t spin_budget) {
    const std::uint32_t less = less_.load(std::memory_order_relaxed);
    const bool taken = base::spin(spin_budget * (whole - less) / whole);
    less_.store(taken ? less - (less + step - 1) / step : less + (most_less - less) / step, std::memory_order_relaxed);
    return taken;
  }

  typename P::template atomic<std::uint32_t> less_;
};

/// Counts the arrivals that spin, in bits 8–31 of the outer word. At most MostSpinners may spin; 0: any number. If
/// DeferWake is true, unlock does not wake the standby while an arrival spins.
///
///     count,held,asleep (the other bits as in loiter.hpp; n > 0)
///
///     n,*,* -> n+1,*,*    spin(), at its beginning
///     n,*,* -> n-1,*,*    leave_count(), with the lock; give_up(), without it
///     n,1,a -> n,0,a      release(), DeferWake: the mark stays; a spinning arrival takes the lock, and its unlock
///                         wakes the standby or leaves the mark again
///     n,1,1 -> n,0,0      release(), otherwise: the standby is woken
///     1,0,1 -> 0,0,1      give_up() by the last spinning arrival: it finds the lock free, and takes it
///
/// So if the lock is free and the standby sleeps, an arrival is counted, or the last counted one is about to try the
/// lock.
template <platform_with_priorities P, class W, unsigned MostSpinners, bool DeferWake>
class loiter_with_count : public basic_loiter<P, W, loiter_with_count<P, W, MostSpinners, DeferWake>> {
  using base = basic_loiter<P, W, loiter_with_count>;
  friend base;
  using base::outer_, base::held, base::inner, base::asleep, base::impatient, base::handed, base::is_free;

  static constexpr bool ranks = false;  // the count uses the bits of the urgent waiters' stack
  static constexpr std::uint32_t spinner = 256, spinners = ~(spinner - 1);

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(ranks, base::hands_over);

 private:
  /// Uses a fetch-and-or, since a compare-and-swap would fail whenever the count has changed.
  bool take(std::uint32_t) { return is_free(outer_.fetch_or(held, std::memory_order_acquire)); }  // (1)

  bool spin(std::uint64_t spin_budget) {
    const std::uint32_t before = outer_.fetch_add(spinner, std::memory_order_relaxed) / spinner;
    return (MostSpinners == 0 || before < MostSpinners) && base::spin(spin_budget) ? leave_count() : give_up();
  }

  /// Called by an arrival that has taken the lock.
  bool leave_count() {
    outer_.fetch_sub(spinner, std::memory_order_relaxed);
    return true;
  }

  /// Called by an arrival that stops spinning. Tries the lock once more: if it was the last arrival counted, an unlock
  /// may have left the standby asleep because of it.
  bool give_up() {
    // Relaxed: the count and the lock are one word, and the lock is taken by (1).
    const std::uint32_t left = outer_.fetch_sub(spinner, std::memory_order_relaxed) - spinner;
    return is_free(left) && base::try_lock();
  }

  void accept(std::uint32_t w) {
    outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);
  }

  static constexpr std::uint32_t taken_by_standby(std::uint32_t w) { return (w & spinners) | held | inner; }

  /// Frees the outer lock or hands it over, and keeps the count. Returns the old word, without `asleep` if the standby
  /// is not to be woken.
  std::uint32_t release(std::uint32_t seen, node_handle&) {
    for (;; P::backoff(0)) {
      const std::uint32_t spin = seen & spinners;
      const bool leave = DeferWake && spin != 0 && (seen & impatient) == 0;
      const std::uint32_t then = (seen & impatient) != 0 ? spin | held | handed : spin | (leave ? seen & asleep : 0);
      // (3) release: pairs with (1), the operations that take the lock, also with the load in stand_by() that finds
      // `handed`. Fails if the standby has set a mark or the count has changed.
      if (outer_.compare_exchange_strong(seen, then, std::memory_order_acq_rel, std::memory_order_relaxed))
        return leave ? seen & ~asleep : seen;
    }
  }
};

template <platform_with_priorities P, class W>
using loiter_cap = loiter_with_count<P, W, 2, false>;  // two: chosen, not measured

template <platform_with_priorities P, class W>
using loiter_defer = loiter_with_count<P, W, 0, true>;

/// The inner lock is MCSCRN without its passive list (numa_queue.hpp). So this lock needs one more word: 16 bytes in
/// all.
template <platform_with_priorities P, class W>
class loiter_numa : public basic_loiter<P, W, loiter_numa<P, W>> {
  using base = basic_loiter<P, W, loiter_numa>;
  friend base;
  using base::tail_;

  static constexpr std::uint32_t fairness_period = 1000;  // as MCSCR's

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(base::ranks, base::hands_over, 4);

  bool has_certain_successor() const {
    return base::has_certain_successor() || (tail_.load(std::memory_order_relaxed) != no_node && !remote_.empty());
  }

 private:
  void enter_inner(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) return;
    remote_.record_numa_node(mine);
    wait_behind<P, W>(previous, mine);
  }

  node_handle inner_successor(node_handle mine) { return remote_.successor_or_free(tail_, mine, fairness_period); }

  remote_threads<P, W> remote_;
};

/// Unlock is a load and a plain store (footnote 39). If the standby sets its mark between the two, the store erases the
/// mark, and no unlock wakes the standby. So the standby sleeps for at most 1 ms at a time (P::nap), and then takes the
/// lock if it is free, or sets its mark again. An erased mark costs the standby at most 1 ms, and the lock stays unused
/// for as long if no other thread comes. If every mark is erased, the standby starves. (The paper's unlock first stores
/// and then loads, from a lock that may have been destroyed; it misses a mark only while its store is in the
/// processor's store buffer.)
template <platform_with_priorities P, class W>
class loiter_store : public basic_loiter<P, W, loiter_store<P, W>> {
  using base = basic_loiter<P, W, loiter_store>;
  friend base;
  using base::outer_, base::held, base::handoff_after;

  static constexpr bool ranks = false;  // a plain store would erase the urgent waiters' stack

 public:
  static constexpr lock_traits traits = loiter_ablation<P, W>(ranks, false);

  void unlock() {
    const std::uint32_t w = outer_.load(std::memory_order_relaxed);
    if (w != held) [[unlikely]]
      return base::unlock_contended(w);
    outer_.store(0, std::memory_order_release);  // (2)
  }

  bool unlock_is_due() const = delete;  // the mark that says so may be erased

 private:
  // Both functions have a time limit, after which the standby reads the word again even if no unlock has woken it.
  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) { P::nap(outer_, seen, every_sleeper, ns, 0); }
  void wait_for_outer(std::uint32_t seen) { wait_for_outer(seen, handoff_after); }
};

}  // namespace usher::inline v2
