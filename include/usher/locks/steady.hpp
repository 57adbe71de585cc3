// Steady: a test-and-set word that arriving threads take, and behind it a NUMA-aware queue of sleepers. Usher's default
// lock.
//
// Source: LOITER (Dice, "Malthusian Locks", EuroSys 2017, appendix A.1), with rules from mutexes in wide use.
// docs/default-lock.md has the measurements that chose the rules and their constants.
//
// An arriving thread takes the word if it is free. If not, the thread polls for a short time or sleeps at the word once, or
// does neither, then joins an MCS queue and sleeps. The head of the queue, the standby, is the only queued thread that
// competes for the word. After its hold, its unlock makes the next thread of the queue the standby. The rules that
// loiter.hpp does not have:
//
//   1  An arrival polls if a hold (the time from lock to unlock) is likely to end soon. The lock measures the holds of
//      threads from the queue; hold_times.hpp.
//   2  If holds are brief, only threads of one NUMA node, home, poll. Home moves after 4 ms.
//   3  A thread in the queue sleeps without polling first: it has polled before, or polling does not pay. If polling does
//      not pay, an arrival sleeps at the word before it joins the queue, on two conditions: the next unlock would not wake
//      the standby, and no other arrival sleeps there. The reason: a standby that was woken may have to wait for a CPU for a
//      time slice, and no unlock wakes the threads behind it.
//   4  A standby that has waited for 1 ms asks for a hand-over when it is awake, for about 20 µs, in which it may yield its
//      CPU. An unlock in this time hands the lock over, and if the standby does not run then, the lock waits for it. After 4
//      ms the lock is handed over even to a sleeping standby. No thread can use the lock while a sleeper wakes up, so this
//      serves only the bound on waiting.
//   5  The pause after an attempt is about 16 times as long as the attempt; hold_times.hpp.
//   6  A standby that was woken but finds the lock taken again naps: it sleeps for 50 µs, or longer if sleeps are costly or
//      holds are long, and no unlock wakes it. A wake-up at each unlock would cost the running threads more than it gains.
//      No naps where the kernel ends short sleeps late.
//   7  No thread waits for one that does not run: a signal handler of a collector or debugger may have stopped it. A thread
//      in the queue tries the lock after 8 ms, then after twice as long each time, at most 1 s. A try also gets a lock that
//      was handed over if the standby has not taken it up for 2 ms; for 16 ms, 128 ms, 1 s if other threads have taken back
//      earlier hand-overs to this standby. The node of a thread that gets the lock by such a try stays in the queue, as the
//      node of a thread that has left.
//
// Guarantees: not FIFO; arriving threads may overtake waiters. An unlock that leaves the lock free wakes a sleeping standby;
// a napping standby reads the word itself when the nap ends. No thread starves: a thread polls for a limited time, or sleeps
// at the word for at most 1 ms, then joins the queue (doorway: the exchange of its tail). The standby has the lock after at
// most 4 ms, two holds and two wake-ups, on these conditions: no thread waits with a deadline, none with a real-time
// priority; no condition variable has requeued threads (up to seven of these may get the lock first); and the standby gets a
// CPU within 2 ms of the hand-over (otherwise another thread may take the lock, at most three times so soon). A turn is this
// bound, plus the wake-up that made the thread the standby, plus the thread's timer slack. With one NUMA node, a thread with
// n threads before it waits for at most n + 1 turns. With two nodes, it waits for a turn and 4 ms more, while the other node
// is home. With N > 2 nodes, it waits for at most N · (n + 1) times a turn and 4 ms: at least the first waiter of each home
// is served.
// Cost: lock and unlock one compare-and-swap each; a thread that came through the queue pays for the queue, too.
// Layout: outer word · tail of the queue · memory (hold_times.hpp): 12 bytes. In a pthread mutex other words are between the
// outer word, at the beginning, and the other two (`spread`).
//
// The queue is that of MCS, and unlock takes remote threads out of it as in MCSCRN: numa_queue.hpp. A holder that came
// through the queue (a holder from the queue) first leaves the queue: it finds its successor, whose node it grants, or frees
// the queue. Then it frees the outer word, and only then wakes its successor, the new standby. So no wake-up happens inside
// the critical section.
//
// For a first reading, assume one NUMA node and no real-time threads: then remote_threads (numa_queue.hpp) is an empty list,
// and wait_by_priority() (urgent_waiters.hpp) is never called.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "usher/core/hand_over.hpp"
#include "usher/core/hold_times.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/core/node.hpp"
#include "usher/core/numa_queue.hpp"
#include "usher/core/urgent_waiters.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The outer word of steady: a state, marks that do not depend on it, and in bits 8–31, only while the lock is held, the
/// node of the latest urgent waiter, a thread with a real-time priority (urgent_waiters.hpp), if any.
///
///     state           the lock is                                 written by
///     free            nobody's                                    unlock
///     held            an arrival's or an urgent waiter's          lock(), try_lock(), wait_by_priority(), take_urgent()
///     held_by_queue   the last standby's, whose unlock makes      the standby, when it has the lock
///                     the next thread the standby
///     handed_over     the standby's, which has not noticed it     an unlock that sees `impatient`
///                     yet; no arrival can take it
///     2               held or lost: is_foreign()                  the C library's own lock function
///
///     free ──arrival──► held ──unlock──► free, handed_over        free ──standby──► held_by_queue
///     held_by_queue ──unlock──► free, handed_over, held           handed_over ──standby──► held_by_queue
///
///     mark            the standby                                 cleared by
///     asleep          sleeps, or is about to. Not set in a nap    the unlock that frees or hands over, which then wakes;
///                                                                 the standby, when it has the lock
///     impatient       wants the next unlock to hand over          the unlock that hands over; the standby, when it has
///                                                                 the lock, or if it has asked in vain
///
///     arrival_asleep  an arrival sleeps at the word. Set by it in a held word without the standby's marks, and again, in
///                     any word, after its wake-up, for another arrival that may sleep. Read and cleared by an unlock that
///                     frees the lock and has no standby to wake; this unlock wakes the arrival. It may be set without a
///                     sleeper: the arrival sleeps for a limited time, and does not clear the mark.
///
///     taken_back      how many hand-overs to this standby other threads have taken back, at most 3. Each multiplies by
///                     eight the time in which the standby may take the lock up, from 2 ms to 1 s. Cleared by the standby
///                     when it has the lock. In the state held_by_queue: the time of a grant, note_grant()
///
/// Only the standby sets its marks, in any state, by fetch_or: a compare-and-swap could fail for ever. It clears them when
/// it has the lock. The marks are in the word because unlock may not read the lock once it is free: the operation that frees
/// it returns them. The standby reads the word again after it has set a mark, since the lock may just have become free.
/// While the state is held_by_queue, no thread is the standby until unlock has left the queue; from then on a thread may be
/// the standby and set marks, although the state has not changed yet.
struct steady_word {
  static constexpr std::uint32_t free = 0, held = 1, held_by_queue = 1 | 2, handed_over = 1 | 16;
  static constexpr std::uint32_t asleep = 4, impatient = 8;
  static constexpr std::uint32_t arrival_asleep = 32;
  static constexpr std::uint32_t one_taken_back = 64, taken_back = 3 * one_taken_back;
  static constexpr std::uint32_t marks = asleep | impatient | taken_back;

