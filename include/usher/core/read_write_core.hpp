// A read-write lock for any platform: phase-fair, with any lock of the catalogue as the queue of its writers, and, if
// wanted, biased towards readers (BRAVO). The functions work on words and a writers' lock that the caller provides, so
// that an object of another layout, such as a pthread_rwlock_t, can hold them. The locks themselves: phase_fair.hpp.
//
// Source: Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time systems"
// (Real-Time Systems 2010), the phase-fair ticket lock PF-T; Dice and Kogan, "BRAVO – Biased Locking for Reader-Writer
// Locks" (ATC 2019), Listing 1. Three things differ from PF-T. Writers queue on a lock of the catalogue instead of a
// ticket lock, and only while another writer is there. The thread at the head of that queue claims the words, gives
// the queue's lock back, and then works: so unlock() is one operation, whichever way the writer came, and touches
// nothing afterwards. Waiters may sleep and may give up.
//
//     in     bit 0        writing: a writer has claimed the lock. It owns it once the readers before it have left
//            bits 1–5     phase: changes when a writer unlocks, or lets waiting readers pass
//            bit 6        queue: writers are in the queue; only its head may claim the lock
//            bit 7        asleep: a thread sleeps on this word, or is about to
//            bit 8        biased: readers may enter by a slot of the visible readers (below)
//            bits 9–31    arrivals: how many readers have come
//     out    bit 0        sleeping: the claiming writer sleeps on this word, or is about to
//            bit 1        draining: the claiming writer waits for exits
//            bits 2–8     the lower 7 bits of the number of exits for which that writer waits: one exit in 128 wakes it
//            bits 9–31    exits: how many readers have left
//     queued   bits 0–23    the number of writers that are in the queue or on the way to it
//              bits 24–31   give-ups: how many writers have claimed the lock and given up since one of them last had to wait
//                           for readers and got the lock; not more than most_give_ups. The claiming writer changes them
//     timed    writers with a deadline, who wait beside the queue (timed_waiters.hpp)
//     inhibit  until when no reader sets `biased`, in 1024 ns; 0: not inhibited
//
// Arrivals less exits is the number of readers that have come and not left, those inside and those that wait. Both
// numbers wrap; at most 2^23 − 1 readers may be there at once.
//
//     lock_shared()    in: arrivals + 1. If `writing` was set, waits until `writing` and `phase` are not what they were
//     unlock_shared()  out: exits + 1. The last reader before a writer that sleeps wakes it
//     lock()           in: sets `writing` if neither `writing`, `queue` nor `biased` is set. Else joins the queue; its
//                      head waits until `writing` is clear, and sets it. Then waits until exits equal the arrivals that
//                      there were when it set `writing`
//     unlock()         in: clears `writing`, phase + 1
//
// Phase-fair. A reader waits for at most one writer: it is counted in the next writer's arrivals, so that writer does
// not own the lock before the reader has left. A writer that has claimed the lock waits for the readers that had come
// before, and for no others. Between two writers all readers that wait are admitted.
//
// Give-ups. While a reader is counted, no writer that came later gets the lock. So after the writer for which the reader
// waits has unlocked or given up, only writers that give up change the phase. If 31 of them did so while the reader did
// not run, the next writer would give `writing` and `phase` the values that the reader saw: reader and writer would wait
// for each other. Therefore give-ups are counted, and from most_give_ups on, a claiming writer drains by windows, as
// under the rule for recursive readers (below), until a writer that waits for readers gets the lock. These windows have
// no upper limit, so that the writer still gets the lock if each reader leaves in bounded time. The phase may wrap then:
// - a reader that finds the values that it saw again waits for one window more.
// - if such a reader gives up, it is no longer one of the arrivals, but the writer waits for it until the window ends.
//   The writer cannot take a later reader's exit for this reader's, because no later reader passes before the phase
//   changes, and then the writer reads the arrivals again.
// A writer that finds no reader inside does not reset the count, so that its cost is the same. A count that is too high
// causes windows without need, and no error.
//
// Recursive readers (reader_rule::recursive). A reader may lock again while a writer waits; or it may wait for another
// thread that is about to lock. Under the phase-fair rule both would deadlock, because the new reader waits for the
// writer, and the writer for the old reader. Under this rule a claiming writer that does not get the lock within a
// *window* changes the phase: all readers that have come by then pass, and the writer waits for those as well, for
// twice as long; the windows are 0.25 ms at first, at most 8 ms. So:
//
//   - no reader waits behind a writer that only waits for longer than a window, 8 ms, and the time until the writer's
//     thread runs. (A reader that does not run while the phase changes exactly 32 times waits for one window more.)
//   - a writer gets the lock at the end of the first window in which all readers leave that are inside. If no reader
//     inside depends on one that comes later, and each leaves within D <= 8 ms of the beginning of a window, that is
//     after less than 3 D. If readers stay longer, or depend on later ones again and again, the writer's wait
//     has no bound, as under the C library's default kinds.
//
// try_lock_shared() under this rule succeeds while a writer only waits, as the C library's: otherwise std::lock() of two
// shared locks, and threads that try in a loop while they read, would wait for a window. The reader cannot use the arrivals,
// since the writer does not wait for later ones. It takes back an exit: exits - 1, by a compare-and-swap (8) which requires
// that the writer drains and that the lower bits of the exits differ from those of its target. Both are in the same word, so
// in that state the writer does not own the lock, and it will not before this reader's exit has made good the one that was
// taken back. A writer publishes its target by (9) before it first looks, and again when a window has changed it: the exits
// for which it then finds its wait over are a later value of the same word. Exits that differ by a multiple of 128 look like
// no difference: then the try fails.
//
// Visible readers (BRAVO). While `biased` is set, a reader enters by a compare-and-swap that puts the lock's id into a
// slot of a table that all locks of the process share; then it looks at `biased` again:
//
//     reader   slot: 0 -> id       (b1)        writer   in: clears `biased`   (b3)
//              loads in            (b2)                 loads every slot      (b4)
//
// All four operations are sequentially consistent, so they have one order that all threads agree on. If (b2) still sees
// `biased`, it comes before (b3), and so (b1) comes before (b4): the writer sees the slot. It then moves the reader to
// the arrivals: arrivals + 1, slot: id -> 0; and waits for its exit as for any other. If (b2) does not see `biased`, the reader takes its id back and enters by arrivals. With release and acquire alone both could miss each other's
// write: (b1) could be in a store buffer while (b2) loads, and (b3) while (b4) does.
// Only the head of the writers' queue clears `biased`, and it does so before it claims the lock: so readers still enter
// by arrivals while the writer searches the table. (The paper's writer locks, then searches, then waits for each slot.) No
// reader sets `biased` while `writing` or `queue` is set; setting it is a compare-and-swap of the whole word. So `biased`
// stays clear until the writer has left the queue, with the claim or without: a lock that is not biased has no visible
// readers, but those that are about to take their id back.
// A slot is found by hashing the thread and the lock, when the reader enters and again when it leaves. Two threads may
// have the same slot. Then one of them is in the slot and the other one in arrivals, and it does not matter which
// leaves in which way, because the sum is right at all times. So a reader that takes its id back does the same as one
// that leaves, and one that does not find its id acquires what the thread that took it released: (b7). So any thread may unlock.
// A reader that enters by arrivals sets `biased`, unless the time of the last search, times nine, has not passed yet
// (the paper's N): searches take at most a tenth of the time.
//
// Upgrade: a reader that is the only one, with no writer about, becomes the writer in one step. It never waits: two
// readers that waited for each other to leave would deadlock.
//
// Forks. The child has the parent's words. renew() makes them those of a lock that only the calling thread uses. The
// platform removes the ids of the parent's other visible readers from the child's table. It keeps each id that is in the
// slot of the thread that forked, which may be that of another thread (1 pair of threads in 4096): then the lock counts a
// reader that the child does not have. An object that begins its life forgets the ids at its address:
// forget_visible_readers(), renew().
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <new>
#include <type_traits>

