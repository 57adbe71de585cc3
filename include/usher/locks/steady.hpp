// Steady: a test-and-set lock for those who circulate, and a NUMA-aware queue of sleepers behind it. Waiters poll only while
// polling pays. Usher's default.
//
// Source: LOITER (Dice, "Malthusian Locks", EuroSys 2017, appendix A.1), changed by rules of the mutexes that are in wide use;
// docs/default-lock.md has the measurements that chose them. The differences from loiter.hpp:
//
//   hold times      A thread that came through the queue takes the time of its hold. Where holds are longer than a waiter would
//                   poll (a holder that sleeps, yields, faults or computes), arrivals go to sleep at once, as with the C library.
//   places          Arrivals from another NUMA node than home do not poll for short sections: each of their looks takes the line
//                   from threads that could have used it several times. Home moves after 4 ms.
//   one sleep       Who is in the queue sleeps; it does not poll a second time.
//   hand-off        A standby that has waited for 1 ms asks for the lock while it is awake, for 20 µs at a time. The lock is handed to a
//                   standby that sleeps only after 4 ms: nobody can use the lock while that one wakes up.
//   naps            A standby that was woken and came too late sleeps for 50 µs without a mark: others circulate, and to wake it at each
//                   unlock would cost them more than it gains.
//   looks           The time between two looks is 16 times what a look takes; where holds are brief, it grows, too.
//
// Guarantees: not FIFO; arriving threads may overtake those that wait. An unlock that leaves the lock free wakes the standby, or
// that one looks after its nap. Nobody starves: a thread polls for a limited time, then joins the queue (doorway: the exchange of its
// tail). The head of the queue, the standby, has the lock after at most 4 ms, two holds and two wake-ups, if nobody waits with a
// deadline, no thread with a real-time priority waits, and no condition variable has requeued threads (up to seven may be given the
// mutex before). With the wake-up that makes it standby that is a turn. A thread with n before it waits for at most n + 1 turns; on
// two NUMA nodes for a turn and 4 ms more, while the other one is home; on N > 2 nodes for N times n + 1 turns and 4 ms each: each
// time that home moves it stays for a turn and 4 ms, and serves at least the first that waits there.
// Cost: lock and unlock one compare-and-swap each; who came through the queue pays for it.
// Layout: outer word · tail of the queue · memory: 12 bytes. A pthread mutex has the outer word at its beginning and the other two
// farther behind (spread).
//
//     outer    bit 0 held        bit 1 inner: the holder came through the queue
//              bit 2 asleep: the standby sleeps       bit 3 impatient: the standby wants a hand-over
//              bit 4 handed: the lock has been handed to the standby, who has not taken note yet
//              bits 8–31 urgent waiters: core/urgent_waiters.hpp
//     memory   bits 0–3 how long holds are: a power of two · bits 4–7 home · bits 8–31 the node of the last holder from the queue
//
//     who sets what              outer                                        when
//        arrival                 0 ──► held                                   lock(), try_lock(), a look
//        arrival                 asleep… ──► held|asleep…                     the standby's marks stay
//        standby                 free ──► held|inner
//        standby                 held|… ──► held|…|asleep                     before it sleeps
//        standby                 held|… ──► held|…|impatient ──► held|…       awake, for 20 µs, from 1 ms on
//        standby                 held|… ──► held|…|asleep|impatient           before it sleeps, from 4 ms on
//        unlock                  held|… ──► 0                                 wakes the standby if it was asleep
//        unlock                  held|…|impatient ──► held|handed             the lock is the standby's
//        standby                 held|handed ──► held|inner
//
// The standby alone sets its marks; it does so by fetch_or, for a compare-and-swap could fail again and again. So a mark may come into
// a word that has just become free: hence the standby looks at what it found before it sleeps.
//
// The queue is MCS's, and its nodes are culled as MCSCRN culls: numa_queue.hpp. What belongs to the queue as a whole goes from
// holder to holder in their nodes, so that the lock has no word for it:
//
//     older    home and the remote threads          written before the grant; the first of a queue writes its own
//     mark     since when home is home, in 1.024 µs  likewise. Before the grant it is the thread's place, which the granter has read
//     newer    when the hold began, in ns
//
// Who came through the queue takes that apart first (finds the successor or frees the queue), then frees the outer word, and only
// then makes the successor standby, which touches its node alone: no wake-up happens inside the critical section.
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