  static constexpr std::uint32_t state_of(std::uint32_t w) { return w & (held_by_queue | handed_over); }
  static constexpr bool is_free(std::uint32_t w) { return (w & held_by_queue) == 0; }
  /// Returns true if the C library's own lock function, called past libusher.so, has found the word not 0 and set it to 2,
  /// its value for a lock with waiters. No state above has this value. The lock is then held; or, if the word was
  /// handed_over, or free with a mark, no thread holds it, and it is lost.
  static constexpr bool is_foreign(std::uint32_t w) { return (w & held_by_queue) == 2; }
  /// Returns whether the standby may take the lock, or has it already.
  static constexpr bool may_enter(std::uint32_t w) { return is_free(w) || state_of(w) == handed_over; }
};

/// Futex masks of threads whose callers gave no deadline, but whose sleep the lock may limit. A thread whose caller gave a
/// deadline sleeps with the mask every_sleeper, so `usher stat -p` can tell the two apart.
struct steady_sleepers {
  static constexpr std::uint32_t the_standby = 1, an_arrival = 2, in_queue = 4;
};

/// Rules 4 and 6: the next step of a standby that could not take the lock.
template <bool Parks>
struct steady_standby {
  using word = steady_word;

  // Times in ns.
  static constexpr std::uint64_t ask_after = 1000000, ask_for = 20000, least_nap = 50000, hand_off_after = 4000000;

  enum class step : unsigned char {
    look_again,   ///< the word was free, but another thread took it first
    ask,          ///< set `impatient` and poll for ask_for
    stop_asking,  ///< clear `impatient`: no unlock has come
    take_nap,
    set_marks,  ///< then look again
    sleep
  };

  bool may_ask = false, may_nap = false;  ///< each is allowed once after each sleep

  /// Whether the standby demands a hand-over, and no longer waits for a free lock.
  static constexpr bool is_due(std::uint64_t waited) { return waited >= (Parks ? hand_off_after : ask_after); }

  /// The marks that the standby sets before it sleeps.
  static constexpr std::uint32_t marks_after(std::uint64_t waited) {
    return (Parks ? word::asleep : 0) | (is_due(waited) ? word::impatient : 0);
  }

  /// The longest time for which the standby sleeps; 0: no limit.
  static constexpr std::uint64_t sleep_for(std::uint64_t waited) {
    return is_due(waited) ? 0 : (waited < ask_after ? ask_after : hand_off_after) - waited;
  }