#include "usher/core/platform.hpp"
#include "usher/core/timed_waiters.hpp"
#include "usher/core/visible_slot.hpp"
#include "usher/core/waiting.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// How readers and waiting writers are ordered.
enum class reader_rule : std::uint8_t {
  phase_fair,  ///< a reader waits behind a waiting writer. A thread must not lock again for reading
  recursive,   ///< no reader waits without limit behind a writer that only waits. A thread may lock again for reading
};

/// The words of a read-write lock, all zero at first.
template <class P>
struct read_write_words {
  typename P::template atomic<std::uint32_t> in, out, queued, timed, inhibit;
};

/// The time after a writer's search for visible readers in which readers do not become visible again: BRAVO's N times the
/// length of the search, so that searches take at most a tenth of the time. Times are in units of 1.024 µs and wrap every 73
/// minutes. 0 in read_write_words::inhibit is no such time.
struct bias_pause {
  static constexpr std::uint32_t times = 9;           // times the search: the paper's N
  static constexpr std::uint32_t longest = 1u << 26;  // 69 s

  /// The end of the pause after a search from `begin` to `end`.
  static constexpr std::uint32_t after(std::uint32_t begin, std::uint32_t end) {
    const std::uint64_t pause = std::uint64_t{times} * (std::uint64_t{end - begin} + 1);
    const std::uint32_t until = end + (pause < longest ? std::uint32_t(pause) : longest);
    return until != 0 ? until : 1;
  }
  /// Whether the pause lasts at `now`. A pause that nobody ends seems to last again for 69 s after 72 minutes.
  static constexpr bool lasts(std::uint32_t until, std::uint32_t now) { return until - now - 1 < longest; }
};

