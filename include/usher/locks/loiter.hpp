// LOITER ("locking: outer-inner with throttling"): the outer lock is a test-and-set lock that arriving threads try to
// take, the inner lock an MCS lock behind it. Of the waiters, only the holder of the inner lock, the standby, competes
// for the outer lock. If it waits too long it becomes impatient, and the next unlock hands it the lock.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.1.
// Guarantees: not FIFO; arriving threads may overtake waiters. Work-conserving. No thread starves: a thread spins for a
// limited time, then joins the inner queue (FIFO; doorway: the exchange of its tail). It is the head for at most
// handoff_after (1 ms) and two critical sections, if no thread waits with a deadline or with a real-time priority.
// Sleeping threads with a real-time priority (urgent waiters) are served first: the highest priority, then the longest
// wait. (The way to their doorway, a compare-and-swap that fails whenever the word has changed, is not bounded.)
// Cost: lock and unlock one compare-and-swap each; a thread that came through the inner lock pays for both locks.
// Layout: outer word · tail of the inner lock · node of a holder that came through it: 12 bytes.
//
//     outer word:
//
//     held       bit 0   set by the thread that takes the lock, cleared by the unlock that frees it. A hand-over leaves
//                        it set: no arrival can take the lock.
//     inner      bit 1   the holder has the inner lock, too. Set by the standby when it has the outer lock. Read and
//                        cleared by its unlock, which then also releases the inner lock, so that the next thread there
//                        becomes the standby.
//     asleep     bit 2   the standby sleeps, or is about to. Set by the standby, cleared and read by the unlock, which
//                        wakes it; also cleared by a standby that gets the lock without a wake-up. It is in the word
//                        because unlock() may not read the lock once it is free: the operation that frees the lock
//                        returns the bit.
//     impatient  bit 3   the standby has waited for handoff_after. Set by the standby; read and cleared by the unlock,
//                        which hands the lock over. Otherwise arrivals could overtake the standby for ever.
//     handed     bit 4   the lock has been handed to the standby. Set by the unlock, read and cleared by the standby,
//                        which otherwise could not tell that the held lock is its own.
//     bits 8–31          the node of the latest urgent waiter, 0: none. core/urgent_waiters.hpp.
//
//     h,i,a,m,d  (held, inner, asleep, iMpatient, handeD; * is 0 or 1; a and m are the standby's marks)
//
//     0,0,0,0,0   free. The standby, if there is one, is awake.
//     0,0,*,*,0   free; the standby set a or m after the unlock. It looks at the word again before it sleeps.
//     1,0,0,0,0   held by an arrival or an urgent waiter. The standby, if there is one, is awake.
//     1,0,1,0,0   the same; the standby sleeps or is about to. The next unlock wakes it.
//     1,0,*,1,0   the same; the next unlock hands the lock to the standby.
//     1,1,0,0,0   held by the thread that was the standby. All other threads at the inner lock wait for grants of their
//                 nodes.
//     1,1,*,*,0   the same with a or m set: the unlock has freed the empty inner queue, but not yet the outer word. A
//                 thread that has arrived since is the standby already, and has set a or m.
//     1,0,*,*,1   handed to the standby, which has not seen it yet. It may have set a or m since.
//
//     Urgent waiters exist only while held is 1. "The next unlock" means the next one that does not hand the lock to an
//     urgent waiter. Other combinations do not occur.
//
// Transitions. Each is one atomic operation on the word:
//
//     0,0,0,0,0 -> 1,0,0,0,0    lock()
//     0,0,a,m,0 -> 1,0,a,m,0    take(), by arrivals; wait_by_priority(), by an urgent waiter: the marks stay
//     0,0,*,*,0 -> 1,1,0,0,0    stand_by()
//     h,i,a,m,d -> h,i,1,m,d    stand_by(), before it sleeps; m becomes 1, too, if it is impatient. Only the standby
//                               sets marks
//     1,0,*,*,1 -> 1,1,0,0,0    accept(), by the standby
//     1,0,0,0,0 -> 0,0,0,0,0    unlock()
//     1,*,*,0,0 -> 0,0,0,0,0    release(): the standby is woken if asleep was 1
//     1,*,*,1,0 -> 1,0,0,0,1    release(): the same, and the lock belongs to the standby
//     1,*,a,m,0 -> 1,0,a,m,0    take_urgent(), in release(): the lock belongs to an urgent waiter; the standby sleeps
//                               on
//
// In the paper, unlock looks for the standby after the lock is free (footnote 39 elides the fence that this needs).
// Here the standby sets its marks (asleep and impatient) in the outer word, so unlock does not access the free lock. A
// holder of both locks first leaves the inner queue (finds its successor or frees the queue), then frees the outer
// word, and only then grants its successor's node, which makes that thread the standby. So no wake-up happens inside
// the critical section.
//
// loiter_variants.hpp has ablations: this lock with one part left out or replaced, to measure the part's effect.
// loiter_cohort.hpp has this lock with a cohort lock in place of the MCS lock.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/urgent_waiters.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v2 {