  /// The length of a nap: ten times the cost of a sleep, so that naps use little CPU time, or four holds if that is longer:
  /// with long holds the next unlock is far away.
  static constexpr std::uint64_t nap_for(std::uint64_t waited, std::uint64_t hold, std::uint64_t cost_of_sleep) {
    return std::min(std::clamp(std::max(4 * hold, 10 * cost_of_sleep), least_nap, ask_after), hand_off_after - waited);
  }

  /// `w`: the word with which the standby could not take the lock. `waited`: the time since it became the standby.
  constexpr step next_step(std::uint32_t w, std::uint64_t waited) const {
    if (!is_due(waited)) {
      if (word::is_free(w)) return step::look_again;
      if (may_ask && waited >= ask_after) return step::ask;
      if ((w & word::impatient) != 0) return step::stop_asking;
      if (may_nap && (w & word::asleep) == 0) return step::take_nap;
    }
    // A standby that is due sets its marks even if it has seen the word free: arrivals may take the free lock before it
    // every time.
    const std::uint32_t wanted = marks_after(waited);
    if ((w & wanted) != wanted) return step::set_marks;
    return word::is_free(w) ? step::look_again : step::sleep;
  }
};

/// The lock's first word is followed by `Gap` bytes that do not belong to the lock.
template <platform_with_priorities P, class W, std::size_t Gap>
class basic_steady : private urgent_waiters<P, W>, private steady_word, private steady_sleepers {
  using urgency = urgent_waiters<P, W>;
  using steady_word::held, steady_word::is_free;
  using urgency::latest_urgent, urgency::outer_;
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

  /// Rule 7: other threads get the lock even if the thread to which it was handed does not run.
  static constexpr bool goes_past_stopped = W::parks;

  /// The same lock with a gap of `Bytes` bytes after its first word, for a mutex that has other words there.
  template <std::size_t Bytes>
  using spread = basic_steady<P, W, Bytes>;

  void lock() { lock_or(no_grant{}); }

  // As lock() and try_lock(), in a mutex whose unlock may grant the held lock to a timed waiter or a requeued thread, which
  // does not wait in this lock. Such an unlock calls note_grant() first. `grant` is timed_waiter_count::grant_beside. If the
  // granted lock is not taken up for 2 ms, these functions take it.
  template <class Grant>
  void lock_or(Grant grant) {
    P::doorway(this);
    std::uint32_t seen = free;
    // (1) acquire: pairs with (2), the compare-and-swap in unlock(), and (3), that in release().
    if (!outer_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      contend(seen, grant);
    P::admitted(this);
  }

  bool try_lock() {
    std::uint32_t seen = free;
    if (outer_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed))
      return true;  // (1)
    if constexpr (W::parks)
      if (state_of(seen) == handed_over) [[unlikely]]
        return take_back();
    return is_free(seen) && take(seen);
  }

  template <class Grant>
  bool try_lock_or(Grant grant) {
    return try_lock() || take_granted(grant);
  }

  /// Called by the holder. Stores the time of the grant, which take_granted() reads, in the memory. A holder from the queue
  /// has its node there, and uses the bits `taken_back`, which count nothing as long as there is no standby.
  void note_grant() {
    if (state_of(outer_.load(std::memory_order_relaxed)) != held_by_queue)
      return remember(memory().with_hand_over(date()));
    outer_.fetch_and(~taken_back, std::memory_order_relaxed);
    outer_.fetch_or(coarse_date(), std::memory_order_relaxed);
  }