/// The time limit of a thread that waits for ever. A type that is derived from it, as any `remaining`, may have a function
/// refuses(): true if the lock is held for writing by the calling thread itself, which then does not wait.
struct no_limit {};

template <platform_with_asymmetric_fences P, class W, class Writers, bool Biased>
class read_write_core {
  using order = std::memory_order;
  using word = typename P::template atomic<std::uint32_t>;
  using timed_waiters = timed_waiter_count<P>;

 public:
  read_write_core(read_write_words<P>& words, Writers& writers, reader_rule rule)
      : in_(words.in), out_(words.out), words_(words), writers_(writers), rule_(rule) {}

  // ---- readers ------------------------------------------------------------------------------------------------

  /// `remaining()` returns the nanoseconds that are left, or is no_limit. False: the time is over.
  template <class Remaining = no_limit>
  bool lock_shared(Remaining remaining = {}) {
    if constexpr (Biased)
      if (enter_visibly()) return true;
    const std::uint32_t seen = arrive();
    return has_to_wait(seen) ? lock_shared_after(seen, remaining) : true;
  }

  bool enter_visibly() {
    if ((in_.load(order::relaxed) & biased) == 0) return false;
    auto* const slots = P::visible_readers();
    if (slots == nullptr) [[unlikely]]
      return false;
    std::uint64_t empty = 0;
    // (b1)
    if (!slots[own_index()].compare_exchange_strong(empty, id(), order::seq_cst, order::relaxed)) return false;
    // (b2) It is also (1): `biased` was set after the last writer's unlock, by operations on one word.
    if ((in_.load(order::seq_cst) & biased) != 0) [[likely]]
      return true;
    unlock_shared();
    return false;
  }

  // lock_shared() in parts, for a caller whose fast path shall contain no calls: if enter_visibly() is false or the lock
  // is not biased, arrive(); if has_to_wait(), lock_shared_after().

  std::uint32_t arrive() {
    // (1) acquire: pairs with (2), the unlock of the last writer.
    return in_.fetch_add(one, order::acquire);
  }
  /// Whether the reader must wait, or set `biased`.
  static bool has_to_wait(std::uint32_t seen) { return (seen & writing) != 0 || sets_biased(seen); }
  template <class Remaining>
  bool lock_shared_after(std::uint32_t seen, Remaining remaining) {
    if ((seen & writing) != 0 && !wait_for_phase(seen, remaining)) return false;
    if constexpr (Biased)
      if (sets_biased(seen)) set_biased();
    return true;
  }

  bool try_lock_shared() {
    if constexpr (Biased)
      if (enter_visibly()) return true;
    std::uint32_t seen = in_.load(order::relaxed);
    while ((seen & writing) == 0) {
      if (in_.compare_exchange_weak(seen, seen + one, order::acquire, order::relaxed)) return true;  // (1)
      P::backoff(0);
    }
    return rule_ == reader_rule::recursive && try_take_back_an_exit();
  }

  void unlock_shared() {
    if constexpr (Biased)
      if (leave_visibly()) return;
    const wake_key key = P::key_of(out_);
    // (3) release: pairs with (4), the writer's look at the exits. Nothing of the lock is touched after it.
    const std::uint32_t seen = out_.fetch_add(one, order::release);
    if constexpr (W::parks)
      if ((seen & sleeping) != 0) [[unlikely]]
        if (low_bits((seen + one) / one) == (seen & low_bits_of_target)) P::wake(key, every_sleeper, 1);
  }

  // ---- writers ------------------------------------------------------------------------------------------------

  template <class Remaining = no_limit>
  bool lock(Remaining remaining = {}) {
    std::uint32_t seen;
    const bool claimed = claim_at_once(seen);
    if (claimed && has_left(seen)) [[likely]]
      return true;
    return lock_after(claimed, seen, remaining);
  }