/// `Self`: the class that derives from this one: loiter, below, which adds only its traits, or an ablation
/// (loiter_variants.hpp). An ablation redefines functions or constants that this class uses through self() or `Self::`,
/// so all share one algorithm.
template <platform_with_priorities P, class W, class Self>
class basic_loiter : protected urgent_waiters<P, W> {
 protected:
  using urgency = urgent_waiters<P, W>;
  using urgency::held, urgency::is_free, urgency::latest_urgent, urgency::outer_;

  static constexpr bool ranks = W::parks;   ///< threads with a real-time priority are served first
  static constexpr bool hands_over = true;  ///< the standby becomes impatient

 public:
  void lock() {
    P::doorway(this);
    std::uint32_t seen = 0;
    // Takes the free lock: 0,0,0,0,0 -> 1,0,0,0,0 (held, inner, asleep, impatient, handed). (1) acquire: pairs with
    // (2), the compare-and-swap in unlock(), and (3), that in release().
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
    // Frees the lock: 1,0,0,0,0 -> 0,0,0,0,0 (held, inner, asleep, impatient, handed). (2) release: pairs with (1), the
    // operations by which a thread finds the lock free: in lock(), take(), stand_by() and wait_by_priority(). If it
    // succeeds, asleep was 0: no thread must be woken.
    if (!outer_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      self().unlock_contended(seen);
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next. A thread at the inner lock
  /// stays there until it has had both locks, and only a holder of both resets the tail; so what the tail shows now is
  /// still true at the unlock. An urgent waiter stays, too.
  bool has_certain_successor() const {
    if constexpr (Self::ranks)
      if (urgent_wait()) return true;
    const node_handle last = tail_.load(std::memory_order_relaxed);
    if (last == no_node) return false;
    return (outer_.load(std::memory_order_relaxed) & inner) == 0 || last != inner_node_.get();
  }

  /// Called by the holder. Returns true if waiters depend on its unlock: the unlock will hand the lock to an impatient
  /// standby, or will make the next thread at the inner lock the standby, which can become impatient only 1 ms after
  /// that. Requeued waiters (core/wait_morphing.hpp) may pass the lock to each other without this unlock; if the result
  /// is true they must soon stop.
  bool unlock_is_due() const
    requires(Self::hands_over)
  {
    const std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    return (seen & impatient) != 0 || ((seen & inner) != 0 && self().has_certain_successor());
  }

  /// Called by the holder. Returns whether its unlock will hand the lock to a thread with a real-time priority.
  bool urgent_wait() const
    requires(Self::ranks)
  {
    return latest_urgent(outer_.load(std::memory_order_relaxed)) != no_node;
  }

  auto uncontended() { return uncontended_word{outer_, held}; }

 protected:
  static constexpr std::uint32_t inner = 2, asleep = 4, impatient = 8, handed = 16;

  // Chosen, since the paper gives no figures. Each of n waiting threads is admitted at least once in n times
  // handoff_after.
  static constexpr std::uint64_t handoff_after = 1000000;                 // ns
  static constexpr std::uint32_t first_window = 128, last_window = 8192;  // of an arrival's back-off, ns

  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }

  /// Whether the standby has the lock already or may take it. Only the standby calls this, so `handed` means that the
  /// lock was handed to the caller.
  static constexpr bool may_enter(std::uint32_t w) { return is_free(w) || (w & handed) != 0; }

  /// Tries once to take the lock, which was free when its word was `seen`.
  bool take(std::uint32_t seen) {
    // (1) Sets `held`; the standby's marks stay. Not repeated: a free word changes only if another thread takes the
    // lock or the standby sets a mark.
    return outer_.compare_exchange_strong(seen, seen | held, std::memory_order_acquire, std::memory_order_relaxed);
  }

  [[gnu::cold, gnu::noinline]] void contend() {
    if (arrive()) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // all nodes are in use: polls, without a place in the queue
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

  /// Spins on the outer word for a limited time, with random pauses from a window that doubles. Returns true if it has
  /// taken the lock. Without pauses, an arrival would take the lock from a thread that locks it again and again, and
  /// each time the data would move to another cache.
  bool arrive() {
    std::uint64_t spin_budget = W::spin_budget();
    if constexpr (!W::parks) spin_budget = P::limits().spin;
    if (spin_budget == 0) return false;
    return self().spin(spin_budget);
  }

  bool spin(std::uint64_t spin_budget) {
    std::uint32_t window = first_window;
    for (const std::uint64_t end = P::now() + spin_budget; P::now() < end;) {
      pause_between_attempts<P, W>(outer_, is_free, window / 2 + P::random() % window);
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

  /// Called by the owner of the inner lock, the standby. Waits for the outer lock; on return the thread has both. In
  /// parking forms the standby does not poll, unlike arrivals: an arrival that is awake can use the lock sooner.
  void stand_by() {
    const std::uint64_t since = P::now();
    for (;;) {
      // `inner` is not tested, because it may be out of date: after a holder has freed the inner queue and before it
      // frees the outer word, `held` and `inner` are still 1.
      std::uint32_t w = outer_.load(std::memory_order_acquire);  // (1)
      if (w & handed) return self().accept(w);
      if (is_free(w)) {  // 0,0,*,*,0 -> 1,1,0,0,0
        if (outer_.compare_exchange_strong(w, Self::taken_by_standby(w), std::memory_order_acquire,
                                           std::memory_order_relaxed))
          return;  // (1)
        P::backoff(0);
        if (!Self::hands_over || P::now() - since < handoff_after) continue;
        // A standby that has waited for handoff_after sets `impatient` even if it has seen the word free, because an
        // arrival may take the free lock before it every time.
      } else if (self().polls_before_it_sleeps(w, since)) {
        continue;
      }
      const std::uint64_t waited = P::now() - since;
      const bool patient = !Self::hands_over || waited < handoff_after;
      const std::uint32_t marks = (W::parks ? asleep : 0) | (patient ? 0 : impatient);
      // Sets the standby's marks. Relaxed, as are the loads while it waits: a mark publishes nothing, and the standby
      // reads the word again by (1) before it has the lock. A fetch-or, because a compare-and-swap could fail again and
      // again while other threads circulate. The word may be free by now, or handed to this thread, so the loop reads
      // it once more before it waits.
      if ((w & marks) != marks) {
        outer_.fetch_or(marks, std::memory_order_relaxed);
        continue;
      }
      if (may_enter(w)) continue;
      if (Self::hands_over && patient)
        self().wait_for_outer(w | marks, handoff_after - waited);
      else
        self().wait_for_outer(w | marks);
    }
  }

  /// Accepts the lock that has been handed to the standby, the caller: clears `handed` and the marks, sets `inner`.
  /// Besides the standby only urgent waiters write to the word now; if the lock has none (`ranks` is false), a store
  /// suffices. Relaxed: the caller has read `w` by acquire.
  void accept(std::uint32_t w) {
    if constexpr (Self::ranks)
      outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);
    else
      outer_.store(held | inner, std::memory_order_relaxed);
  }

  // Two steps that ablations redefine.
  static constexpr std::uint32_t taken_by_standby(std::uint32_t) { return held | inner; }
  static constexpr bool polls_before_it_sleeps(std::uint32_t, std::uint64_t) { return false; }

  /// Waits until the word differs from `seen` (parking) or the standby may have the lock (spinning); with `ns` given,
  /// for at most `ns` nanoseconds.
  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) {
    if constexpr (W::parks)
      P::park_for(outer_, seen, every_sleeper, ns);
    else
      P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling.within(ns));
  }
  void wait_for_outer(std::uint32_t seen) {
    if constexpr (W::parks)
      P::park(outer_, seen, every_sleeper);
    else
      P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling);
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

  /// Leaves the inner lock. Returns the node of the next standby, or no_node if the inner lock is free now.
  node_handle inner_successor(node_handle mine) { return successor_or_free<P, W>(tail_, mine); }

  /// Frees the outer lock or hands it over. Returns the old word, whose `asleep` shows whether to wake the standby. If
  /// an urgent waiter gets the lock, sets `chosen` to its node, which the caller grants, and returns 0: the standby
  /// stays asleep.
  std::uint32_t release(std::uint32_t seen, node_handle& chosen) {
    for (;; P::backoff(0)) {
      if constexpr (Self::ranks)
        if (latest_urgent(seen) != no_node) [[unlikely]] {
          chosen = urgency::take_urgent(inner);
          return 0;
        }
      const std::uint32_t then = (seen & impatient) != 0 ? held | handed : 0;
      // Frees the word, or, if the standby is impatient, sets `handed` and leaves `held` set. (3) release: pairs with
      // (1), the operations that take the lock, including the load in stand_by() that finds `handed`. Fails if the
      // standby has set a mark or an urgent waiter has come.
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

}  // namespace usher::inline v2