  void unlock() {
    std::uint32_t seen = held;
    // (2) release: pairs with (1), the operations by which a thread finds the lock free: in lock(), try_lock(), take(),
    // try_to_enter() and wait_by_priority(). If it succeeds, no mark was set, and no thread must be woken.
    if (!outer_.compare_exchange_strong(seen, free, std::memory_order_release, std::memory_order_relaxed)) [[unlikely]]
      unlock_contended(seen);
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next; the argument is that of
  /// loiter.hpp. A node that its thread has left in the queue (rule 7) does not count.
  bool has_certain_successor() const {
    if constexpr (ranks)
      if (urgent_wait()) return true;
    const node_handle last = tail_.load(std::memory_order_relaxed);
    if (last == no_node) return false;
    if (state_of(outer_.load(std::memory_order_relaxed)) != held_by_queue) return true;
    const node_handle mine = memory().holder();
    return has_waiter_behind(mine, last) || has_remote_waiter(mine);
  }

  /// Called by the holder. As in loiter.hpp: true if the unlock will hand the lock to a standby that has waited for long, or
  /// will make the next thread in the queue the standby, whose 4 ms until a hand-over begin only then.
  bool unlock_is_due() const {
    const std::uint32_t seen = outer_.load(std::memory_order_relaxed);
    return (seen & impatient) != 0 || (state_of(seen) == held_by_queue && has_certain_successor());
  }

  bool urgent_wait() const
    requires ranks
  {
    return latest_urgent(outer_.load(std::memory_order_relaxed)) != no_node;
  }

  auto uncontended() { return uncontended_word{outer_, held}; }

  /// Sets the lock's memory as after many holds of `ns` nanoseconds. Only before the lock's first use.
  void expect_holds(std::uint64_t ns) { remember({hold_memory::class_of(ns)}); }

 private:
  static constexpr std::uint32_t home_period = 4000000 >> 10;   // in 1.024 µs
  static constexpr std::uint64_t most_sleep_at_word = 1000000;  // ns
  static constexpr std::uint32_t microseconds(std::uint64_t ns) { return std::uint32_t(ns >> 10); }

  hold_memory memory() const { return {memory_.load(std::memory_order_relaxed)}; }
  void remember(hold_memory m) { memory_.store(m.bits, std::memory_order_relaxed); }

  /// Tries once to take the lock, whose word was `seen`, a free one; all marks stay. Not repeated: see loiter.hpp.
  bool take(std::uint32_t seen, std::uint32_t then = held) {
    return outer_.compare_exchange_strong(seen, seen | then, std::memory_order_acquire,
                                          std::memory_order_relaxed);  // (1)
  }

  struct no_grant {
    static bool is_given() { return false; }
    static bool take() { return false; }
  };

  template <class Grant>
  [[gnu::cold, gnu::noinline]] void contend(std::uint32_t seen, Grant grant) {
    if (is_free(seen) && take(seen)) return;
    const std::uint64_t limit = W::parks ? W::spin_budget() : P::limits().spin, polled = poll_for(limit);
    if (polled != 0 && poll(polled, limit)) return;
    const std::uint32_t priority = ranks ? P::priority() : 0;
    if (W::parks && polled == 0 && priority == 0 && sleep_at_word()) return;
    const node_handle mine = P::take_node();
    if (mine == no_node) {  // all nodes are in use: polls, without a place in the queue
      while (!try_lock_or(grant)) P::backoff(100000);
      return;
    }
    if constexpr (ranks)
      if (priority != 0) [[unlikely]]
        return urgency::wait_by_priority(mine, priority);
    const way_in how = enter_queue(mine, grant);
    if (how == way_in::left) return;
    if (how == way_in::standby) stand_by(grant);
    begin_hold(mine, polled > limit);
  }

  /// The cost of a sleep, in ns; if the platform does not measure it, the limit of polling.
  static std::uint64_t cost_of_sleep() {
    const std::uint64_t limit = W::parks ? W::spin_budget() : P::limits().spin;
    if constexpr (W::parks && requires { P::cost_of_sleep(limit); })
      return P::cost_of_sleep(limit);
    else
      return limit;
  }

  std::uint64_t poll_for(std::uint64_t limit) const {
    if constexpr (W::parks)
      return memory().poll_for(limit, cost_of_sleep(), P::numa_node(), P::random);
    else
      return limit;
  }

  bool poll(std::uint64_t ns, std::uint64_t limit) {
    const std::uint64_t since = ns > limit ? P::now() : 0;
    const bool got_it = poll_lock<P, W>(
        outer_, is_free, [this] { return try_lock(); }, ns, memory().is_brief());
    if (got_it && ns > limit && memory().doubt() != 0 && P::now() - since > limit)
      remember(memory().after_long_poll(true));
    return got_it;
  }

  /// Sleeps at the word until an unlock wakes it, at most 1 ms, if threads are in the queue and the word has neither the
  /// standby's marks nor the mark of another arrival. If it sees the word free, takes the lock and returns true. Does not
  /// sleep if holds are brief: then the threads that do not poll are of another NUMA node, and are to stay away from the
  /// word.
  bool sleep_at_word() {
    if (memory().is_brief()) return false;
    std::uint32_t w = outer_.load(std::memory_order_relaxed);
    if (is_free(w)) return take(w);
    if ((w & (marks | arrival_asleep)) != 0 || tail_.load(std::memory_order_relaxed) == no_node) return false;
    // Relaxed: the mark publishes nothing, and the lock is taken by (1).
    if (!outer_.compare_exchange_strong(w, w | arrival_asleep, std::memory_order_relaxed, std::memory_order_relaxed))
      return is_free(w) && take(w);
    P::park_for(outer_, w | arrival_asleep, an_arrival, most_sleep_at_word);
    // Another arrival may sleep, too: after this thread had set the mark and before it slept, an unlock may have cleared the
    // mark, and the other thread may have set it again. One mark wakes one thread, so this thread sets the mark for the
    // other. If there is no other, the next unlock wakes in vain.
    w = outer_.load(std::memory_order_relaxed);
    if (is_free(w) && take(w, held | arrival_asleep)) return true;
    w = outer_.fetch_or(arrival_asleep, std::memory_order_relaxed) | arrival_asleep;
    return is_free(w) && take(w);
  }

  // ---- the queue ----------------------------------------------------------------------------------------------

  /// The node of a holder from the queue contains the queue's state, so the lock needs no words for it. The first thread of
  /// a queue writes this state to its own node. Each holder copies it to its successor's node before the grant.
  struct holder_node {
    node_handle h;

    struct older_field {
      node_handle h;
      std::uint32_t get() const { return P::node(h).older.get(); }
      void set(std::uint32_t v) const { P::node(h).older.set(v); }
    };
    /// Home, and the list of threads of other NUMA nodes that were taken out of the queue.
    remote_threads<P, W, older_field> remote() const { return remote_threads<P, W, older_field>(older_field{h}); }

    /// When home last moved, in units of 1.024 µs. While the thread is queued, `mark` is its NUMA node instead.
    std::uint32_t home_since() const { return P::node(h).mark.load(std::memory_order_relaxed); }
    void set_home_since(std::uint32_t t) const { P::node(h).mark.store(t, std::memory_order_relaxed); }

    /// When its hold began: the low 32 bits of the time in ns. Only the holder itself reads it.
    std::uint32_t hold_began() const { return P::node(h).newer.get(); }
    void set_hold_began(std::uint64_t ns) const { P::node(h).newer.set(std::uint32_t(ns)); }
  };
  using queue = decltype(holder_node{}.remote());

  /// How a thread leaves enter_queue().
  enum class way_in : unsigned char {
    standby,  ///< it competes for the word
    owner,    ///< it has the lock and is the standby, too: its unlock leaves the queue
    left      ///< it has the lock as an arrival; its node stays in the queue
  };

  template <class Grant>
  way_in enter_queue(node_handle mine, [[maybe_unused]] Grant grant) {
    prepare<P>(mine);
    queue::record_numa_node(mine);
    const node_handle previous = enqueue<P>(tail_, mine);
    if (previous == no_node) {
      holder_node{mine}.remote().begin(mine);
      holder_node{mine}.set_home_since(microseconds(P::now()));
      return way_in::standby;
    }
    if constexpr (W::parks) {
      return is_linked(previous, mine) ? wait_in_queue(mine, grant) : way_in::standby;
    } else {
      wait_behind<P, W>(previous, mine);
      return way_in::standby;
    }
  }

  // ---- rule 7: the others go on if a thread does not run ----------------------------------------------------------
  //
  // A node's flag, and its `next`:
  //
  //     flag      waiting -> parked     its thread is about to sleep
  //               … -> granted          a holder from the queue made its thread the standby, before it released the word;
  //                                     it wakes the thread after the release, by a key
  //               … -> left             its thread has taken the lock without being the standby; or by serve_remote(). The
  //                                     holder from the queue that reaches this node gives it back, and goes on to the next
  //     next      no_node -> a node     its successor has linked itself
  //               no_node -> detached   its thread has left the queue before its successor has linked itself. When the
  //                                     successor runs, it is the standby and gives the node back

  static constexpr std::uint32_t flag_left = 4;
  static constexpr node_handle detached = 1;
  static constexpr std::uint64_t first_look = 8000000, longest_pause = 1024000000;  // ns; chosen, not measured
  /// The time; and the age, in the same unit, at which a hand-over may be taken back, if none to this standby has been
  /// before. Chosen, not measured.
  static std::uint32_t date() { return std::uint32_t(P::now() >> 13); }  // in 8.192 µs
  static constexpr std::uint32_t take_back_after = 2000000 >> 13;
  /// The time in units of 4.2 ms, modulo 4, in the bits `taken_back`. A grant is late from the second unit after its own.
  /// The units wrap, so an older grant counts as recent half of the time; then a later call finds it late.
  static std::uint32_t coarse_date() { return std::uint32_t(P::now() >> 22) % 4 * one_taken_back; }

  /// Links the node behind its predecessor. Returns false if the predecessor's thread had left: then this thread is the
  /// standby.
  bool is_linked(node_handle previous, node_handle mine) {
    // Release: (q2) in link_behind(). Acquire: pairs with (8), after which the predecessor's node is this thread's.
    if (P::node(previous).next.exchange(mine, std::memory_order_acq_rel) != detached) return true;
    P::node(mine).older.set(P::node(previous).older.get());
    holder_node{mine}.set_home_since(holder_node{previous}.home_since());
    P::give_node(previous);
    return false;
  }

  /// Sleeps until the node is granted. At intervals it tries the lock, and may get it before the grant (rule 7).
  template <class Grant>
  way_in wait_in_queue(node_handle mine, Grant grant) {
    if constexpr (requires { P::count_grant(); }) P::count_grant();
    auto& flag = P::node(mine).flag;
    std::uint32_t seen = flag_waiting;
    // (g1) On failure the grant came first, and acquire pairs with (g2).
    if (!flag.compare_exchange_strong(seen, flag_parked, std::memory_order_acq_rel, std::memory_order_acquire))
      return way_in::standby;
    for (std::uint64_t pause = first_look;; pause = std::min(2 * pause, longest_pause)) {
      P::park_for(flag, flag_parked, in_queue, pause);
      if (flag.load(std::memory_order_acquire) == flag_granted) return way_in::standby;
      if (!try_lock_or(grant)) continue;
      seen = flag_parked;
      // (9) release: the holder from the queue that finds `left` gives the node back after this. Acquire: pairs with (g2).
      if (flag.compare_exchange_strong(seen, flag_left, std::memory_order_acq_rel, std::memory_order_acquire))
        return way_in::left;
      // The node was granted before the thread took the lock. Relaxed: the state tells only this thread's own unlock what to
      // do.
      outer_.fetch_or(held_by_queue, std::memory_order_relaxed);
      return way_in::owner;
    }
  }

  /// Called after the word was seen as handed_over. Takes the lock if the standby has not taken it up in time.
  [[gnu::cold, gnu::noinline]] bool take_back() {
    const std::uint32_t w = outer_.load(std::memory_order_acquire);  // (3), which publishes the time
    const std::uint32_t times = w / one_taken_back % 4;
    if (state_of(w) != handed_over || memory().since_hand_over(date()) < take_back_after << 3 * times) return false;
    std::uint32_t seen = w;
    return outer_.compare_exchange_strong(seen, (w ^ (handed_over ^ held)) + (times < 3 ? one_taken_back : 0),
                                          std::memory_order_acquire, std::memory_order_relaxed);  // (1)
  }

  /// Takes the lock if it was granted to a timed waiter or a requeued thread that has not taken it up in time. If the lock
  /// has been released meanwhile, the time that it reads is not that of the grant: then it may take the lock from a thread
  /// that runs.
  template <class Grant>
  bool take_granted(Grant grant) {
    if (!grant.is_given()) return false;
    const std::uint32_t w = outer_.load(std::memory_order_relaxed);
    const bool late = state_of(w) == held_by_queue
                          ? (coarse_date() - (w & taken_back)) % (4 * one_taken_back) / one_taken_back >= 2
                          : memory().since_hand_over(date()) >= take_back_after;
    return late && grant.take();
  }

  /// Called by a holder from the queue. Returns whether a thread that has not left waits behind its node.
  bool has_waiter_behind(node_handle mine, node_handle last) const {
    if (last == mine) return false;
    if constexpr (!W::parks) return true;
    for (node_handle h = mine; h != last;) {
      h = P::node(h).next.load(std::memory_order_acquire);
      if (h == no_node || P::node(h).flag.load(std::memory_order_relaxed) != flag_left) return true;
    }
    return false;
  }

  /// As has_waiter_behind(), for the list of remote threads.
  static bool has_remote_waiter(node_handle mine) {
    if (holder_node{mine}.remote().empty()) return false;
    if constexpr (!W::parks) return true;
    const node_handle youngest = P::node(mine).older.get() % (std::uint32_t{1} << 24);  // numa_queue.hpp
    node_handle h = youngest;
    do {
      if (P::node(h).flag.load(std::memory_order_relaxed) != flag_left) return true;
      h = P::node(h).older.get();
    } while (h != youngest);
    return false;
  }

  /// The next standby, to be woken when the word has been released.
  struct called {
    node_handle node = no_node;
    wake_key key{};
    bool sleeps = false;
  };

  /// Called by the holder from the queue. Leaves the queue, and makes the first thread behind it that has not left the
  /// standby. Sets `mine` to no_node if another thread will give the node back.
  called call_next(node_handle& mine, std::uint64_t now) {
    bool keeps = true;
    node_handle next = leave_queue(mine, now, keeps);
    if (!keeps) mine = no_node;
    while (next != no_node) {
      auto& flag = P::node(next).flag;
      const wake_key key = P::key_of(flag);
      // (g2) release: publishes the queue's state. Acquire: pairs with (9).
      const std::uint32_t before = flag.exchange(flag_granted, std::memory_order_acq_rel);
      if (before != flag_left) return {next, key, before == flag_parked};
      const node_handle gone = next;
      keeps = true;
      next = leave_queue(gone, now, keeps);
      if (keeps) P::give_node(gone);
    }
    return {};
  }

  // ---- the standby --------------------------------------------------------------------------------------------

  /// Called by the head of the queue, the standby. Waits until it has the lock.
  template <class Grant>
  void stand_by(Grant grant) {
    using step = typename steady_standby<W::parks>::step;
    constexpr bool takes_grants = W::parks && !std::is_same_v<Grant, no_grant>;
    steady_standby<W::parks> standby;
    const std::uint64_t since = P::now();
    for (;;) {
      const std::uint32_t w = outer_.load(std::memory_order_acquire);  // (1)
      if (try_to_enter(w)) return;
      const std::uint64_t waited = P::now() - since;
      switch (standby.next_step(w, waited)) {
        case step::look_again:
          P::backoff(0);
          break;
        case step::ask:
          standby.may_ask = false;
          // Relaxed, here and in the next step, for the reason given at step::set_marks.
          outer_.fetch_or(impatient, std::memory_order_relaxed);
          P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling.within(standby.ask_for));
          break;
        case step::stop_asking:
          outer_.fetch_and(~impatient, std::memory_order_relaxed);
          break;
        case step::take_nap:
          standby.may_nap = false;
          if constexpr (W::parks)
            P::nap(outer_, w, the_standby, standby.nap_for(waited, memory().least_hold(), cost_of_sleep()), 0);
          break;
        case step::set_marks:
          // Relaxed: a mark publishes nothing, and the standby reads the word again by (1) before it has the lock.
          outer_.fetch_or(standby.marks_after(waited), std::memory_order_relaxed);
          break;
        case step::sleep:
          const bool looks = takes_grants && standby.is_due(waited);
          wait_for_outer(w, looks ? std::clamp(waited, first_look, longest_pause) : standby.sleep_for(waited));
          if (looks && take_granted(grant)) return enter_by_grant();
          standby.may_ask = W::parks;
          standby.may_nap = W::parks && may_nap();
      }
    }
  }