  // lock() in parts, as lock_shared().

  bool claim_at_once(std::uint32_t& seen) {
    seen = in_.load(order::relaxed);
    // (5) acquire: pairs with (2), the unlock of the last writer.
    return (seen & (writing | queue | biased)) == 0 &&
           in_.compare_exchange_strong(seen, seen + writing, order::acquire, order::relaxed);
  }
  /// Whether as many readers have left as had come when `in` was `seen`.
  bool has_left(std::uint32_t seen) const {
    // (4) acquire: pairs with (3), the unlock of each reader.
    return has_left(out_.load(order::acquire), seen);
  }
  template <class Remaining>
  bool lock_after(bool claimed, std::uint32_t seen, Remaining remaining) {
    if (!claimed && !claim_in_turn(seen, remaining)) return false;
    return has_left(seen) || drain(seen, remaining);
  }

  bool try_lock() {
    std::uint32_t seen = in_.load(order::relaxed);
    for (;;) {
      if ((seen & writing) != 0) return false;
      if ((seen & (queue | biased)) != 0) return try_claim_in_queue(false);
      if (!has_left(seen)) return false;
      if (in_.compare_exchange_weak(seen, seen + writing, order::acquire, order::relaxed)) break;  // (5)
      P::backoff(0);
    }
    // As many readers have left as had come before the claim: this is false only if `in` has wrapped in between.
    if (has_left(seen)) return true;
    release(0);
    return false;
  }

  void unlock() { release(0); }

  /// The writer becomes a reader, without a moment in which another writer could get the lock.
  void unlock_and_lock_shared() { release(one); }

  /// A reader becomes the writer if no other thread reads, and no other writes or waits to write. It never waits. False:
  /// the thread is a reader still. (Some other threads' attempts to lock may make it fail, too.)
  bool try_upgrade() {
    std::uint32_t seen = in_.load(order::relaxed);
    for (;;) {
      if ((seen & writing) != 0) return false;
      if ((seen & (queue | biased)) != 0) return try_claim_in_queue(true);
      if (!has_left(seen - one)) return false;
      // (5) The arrivals become those without this thread. It has acquired the last unlock as a reader; acquire is needed
      // for the visible readers that a writer has found to have left, before it gave up and released the lock.
      if (in_.compare_exchange_weak(seen, seen - one + writing, order::acquire, order::relaxed)) break;
      P::backoff(0);
    }
    if (has_left(seen - one)) return true;
    release(one);
    return false;
  }

  // ---- the rest -----------------------------------------------------------------------------------------------

  /// Whether no thread holds the lock or waits for it. Acquire: a caller that then ends the lock's life comes after all
  /// owners.
  bool is_idle() const {
    const std::uint32_t seen = in_.load(order::acquire);
    return (seen & writing) == 0 && has_left(seen) && !has_queued() && !has_visible();
  }

  /// Called in the child of a fork by its only thread, which holds the lock as given: `reads` times, or for writing.
  void renew(std::uint32_t reads, bool writes) {
    forget_visible_readers();
    forget_waiters();
    out_.store(0, order::relaxed);
    in_.store(reads * one + (writes ? writing : 0), order::relaxed);
  }

  /// For an object that begins its life where another may have ended it with visible readers, which never unlocked. No
  /// thread uses the new object yet.
  void forget_visible_readers() {
    if constexpr (Biased)
      if (auto* const slots = P::visible_readers(); slots != nullptr)
        for (std::uint32_t i = 0; i < P::visible_slots; i++)
          if (slots[i].load(order::relaxed) == id()) slots[i].store(0, order::relaxed);
  }
  /// Whether a slot has the lock's id.
  bool has_visible_readers() const { return has_visible(); }

  /// As renew(), for a lock whose reads by the calling thread are not known: all of the parent's readers count as its
  /// own. A fork in the middle of this leaves words that give the same result in that child.
  void renew_from_words(bool writes) {
    forget_waiters();
    const std::uint32_t left = out_.load(order::relaxed) & (0 - one);
    const std::uint32_t come = writes ? left : in_.load(order::relaxed) & (0 - one);
    in_.store(come | (writes ? writing : 0) | (has_visible() ? biased : 0), order::relaxed);
    out_.store(left, order::relaxed);
  }

