// Steady: a test-and-set lock that arriving threads take, and a NUMA-aware queue of sleepers behind it. Waiters poll
// only while polling pays. Usher's default.
//
// Source: LOITER (Dice, "Malthusian Locks", EuroSys 2017, appendix A.1), changed by rules of the mutexes that are in
// wide use; docs/default-lock.md has the measurements that chose them. The differences from loiter.hpp:
//
//   hold times      A thread that came through the queue measures its hold, the time for which it holds the lock. If
//                   holds are longer than a waiter would poll (the holder sleeps, yields, faults or computes), arrivals
//                   go to sleep at once, as with the C library.
//   NUMA nodes      For short holds only arrivals from one NUMA node, home, poll: a look from elsewhere would take
//                   the cache line from threads that could have used it several times. Home moves after 4 ms.
//   one sleep       A thread in the queue sleeps; only a standby that asks for the lock (next rule) polls.
//   hand-off        A standby that has waited for 1 ms asks for the lock while it is awake, for 20 µs at a time. The
//                   lock is handed to a sleeping standby only after 4 ms: no thread can use the lock while the standby
//                   wakes up.
//   naps            A standby that was woken and finds the lock taken again sleeps for 50 µs with the bit asleep clear,
//                   so that no unlock wakes it. A wake-up at each unlock would cost the running threads more than it
//                   gains. No naps where the kernel ends short sleeps late (timer slack).
//   pauses          The pause after an attempt is about 16 times as long as the attempt; for brief holds it is at least
//                   1.5 times the pause before.
//
// Guarantees: not FIFO; arriving threads may overtake waiters. An unlock that leaves the lock free wakes the standby,
// or the standby looks by itself after its nap. No thread starves: a thread polls for a limited time, then joins the
// queue (doorway: the exchange of its tail). The head of the queue, the standby, has the lock after at most 4 ms, two
// holds and two wake-ups, if no thread waits with a deadline, none with a real-time priority, and no condition variable
// has requeued threads (up to seven of these may get it first). That time, the wake-up that made the thread the
// standby, and its timer slack are called a turn. A thread with n threads before it waits for at most n + 1 turns; with
// two NUMA nodes for a turn and 4 ms more, while the other node is home; with N > 2 NUMA nodes for N · (n + 1) times a
// turn and 4 ms: a node that becomes home stays home for so long, and at least its first waiter is served.
// Cost: lock and unlock one compare-and-swap each; a thread that came through the queue pays for the queue, too.
// Layout: outer word · tail of the queue · memory: 12 bytes. In a pthread mutex the outer word is at the beginning and
// the other two are farther behind (spread).
//
//     outer word, the bits in the order in which they are written below:
//
//     held       bit 0   set by the thread that takes the lock, cleared by the unlock that frees it. A hand-over leaves
//                        it set: no arrival can take the lock.
//     inner      bit 1   the holder came through the queue. Set by the standby when it has the lock; read and cleared
//                        by the next unlock(), which must leave the queue and make the next standby; most unlocks need
//                        not.
//     asleep     bit 2   the standby sleeps, or is about to. Set by the standby, cleared and read by the unlock, which
//                        wakes it; cleared by the standby if it has the lock before. It is in the word because unlock()
//                        may not look at the lock once it is free: the operation that frees the lock returns whether to
//                        wake. Not set during a nap.
//     impatient  bit 3   the next unlock is to hand the lock over. Set by the standby: while it asks, awake, or for
//                        good once it is due (parking: after 4 ms). Read and cleared by the unlock that hands over;
//                        cleared by the standby if no unlock came while it asked. The bound on the standby's wait
//                        rests on it.
//     handed     bit 4   the lock has been handed to the standby. Set by the unlock, read and cleared by the standby,
//                        which otherwise could not tell its own lock from one that another thread holds.
//     bits 8–31          the node of the urgent waiter that came last, 0: none. core/urgent_waiters.hpp.
//
//     h,i,a,m,d  (held, inner, asleep, iMpatient, handeD; * is 0 or 1; a and m are the standby's marks)
//
//     0,0,0,0,0   free. The standby, if there is one, is awake or naps.
//     0,0,*,*,0   free; the standby set a or m after the unlock. It looks at the word again before it sleeps.
//     1,0,0,0,0   held by an arrival or by an urgent waiter. The standby, if there is one, is awake or naps.
//     1,0,1,0,0   the same; the standby sleeps, is about to, or was woken by its timer. The next unlock wakes it.
//     1,0,0,1,0   the same; the standby asks, awake. The next unlock hands the lock to it.
//     1,0,1,1,0   the same; the standby is due and sleeps, or asks after its timer woke it. The next unlock hands the
//                 lock to it.
//     1,1,0,0,0   held by the thread that was the standby. All others in the queue wait for their nodes to be granted.
//     1,1,*,*,0   the same with a or m set: the unlock has set the tail to empty, but not yet freed the outer word. A
//                 thread that has arrived in between is the standby already, and set the bit.
//     1,0,*,*,1   handed to the standby, which has not seen it yet. It may have set a or m since.
//
//     Urgent waiters exist only while held is 1. "The next unlock" is the next that does not hand the lock to an urgent
//     waiter. Other combinations do not occur.
//
// Transitions. Each is one atomic operation on the word:
//
//     0,0,0,0,0 -> 1,0,0,0,0    lock(), try_lock()
//     0,0,a,m,0 -> 1,0,a,m,0    take(), by arrivals; wait_by_priority(), by an urgent waiter: the marks stay
//     0,0,*,*,0 -> 1,1,0,0,0    stand_by()
//     h,i,a,m,d -> h,i,1,m,d    stand_by(), before it sleeps
//     h,i,a,m,d -> h,i,a,1,d    ask(): for 20 µs, from 1 ms on
//     h,i,a,1,d -> h,i,a,0,d    stand_by(), if no unlock came while it asked
//     h,i,a,m,d -> h,i,1,1,d    stand_by(), before it sleeps, from 4 ms on
//     1,0,*,*,1 -> 1,1,0,0,0    stand_by()
//     1,0,0,0,0 -> 0,0,0,0,0    unlock()
//     1,*,*,0,0 -> 0,0,0,0,0    release(): the standby is woken if asleep was 1
//     1,*,*,1,0 -> 1,0,0,0,1    release(): the same; the lock is the standby's
//     1,*,a,m,0 -> 1,0,a,m,0    take_urgent(), by release(): the lock is that urgent waiter's, and the standby sleeps
//                               on
//
// Only the standby sets the marks, asleep and impatient, by fetch_or: a compare-and-swap could fail for ever. So a mark
// may be set in a word that has just become free: hence the standby looks at the word again before it sleeps.
//
//     memory   bits 0–3     the class of the hold times: a power of two. Moved by one towards each hold that is
//                           measured; read by arrivals
//              bits 4–7     home: the NUMA node whose threads poll for brief holds. Read by arrivals
//              bits 8–31    the node of the last holder from the queue. Read by the unlock that clears `inner`
//              Written by holders that came through the queue, so by one thread at a time.
//
// The queue is that of MCS, and unlock takes remote threads out of it as in MCSCRN: numa_queue.hpp. Each holder passes
// the state of the queue on to the next in the nodes, so that the lock has no word for it:
//
//     node.older   home and the remote threads           written before the grant; the first of a queue writes its own
//     node.mark    when home last moved, in 1.024 µs  likewise. Before the grant it is the thread's NUMA node, which
//                                                        the granting thread has read
//     node.newer   when the hold began, in ns            written and read by the holder
//
// A holder that came through the queue leaves it first (finds its successor or frees the queue), then frees the outer
// word, and only then grants its successor's node, which makes that thread the standby: no wake-up happens inside the
// critical section.
//
// For a first reading, assume that remote_threads (numa_queue.hpp) is an empty list and that wait_by_priority()
// (urgent_waiters.hpp) is never called. That is the case with one NUMA node and without real-time threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "usher/core/hand_over.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/numa_queue.hpp"
#include "usher/core/urgent_waiters.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

