// LOITER ("locking: outer-inner with throttling"): a test-and-set lock for those who circulate, and behind it an MCS
// lock that holds back all but one of those who had to wait. That one, the standby, contends for the outer lock; if
// it waits too long it becomes impatient and the next unlock hands the lock to it.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.1.
// Guarantees: not FIFO; arriving threads may overtake those that wait. Work-conserving; nobody starves: a thread spins for a
// limited time, then joins the inner queue (FIFO; doorway: the exchange of its tail) and is at its head for at most the
// impatience limit and two holds, if nobody waits with a deadline and no thread with a real-time priority waits. Of those
// who sleep, these are served first: the highest priority, then the longest wait. (Their own doorway, a compare-and-swap,
// is bounded by one another only.)
// Cost: lock and unlock one compare-and-swap each; who came through the inner lock pays for both.
// Layout: outer word · tail of the inner lock · node of a holder who came through it: 12 bytes. With a NUMA-aware inner
// lock its remote threads: 16 bytes.
//
//     outer    bit 0 held        bit 1 inner: the holder has the inner lock, too
//              bit 2 asleep: the standby sleeps       bit 3 impatient: the standby wants a hand-over
//              bit 4 handed: the lock has been handed to the standby, who has not taken note yet
//              bits 8–31 how many arrivals spin, where that is counted; else the urgent waiter that came last: its node
//
//        0 ──arrive──► held ──unlock──► 0                                 arrivals overtake the standby
//        free ──standby──► held|inner                                     by compare-and-swap
//        held|… ──standby──► held|asleep (|impatient)                     before it sleeps; it alone sets these, also
//                                                                         in a word that has just become free
//        held|impatient|… ──unlock──► held|handed ──standby──► held|inner
//        held|… ──urgent arrival──► held|…|its node ──unlock──► held|…            handed to an urgent waiter by its node
//
// In the paper, unlock looks for the standby after the lock is free (and footnote 39 elides the fence that this
// needs). Here the standby's mark is in the outer word: the operation that frees the lock also returns whether
// somebody is to be woken, and the lock is not looked at again. Whoever has both locks takes the inner one apart
// first (finds the successor or frees the queue), frees the outer one, and only then makes the successor standby,
// which touches its node alone: no wake-up happens inside the critical section.
//
// Threads with a real-time priority do not go to the inner lock: core/urgent_waiters.hpp.
//
// The parts that the paper names can be had one by one (loiter_options), to see what each is worth:
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

#include <type_traits>

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/numa_queue.hpp"
#include "usher/core/urgent_waiters.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

/// Appendix A.1's parts. The defaults are `loiter`.
struct loiter_options {
  bool standby_parks_at_once =
      true;                    ///< the standby is less aggressive than arrivals: it does not poll before it sleeps
  bool hand_over = true;       ///< it becomes impatient, and is handed the lock
  unsigned most_spinners = 0;  ///< how many arrivals may spin; 0: any number
  unsigned most_failures = 0;  ///< an arrival that has so often seen the lock free and come too late gives up; 0: none
  bool avoid_wake = false;     ///< unlock does not wake the standby while arrivals spin: deferred unpark
  bool numa_aware_inner = false;  ///< the inner lock prefers threads of one NUMA node
  bool plain_store = false;       ///< unlock is a plain store: footnote 39
};

template <platform_with_priorities P, class W, loiter_options O = loiter_options{}>
class basic_loiter : private urgent_waiters<P, W> {
  using urgency = urgent_waiters<P, W>;
  using urgency::held, urgency::is_free, urgency::latest_urgent, urgency::outer_;
  static constexpr bool plain = O.standby_parks_at_once && O.hand_over && O.most_spinners == 0 &&
                                O.most_failures == 0 && !O.avoid_wake && !O.numa_aware_inner && !O.plain_store;
  static constexpr bool counts = O.most_spinners != 0 || O.avoid_wake;
  static constexpr bool ranks = W::parks && !counts && !O.plain_store;  // a plain store would overwrite the urgent, too
  static_assert(!(counts && O.plain_store), "a plain store would overwrite the count");

