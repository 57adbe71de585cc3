// Measured state of a lock whose waiters poll only if polling is likely to pay: how long the lock is held, and on which
// NUMA node its waiters poll. Rules 1, 2 and 5 of docs/default-lock.md, which has the measurements for the constants.
//
// Source: ours. A *hold* is the time from the end of lock() to the beginning of unlock(). Only holds of threads that
// came through the lock's queue are measured.
//
//     bits 0–3    the class of the holds. Class 0 is for holds below 64 ns; each next class is for holds up to twice as
//                 long
//     bits 4–7    *home*: the NUMA node whose threads poll if holds are brief; the number is reduced to 16 nodes
//     bits 8–11   *doubt*: of the threads that polled beyond the limit of polling, the number that polled in vain less
//                 the number that got the lock, kept between 0 and 15. A thread that got the lock within the limit does
//                 not count
//     bits 12–31  the queue node of the last owner from the queue (handles are below 2^20), or the time of a hand-over
//
// Only the lock's owner writes these fields, so only one thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"

namespace usher::inline v2 {

/// A value of these bits.
struct hold_memory {
  static constexpr std::uint32_t class_bits = 4, home_bits = 4, doubt_bits = 4;
  static constexpr std::uint32_t doubt_at = class_bits + home_bits, holder_at = doubt_at + doubt_bits;
  static constexpr std::uint32_t longest = (1u << class_bits) - 1, homes = (1u << home_bits) - 1;
  static constexpr std::uint32_t most_doubt = (1u << doubt_bits) - 1, too_much_doubt = 8;  // chosen
  static constexpr std::uint32_t brief = 4;  ///< classes below this one (holds below 512 ns) are brief

  std::uint32_t bits = 0;

  static constexpr std::uint32_t class_of(std::uint64_t ns) {
    return std::min(std::uint32_t(std::bit_width(ns / 64)), longest);
  }
  constexpr std::uint32_t hold_class() const { return bits & longest; }
  /// The shortest hold of this class, in ns.
  constexpr std::uint64_t least_hold() const { return hold_class() == 0 ? 0 : std::uint64_t{32} << hold_class(); }
  constexpr bool is_brief() const { return hold_class() < brief; }
  constexpr bool is_home(std::uint32_t numa_node) const { return (bits >> class_bits & homes) == (numa_node & homes); }
  constexpr std::uint32_t doubt() const { return bits >> doubt_at & most_doubt; }
  constexpr node_handle holder() const { return bits >> holder_at; }

  constexpr hold_memory with_holder(node_handle h, std::uint32_t home) const {
    return {h << holder_at | doubt() << doubt_at | (home & homes) << class_bits | hold_class()};
  }

  /// The value at a hand-over: the low 20 bits of the time take the place of the node.
  constexpr hold_memory with_hand_over(std::uint32_t now) const {
    return {now << holder_at | (bits & ((1u << holder_at) - 1))};
  }
  constexpr std::uint32_t since_hand_over(std::uint32_t now) const {
    return ((now << holder_at) - (bits & ~((1u << holder_at) - 1))) >> holder_at;
  }

  /// The value after a thread has polled for longer than the limit, and has thereby got the lock or not.
  constexpr hold_memory after_long_poll(bool got_it) const {
    if (got_it) return {doubt() == 0 ? bits : bits - (1u << doubt_at)};
    return {doubt() == most_doubt ? bits : bits + (1u << doubt_at)};
  }

  /// The value after a hold of `ns`: the class moves by one towards the hold's class, and so converges to the median's.
  constexpr hold_memory after_hold(std::uint64_t ns) const {
    const std::uint32_t its = class_of(ns);
    return {its == hold_class() ? bits : its > hold_class() ? bits + 1 : bits - 1};
  }

  /// Returns how long a thread is to poll, in ns, if the usual limit is `limit` and a sleep costs `cost_of_sleep`.
  /// Returns 0 if the thread is unlikely to get the lock in that time, or would harm others.
  ///
  /// Beyond the limit a thread polls for a few holds: if it has not got the lock by then, many others wait. If polling
  /// beyond the limit has of late failed more often than it succeeded, only one thread in 32 does so: the owner may
  /// have lost its CPU, and polling threads keep the CPU from it. A load from another NUMA node takes the lock's cache
  /// line away for longer than several brief holds last, so only threads of home poll if holds are brief. Holds that
  /// have not been measured yet count as short.
  template <class Random>
  constexpr std::uint64_t poll_for(std::uint64_t limit, std::uint64_t cost_of_sleep, std::uint32_t numa_node,
                                   Random random) const {
    if (limit == 0 || (is_brief() && !is_home(numa_node))) return 0;
    const std::uint64_t holds = 8 * least_hold();
    if (holds <= limit) return limit;
    const bool may_exceed = doubt() < too_much_doubt || random() % 32 == 0;
    if (may_exceed && hold_class() <= class_of(cost_of_sleep)) return std::max(limit, std::min(holds, cost_of_sleep));
    return hold_class() <= class_of(limit) ? limit : 0;
  }
};

/// Tries to take a lock for `spin_budget` ns. Returns true if an attempt succeeded. The pause after an attempt is
/// random, 8 to 24 times as long as the attempt. An attempt takes long if the lock's cache line is far away or
/// contended; then attempts must be rare, since each delays the owner as well. If holds are brief, each pause is also
/// at least 1.5 times the pause before.
template <platform P, class W, class Word, class IsFree, class TryLock>
bool poll_lock(const Word& word, IsFree is_free, TryLock try_lock, std::uint64_t spin_budget, bool brief) {
  constexpr std::uint64_t pause_factor = 16, least_pause = 128, most_pause = 8192;  // pauses in ns
  std::uint64_t pause = least_pause, now = P::now();
  for (const std::uint64_t end = now + spin_budget; now < end;) {
    pause_between_attempts<P, W>(word, is_free, std::uint32_t(pause / 2 + P::random() % pause));
    const std::uint64_t before = P::now();
    if (try_lock()) return true;
    now = P::now();
    pause = std::clamp((now - before) * pause_factor, brief ? std::min(pause + pause / 2, most_pause) : least_pause,
                       most_pause);
  }
  return false;
}

}  // namespace usher::inline v2
