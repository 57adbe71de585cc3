// Which wait on a condition is ended by which signals, found in a recording.
//
// Three rules are tried for each condition:
//
//   counted   Each signal stands for one more of something (an item, a free place), and each section of the waiting kind takes one;
//             a thread waits when there is none. The sections of the waiting kind are those that make the same signals as the
//             sections that wait. The rule holds if the number, counted through a window, is nearly the same at nearly all waits: then
//             this number is 0, and the number at the window's beginning is known.
//   rounds    One thread opens rounds by broadcasts, and each other thread takes part once in each. It goes through the same number of
//             sections in each round: in the first one it waits for the opening. In a later one of a fixed number the last thread
//             signals a second condition, on which the opener waits for the round's end.
//   matched   Otherwise a wait takes a token, and a signal posts one if it found a waiting thread in the recording. Each
//             thread of a role that waits brings one token with it, so that roles which wait for each other do not stop for ever.
//
// A wait that no recorded signal has ended is *unknown*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lab/predict/event_times.hpp"
#include "lab/recordings/recording.hpp"

namespace usher::predict {

inline constexpr std::uint32_t none = ~std::uint32_t{0};

/// What an event does with tokens.
struct mark {
  enum class wait : std::uint8_t { unknown, takes, dropped };
  std::uint32_t posts = 0;     ///< of a signal
  std::uint32_t takes = none;  ///< of a lock event: the condition of which its section takes a token
  wait how = wait::unknown;    ///< of a wait; dropped: another wait of the same section takes the token
  bool handed_over = false;    ///< of a lock event: another thread had the object before
  std::uint32_t ends =
      none;  ///< of an unlock event under the rule *rounds*: the condition by which the last such section ends a round
  bool opens = false;    ///< of a broadcast: it opens a round
  bool dropped = false;  ///< of a signal: a section that ends a round makes it
};

/// By window, stream and event.
using marks = std::vector<std::vector<std::vector<mark>>>;

enum class signal_rule : std::uint8_t { none, counted, rounds, matched };

struct condition_facts {
  signal_rule rule = signal_rule::none;
  std::uint32_t mutex = none;  ///< of most waits
  std::uint64_t waits = 0;     ///< without those that timed out
  std::uint64_t timed_out = 0;
  std::uint64_t unknown = 0;       ///< waits whose signal is not in the recording
  std::uint64_t signals = 0;       ///< and broadcasts
  std::uint32_t at_first = 0;      ///< counted: the tokens at the beginning
  std::uint32_t opened_by = none;  ///< of the condition that ends rounds: the one that opens them
};

struct signal_facts {
  marks of_events;
  std::vector<condition_facts> conditions;  ///< by object; empty for objects of other kinds
};

signal_facts find_signals(const recording::recording& r);

}  // namespace usher::predict