/// The lock's first word is followed by `Gap` bytes that do not belong to the lock.
template <platform_with_priorities P, class W, std::size_t Gap>
class basic_steady : private urgent_waiters<P, W> {
  using urgency = urgent_waiters<P, W>;
  using urgency::held, urgency::is_free, urgency::latest_urgent, urgency::outer_;
  static constexpr bool ranks = W::parks;

 public:
  static constexpr lock_traits traits{
      .summary = "polls where that pays, else a NUMA-aware queue of sleepers",
      .paper = "Malthusian Locks, appendix A.1, changed",
      .starvation_free = true,
      .bounded_doorway = true,
      .by_priority = ranks,
      .restricts = true,
      .words = 3,
  };

  /// The same lock with a gap of `Bytes` bytes after its first word, for a mutex that has other words there.
  template <std::size_t Bytes>
  using spread = basic_steady<P, W, Bytes>;

  void lock() {
    P::doorway(this);
    std::uint32_t seen = 0;
    // Takes the free lock: 0,0,0,0,0 -> 1,0,0,0,0 (held, inner, asleep, impatient, handed). (1) acquire: pairs with
    // (2), the compare-and-swap in unlock(), and (3), that in release().
    if (!outer_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      contend(seen);
    P::admitted(this);
  }

  bool try_lock() {
    std::uint32_t seen = 0;
    if (outer_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed))
      return true;  // (1)
    return is_free(seen) && take(seen);
  }

