// What the holder of a recorded mutex books: that it has it, how long it had it, and what others waited meanwhile.
//
// A hold is charged with what all waiters together waited between its beginning and its end. object::waiting gives what those
// who wait have waited so far; during a hold none of them leaves, but one that gives up. So the charge is that sum at the end,
// less the sum at the beginning, which is 0 if nobody waited then; and a waiter that gives up subtracts its whole wait from that sum.
// Of short holds that begin beside waiters, one in eight is charged with eight times as much.
#pragma once

#include "preload/recorder.hpp"

namespace usher::preload {

inline constexpr std::uint32_t one_deeper = 1u << 16, recursive_kind = 1u << 8;  ///< in object::depth_and_kind

[[gnu::noinline]] void hold_begins_slowly(recorded_thread& me, record::object& o);

/// Where there are always waiters, each hold would read the clock twice, which is more than many a hold takes. So of short holds
/// beside waiters one in eight is timed, by chance, and stands for eight; where holds are long, each is.
inline constexpr std::uint32_t beside_waiters = 8;
inline bool is_skipped(std::uint64_t acquisitions, std::uint32_t countdown) {
  return countdown >= beside_waiters << 16 && (countdown & 0xffff) > 1 &&
         (acquisitions * 0x9e3779b97f4a7c15u) >> 61 != 0;
}

/// The thread has the mutex.
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
  std::uint64_t due =
      0;  ///< ticks that others waited, for the chain that releases it; 0: another hold's chain will answer
  std::uint32_t whom = 0;
};
/// Before the release, so that it is the only one who writes what a holder writes; and after it.
[[gnu::noinline]] held_charge hold_ends_slowly(recorded_thread& me, record::object& o);
[[gnu::cold, gnu::noinline]] void charge_holder(recorded_thread& me, const held_charge& c);

/// The hold ends in a wait for a condition, whose chain is `chain`: 0 if none was taken, then the next hold is charged.
void hold_ends(recorded_thread& me, record::object& o, std::uint32_t chain);

}  // namespace usher::preload
