// Records the holds of mutexes. A *hold* is the time from a lock to its unlock. The holder records the hold, its
// duration, and the time for which other threads waited during it.
//
// A hold is charged with the time that all waiters together waited during it. object::waiting gives the time that the
// present waiters have waited so far. During a hold a waiter leaves only if it gives up. So the charge is that time at
// the end of the hold less that time at its beginning, which is 0 without waiters; a waiter that gives up subtracts its
// whole wait from the time at the beginning. If short holds begin while threads wait, only a sample of them is timed,
// and a charge is multiplied by the number of holds that the timed one represents.
//
// A *light hold* writes no cache line that another thread writes. A contended mutex whose holds follow each other
// within about a microsecond gets light holds (contract::counted_by_threads), because otherwise the first line of its
// entry would move from CPU to CPU with the mutex. The thread counts the acquisition in its own slot, and remembers the
// mutex until the unlock, which then needs no search. A thread has at most one light hold at a time, and counts for at
// most eight mutexes; other holds of such mutexes are written into the entry, but not timed. Of all these holds of a
// thread, light or not, about every 32nd is timed, at random. It represents all holds since the last timed one, and its
// charge is multiplied by their number. A light hold becomes an ordinary hold before its thread waits, so that
// deadlocks can be found. After a wait of a millisecond the mutex is recorded without light holds for a while, since
// its holds may have become longer.
#pragma once

#include "watch/recorder/recorder.hpp"