  void unlock() {
    std::uint32_t seen = held;
    // Frees the lock: 1,0,0,0,0 -> 0,0,0,0,0 (held, inner, asleep, impatient, handed). (2) release: pairs with (1), the
    // operations by which a thread finds the lock free: in lock(), try_lock(), take(), stand_by() and
    // wait_by_priority(). If it succeeds, asleep was 0: no thread must be woken.
    if (!outer_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      unlock_contended(seen);
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next. A thread in the queue stays
  /// there until it has had the lock, and only a holder that came through the queue resets the tail; so the tail's
  /// present value still holds at the unlock. An urgent waiter stays, too.
  bool has_certain_successor() const {
    if constexpr (ranks)
      if (urgent_wait()) return true;
    const node_handle last = tail_.load(std::memory_order_relaxed);
    if (last == no_node) return false;
    if ((outer_.load(std::memory_order_relaxed) & inner) == 0) return true;
    const node_handle mine = last_node();
    return last != mine || !queue_of(mine).empty();
  }

  /// Called by the holder. Returns whether waiters depend on its unlock, because that will hand the lock to a standby
  /// that has waited for long, or make the next thread in the queue the standby, whose 4 ms until a hand-over begin
  /// then. Holders that hand the lock to each other without this unlock (requeued waiters) must stop soon.
  bool unlock_is_due() const {
    const std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    return (seen & impatient) != 0 || ((seen & inner) != 0 && has_certain_successor());
  }

  /// Called by the holder. Returns whether its unlock will hand the lock to a thread with a real-time priority.
  bool urgent_wait() const
    requires ranks
  {
    return latest_urgent(outer_.load(std::memory_order_relaxed)) != no_node;
  }

  auto uncontended() { return uncontended_word{outer_, held}; }

 private:
  static constexpr std::uint32_t inner = 2, asleep = 4, impatient = 8, handed = 16;

  // Times in ns: chosen. docs/default-lock.md shows the effect of other values.
  static constexpr std::uint64_t ask_after = 1000000, ask_for = 20000, nap_for = 50000, hand_off_after = 4000000;
  static constexpr std::uint32_t home_period = 4000000 >> 10;  // in 1.024 µs

  /// Whether the standby has or may take the lock. Only the standby calls it, so `handed` means: handed to the caller.
  static constexpr bool may_enter(std::uint32_t w) { return is_free(w) || (w & handed) != 0; }

  /// Tries once to set `held` in the word `seen`, which showed a free lock; the standby's marks stay. Not repeated: a
  /// free word changes only if another thread takes the lock, or by the standby's marks.
  bool take(std::uint32_t seen) {
    return outer_.compare_exchange_strong(seen, seen | held, std::memory_order_acquire,
                                          std::memory_order_relaxed);  // (1)
  }

  [[gnu::cold, gnu::noinline]] void contend(std::uint32_t seen) {
    if (is_free(seen) && take(seen)) return;
    if (polling_pays() && poll()) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // all nodes are in use: without a place in the queue
      while (!try_lock()) P::backoff(100000);
      return;
    }
    if constexpr (ranks)
      if (const std::uint32_t priority = P::priority(); priority != 0) [[unlikely]]
        return urgency::wait_by_priority(mine, priority);
    enter_queue(mine);
    stand_by();
    begin_hold(mine);
  }

  // ---- polling ------------------------------------------------------------------------------------------------

  // A hold is in class c if it lasts 64·2^(c−1) ns or longer, but less than twice that; in class 0 below 64 ns.
  static constexpr std::uint32_t class_bits = 4, longest = (1u << class_bits) - 1;
  static constexpr std::uint32_t home_bits = 4, homes = (1u << home_bits) - 1;  // machines with more nodes are folded
  static constexpr std::uint32_t brief = 4;                                     // below class 4, 512 ns: chosen
  static constexpr std::uint64_t pause_factor = 16, least_pause = 128, most_pause = 8192;  // ns; chosen

  static constexpr std::uint32_t class_of(std::uint64_t ns) {
    const auto c = std::uint32_t(std::bit_width(ns / 64));
    return c < longest ? c : longest;
  }
  static constexpr std::uint32_t class_in(std::uint32_t memory) { return memory & longest; }
  static constexpr std::uint32_t home_in(std::uint32_t memory) { return memory >> class_bits & homes; }
  node_handle last_node() const { return memory_.load(std::memory_order_relaxed) >> (class_bits + home_bits); }

  /// Whether an arrival is likely to get the lock before it would go to sleep, and without harm to other threads. Holds
  /// that have not been measured yet count as short.
  bool polling_pays() const {
    if constexpr (!W::parks) return true;
    const std::uint32_t seen = memory_.load(std::memory_order_relaxed), holds = class_in(seen);
    const std::uint64_t spin_budget = W::spin_budget();
    if (spin_budget == 0 || holds > class_of(spin_budget)) return false;
    return holds >= brief || (P::numa_node() & homes) == home_in(seen);
  }

  /// Polls the word for a limited time. Returns true if it has taken the lock. An attempt is one try_lock(); the pause
  /// after it is 8 to 24 times as long, at random. An attempt takes long if the line is far away or contended; then
  /// attempts must be rare, since each delays the holder as well.
  bool poll() {
    const std::uint64_t spin_budget = W::parks ? W::spin_budget() : P::limits().spin;
    const bool of_brief = class_in(memory_.load(std::memory_order_relaxed)) < brief;
    std::uint64_t pause = least_pause, now = P::now();
    for (const std::uint64_t end = now + spin_budget; now < end;) {
      pause_between_attempts<P, W>(outer_, is_free, std::uint32_t(pause / 2 + P::random() % pause));
      const std::uint64_t before = P::now();
      if (try_lock()) return true;
      now = P::now();
      pause = std::clamp((now - before) * pause_factor,
                         of_brief ? std::min(pause + pause / 2, most_pause) : least_pause, most_pause);
    }
    return false;
  }

  // ---- the queue ----------------------------------------------------------------------------------------------

  /// Accesses the word of the holder's node in which home and the remote threads are.
  struct older_of {
    node_handle h;
    std::uint32_t get() const { return P::node(h).older.get(); }
    void set(std::uint32_t v) const { P::node(h).older.set(v); }
  };
  using queue = remote_threads<P, W, older_of>;
  static queue queue_of(node_handle holder) { return queue(older_of{holder}); }
  static constexpr std::uint32_t microseconds(std::uint64_t ns) { return std::uint32_t(ns >> 10); }

  /// The way of waiting in the queue: park at once. The thread has polled before, or polling does not pay.
  using in_queue = std::conditional_t<W::parks, waiting<P, waiting_kind::park>, W>;

  void enter_queue(node_handle mine) {
    prepare<P>(mine);
    queue::record_numa_node(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous != no_node) return wait_behind<P, in_queue>(previous, mine);
    queue_of(mine).begin(mine);
    P::node(mine).mark.store(microseconds(P::now()), std::memory_order_relaxed);
  }

  /// Called by the head of the queue, the standby. Waits until it has the lock. Threads that are awake can use the lock
  /// sooner, so if W::parks it sleeps; it asks for the lock only after it has waited for ask_after.
  void stand_by() {
    const std::uint64_t since = P::now();
    bool may_ask = false, late = false;  // true once it has slept with a mark: it may ask once, and nap once
    for (;;) {
      // `inner` is not checked: the last holder may have freed the queue and not yet the outer word (held and inner are
      // 1).
      std::uint32_t w = outer_.load(std::memory_order_acquire);  // (1)
      const std::uint64_t waited = P::now() - since;
      const bool is_due = waited >= hand_off_after || (!W::parks && waited >= ask_after);
      if (w & handed) {  // 1,0,*,*,1 -> 1,1,0,0,0. Only urgent waiters write to the word besides
        outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);
        return;
      }
      if (is_free(w)) {  // 0,0,*,*,0 -> 1,1,0,0,0
        if (outer_.compare_exchange_strong(w, held | inner, std::memory_order_acquire, std::memory_order_relaxed))
          return;  // (1)
        P::backoff(0);
        if (!is_due) continue;
        // A standby that has waited for hand_off_after sets its marks even if it saw the word free: an arrival may take
        // the free lock before it every time.
      }
      if (W::parks && !is_due && may_ask && waited >= ask_after) {
        may_ask = false;
        ask();
        continue;
      }
      if (!is_due && (w & impatient) != 0) {
        outer_.fetch_and(~impatient, std::memory_order_relaxed);  // h,i,a,1,d -> h,i,a,0,d
        continue;
      }
      if (W::parks && !is_due && late && (w & asleep) == 0 && may_nap()) {  // woken, and another was faster
        late = false;
        P::nap(outer_, w, every_sleeper, std::min(nap_for, hand_off_after - waited), 0);
        continue;
      }
      const std::uint32_t marks = (W::parks ? asleep : 0) | (is_due ? impatient : 0);
      // Sets `asleep` and, if the standby has waited for hand_off_after, `impatient`. Relaxed: a mark publishes
      // nothing, and the standby reads the word again by (1) before it has the lock.
      if ((w & marks) != marks) {
        outer_.fetch_or(marks, std::memory_order_relaxed);
        continue;
      }
      wait_for_outer(w, is_due ? 0 : (waited < ask_after ? ask_after : hand_off_after) - waited);
      may_ask = late = true;
    }
  }