  /// Whether it may be that 2^21 readers are there by arrivals, a quarter of what the words can count; has_too_many()
  /// then knows. `seen` is a value of `in`. Exits may be of readers that have come after it: the difference is negative
  /// then, and wraps if the thread did not run for a while.
  bool may_have_too_many(std::uint32_t seen) const {
    return std::int32_t(seen - out_.load(order::relaxed)) >= most_difference;
  }
  bool may_have_too_many() const { return may_have_too_many(in_.load(order::relaxed)); }
  bool has_too_many() const {
    for (;;) {
      const std::uint32_t left = out_.load(order::acquire), come = in_.load(order::acquire);
      if (out_.load(order::relaxed) / one == left / one) return std::int32_t(come - left) >= most_difference;
      P::backoff(0);
    }
  }

  // ---- by the only thread of a process ------------------------------------------------------------------------
  // False, with nothing changed, if the lock is not free for it or has marks: the caller calls the function above then.
  // The words are counters, which a signal handler's calls leave at other values. So each is changed by one instruction
  // that a handler cannot interrupt (P::add_alone(), P::replace_alone()), not by a load and a store.

  bool lock_shared_alone(std::uint32_t& seen) {
    if ((in_.load(order::acquire) & (writing | biased)) != 0) return false;
    seen = P::add_alone(in_, one);
    return true;
  }
  bool unlock_shared_alone() {
    if ((out_.load(order::relaxed) & sleeping) != 0 || (Biased && (in_.load(order::relaxed) & biased) != 0))
      return false;
    P::add_alone(out_, one);
    return true;
  }
  bool lock_alone() {
    const std::uint32_t seen = in_.load(order::acquire);
    if ((seen & (writing | queue | biased)) != 0 || !has_left(seen)) return false;
    return P::replace_alone(in_, seen, seen + writing);
  }
  bool unlock_alone() {
    const std::uint32_t seen = in_.load(order::relaxed);
    if ((seen & (queue | asleep)) != 0) return false;
    return P::replace_alone(in_, seen, seen - writing + to_next_phase(seen));
  }

  /// For tests: sets both numbers of a free lock to n.
  void count_from(std::uint32_t n) {
    in_.store(n * one + (n & 31) * one_phase, order::relaxed);
    out_.store(n * one, order::relaxed);
    if constexpr (requires { writers_.count_from(n); }) writers_.count_from(n);
  }

 private:
  static constexpr std::uint32_t writing = 1, one_phase = 2, phases = 31 * one_phase, queue = 1 << 6, asleep = 1 << 7,
                                 biased = 1 << 8, one = 1 << 9;
  static constexpr std::int32_t most_difference = 1 << 30;  // 2^21 readers
  static constexpr std::uint32_t sleeping = 1, draining = 2, low_bits_of_target = 0x7f << 2;
  static constexpr std::uint32_t one_give_up = 1 << 24;  // in `queued`
  static constexpr std::uint32_t most_give_ups = 16;  // at most 31, the number of phases less 1. Chosen, not measured
  static constexpr std::uint64_t first_window = 250000, most_window = 8000000;  // ns; chosen, not measured
  static constexpr std::uint64_t endless_window = std::uint64_t{1} << 60;       // ns; no window is longer
  static constexpr std::uint32_t looks_at_clock = 16;  // one in so many readers does. Chosen, not measured

  template <class Remaining>
  static constexpr bool has_limit = !std::is_base_of_v<no_limit, Remaining>;

  /// Whether the calling thread would wait for itself.
  template <class Remaining>
  static bool refuses(const Remaining& remaining) {
    if constexpr (requires { remaining.refuses(); })
      return remaining.refuses();
    else
      return false;
  }

  static constexpr std::uint32_t low_bits(std::uint32_t number) { return (number & 0x7f) << 2; }
  /// What is to be added to `in` for the next phase: the phase wraps without a carry.
  static constexpr std::uint32_t to_next_phase(std::uint32_t seen) {
    return (seen & phases) == phases ? 0 - phases : one_phase;
  }

  static constexpr bool has_left(std::uint32_t out, std::uint32_t seen) { return out / one == seen / one; }

  /// In the child of a fork: the writers that waited do not exist there.
  void forget_waiters() {
    writers_.~Writers();
    ::new (&writers_) Writers{};
    words_.queued.store(0, order::relaxed);
    words_.timed.store(0, order::relaxed);
    words_.inhibit.store(0, order::relaxed);
  }

  // ---- waiting ------------------------------------------------------------------------------------------------