namespace usher::recorder {

inline constexpr std::uint32_t one_deeper = 1u << 16;  ///< in object::depth_and_kind

/// Turns counting by threads on or off. Called by the holder. It may be turned off only while no hold is being timed as
/// a sample; the next hold is then timed.
inline void count_by_threads(contract::object& o, bool on) {
  const std::uint32_t before = o.depth_and_kind.load(std::memory_order_relaxed);
  const std::uint32_t now = on ? before | contract::counted_by_threads : before & ~contract::counted_by_threads;
  if (now == before) return;
  o.depth_and_kind.store(now, std::memory_order_relaxed);
  if (!on) o.mutex.countdown.store(1 << 16 | 1, std::memory_order_relaxed);
}

[[gnu::noinline]] void hold_begins_slowly(recorded_thread& me, contract::object& o);

/// Begins a light hold. Called by the thread that has just locked a mutex that is counted by threads. False if this
/// hold cannot be light.
inline bool hold_begins_lightly(recorded_thread& me, contract::object& o, const void* mutex, std::uint32_t attributes) {
  if (me.light_mutex != nullptr || me.light_left <= 1) [[unlikely]]
    return false;
  if ((attributes & contract::recursive) != 0 && o.owner.load(std::memory_order_relaxed) == me.name) return false;
  contract::word64& there = me.slot->counts[contract::counted_at(reinterpret_cast<std::uintptr_t>(mutex))];
  const std::uint64_t count = there.load(std::memory_order_relaxed);
  if ((count & (contract::one_counted - 1)) != me.index(o) + 1) [[unlikely]]
    return false;
  --me.light_left;
  me.light_object = &o;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a signal handler that waits makes the hold ordinary
  me.light_mutex = mutex;
  there.store(count + contract::one_counted, std::memory_order_relaxed);
  return true;
}
/// Begins a hold, not a light one, of a mutex that is counted by threads.
[[gnu::noinline]] void counted_hold_begins(recorded_thread& me, contract::object& o, const void* mutex);
/// Ends the thread's light hold of the mutex. Called before the unlock. False if the thread has no such hold.
inline bool light_hold_ends(recorded_thread& me, const void* mutex) {
  if (me.light_mutex != mutex) return false;
  if (me.light_depth != 0) [[unlikely]]
    me.light_depth--;
  else
    me.light_mutex = nullptr;
  return true;
}

/// Timing a hold takes two readings of the clock, longer than many holds last. So of the short holds that begin while
/// threads wait, one in eight is timed, at random, and counts as eight (one in 32 if the mutex has been locked often);
/// long holds are all timed. The result is the same at the beginning and at the end of a hold.
inline constexpr std::uint32_t least_beside_waiters = 8;
inline std::uint32_t beside_waiters(std::uint64_t acquisitions) {
  return acquisitions >> 16 == 0 ? least_beside_waiters : 32;  // chosen: 8192 of 65536 holds are timed by then
}
inline bool is_skipped(std::uint64_t acquisitions, std::uint32_t countdown) {
  return countdown >= least_beside_waiters << 16 && (countdown & 0xffff) > 1 &&
         (acquisitions * 0x9e3779b97f4a7c15u) >> 32 >= (std::uint64_t{1} << 32) / beside_waiters(acquisitions);
}

/// Records the beginning of a hold. Called by the thread that has just locked the mutex.
inline void hold_begins(recorded_thread& me, contract::object& o, const void* mutex) {
  const std::uint32_t attributes = o.depth_and_kind.load(std::memory_order_relaxed);
  if ((attributes & contract::counted_by_threads) != 0) {
    if (!hold_begins_lightly(me, o, mutex, attributes)) counted_hold_begins(me, o, mutex);
    return;
  }
  if (me.light_mutex == mutex) [[unlikely]]
    forget_light_hold(me);  // another thread has unlocked the mutex
  if (o.owner.load(std::memory_order_relaxed) == me.name && (attributes & contract::recursive) != 0) [[unlikely]] {
    o.depth_and_kind.store(attributes + one_deeper, std::memory_order_relaxed);
    return;
  }
  o.owner.store(me.name, std::memory_order_relaxed);
  const std::uint64_t acquisitions = o.acquisitions.load(std::memory_order_relaxed) + 1;
  o.acquisitions.store(acquisitions, std::memory_order_relaxed);
  const std::uint32_t countdown = o.mutex.countdown.load(std::memory_order_relaxed);
  if ((countdown & 0xffff) <= 1 || o.waiting.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    if (!is_skipped(acquisitions, countdown)) return hold_begins_slowly(me, o);
    o.hold_begin.store(contract::object::not_timed, std::memory_order_relaxed);
    return;
  }
  o.mutex.countdown.store(countdown - 1, std::memory_order_relaxed);
}

struct held_charge {
  /// Ticks that others waited, to be charged to the call chain of this unlock. 0: they are charged at a later unlock.
  std::uint64_t due = 0;
  std::uint32_t whom = 0;
  contract::kind kind = contract::kind::mutex;
};
/// Adds the ticks that others waited during this hold to the object's uncharged time. At most a thousand times a second
/// in a program, it returns the whole uncharged time, to be charged to the call chain of this unlock; otherwise the
/// time is kept for a later hold.
held_charge add_charge(recorded_thread& me, contract::object& o, std::uint64_t ticks, std::uint64_t now);
/// hold_ends_slowly() is called before the mutex is released, while only this thread writes the holder's fields;
/// charge_holder() is called after the release.
[[gnu::noinline]] held_charge hold_ends_slowly(recorded_thread& me, contract::object& o);
[[gnu::cold, gnu::noinline]] void charge_holder(recorded_thread& me, const held_charge& c);

/// Whether the hold is not timed and no other thread has waited during it.
inline bool is_unwaited(const contract::object& o) {
  return (o.hold_begin.load(std::memory_order_relaxed) | o.mutex.waited_before.load(std::memory_order_relaxed) |
          o.waiting.load(std::memory_order_relaxed)) == 0;
}
/// Ends the hold of a mutex or spin lock before the unlock, whichever thread holds it. After the unlock charge_holder()
/// must charge the result. `needs_owner`: the unlock fails if this thread is not the holder.
held_charge hold_ends_otherwise(recorded_thread& me, contract::object& o, const void* mutex, bool needs_owner);

/// Ends the hold of a mutex that a wait for a condition variable unlocks. `chain` is the index + 1 of the wait's call
/// chain; if 0, the charge is kept for a later hold's chain.
void hold_ends(recorded_thread& me, contract::object& o, std::uint32_t chain);

}  // namespace usher::recorder
