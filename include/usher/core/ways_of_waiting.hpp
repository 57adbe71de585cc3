// The ways of waiting, one line each: the catalogue, the command, the tests and their scripts are made from this table
// (tools/catalog.py reads it, too).
//
//   kind         the name in this file; `usher list` shows it with hyphens. New lines go to the end, because a line's
//                position is its bit in waiting_kind
//   suffix       the suffix of the lock's name: "twa-park"
//   pace         the waiter's action between two loads of the word for which it waits: a policy of namespace pacing
//   limit        the wait_limits member that bounds the polling; for pacing::by::sleeping, the time slept between two
//                loads. none: no limit; a way that parks then loads the word only once before it sleeps
//   then parks   at the limit the waiter goes to sleep, and the hand-over wakes it
//   usual        every lock is built with this way unless its traits say otherwise
//   wants a CPU  waiters run for so long that each waiter needs a CPU of its own
//   in words     for `usher list`
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "usher/core/platform.hpp"

// clang-format off
#define USHER_WAYS_OF_WAITING(way)                                                                                              \
  /*  kind             suffix    pace        limit  then parks  usual  wants a CPU  in words */                                 \
  way(spin,            "-spin",  polling,    none,  false,      true,  true,  "polls until it gets in")                         \
  way(spin_then_park,  "",       polling,    spin,  true,       true,  false, "polls for a moment, then sleeps")                \
  way(yield_then_park, "-yield", yielding,   yield, true,       true,  true,  "gives its CPU away for long, then sleeps")       \
  way(park,            "-park",  polling,    none,  true,       true,  false, "sleeps at once")                                 \
  way(sleep,           "-sleep", sleeping,   sleep, false,      false, false, "sleeps for a set time between looks")            \
  way(mwait_then_park, "-mwait", monitoring, spin,  true,       false, false, "polls by an instruction that waits for a write") \
  /*  new ones above this line */

// clang-format on

namespace usher::inline v2 {

namespace ways_detail {
enum class place : std::uint8_t {
#define USHER_PLACE(kind, ...) kind,
  USHER_WAYS_OF_WAITING(USHER_PLACE)
#undef USHER_PLACE
};
}  // namespace ways_detail

/// The ways of waiting, one bit each, so that an unsigned can be a set of them.
enum class waiting_kind : std::uint8_t {
#define USHER_KIND(kind, ...) kind = 1u << unsigned(ways_detail::place::kind),
  USHER_WAYS_OF_WAITING(USHER_KIND)
#undef USHER_KIND
};

constexpr unsigned operator|(waiting_kind a, waiting_kind b) {
  return unsigned(a) | unsigned(b);
}
constexpr unsigned operator|(unsigned a, waiting_kind b) {
  return a | unsigned(b);
}
constexpr bool has(unsigned set, waiting_kind k) {
  return (set & unsigned(k)) != 0;
}

struct way_of_waiting {
  waiting_kind kind;
  std::array<char, 32> hyphenated;
  const char* suffix;
  pacing::by pace;
  std::uint32_t wait_limits::*limit;  ///< null: no limit
  bool parks, usual, wants_cpu;
  const char* in_words;

  /// The name with hyphens: "spin-then-park".
  constexpr std::string_view name() const { return hyphenated.data(); }

  /// Whether a lock goes through the same states with both ways. If so, the ways differ only in a waiter's actions
  /// between two loads, and in how long these actions take.
  constexpr bool has_states_of(const way_of_waiting& other) const {
    return parks == other.parks && (!parks || (limit == nullptr) == (other.limit == nullptr));
  }
};

namespace ways_detail {

struct limits {
  static constexpr std::uint32_t wait_limits::*none = nullptr;
  static constexpr std::uint32_t wait_limits::*spin = &wait_limits::spin;
  static constexpr std::uint32_t wait_limits::*yield = &wait_limits::yield;
  static constexpr std::uint32_t wait_limits::*sleep = &wait_limits::sleep;
};

constexpr std::array<char, 32> hyphenated(std::string_view identifier) {
  std::array<char, 32> text{};
  for (std::size_t i = 0; i < identifier.size(); i++) text[i] = identifier[i] == '_' ? '-' : identifier[i];
  return text;
}

#define USHER_ROW(kind, suffix, pace, limit, parks, usual, wants_cpu, in_words)                                \
  way_of_waiting{waiting_kind::kind, hyphenated(#kind), suffix, pacing::by::pace, limits::limit, parks, usual, \
                 wants_cpu,          in_words},
inline constexpr std::array table{USHER_WAYS_OF_WAITING(USHER_ROW)};
#undef USHER_ROW

static_assert(table.size() <= 8, "waiting_kind has eight bits");

}  // namespace ways_detail

#undef USHER_WAYS_OF_WAITING

/// All ways in the catalogue's order. First comes the one without a suffix, which works with more waiters than CPUs.
inline constexpr auto ways_of_waiting = [] {
  auto ways = ways_detail::table;
  std::size_t plain = 0;
  while (*ways[plain].suffix != '\0') plain++;
  for (; plain > 0; plain--) std::swap(ways[plain - 1], ways[plain]);
  return ways;
}();

constexpr const way_of_waiting& way_of(waiting_kind kind) {
  return ways_detail::table[unsigned(std::countr_zero(unsigned(kind)))];
}

/// The first way in the catalogue that has the same states as `kind`: the checker treats these ways as one.
constexpr waiting_kind first_with_states_of(waiting_kind kind) {
  for (const way_of_waiting& w : ways_of_waiting)
    if (w.has_states_of(way_of(kind))) return w.kind;
  return kind;
}

inline constexpr unsigned every_waiting_kind_there_is = (1u << ways_of_waiting.size()) - 1;

inline constexpr unsigned every_kind_without_parking = [] {
  unsigned set = 0;
  for (const way_of_waiting& w : ways_of_waiting)
    if (!w.parks) set |= unsigned(w.kind);
  return set;
}();

inline constexpr unsigned every_waiting_kind = [] {
  unsigned set = 0;
  for (const way_of_waiting& w : ways_of_waiting)
    if (w.usual) set |= unsigned(w.kind);
  return set;
}();

}  // namespace usher::inline v2