 public:
  static constexpr lock_traits traits{
      .summary = plain ? "test-and-set outside, an MCS queue for the rest behind it"
                       : "loiter with one part changed: to measure what it is worth",
      .paper = "Malthusian Locks, appendix A.1",
      .starvation_free = O.hand_over && !O.plain_store,
      .bounded_doorway = O.hand_over && !O.plain_store,
      .by_priority = ranks,
      .restricts = true,
      .words = O.numa_aware_inner ? 4 : 3,
      .kinds = plain ? every_waiting_kind : unsigned(waiting_kind::spin_then_park),
  };

  void lock() {
    P::doorway(this);
    std::uint32_t seen = 0;
    // (1) acquire: pairs with (2) and (3).
    if (!outer_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    const std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    return is_free(seen) && take(seen);
  }

  void unlock() {
    if constexpr (O.plain_store) {
      const std::uint32_t w = outer_.load(std::memory_order_relaxed);
      if (w != held) [[unlikely]]
        return unlock_contended(w);
      outer_.store(0, std::memory_order_release);  // (2)
      return;
    }
    std::uint32_t seen = held;
    // (2) release: pairs with (1). If it succeeds nobody slept.
    if (!outer_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      unlock_contended(seen);
  }

  /// Asked by the holder: whether it is certain that another thread will have the lock after it. Those at the inner lock
  /// stay until they have had both, and only who has both takes the tail back: what is there stays there. So do the urgent.
  bool has_certain_successor() const {
    if constexpr (ranks)
      if (urgent_wait()) return true;
    const node_handle last = tail_.load(std::memory_order_relaxed);
    if (last == no_node) return false;
    if constexpr (O.numa_aware_inner)
      if (!remote_.empty()) return true;
    return (outer_.load(std::memory_order_relaxed) & inner) == 0 || last != inner_node_.get();
  }

  /// Asked by the holder: whether others depend on this unlock. It will hand the lock over to a standby that has waited long, or
  /// make one of those at the inner lock standby, who cannot become impatient before. A holder that gives the lock away in
  /// another manner, without this unlock, must not go on with that for long.
  bool unlock_is_due() const
    requires(O.hand_over && !O.plain_store)
  {
    const std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    return (seen & impatient) != 0 || ((seen & inner) != 0 && has_certain_successor());
  }

  /// Asked by the holder: whether this unlock will hand the lock to a thread with a real-time priority.
  bool urgent_wait() const
    requires ranks
  {
    return latest_urgent(outer_.load(std::memory_order_relaxed)) != no_node;
  }

  auto uncontended() { return uncontended_word{outer_, held}; }

 private:
  static constexpr std::uint32_t inner = 2, asleep = 4, impatient = 8, handed = 16;
  static constexpr std::uint32_t spinner = 256, spinners = ~(spinner - 1);

  static constexpr std::uint32_t fairness_period = 1000;  // as MCSCR's: of a NUMA-aware inner lock
  struct nothing {};

  // The paper gives no figure for either: chosen. With n threads waiting, each gets in at least every n times this.
  static constexpr std::uint64_t handoff_after = 1000000;                 // ns
  static constexpr std::uint32_t first_window = 128, last_window = 8192;  // of an arrival's back-off, ns

  static constexpr bool may_enter(std::uint32_t w) { return is_free(w) || (w & handed) != 0; }

  /// Takes the lock that was seen free.
  bool take(std::uint32_t seen) {
    // (1) A mark of the standby's stays. No second attempt: a free word changes only by being taken; or where arrivals
    // are counted, by their coming and going, for which a test-and-set does not fail.
    if constexpr (counts)
      return is_free(outer_.fetch_or(held, std::memory_order_acquire));
    else
      return outer_.compare_exchange_strong(seen, seen | held, std::memory_order_acquire, std::memory_order_relaxed);
  }

  [[gnu::cold, gnu::noinline]] void contend() {
    if (arrive()) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // no node to be had: go without a place in the queue
      while (!try_lock()) P::backoff(100000);
      return;
    }
    if constexpr (ranks)
      if (const std::uint32_t priority = P::priority(); priority != 0) [[unlikely]]
        return urgency::wait_by_priority(mine, priority);
    enter_inner(mine);
    stand_by();
    inner_node_.set(mine);
  }

  /// Bounded global spinning with randomised back-off that doubles from look to look: an arrival that watched
  /// the word closely would take the lock from a thread that is just then using it alone, at every release,
  /// and pay for moving everything to another cache each time.
  bool arrive() {
    std::uint64_t spin_budget = W::spin_budget();
    if constexpr (!W::parks) spin_budget = P::limits().spin;
    if (spin_budget == 0) return false;
    if constexpr (counts) {
      const std::uint32_t before = outer_.fetch_add(spinner, std::memory_order_relaxed) / spinner;
      return (O.most_spinners == 0 || before < O.most_spinners) && spin(spin_budget) ? settle() : give_up();
    } else {
      return spin(spin_budget);
    }
  }

  bool spin(std::uint64_t spin_budget) {
    std::uint32_t window = first_window;
    [[maybe_unused]] unsigned failures = 0;
    for (const std::uint64_t end = P::now() + spin_budget; P::now() < end;) {
      P::backoff(window / 2 + P::random() % window);
      if (const std::uint32_t seen = outer_.load(std::memory_order_relaxed); is_free(seen)) {
        if (take(seen)) return true;
        if constexpr (O.most_failures != 0)
          if (++failures == O.most_failures) return false;  // others circulate fast enough
      }
      if (window < last_window) window *= 2;
    }
    return false;
  }

  /// An arrival that has the lock is not one that spins.
  bool settle() {
    outer_.fetch_sub(spinner, std::memory_order_relaxed);
    return true;
  }

  /// One that gives up may be the last that was relied upon.
  bool give_up() {
    // Relaxed: it is one word, and who takes it does so by (1).
    const std::uint32_t left = outer_.fetch_sub(spinner, std::memory_order_relaxed) - spinner;
    return is_free(left) && try_lock();
  }

  void enter_inner(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = tail_.exchange(mine, std::memory_order_acq_rel);
    if (previous == no_node) return;
    if constexpr (O.numa_aware_inner) remote_.record_numa_node(mine);
    P::node(previous).next.store(mine, std::memory_order_release);
    wait_for_grant<P, W>(mine);
  }

  /// The one thread that has the inner lock waits for the outer one. Returns holding both. It is less
  /// aggressive than arrivals are: where it may sleep, it does not poll. Whoever is awake anyway has the
  /// better claim.
  void stand_by() {
    const std::uint64_t since = P::now();
    for (;;) {
      // Not the inner bit: the last holder may not have cleared its own yet, if the queue was free for a
      // moment.
      std::uint32_t w = outer_.load(std::memory_order_acquire);  // (1)
      if (w & handed) {
        // Handed to us: nobody else writes a held word, but arrivals that are counted or urgent.
        if constexpr (counts || ranks)
          outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);
        else
          outer_.store(held | inner, std::memory_order_relaxed);
        return;
      }
      if (is_free(w)) {
        if (outer_.compare_exchange_strong(w, arrivals(w) | held | inner, std::memory_order_acquire,
                                           std::memory_order_relaxed))
          return;  // (1)
        P::backoff(0);
        if (!O.hand_over || P::now() - since < handoff_after) continue;
        // Others may be quicker each time: an impatient standby says so all the same.
      } else if constexpr (!O.standby_parks_at_once) {
        const bool said = !O.hand_over || (w & impatient) != 0 || P::now() - since < handoff_after;
        if (said && W::poll(outer_, may_enter)) continue;
      }
      const std::uint64_t waited = P::now() - since;
      const bool patient = !O.hand_over || waited < handoff_after;
      const std::uint32_t marks = (W::parks ? asleep : 0) | (patient ? 0 : impatient);
      // Relaxed, and so are the looks below: a mark carries nothing, and whoever is to have the lock reads the word again (1).
      // Not by a compare-and-swap: those who circulate could make it fail again and again, and the mark be never set. So it may
      // come into a free word, or one that has just been handed to us: hence the look before we wait.
      if ((w & marks) != marks) {
        outer_.fetch_or(marks, std::memory_order_relaxed);
        continue;
      }
      if (may_enter(w)) continue;
      if constexpr (O.plain_store)
        P::nap(outer_, w | marks, every_sleeper, waited < handoff_after ? handoff_after - waited : handoff_after, 0);
      else if (O.hand_over && patient)
        wait_for_outer(w | marks, handoff_after - waited);
      else
        wait_for_outer(w | marks);
    }
  }