  /// Returns false if the platform knows that short sleeps end late: the lock could be free and unused during the
  /// delay.
  static bool may_nap() {
    if constexpr (requires { P::naps_end_in_time(); })
      return P::naps_end_in_time();
    else
      return true;
  }

  /// Asks for the lock: sets `impatient`, so that the next unlock hands the lock over, and polls for ask_for
  /// nanoseconds. If no unlock has come, stand_by() clears the bit again.
  void ask() {
    outer_.fetch_or(impatient, std::memory_order_relaxed);  // h,i,a,m,d -> h,i,a,1,d
    P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling.within(ask_for));
  }

  /// Waits until the word differs from `seen` (parking) or the standby may have the lock (spinning); for at most `ns`
  /// nanoseconds, or without a limit if `ns` is 0.
  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) {
    if constexpr (W::parks)
      ns != 0 ? P::park_for(outer_, seen, every_sleeper, ns) : P::park(outer_, seen, every_sleeper);
    else if (ns != 0)
      P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling.within(ns));
    else
      P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling);
  }

  // ---- functions of a holder that came through the queue ---------------------------------------------------------

  void begin_hold(node_handle mine) {
    const std::uint32_t seen = memory_.load(std::memory_order_relaxed);
    memory_.store(mine << (class_bits + home_bits) | (queue_of(mine).home() & homes) << class_bits | class_in(seen),
                  std::memory_order_relaxed);
    P::node(mine).newer.set(std::uint32_t(P::now()));
  }

  /// Moves the stored class by one towards the class of this hold, so that it converges to the class of the median
  /// hold.
  void measure_hold(node_handle mine, std::uint64_t now) {
    const std::uint32_t its = class_of(std::uint32_t(now) - P::node(mine).newer.get());
    const std::uint32_t seen = memory_.load(std::memory_order_relaxed);
    if (its != class_in(seen)) memory_.store(its > class_in(seen) ? seen + 1 : seen - 1, std::memory_order_relaxed);
  }

  /// Leaves the queue. Returns the successor's node, to which it has copied the queue's state, or no_node if the queue
  /// is empty now.
  node_handle leave_queue(node_handle mine, std::uint64_t now) {
    queue q = queue_of(mine);
    const std::uint32_t home = q.home(), since = P::node(mine).mark.load(std::memory_order_relaxed);
    const node_handle next = q.successor_or_free(tail_, mine, [&] { return microseconds(now) - since >= home_period; });
    if (next == no_node) return no_node;
    older_of{next}.set(older_of{mine}.get());
    P::node(next).mark.store(q.home() == home ? since : microseconds(now),
                             std::memory_order_relaxed);  // made visible by the grant
    return next;
  }

  // ---- unlock ---------------------------------------------------------------------------------------------------

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint32_t seen) {
    node_handle mine = no_node, next = no_node, chosen = no_node;
    if (seen & inner) {
      const std::uint64_t now = P::now();
      mine = last_node();
      measure_hold(mine, now);
      next = leave_queue(mine, now);
    }
    const wake_key key = P::key_of(outer_);
    const std::uint32_t old = release(seen, chosen);
    if constexpr (W::parks)
      if (old & asleep) P::wake(key, every_sleeper, 1);
    if (mine != no_node) P::give_node(mine);
    if constexpr (ranks)
      if (chosen != no_node) grant<P, W>(chosen);
    if (next != no_node) grant<P, in_queue>(next);
  }

  /// Frees the outer word or hands the lock over. Returns the old word, whose `asleep` says whether to wake the
  /// standby. If an urgent waiter (a thread with a real-time priority) gets the lock, sets `chosen` to its node, which
  /// the caller grants, and returns 0: the standby sleeps on.
  std::uint32_t release(std::uint32_t seen, [[maybe_unused]] node_handle& chosen) {
    for (;; P::backoff(0)) {
      if constexpr (ranks)
        if (latest_urgent(seen) != no_node) [[unlikely]] {
          chosen = urgency::take_urgent(inner);
          return 0;
        }
      const std::uint32_t then = (seen & impatient) != 0 ? held | handed : 0;
      // Frees the word, or, if `impatient` is set, hands the lock over: sets `handed` and leaves `held` set. (3)
      // release: pairs with (1), the operations that take the lock, also with the load in stand_by() that finds
      // `handed`. Fails if the standby has changed a mark or an urgent waiter has come.
      if (outer_.compare_exchange_strong(seen, then, std::memory_order_acq_rel, std::memory_order_relaxed)) return seen;
    }
  }

  struct no_gap {};
  struct gap {
    unsigned char bytes[Gap == 0 ? 1 : Gap]{};
  };
  [[no_unique_address, maybe_unused]] std::conditional_t<Gap == 0, no_gap, gap> gap_{};
  typename P::template atomic<node_handle> tail_;
  typename P::template atomic<std::uint32_t> memory_;
};

template <platform P, class W>
using steady = basic_steady<P, W, 0>;

}  // namespace usher::inline v1
