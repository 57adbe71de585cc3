// LOITER ("locking: outer-inner with throttling"): a test-and-set lock for those who circulate, and behind it an MCS
// lock that holds back all but one of those who had to wait. That one, the standby, contends for the outer lock; if
// it waits too long it becomes impatient and the next unlock hands the lock to it. Usher's default.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.1.
// Guarantees: not FIFO; arriving threads may overtake those that wait. Work-conserving; nobody starves: a thread is at
// the head of the inner queue (FIFO) for at most the impatience limit and two holds, if nobody waits with a deadline.
// Cost: lock and unlock one compare-and-swap each; who came through the inner lock pays for both.
// Layout: outer word · tail of the inner lock · node of a holder who came through it: 12 bytes.
//
//     outer    bit 0 held        bit 1 inner: the holder has the inner lock, too
//              bit 2 asleep: the standby sleeps       bit 3 impatient: the standby wants a hand-over
//              bit 4 handed: the lock has been handed to the standby, who has not taken note yet
//
//        0 ──arrive──► held ──unlock──► 0                                 arrivals overtake the standby
//        free ──standby──► held|inner                                     by compare-and-swap
//        held|… ──standby──► held|asleep (|impatient)                     before it sleeps; it alone sets these
//        held|impatient|… ──unlock──► held|handed ──standby──► held|inner
//
// In the paper, unlock looks for the standby after the lock is free (and footnote 39 elides the fence that this
// needs). Here the standby's mark is in the outer word: the operation that frees the lock also returns whether
// somebody is to be woken, and the lock is not looked at again. Whoever has both locks takes the inner one apart
// first (finds the successor or frees the queue), frees the outer one, and only then makes the successor standby,
// which touches its node alone: no wake-up happens inside the critical section.
#pragma once

#include "usher/queue_node.hpp"

namespace usher {

template <platform P, class W>
class loiter {
 public:
  static constexpr lock_traits traits{
      .summary = "test-and-set for those who circulate, MCS for the rest, direct hand-over to the impatient",
      .paper = "Malthusian Locks, appendix A.1",
      .starvation_free = true,
      .restricts = true,
      .words = 3,
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
    std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    // (1) A mark of the standby's stays. No second attempt: a free word changes only by being taken.
    return is_free(seen) &&
           outer_.compare_exchange_strong(seen, seen | held, std::memory_order_acquire, std::memory_order_relaxed);
  }

  void unlock() {
    std::uint32_t seen = held;
    // (2) release: pairs with (1). If it succeeds nobody slept.
    if (!outer_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      unlock_contended(seen);
  }

  /// Asked by the holder: whether it is certain that another thread will have the lock after it. Those at the inner lock
  /// stay until they have had both, and only who has both takes the tail back: what is there stays there.
  bool contended() const {
    const node_handle last = tail_.load(std::memory_order_relaxed);
    if (last == no_node) return false;
    return (outer_.load(std::memory_order_relaxed) & inner) == 0 || last != inner_node_.get();
  }

 private:
  static constexpr std::uint32_t held = 1, inner = 2, asleep = 4, impatient = 8, handed = 16;

  // The paper gives no figure for either: chosen. With n threads waiting, each gets in at least every n times
  // this.
  static constexpr std::uint64_t impatience = 1000000;                    // ns
  static constexpr std::uint32_t first_window = 128, last_window = 8192;  // of an arrival's back-off, ns

  static constexpr bool is_free(std::uint32_t w) { return (w & held) == 0; }
  static constexpr bool may_enter(std::uint32_t w) { return is_free(w) || (w & handed) != 0; }

  [[gnu::cold, gnu::noinline]] void contend() {
    if (arrive()) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // no node to be had: go without a place in the queue
      while (!try_lock()) P::backoff(100000);
      return;
    }
    enter_inner(mine);
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
    std::uint32_t window = first_window;
    for (const std::uint64_t end = P::now() + patience; P::now() < end;) {
      P::backoff(window / 2 + P::random() % window);
      if (try_lock()) return true;
      if (window < last_window) window *= 2;
    }
    return false;
  }

  void enter_inner(node_handle mine) {
    prepare<P>(mine);
    const node_handle previous = tail_.exchange(mine, std::memory_order_acq_rel);
    if (previous == no_node) return;
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
        outer_.store(held | inner,
                     std::memory_order_relaxed);  // handed to us: nobody else writes a held word
        return;
      }
      if (is_free(w)) {
        if (outer_.compare_exchange_strong(w, held | inner, std::memory_order_acquire, std::memory_order_relaxed))
          return;  // (1)
        P::backoff(0);
        continue;
      }
      const std::uint64_t waited = P::now() - since;
      const std::uint32_t marks = (W::parks ? asleep : 0) | (waited < impatience ? 0 : impatient);
      if ((w & marks) != marks &&
          !outer_.compare_exchange_strong(w, w | marks, std::memory_order_acq_rel, std::memory_order_relaxed))
        continue;
      if (waited < impatience)
        wait_for_outer(w | marks, impatience - waited);
      else
        wait_for_outer(w | marks);
    }
  }

  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) {
    if constexpr (W::parks)
      P::park_for(outer_, seen, every_sleeper, ns);
    else
      P::await_for(outer_, may_enter, std::memory_order_acquire, ns);
  }
  void wait_for_outer(std::uint32_t seen) {
    if constexpr (W::parks)
      P::park(outer_, seen, every_sleeper);
    else
      P::await(outer_, may_enter, std::memory_order_acquire);
  }

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint32_t seen) {
    node_handle mine = no_node, next = no_node;
    if (seen & inner) {
      mine = inner_node_.get();
      next = successor_or_free<P, W>(tail_, mine);
      seen = outer_.load(std::memory_order_relaxed);
    }
    const wake_key key = P::key_of(outer_);
    std::uint32_t old;
    if (seen & impatient) {
      // (3) release: hands the lock over, still held. Only the standby can have changed the word, by adding
      // asleep.
      old = outer_.exchange(held | handed, std::memory_order_acq_rel);
    } else {
      // (3) release: frees it. If the standby has just become impatient, its mark stays in the free word.
      old = outer_.fetch_and(~(held | inner | asleep), std::memory_order_acq_rel);
    }
    if constexpr (W::parks) {
      if (old & asleep) P::wake(key, every_sleeper, 1);
    }
    if (mine != no_node) P::give_node(mine);
    if (next != no_node) grant<P, W>(next);
  }

  typename P::template atomic<std::uint32_t> outer_;
  typename P::template atomic<node_handle> tail_;
  typename P::template plain<node_handle> inner_node_;
};

}  // namespace usher
