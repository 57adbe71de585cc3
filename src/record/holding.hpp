// What the holder of a recorded mutex records: that it has the mutex, for how long, and how long other threads waited
// meanwhile. A *hold* is the time from a lock to its unlock.
//
// A hold is charged with the time that all waiters together waited during it. object::waiting gives the time that the
// present waiters have waited so far. During a hold no waiter leaves, except one that gives up. So the charge is that
// sum at the end less that sum at the beginning, which is 0 without waiters; a waiter that gives up subtracts its whole
// wait from the sum at the beginning. Of short holds that begin while threads wait, a sample is charged, with as many
// times as much.
#pragma once

#include "record/recorder.hpp"

namespace usher::preload {

inline constexpr std::uint32_t one_deeper = 1u << 16, recursive_kind = 1u << 8;  ///< in object::depth_and_kind

[[gnu::noinline]] void hold_begins_slowly(recorded_thread& me, record::object& o);

/// Timing a hold takes two readings of the clock, which is more than many a hold takes. So of short holds that begin
/// while threads wait, one in eight is timed, at random, and counts as eight, or one in 32 where the mutex has been locked
/// often; long ones are all timed. A holder finds the same number at the beginning and at the end.
inline constexpr std::uint32_t least_beside_waiters = 8;
inline std::uint32_t beside_waiters(std::uint64_t acquisitions) {
  return acquisitions >> 16 == 0 ? least_beside_waiters : 32;  // chosen: of 65536 holds 8192 have been timed
}
inline bool is_skipped(std::uint64_t acquisitions, std::uint32_t countdown) {
  return countdown >= least_beside_waiters << 16 && (countdown & 0xffff) > 1 &&
         (acquisitions * 0x9e3779b97f4a7c15u) >> 32 >= (std::uint64_t{1} << 32) / beside_waiters(acquisitions);
}

/// By the thread that has just locked the mutex.
inline void hold_begins(recorded_thread& me, record::object& o) {
  if (o.owner.load(std::memory_order_relaxed) == me.name) [[unlikely]] {
    const std::uint32_t depth = o.depth_and_kind.load(std::memory_order_relaxed);
    if ((depth & recursive_kind) != 0) {
      o.depth_and_kind.store(depth + one_deeper, std::memory_order_relaxed);
      return;
    }
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
/// hold_ends_slowly() is for before the release, while the thread alone writes the holder's fields; charge_holder() is
/// for after it.
[[gnu::noinline]] held_charge hold_ends_slowly(recorded_thread& me, record::object& o);
[[gnu::cold, gnu::noinline]] void charge_holder(recorded_thread& me, const held_charge& c);

/// Ends a hold that a wait for a condition ends. `chain` is the wait's call chain; 0: none was taken, and the charge
/// goes to a later hold.
void hold_ends(recorded_thread& me, record::object& o, std::uint32_t chain);

}  // namespace usher::preload
