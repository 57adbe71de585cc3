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
// Layout: outer word · tail of the inner lock · node of a holder who came through it: 12 bytes.
//
//     outer    bit 0 held        bit 1 inner: the holder has the inner lock, too
//              bit 2 asleep: the standby sleeps       bit 3 impatient: the standby wants a hand-over
//              bit 4 handed: the lock has been handed to the standby, who has not taken note yet
//              bits 8–31 the urgent waiter that came last: its node
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
// The parts that the paper names can be had one by one, to see what each is worth: loiter_variants.hpp.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/urgent_waiters.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

/// `Self` is the lock that derives from this: loiter, below, or an ablation that has other versions of the functions and constants
/// named by `Self::` and self() here (loiter_variants.hpp).
template <platform_with_priorities P, class W, class Self>
class basic_loiter : protected urgent_waiters<P, W> {
 protected:
  using urgency = urgent_waiters<P, W>;
  using urgency::held, urgency::is_free, urgency::latest_urgent, urgency::outer_;

  // The same names in an ablation say otherwise.
  static constexpr bool ranks = W::parks;   ///< threads with a real-time priority are served first
  static constexpr bool hands_over = true;  ///< a standby that has waited for long is handed the lock

 public:
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
    return is_free(seen) && self().take(seen);
  }

  void unlock() {
    std::uint32_t seen = held;
    // (2) release: pairs with (1). If it succeeds nobody slept.
    if (!outer_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      unlock_contended(seen);
  }

  /// Asked by the holder: whether it is certain that another thread will have the lock after it. Those at the inner lock
  /// stay until they have had both, and only who has both takes the tail back: what is there stays there. So do the urgent.
  bool contended() const {
    if constexpr (Self::ranks)
      if (urgent_wait()) return true;
    const node_handle last = tail_.load(std::memory_order_relaxed);
    if (last == no_node) return false;
    return (outer_.load(std::memory_order_relaxed) & inner) == 0 || last != inner_node_.get();
  }

  /// Asked by the holder: whether others depend on this unlock. It will hand the lock over to a standby that has waited long, or
  /// make one of those at the inner lock standby, who cannot become impatient before. A holder that gives the lock away in
  /// another manner, without this unlock, must not go on with that for long.
  bool unlock_is_due() const
    requires(Self::hands_over)
  {
    const std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    return (seen & impatient) != 0 || ((seen & inner) != 0 && self().contended());
  }

  /// Asked by the holder: whether this unlock will hand the lock to a thread with a real-time priority.
  bool urgent_wait() const
    requires(Self::ranks)
  {
    return latest_urgent(outer_.load(std::memory_order_relaxed)) != no_node;
  }

  auto uncontended() { return uncontended_word{outer_, held}; }

 protected:
  static constexpr std::uint32_t inner = 2, asleep = 4, impatient = 8, handed = 16;

  // The paper gives no figure for either: chosen. With n threads waiting, each gets in at least every n times this.
  static constexpr std::uint64_t handoff_after = 1000000;                 // ns
  static constexpr std::uint32_t first_window = 128, last_window = 8192;  // of an arrival's back-off, ns

  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  static constexpr bool may_enter(std::uint32_t w) { return is_free(w) || (w & handed) != 0; }

  /// Takes the lock that was seen free.
  bool take(std::uint32_t seen) {
    // (1) A mark of the standby's stays. No second attempt: a free word changes only by being taken, or by the standby's marks.
    return outer_.compare_exchange_strong(seen, seen | held, std::memory_order_acquire, std::memory_order_relaxed);
  }

  [[gnu::cold, gnu::noinline]] void contend() {
    if (arrive()) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // no node to be had: go without a place in the queue
      while (!try_lock()) P::backoff(100000);
      return;
    }
    if constexpr (Self::ranks)
      if (const std::uint32_t priority = P::priority(); priority != 0) [[unlikely]]
        return urgency::wait_by_priority(mine, priority);
    self().enter_inner(mine);
    stand_by();
    inner_node_.set(mine);
  }

  /// Bounded global spinning with randomised back-off that doubles from look to look: an arrival that watched
  /// the word closely would take the lock from a thread that is just then using it alone, at every release,
  /// and pay for moving everything to another cache each time.
  bool arrive() {
    std::uint64_t patience = W::patience();
    if constexpr (!W::parks) patience = P::limits().spin;
    if (patience == 0) return false;
    return self().spin(patience);
  }

  bool spin(std::uint64_t spin_budget) {
    std::uint32_t window = first_window;
    for (const std::uint64_t end = P::now() + patience; P::now() < end;) {
      P::backoff(window / 2 + P::random() % window);
      if (const std::uint32_t seen = outer_.load(std::memory_order_relaxed); is_free(seen))
        if (self().take(seen)) return true;
      if (window < last_window) window *= 2;
    }
    return false;
  }

  void enter_inner(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous != no_node) wait_behind<P, W>(previous, mine);
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
      if (w & handed) return self().accept(w);
      if (is_free(w)) {
        if (outer_.compare_exchange_strong(w, Self::taken_by_standby(w), std::memory_order_acquire,
                                           std::memory_order_relaxed))
          return;  // (1)
        P::backoff(0);
        if (!Self::hands_over || P::now() - since < impatience) continue;
        // Others may be quicker each time: an impatient standby says so all the same.
      } else if (self().polls_before_it_sleeps(w, since)) {
        continue;
      }
      const std::uint64_t waited = P::now() - since;
      const bool patient = !Self::hands_over || waited < impatience;
      const std::uint32_t marks = (W::parks ? asleep : 0) | (patient ? 0 : impatient);
      // Relaxed, and so are the looks below: a mark carries nothing, and whoever is to have the lock reads the word again (1).
      // Not by a compare-and-swap: those who circulate could make it fail again and again, and the mark be never set. So it may
      // come into a free word, or one that has just been handed to us: hence the look before we wait.
      if ((w & marks) != marks) {
        outer_.fetch_or(marks, std::memory_order_relaxed);
        continue;
      }
      if (may_enter(w)) continue;
      if (Self::hands_over && patient)
        self().wait_for_outer(w | marks, impatience - waited);
      else
        self().wait_for_outer(w | marks);
    }
  }

  /// By the standby, to which the lock has been handed: nobody else writes a held word, but the urgent.
  void accept(std::uint32_t w) {
    if constexpr (Self::ranks)
      outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);
    else
      outer_.store(held | inner, std::memory_order_relaxed);
  }

  static constexpr std::uint32_t taken_by_standby(std::uint32_t) { return held | inner; }
  static constexpr bool polls_before_it_sleeps(std::uint32_t, std::uint64_t) { return false; }

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
      next = self().inner_successor(mine);
      seen = outer_.load(std::memory_order_relaxed);
    }
    const wake_key key = P::key_of(outer_);
    node_handle chosen = no_node;
    const std::uint32_t old = self().release(seen, chosen);
    if constexpr (W::parks) {
      if (old & asleep) P::wake(key, every_sleeper, 1);
    }
    if (mine != no_node) P::give_node(mine);
    if constexpr (Self::ranks)
      if (chosen != no_node) grant<P, W>(chosen);
    if (next != no_node) grant<P, W>(next);
  }

  /// The next standby; no_node: the inner lock is free.
  node_handle inner_successor(node_handle mine) { return successor_or_free<P, W>(tail_, mine); }

  /// Hands over or frees. Returns what was there; 0 if the lock is to be handed to the urgent waiter that was chosen: then the standby
  /// sleeps on.
  std::uint32_t release(std::uint32_t seen, node_handle& chosen) {
    for (;; P::backoff(0)) {
      if constexpr (Self::ranks)
        if (latest_urgent(seen) != no_node) [[unlikely]] {
          chosen = urgency::take_urgent(inner);
          return 0;
        }
      const std::uint32_t then = (seen & impatient) != 0 ? held | handed : 0;
      // (3) release: hands the lock over, still held, or frees it. What may have changed the word: the standby by its marks,
      // urgent waiters.
      if (outer_.compare_exchange_strong(seen, then, std::memory_order_acq_rel, std::memory_order_relaxed)) return seen;
    }
  }

  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> inner_node_;
};

template <platform_with_priorities P, class W>
class loiter : public basic_loiter<P, W, loiter<P, W>> {
 public:
  static constexpr lock_traits traits{
      .summary = "test-and-set outside, an MCS queue for the rest behind it",
      .paper = "Malthusian Locks, appendix A.1",
      .starvation_free = true,
      .bounded_doorway = true,
      .by_priority = W::parks,
      .restricts = true,
      .words = 3,
  };
};

}  // namespace usher::inline v1
