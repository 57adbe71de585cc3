// The holder of a recorded mutex records its hold, the hold's duration, and the time for which other threads waited
// meanwhile. A *hold* is the time from a lock to its unlock.
//
// A hold is charged with the time that all waiters together waited during it. object::waiting gives the time that the
// present waiters have waited so far. During a hold no waiter leaves, except one that gives up. So the charge is that
// sum at the end less that sum at the beginning, which is 0 without waiters; a waiter that gives up subtracts its
// whole wait from the sum at the beginning. If short holds begin while threads wait, a sample of them is charged,
// with as many times as much.
//
// A *light hold* writes no cache line that another thread writes, too. A contended mutex whose holds follow each
// other within about a microsecond gets such holds (record::counted_by_threads): its entry's first line would
// otherwise go from CPU to CPU with the mutex. The thread counts the acquisition in its own slot, and remembers the
// mutex until its unlock, which needs no search. A thread has one light hold at a time, and a count for each of eight
// mutexes; it writes other holds of such mutexes into the entry, but does not time them. About every 32nd of all
// these holds of a thread, light or not, at random, is timed. It stands for all since the last one, with the time
// that others waited meanwhile. A light hold becomes an ordinary one before its thread waits, so that each circle of
// waiting holders can be found. After a wait of a millisecond the mutex is recorded without light holds for a while,
// since its holds may be longer now.
#pragma once

#include "record/recorder.hpp"

namespace usher::preload {

inline constexpr std::uint32_t one_deeper = 1u << 16;  ///< in object::depth_and_kind

[[gnu::noinline]] void hold_begins_slowly(recorded_thread& me, record::object& o);

/// Called by the thread that has just locked a mutex that is counted by threads: begins a light hold. False: it
/// cannot be one.
inline bool hold_begins_lightly(recorded_thread& me, record::object& o, const void* mutex, std::uint32_t attributes) {
  if (me.light_mutex != nullptr || me.light_left <= 1) [[unlikely]]
    return false;
  if ((attributes & record::recursive) != 0 && o.owner.load(std::memory_order_relaxed) == me.name) return false;
  record::word64& there = me.slot->counts[record::counted_at(reinterpret_cast<std::uintptr_t>(mutex))];
  const std::uint64_t count = there.load(std::memory_order_relaxed);
  if ((count & (record::one_counted - 1)) != me.index(o) + 1) [[unlikely]]
    return false;
  --me.light_left;
  me.light_object = &o;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler that waits settles the hold
  me.light_mutex = mutex;
  there.store(count + record::one_counted, std::memory_order_relaxed);
  return true;
}
/// The same of a hold that is not light.
[[gnu::noinline]] void counted_hold_begins(recorded_thread& me, record::object& o, const void* mutex);
/// Before an unlock. False: the thread has no light hold of the mutex.
inline bool light_hold_ends(recorded_thread& me, const void* mutex) {
  if (me.light_mutex != mutex) return false;
  if (me.light_depth != 0) [[unlikely]]
    me.light_depth--;
  else
    me.light_mutex = nullptr;
  return true;
}

/// Timing a hold takes two readings of the clock, longer than many a hold. So of short holds that begin while threads
/// wait, one in eight is timed, at random, and counts as eight, or one in 32 if the mutex has been locked often; long
/// ones are all timed. A holder finds the same number at the beginning and at the end.
inline constexpr std::uint32_t least_beside_waiters = 8;
inline std::uint32_t beside_waiters(std::uint64_t acquisitions) {
  return acquisitions >> 16 == 0 ? least_beside_waiters : 32;  // chosen: of 65536 holds 8192 have been timed
}
inline bool is_skipped(std::uint64_t acquisitions, std::uint32_t countdown) {
  return countdown >= least_beside_waiters << 16 && (countdown & 0xffff) > 1 &&
         (acquisitions * 0x9e3779b97f4a7c15u) >> 32 >= (std::uint64_t{1} << 32) / beside_waiters(acquisitions);
}

/// Called by the thread that has just locked the mutex.
inline void hold_begins(recorded_thread& me, record::object& o, const void* mutex) {
  const std::uint32_t attributes = o.depth_and_kind.load(std::memory_order_relaxed);
  if ((attributes & record::counted_by_threads) != 0) {
    if (!hold_begins_lightly(me, o, mutex, attributes)) counted_hold_begins(me, o, mutex);
    return;
  }
  if (me.light_mutex == mutex) [[unlikely]]
    forget_light_hold(me);  // another thread has ended it
  if (o.owner.load(std::memory_order_relaxed) == me.name && (attributes & record::recursive) != 0) [[unlikely]] {
    o.depth_and_kind.store(attributes + one_deeper, std::memory_order_relaxed);
    return;
  }
  o.owner.store(me.name, std::memory_order_relaxed);
  const std::uint64_t acquisitions = o.acquisitions.load(std::memory_order_relaxed) + 1;
  o.acquisitions.store(acquisitions, std::memory_order_relaxed);
  const std::uint32_t countdown = o.countdown.load(std::memory_order_relaxed);
  if ((countdown & 0xffff) <= 1 || o.waiting.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    if (!is_skipped(acquisitions, countdown)) return hold_begins_slowly(me, o);
    o.hold_begin.store(record::object::not_timed, std::memory_order_relaxed);
    return;
  }
  o.countdown.store(countdown - 1, std::memory_order_relaxed);
}

struct held_charge {
  /// Ticks that others waited, to be charged to the call chain of the unlock; 0: a later hold's chain is charged.
  std::uint64_t due = 0;
  std::uint32_t whom = 0;
};
/// hold_ends_slowly() is called before the release, while the thread alone writes the holder's fields;
/// charge_holder() is called after it.
[[gnu::noinline]] held_charge hold_ends_slowly(recorded_thread& me, record::object& o);
[[gnu::cold, gnu::noinline]] void charge_holder(recorded_thread& me, const held_charge& c);

/// Ends a hold that a wait for a condition ends. `chain` is the wait's call chain; 0: none was taken, and the charge
/// goes to a later hold.
void hold_ends(recorded_thread& me, record::object& o, std::uint32_t chain);

}  // namespace usher::preload