  /// Called by the standby, which has read `w`. Takes the lock if it is free or handed over, and clears its marks. The word
  /// may show held_by_queue although this thread is the standby: the holder has left the queue, but not yet freed the lock.
  bool try_to_enter(std::uint32_t w) {
    // A failure means that urgent waiters or arrivals have changed other bits, or that a thread has taken the lock back.
    for (; state_of(w) == handed_over; P::backoff(0))
      if (outer_.compare_exchange_strong(w, (w ^ (handed_over ^ held_by_queue)) & ~marks, std::memory_order_acquire,
                                         std::memory_order_acquire))  // (1)
        return true;
    return is_free(w) && outer_.compare_exchange_strong(w, held_by_queue | (w & arrival_asleep),
                                                        std::memory_order_acquire, std::memory_order_relaxed);  // (1)
  }

  /// Called by the standby after take_granted() has taken the lock. Sets the state and clears the marks.
  void enter_by_grant() {
    outer_.fetch_or(held_by_queue, std::memory_order_relaxed);
    outer_.fetch_and(~marks, std::memory_order_relaxed);
  }

  /// Returns false if the platform knows that short sleeps end late: the lock could be free and unused during the
  /// delay.
  static bool may_nap() {
    if constexpr (requires { P::naps_end_in_time(); })
      return P::naps_end_in_time();
    else
      return true;
  }