  /// How many arrivals spin, as it stands in the word.
  static constexpr std::uint32_t arrivals(std::uint32_t w) { return counts ? w & spinners : 0; }

  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) {
    if constexpr (W::parks)
      P::park_for(outer_, seen, every_sleeper, ns);
    else
      P::await(outer_, may_enter, std::memory_order_relaxed, look::polling.within(ns));
  }
  void wait_for_outer(std::uint32_t seen) {
    if constexpr (W::parks)
      P::park(outer_, seen, every_sleeper);
    else
      P::await(outer_, may_enter, std::memory_order_relaxed, look::polling);
  }

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint32_t seen) {
    node_handle mine = no_node, next = no_node;
    if (seen & inner) {
      mine = inner_node_.get();
      if constexpr (O.numa_aware_inner)
        next = remote_.successor_or_free(tail_, mine, fairness_period);
      else
        next = successor_or_free<P, W>(tail_, mine);
      seen = outer_.load(std::memory_order_relaxed);
    }
    const wake_key key = P::key_of(outer_);
    node_handle chosen = no_node;
    const std::uint32_t old = release(seen, chosen);
    if constexpr (W::parks) {
      if (old & asleep) P::wake(key, every_sleeper, 1);
    }
    if (mine != no_node) P::give_node(mine);
    if constexpr (ranks)
      if (chosen != no_node) grant<P, W>(chosen);
    if (next != no_node) grant<P, W>(next);
  }

  /// Hands over or frees, and keeps the count. Returns what was there; without asleep if the standby is to sleep on: that has
  /// been left to arrivals, or the lock is to be handed to the urgent waiter that was chosen.
  std::uint32_t release(std::uint32_t seen, node_handle& chosen) {
    for (;; P::backoff(0)) {
      if constexpr (ranks)
        if (latest_urgent(seen) != no_node) [[unlikely]] {
          chosen = urgency::take_urgent(inner);
          return 0;
        }
      const std::uint32_t spin = arrivals(seen);
      const bool leave = O.avoid_wake && spin != 0 && (seen & impatient) == 0;
      const std::uint32_t then = (seen & impatient) != 0 ? spin | held | handed : spin | (leave ? seen & asleep : 0);
      // (3) release: hands the lock over, still held, or frees it. What may have changed the word: the standby by its marks,
      // arrivals that are counted or urgent.
      if (outer_.compare_exchange_strong(seen, then, std::memory_order_acq_rel, std::memory_order_relaxed))
        return leave ? seen & ~asleep : seen;
    }
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> inner_node_;
  [[no_unique_address]] std::conditional_t<O.numa_aware_inner, remote_threads<P, W>, nothing> remote_;
};

template <platform P, class W>
using loiter = basic_loiter<P, W>;

// Ablations: each differs from loiter in one part. The figures are chosen, not measured.

template <platform P, class W>
using loiter_eager = basic_loiter<P, W, loiter_options{.standby_parks_at_once = false}>;
template <platform P, class W>
using loiter_barging = basic_loiter<P, W, loiter_options{.hand_over = false}>;
template <platform P, class W>
using loiter_cap = basic_loiter<P, W, loiter_options{.most_spinners = 2}>;
template <platform P, class W>
using loiter_cull = basic_loiter<P, W, loiter_options{.most_failures = 3}>;
template <platform P, class W>
using loiter_defer = basic_loiter<P, W, loiter_options{.avoid_wake = true}>;
template <platform P, class W>
using loiter_numa = basic_loiter<P, W, loiter_options{.numa_aware_inner = true}>;
template <platform P, class W>
using loiter_store = basic_loiter<P, W, loiter_options{.plain_store = true}>;

}  // namespace usher::inline v1