/// `Gap` bytes after the first word are not the lock's.
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

  /// The same with a gap: for a mutex that has other words beside the first.
  template <std::size_t Bytes>
  using spread = basic_steady<P, W, Bytes>;

  void lock() {
    P::doorway(this);
    std::uint32_t seen = 0;
    // (1) acquire: pairs with (2) and (3).
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
    // (2) release: pairs with (1). If it succeeds nobody slept.
    if (!outer_.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      unlock_contended(seen);
  }

  /// Asked by the holder: whether it is certain that another thread will have the lock after it. Those in the queue stay until they
  /// have had the lock, and only a holder that came through the queue takes the tail back. So do the urgent.
  bool has_certain_successor() const {
    if constexpr (ranks)
      if (urgent_wait()) return true;
    const node_handle last = tail_.load(std::memory_order_relaxed);
    if (last == no_node) return false;
    if ((outer_.load(std::memory_order_relaxed) & inner) == 0) return true;
    const node_handle mine = last_node();
    return last != mine || !queue_of(mine).empty();
  }

  /// Asked by the holder: whether others depend on this unlock. It will hand the lock over to a standby that has waited long, or
  /// make one of the queue standby, who cannot become impatient before. A holder that gives the lock away in another manner,
  /// without this unlock, must not go on with that for long.
  bool unlock_is_due() const {
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

  // ns. Chosen; docs/default-lock.md has what other figures do.
  static constexpr std::uint64_t ask_after = 1000000, ask_for = 20000, nap_for = 50000, hand_off_after = 4000000;
  static constexpr std::uint32_t home_period = 4000000 >> 10;  // in 1.024 µs

  static constexpr bool may_enter(std::uint32_t w) { return is_free(w) || (w & handed) != 0; }

  /// Takes the lock that was seen free. No second attempt: a free word changes only by being taken, or by the standby's marks.
  bool take(std::uint32_t seen) {
    return outer_.compare_exchange_strong(seen, seen | held, std::memory_order_acquire,
                                          std::memory_order_relaxed);  // (1)
  }

  [[gnu::cold, gnu::noinline]] void contend(std::uint32_t seen) {
    if (is_free(seen) && take(seen)) return;
    if (polling_pays() && poll()) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // no node to be had: go without a place in the queue
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

  // Class c of holds: 64·2^(c−1) ns and above, below twice that; class 0 below 64 ns.
  static constexpr std::uint32_t class_bits = 4, longest = (1u << class_bits) - 1;
  static constexpr std::uint32_t home_bits = 4, homes = (1u << home_bits) - 1;  // machines with more nodes are folded
  static constexpr std::uint32_t brief = 4;                                     // below class 4, 512 ns: chosen
  static constexpr std::uint64_t looks_apart = 16, least_pause = 128, most_pause = 8192;  // ns; chosen

  static constexpr std::uint32_t class_of(std::uint64_t ns) {
    const auto c = std::uint32_t(std::bit_width(ns / 64));
    return c < longest ? c : longest;
  }
  static constexpr std::uint32_t class_in(std::uint32_t memory) { return memory & longest; }
  static constexpr std::uint32_t home_in(std::uint32_t memory) { return memory >> class_bits & homes; }
  node_handle last_node() const { return memory_.load(std::memory_order_relaxed) >> (class_bits + home_bits); }

  /// Whether an arrival is likely to get the lock before it would sleep, and not at the expense of others. Holds that nobody
  /// has measured yet are short.
  bool polling_pays() const {
    if constexpr (!W::parks) return true;
    const std::uint32_t seen = memory_.load(std::memory_order_relaxed), holds = class_in(seen);
    const std::uint64_t spin_budget = W::spin_budget();
    if (spin_budget == 0 || holds > class_of(spin_budget)) return false;
    return holds >= brief || (P::numa_node() & homes) == home_in(seen);
  }

  /// Bounded polling of the word. A look is an attempt, and the time to the next one a random multiple of what it took: it takes
  /// long where the line is far away or wanted by many, and then looks must be rare, for each delays the holder as well.
  bool poll() {
    const std::uint64_t spin_budget = W::parks ? W::spin_budget() : P::limits().spin;
    const bool of_brief = class_in(memory_.load(std::memory_order_relaxed)) < brief;
    std::uint64_t pause = least_pause, now = P::now();
    for (const std::uint64_t end = now + spin_budget; now < end;) {
      P::backoff(std::uint32_t(pause / 2 + P::random() % pause));
      const std::uint64_t before = P::now();
      if (try_lock()) return true;
      now = P::now();
      pause = std::clamp((now - before) * looks_apart, of_brief ? std::min(pause + pause / 2, most_pause) : least_pause,
                         most_pause);
    }
    return false;
  }

  // ---- the queue ----------------------------------------------------------------------------------------------

  /// Where the holder's node has home and the remote threads.
  struct older_of {
    node_handle h;
    std::uint32_t get() const { return P::node(h).older.get(); }
    void set(std::uint32_t v) const { P::node(h).older.set(v); }
  };
  using queue = remote_threads<P, W, older_of>;
  static queue queue_of(node_handle holder) { return queue(older_of{holder}); }
  static constexpr std::uint32_t microseconds(std::uint64_t ns) { return std::uint32_t(ns >> 10); }

  /// A thread in the queue does not poll: it has polled, or polling does not pay.
  using in_queue = std::conditional_t<W::parks, waiting<P, waiting_kind::park>, W>;

  void enter_queue(node_handle mine) {
    prepare<P>(mine);
    queue::note_place(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous != no_node) return wait_behind<P, in_queue>(previous, mine);
    queue_of(mine).begin(mine);
    P::node(mine).mark.store(microseconds(P::now()), std::memory_order_relaxed);
  }

  /// The one thread at the head of the queue waits for the lock. Threads that are awake have the better claim, so where it may sleep
  /// it does, until it has waited for long.
  void stand_by() {
    const std::uint64_t since = P::now();
    bool may_ask = false, late = false;  // once each time that it has slept with a mark
    for (;;) {
      // Not the inner bit: the last holder may not have cleared its own yet, if the queue was free for a moment.
      std::uint32_t w = outer_.load(std::memory_order_acquire);  // (1)
      const std::uint64_t waited = P::now() - since;
      const bool is_due = waited >= hand_off_after || (!W::parks && waited >= ask_after);
      if (w & handed) {  // to us: nobody else writes a held word, but the urgent
        outer_.fetch_xor((w & (handed | asleep | impatient)) | inner, std::memory_order_relaxed);
        return;
      }
      if (is_free(w)) {
        if (outer_.compare_exchange_strong(w, held | inner, std::memory_order_acquire, std::memory_order_relaxed))
          return;  // (1)
        P::backoff(0);
        if (!is_due) continue;
        // Others may be quicker each time: a standby that is due says so all the same.
      }
      if (W::parks && !is_due && may_ask && waited >= ask_after) {
        may_ask = false;
        ask();
        continue;
      }
      if (!is_due && (w & impatient) != 0) {
        outer_.fetch_and(~impatient, std::memory_order_relaxed);  // it stays handed if it has been
        continue;
      }
      if (W::parks && !is_due && late && (w & asleep) == 0) {  // others have been quicker, and will be again
        late = false;
        P::nap(outer_, w, every_sleeper, std::min(nap_for, hand_off_after - waited), 0);
        continue;
      }
      const std::uint32_t marks = (W::parks ? asleep : 0) | (is_due ? impatient : 0);
      // Relaxed, and so are the looks below: a mark carries nothing, and the next holder reads the word again (1).
      if ((w & marks) != marks) {
        outer_.fetch_or(marks, std::memory_order_relaxed);
        continue;
      }
      wait_for_outer(w, is_due ? 0 : (waited < ask_after ? ask_after : hand_off_after) - waited);
      may_ask = late = true;
    }
  }

  /// Awake, the standby wants the next unlock to hand the lock over, for a while. It takes the mark back before it sleeps.
  void ask() {
    outer_.fetch_or(impatient, std::memory_order_relaxed);
    P::await(outer_, may_enter, std::memory_order_relaxed, look::polling.within(ask_for));
  }

  /// At most so many nanoseconds; 0: without a limit.
  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) {
    if constexpr (W::parks)
      ns != 0 ? P::park_for(outer_, seen, every_sleeper, ns) : P::park(outer_, seen, every_sleeper);
    else if (ns != 0)
      P::await(outer_, may_enter, std::memory_order_relaxed, look::polling.within(ns));
    else
      P::await(outer_, may_enter, std::memory_order_relaxed, look::polling);
  }

  // ---- by a holder that came through the queue ------------------------------------------------------------------

  void begin_hold(node_handle mine) {
    const std::uint32_t seen = memory_.load(std::memory_order_relaxed);
    memory_.store(mine << (class_bits + home_bits) | (queue_of(mine).home() & homes) << class_bits | class_in(seen),
                  std::memory_order_relaxed);
    P::node(mine).newer.set(std::uint32_t(P::now()));
  }

  /// A step towards the class of this hold: half of the holds are below what that comes to.
  void measure_hold(node_handle mine, std::uint64_t now) {
    const std::uint32_t its = class_of(std::uint32_t(now) - P::node(mine).newer.get());
    const std::uint32_t seen = memory_.load(std::memory_order_relaxed);
    if (its != class_in(seen)) memory_.store(its > class_in(seen) ? seen + 1 : seen - 1, std::memory_order_relaxed);
  }

  /// The successor, which has what belongs to the queue then; or no_node, and the queue is free.
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

  /// Hands over or frees. Returns what was there; 0 if the lock is to be handed to the urgent waiter that was chosen.
  std::uint32_t release(std::uint32_t seen, [[maybe_unused]] node_handle& chosen) {
    for (;; P::backoff(0)) {
      if constexpr (ranks)
        if (latest_urgent(seen) != no_node) [[unlikely]] {
          chosen = urgency::take_urgent(inner);
          return 0;
        }
      const std::uint32_t then = (seen & impatient) != 0 ? held | handed : 0;
      // (3) release: hands the lock over, still held, or frees it. What may have changed the word: the standby by its marks, urgent
      // waiters.
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