  /// Waits until the word differs from `seen` (parking) or until the standby may have the lock (spinning), for at most `ns`
  /// nanoseconds; 0: no limit. Relaxed: the standby reads the word again by (1).
  void wait_for_outer(std::uint32_t seen, std::uint64_t ns) {
    if constexpr (W::parks)
      ns != 0 ? P::park_for(outer_, seen, the_standby, ns) : P::park(outer_, seen, the_standby);
    else if (ns != 0)
      P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling.within(ns));
    else
      P::await(outer_, may_enter, std::memory_order_relaxed, pacing::polling);
  }

  // ---- functions of a holder that came through the queue ---------------------------------------------------------

  void begin_hold(node_handle mine, bool polled_in_vain) {
    const hold_memory m = polled_in_vain ? memory().after_long_poll(false) : memory();
    remember(m.with_holder(mine, holder_node{mine}.remote().home()));
    holder_node{mine}.set_hold_began(P::now());
  }

  void measure_hold(node_handle mine, std::uint64_t now) {
    const hold_memory before = memory(), after = before.after_hold(std::uint32_t(now) - holder_node{mine}.hold_began());
    if (after.bits != before.bits) remember(after);
  }

  /// Leaves the queue. Returns the successor's node, to which it has copied the queue's state, or no_node if there is no
  /// successor yet. Sets `keeps` to false if another thread will give `mine` back.
  node_handle leave_queue(node_handle mine, std::uint64_t now, bool& keeps) {
    queue remote = holder_node{mine}.remote();
    const std::uint32_t home = remote.home(), since = holder_node{mine}.home_since();
    node_handle next = no_node;
    if (W::parks && P::node(mine).next.load(std::memory_order_acquire) == no_node) {
      if (remote.empty() && is_left_to_successor(mine, keeps)) return no_node;
      if (!remote.empty()) next = serve_remote(remote, mine, keeps);
    }
    if (next == no_node)
      next = remote.successor_or_free(tail_, mine, [&] { return microseconds(now) - since >= home_period; });
    if (next == no_node) return no_node;
    P::node(next).older.set(P::node(mine).older.get());  // list and home; the grant publishes this write and the next
    holder_node{next}.set_home_since(remote.home() == home ? since : microseconds(now));
    return next;
  }

  /// Called while no thread is linked behind `mine`, and no remote thread waits. Frees the queue, or, if a thread is about
  /// to link itself, leaves the node to that thread. Returns false if the thread has just linked itself.
  bool is_left_to_successor(node_handle mine, bool& keeps) {
    node_handle last = mine, none = no_node;
    if (tail_.compare_exchange_strong(last, no_node, std::memory_order_release, std::memory_order_relaxed)) return true;
    // (8) release: publishes the queue's state in this node. Acquire: the link.
    keeps = !P::node(mine).next.compare_exchange_strong(none, detached, std::memory_order_acq_rel,
                                                        std::memory_order_acquire);
    return !keeps;
  }

  /// Called while no thread is linked behind `mine`. Moves home, and returns the first of the remote threads there. If a
  /// thread is about to link itself to `mine`, puts the node behind these remote threads, as the node of a thread that has
  /// left.
  node_handle serve_remote(queue& remote, node_handle mine, bool& keeps) {
    const node_chain c = remote.change_home();
    node_handle last = mine;
    P::node(c.last).next.store(no_node, std::memory_order_relaxed);
    // Release: as in graft(), numa_queue.hpp.
    if (tail_.compare_exchange_strong(last, c.last, std::memory_order_release, std::memory_order_relaxed))
      return c.first;
    // Relaxed: the grant publishes these writes.
    P::node(mine).flag.store(flag_left, std::memory_order_relaxed);
    P::node(mine).mark.store(remote.home(), std::memory_order_relaxed);
    P::node(c.last).next.store(mine, std::memory_order_relaxed);
    keeps = false;
    return c.first;
  }

  // ---- unlock ---------------------------------------------------------------------------------------------------

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint32_t seen) {
    node_handle mine = no_node, chosen = no_node;
    called next;
    if (state_of(seen) == held_by_queue) {
      // The bits may contain the time of note_grant(), which the next standby would take for its count.
      if ((seen & taken_back) != 0) seen = outer_.fetch_and(~taken_back, std::memory_order_relaxed) & ~taken_back;
      const std::uint64_t now = P::now();
      mine = memory().holder();
      measure_hold(mine, now);
      next = call_next(mine, now);
    }
    const wake_key key = P::key_of(outer_);
    const std::uint32_t old = release(seen, chosen);
    if constexpr (W::parks)
      if (const std::uint32_t sleeper = to_wake(old); sleeper != 0) P::wake(key, sleeper, 1);
    if (mine != no_node) P::give_node(mine);
    if constexpr (ranks)
      if (chosen != no_node) grant<P, W>(chosen);
    if (next.sleeps) wake_and_measure(next.key);
  }

  /// Wakes the next standby, and measures the cost of the wake-up.
  static void wake_and_measure(wake_key key) {
    if constexpr (requires { P::note_wake(std::uint64_t{}); }) {
      const std::uint64_t before = P::now();
      P::wake(key, every_sleeper, 1);
      P::note_wake(P::now() - before);
    } else {
      P::wake(key, every_sleeper, 1);
    }
  }

  /// Which sleeper at the word an unlock wakes that has replaced the value `old`: the_standby, an_arrival, or 0.
  static constexpr std::uint32_t to_wake(std::uint32_t old) {
    if ((old & asleep) != 0) return the_standby;
    return (old & impatient) == 0 && (old & arrival_asleep) != 0 ? an_arrival : 0;
  }

  /// Frees the outer word or hands the lock over. Returns the old word, for to_wake(). If an urgent waiter gets the lock,
  /// sets `chosen` to its node, which the caller grants, and returns 0: the sleepers at the word sleep on.
  std::uint32_t release(std::uint32_t seen, [[maybe_unused]] node_handle& chosen) {
    for (;; P::backoff(0)) {
      if (is_foreign(seen)) [[unlikely]]
        return free_for_foreign();
      if constexpr (ranks)
        if (latest_urgent(seen) != no_node) [[unlikely]] {
          chosen = urgency::take_urgent(held_by_queue & ~held);
          return 0;
        }
      const std::uint32_t then = (seen & impatient) != 0 ? handed_over : free;
      if (W::parks && then == handed_over) remember(memory().with_hand_over(date()));
      const std::uint32_t sleeps_on = seen & (to_wake(seen) == an_arrival ? taken_back : taken_back | arrival_asleep);
      // (3) release: pairs with (1), the operations that take the lock, also with the load in stand_by() that finds
      // handed_over. Fails if the standby has changed a mark or an urgent waiter has come.
      if (outer_.compare_exchange_strong(seen, then | sleeps_on, std::memory_order_acq_rel, std::memory_order_relaxed))
        return seen;
    }
  }

  /// Frees the lock by the value 0, since the C library takes a word with marks for a held lock, and wakes all sleepers. The
  /// state is lost: if the holder came from the queue, its node stays there for good, and from then on threads in the queue
  /// get the lock only by the tries of rule 7.
  [[gnu::cold, gnu::noinline]] std::uint32_t free_for_foreign() {
    const wake_key key = P::key_of(outer_);
    outer_.exchange(free, std::memory_order_acq_rel);  // (3)
    if constexpr (W::parks) P::wake(key, every_sleeper, all);
    return free;
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

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
