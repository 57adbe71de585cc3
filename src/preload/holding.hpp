// What the holder of a recorded mutex books: that it has it, how long it had it, and what others waited meanwhile.
//
// A hold is charged with what all waiters together waited between its beginning and its end. object::waiting gives what those
// who wait have waited so far; during a hold none of them leaves, but one that gives up. So the charge is that sum at the end,
// less the sum at the beginning, which is 0 if nobody waited then; and from which whoever gives up subtracts its whole wait.
#pragma once

#include "preload/recorder.hpp"

namespace usher::preload {

inline constexpr std::uint32_t one_deeper = 1u << 16, recursive_kind = 1u << 8;  ///< in object::depth_and_kind

[[gnu::noinline]] void hold_begins_slowly(recorded_thread& me, record::object& o);

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
  o.acquisitions.store(o.acquisitions.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::uint32_t countdown = o.countdown.load(std::memory_order_relaxed);
  if ((countdown & 0xffff) <= 1 || o.waiting.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return hold_begins_slowly(me, o);
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