  /// Waits until `pred` holds for the word. Before the thread sleeps, the word is changed to `mark(word)`. False: the
  /// time is over. Acquire: all that the comments of the callers say.
  template <class Pred, class Mark, class Remaining>
  static bool wait_on(word& w, Pred pred, Mark mark, Remaining remaining) {
    if constexpr (!has_limit<Remaining>) {
      if (W::poll(w, pred)) return true;
    } else {
      for (;;) {
        std::uint64_t left = remaining();
        if (W::parks && left > W::spin_budget()) left = W::spin_budget();
        if (P::await(w, pred, order::acquire, pacing::polling.within(left))) return true;
        if (W::parks) break;
        if (remaining() == 0) return false;
      }
    }
    if constexpr (W::parks)
      for (;;) {
        std::uint32_t seen = w.load(order::acquire);
        if (pred(seen)) return true;
        const std::uint32_t marked = mark(seen);
        // Relaxed: the mark orders nothing. The thread that changes the word next sees the mark or comes before it; in
        // the second case this operation fails.
        if (marked != seen && !w.compare_exchange_strong(seen, marked, order::relaxed, order::relaxed)) {
          P::backoff(0);
          continue;
        }
        if constexpr (!has_limit<Remaining>) {
          P::park(w, marked, every_sleeper);
        } else {
          const std::uint64_t left = remaining();
          if (left == 0) return false;
          if constexpr (requires { remaining.nap(w, marked, left); })
            remaining.nap(w, marked, left);
          else if constexpr (requires { P::park_until(w, marked, every_sleeper, remaining); })
            P::park_until(w, marked, every_sleeper, remaining);
          else
            P::park_for(w, marked, every_sleeper, left);
        }
      }
    return false;
  }

  /// Waits on `in`, whose sleepers all wake when a writer unlocks or lets readers pass.
  template <class Pred, class Remaining>
  bool wait_on_in(Pred pred, Remaining remaining) {
    return wait_on(
        in_, pred, [](std::uint32_t v) { return v | asleep; }, remaining);
  }

  /// A reader waits until the phase of its arrival is over. False: the time is over, and the reader is not counted.
  template <class Remaining>
  [[gnu::cold, gnu::noinline]] bool wait_for_phase(std::uint32_t seen, Remaining remaining) {
    const std::uint32_t mine = seen & (writing | phases);
    const auto is_over = [mine](std::uint32_t v) { return (v & (writing | phases)) != mine; };
    if (refuses(remaining)) {  // the phase lasts as long as this thread writes
      in_.fetch_sub(one, order::relaxed);
      return false;
    }
    if (wait_on_in(is_over, remaining)) return true;  // (1)
    // While the phase lasts, no writer waits for this reader, so it may take its arrival back.
    std::uint32_t now = in_.load(order::acquire);
    while (!is_over(now)) {
      if (in_.compare_exchange_weak(now, now - one, order::acquire, order::acquire)) return false;
      P::backoff(0);
    }
    return true;
  }

  /// Ends the phase: adds `more` to `in` as well. If threads sleep on the word, wakes them all.
  std::uint32_t end_phase(std::uint32_t more) {
    const wake_key key = P::key_of(in_);
    const std::uint32_t before = in_.load(order::relaxed);
    bool wakes = false;
    if constexpr (W::parks)
      if ((before & asleep) != 0) [[unlikely]] {
        wakes = true;
        in_.fetch_and(~asleep, order::relaxed);
      }
    // (2) release: pairs with (1) and (5). If this is an unlock, nothing of the lock is touched after it.
    const std::uint32_t seen = in_.fetch_add(to_next_phase(before) + more, order::release);
    if constexpr (W::parks)
      if (wakes || (seen & asleep) != 0) [[unlikely]]
        P::wake(key, every_sleeper, all);
    return seen;
  }

  void release(std::uint32_t more) { end_phase(more - writing); }

  // ---- a writer's way to the lock -----------------------------------------------------------------------------

  /// The writer has claimed the lock when `in` was `seen`. Waits for the readers that had come. False: the time is over,
  /// and the lock is released.
  template <class Remaining>
  [[gnu::cold, gnu::noinline]] bool drain(std::uint32_t seen, Remaining remaining) {
    const auto wait = [&](auto limit) {
      publish_target(seen);
      return wait_on(
          out_, [seen](std::uint32_t v) { return has_left(v, seen); },  // (4)
          [](std::uint32_t v) { return v | sleeping; }, limit);
    };
    // Relaxed: (5) orders it after the give-ups of the writers before.
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
    out_.fetch_and(0 - one, order::relaxed);  // before release(): the next writer publishes its own target
    if (done && give_ups != 0) words_.queued.fetch_and(one_give_up - 1, order::relaxed);
    if (!done) release(0);
    return done;
  }

