// The options of `usher try` that define a trial.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "support/text/colour.hpp"

namespace usher::tool::trial {

inline constexpr int default_warmup = 1;

struct options {
  std::string locks, rwlocks;  ///< both empty: the default candidates that suit the program
  bool all = false;
  double budget = 120;  ///< seconds
  int rounds = 0;       ///< exactly so many; 0: until the answer is certain or the budget is used up
  int warmup = default_warmup;
  std::optional<std::uint64_t> seed;  ///< of the order of the runs
  std::string metric;
  bool lower = false, higher = false;
  std::string before, until, ready;
  double timeout = 0;  ///< seconds; 0: from the reference's runs
  std::string json, show;
  bool plot = false, details = false, markdown = false, quiet = false;
  support::colour_when colours = support::colour_when::automatic;

  bool by_budget() const { return rounds == 0; }
  bool default_candidates() const { return locks.empty() && rwlocks.empty() && !all; }
  bool lower_is_better() const { return lower || (metric.empty() && !higher); }
};

}  // namespace usher::tool::trial
