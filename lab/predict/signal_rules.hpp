// Finds in a recording which signals end which waits on a condition. In the replay, signals post tokens and waits take
// them.
//
// Three rules are tried for each condition:
//
//   counted   Each signal stands for one more of something (an item, a free place), and each section of the waiting
//             kind takes one; a thread waits if there is none. The waiting kind are all sections that signal the same
//             conditions as the sections that wait. The rule holds if the count of signals minus takings has nearly the
//             same value at nearly all waits of a window. That value means 0 tokens, which gives the number of tokens
//             at the window's beginning.
//   rounds    One thread opens rounds by broadcasts, and each other thread takes part once in each round. A thread
//             executes the same number of sections in each round. In the first one it waits for the opening. In a later
//             one, always at the same place, the last thread signals a second condition, on which the opener waits for
//             the end of the round.
//   matched   Otherwise a wait takes a token, and a signal posts a token if it found a waiting thread in the recording.
//             Each replayed thread of a role that waits adds one token, so that roles that wait for each other do not
//             deadlock.
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

/// The effect of an event on the tokens of conditions.
struct mark {
  enum class wait : std::uint8_t { unknown, takes, dropped };
  std::uint32_t posts = 0;     ///< of a signal: the number of tokens that it posts
  std::uint32_t takes = none;  ///< of a lock event: the condition from which its section takes a token
  wait how = wait::unknown;    ///< of a wait; dropped: not replayed, since another event of the section takes the token
  bool handed_over = false;    ///< of a lock event: another thread had the mutex before
  std::uint32_t ends =
      none;  ///< of an unlock event under the rule *rounds*: the condition by which the last such section ends a round
  bool opens = false;    ///< of a broadcast: it opens a round
  bool dropped = false;  ///< of a signal: it is not replayed, since the section that ends a round makes it
};

/// Indexed by window, stream and event.
using marks = std::vector<std::vector<std::vector<mark>>>;

enum class signal_rule : std::uint8_t { none, counted, rounds, matched };

struct condition_facts {
  signal_rule rule = signal_rule::none;
  std::uint32_t mutex = none;  ///< the mutex of most waits
  std::uint64_t waits = 0;     ///< the number of waits that did not time out
  std::uint64_t timed_out = 0;
  std::uint64_t unknown = 0;       ///< waits whose signal is not in the recording
  std::uint64_t signals = 0;       ///< the number of signals and broadcasts
  std::uint32_t at_first = 0;      ///< under the rule *counted*: the tokens at the beginning
  std::uint32_t opened_by = none;  ///< for a condition that ends rounds: the condition that opens them
};

struct signal_facts {
  marks of_events;
  std::vector<condition_facts> conditions;  ///< by object; empty for objects of other kinds
};

signal_facts find_signals(const recording::recording& r);

}  // namespace usher::predict