  /// Says for which exits the claiming writer waits. (9) release: pairs with (8), so that a reader comes after the last writer.
  void publish_target(std::uint32_t seen) {
    std::uint32_t now = out_.load(order::relaxed);
    while (!out_.compare_exchange_weak(now, (now & (0 - one)) | low_bits(seen / one) | draining, order::release,
                                       order::relaxed))
      P::backoff(0);
  }

  /// A reader enters while a writer drains: see try_lock_shared() in the opening comment.
  [[gnu::cold, gnu::noinline]] bool try_take_back_an_exit() {
    std::uint32_t seen = out_.load(order::relaxed);
    while ((seen & draining) != 0 && low_bits(seen / one) != (seen & low_bits_of_target)) {
      // (8) acquire: pairs with (9).
      if (out_.compare_exchange_weak(seen, seen - one, order::acquire, order::relaxed)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// The time that is left of a window, or of the writer's time if that is less.
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

  /// Claims the lock after the writers that have come before. `seen` becomes the value of `in` right before the claim.
  /// False: the time is over.
  template <class Remaining>
  [[gnu::cold, gnu::noinline]] bool claim_in_turn(std::uint32_t& seen, Remaining remaining) {
    if (refuses(remaining)) return false;
    enter_queue();
    if constexpr (has_limit<Remaining>) {
      if (!timed_waiters::lock(writers_, words_.timed, remaining)) {
        if (writers_.try_lock())
          leave_queue();
        else
          words_.queued.fetch_sub(1, order::relaxed);  // `queue` may stay set; the next writer that leaves clears it
        return false;
      }
    } else {
      writers_.lock();
    }
    if constexpr (Biased)
      if ((in_.load(order::relaxed) & biased) != 0) revoke();
    const bool claimed = wait_on_in([](std::uint32_t v) { return (v & writing) == 0; }, remaining);
    // No other thread sets `writing`: `queue` is set, and this thread has the writers' lock. Relaxed: wait_on_in() is
    // (5).
    if (claimed) seen = in_.fetch_add(writing, order::relaxed);
    leave_queue();
    return claimed;
  }

  /// After this no writer that comes later claims the lock directly, and no reader sets `biased`, until the thread has
  /// left the queue. A queued writer's doorway is that of the writers' lock.
  void enter_queue() {
    words_.queued.fetch_add(1, order::relaxed);
    in_.fetch_or(queue, order::release);  // (6) release: pairs with (7)
  }

  bool has_queued() const { return words_.queued.load(order::relaxed) % one_give_up != 0; }

  /// Called by the thread that has the writers' lock. Clears `queue` if the thread is the last one in the queue. Only a
  /// thread with that lock does so, and it sets `queue` again, before it unlocks, if a writer has come meanwhile. So
  /// `queue` is set as long as a thread in the queue has the writers' lock.
  void leave_queue() {
    if (words_.queued.fetch_sub(1, order::relaxed) % one_give_up == 1) {
      // (7) acquire: pairs with (6). If this clears the mark of a writer that has just come, its increment is seen.
      // Release: pairs with (5). A thread that gives up may have seen by (b4) that visible readers had left; a writer that
      // then claims the lock without a search must come after them.
      in_.fetch_and(~queue, order::acq_rel);
      if (has_queued()) in_.fetch_or(queue, order::relaxed);
    }
    if (timed_waiters::has_waiters(words_.timed)) [[unlikely]]
      timed_waiters::unlock(writers_, words_.timed);
    else
      writers_.unlock();
  }

  /// try_lock() and try_upgrade() of a lock that is biased or has the mark of a queue: claims it if no other thread has
  /// it, without waiting. (`queue` stays set if a writer has given up.)
  [[gnu::cold, gnu::noinline]] bool try_claim_in_queue(bool reads) {
    if (!writers_.try_lock()) return false;
    enter_queue();
    std::uint32_t seen = in_.load(order::acquire);  // (5)
    bool claimed = (seen & writing) == 0;
    if constexpr (Biased)
      if (claimed && (seen & biased) != 0) revoke();
    const std::uint32_t own = reads ? one : 0;  // this reader: one of the arrivals, also if it was visible
    for (seen = in_.load(order::relaxed); claimed; P::backoff(0)) {
      claimed = has_left(seen - own);
      // Relaxed: (5) above. No other thread has claimed the lock since, or does: this one has the writers' lock.
      if (claimed && in_.compare_exchange_weak(seen, seen - own + writing, order::relaxed, order::relaxed)) break;
    }
    leave_queue();
    return claimed;
  }

  // ---- visible readers ----------------------------------------------------------------------------------------

  std::uint64_t id() const { return P::lock_id(&words_); }
  /// The index of the calling thread's slot: the upper bits of its tag hashed with the lock.
  std::uint32_t own_index() const { return visible_slot_of<P::visible_slots>(reader_tag(), P::salt(&words_)); }
  /// A number that differs between most threads: the platform's reader_tag(), which is the same in a child, or else the
  /// owner tag.
  static std::uint32_t reader_tag() {
    if constexpr (requires { P::reader_tag(); })
      return P::reader_tag();
    else
      return P::owner_tag();
  }

  /// Takes the lock's id out of the thread's slot. False: it is not there, so a reader leaves by the exits.
  bool leave_visibly() {
    auto* const slots = P::visible_readers();
    if (slots == nullptr) return false;
    auto& mine = slots[own_index()];
    // (b7) acquire: pairs with (b5). If another reader of the lock has left by the slot that this thread had taken, this
    // thread's exit stands for that reader, and publishes its section to the next writer.
    std::uint64_t seen = mine.load(order::acquire);
    while (seen == id()) {
      // (b5) release: pairs with (b4) and (b7). Nothing of the lock is touched after it. On failure it is (b7).
      if (mine.compare_exchange_weak(seen, 0, order::acq_rel, order::acquire)) return true;
      P::backoff(0);
    }
    return false;
  }

  /// Whether the reader that came when `in` was `seen` is to call set_biased().
  static bool sets_biased(std::uint32_t seen) {
    if constexpr (Biased)
      return (seen & biased) == 0 && seen / one % P::count_limit(looks_at_clock) == 0;
    else
      return false;
  }

  /// A reader inside lets others enter by slots.
  [[gnu::cold, gnu::noinline]] void set_biased() {
    if (!P::prepare_visible_readers()) return;
    std::uint32_t until = words_.inhibit.load(order::relaxed);
    if (until != 0) {
      if (bias_pause::lasts(until, now())) return;
      // The pause is deleted, so that it does not seem to last again when the clock has wrapped. A compare-and-swap: a writer
      // may have begun another.
      if (!words_.inhibit.compare_exchange_strong(until, 0, order::relaxed, order::relaxed)) return;
    }
    std::uint32_t seen = in_.load(order::relaxed);
    if ((seen & (writing | queue | biased)) == 0)
      // (b6) release: publishes the table's address to (b3).
      in_.compare_exchange_strong(seen, seen | biased, order::release, order::relaxed);
  }

  static std::uint32_t now() { return std::uint32_t(P::now() >> 10); }

  void inhibit_from(std::uint32_t begin) { words_.inhibit.store(bias_pause::after(begin, now()), order::relaxed); }

  /// The head of the queue makes the lock unbiased, and moves its visible readers to the arrivals.
  [[gnu::cold, gnu::noinline]] void revoke() {
    const std::uint32_t begin = now();
    in_.fetch_and(~biased, order::seq_cst);  // (b3)
    auto* const slots = P::visible_readers();
    for (std::uint32_t i = 0; i < P::visible_slots; i++)
      if (slots[i].load(order::seq_cst) == id()) move_to_arrivals(slots[i]);  // (b4)
    inhibit_from(begin);
  }

  /// Counts the reader first: the sum of slots and arrivals is never less than the number of readers.
  template <class Slot>
  void move_to_arrivals(Slot& s) {
    in_.fetch_add(one, order::relaxed);
    std::uint64_t seen = id();
    // (b4) acquire, if the reader has left; release: pairs with (b7), so that its exit comes after the count.
    while (!s.compare_exchange_weak(seen, 0, order::acq_rel, order::acquire)) {
      if (seen != id()) return void(in_.fetch_sub(one, order::relaxed));
      P::backoff(0);
    }
  }

  bool has_visible() const {
    if constexpr (Biased) {
      auto* const slots = P::visible_readers();
      for (std::uint32_t i = 0; slots != nullptr && i < P::visible_slots; i++)
        if (slots[i].load(order::seq_cst) == id()) return true;  // (b4)
    }
    return false;
  }

  word& in_;
  word& out_;
  read_write_words<P>& words_;
  Writers& writers_;
  const reader_rule rule_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
