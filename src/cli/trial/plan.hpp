// The plan of a trial: the candidates that suit the program, and the number of rounds that fit into the budget.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/trial/candidates.hpp"
#include "cli/trial/contest.hpp"
#include "cli/trial/trial_options.hpp"
#include "cli/trial/trial_results.hpp"

namespace usher::cli::trial {

/// Chosen, not measured: a gain that is not decided by then has no practical value.
inline constexpr std::size_t most_rounds = 200;

/// What the reference's first runs have shown.
struct first_runs {
  std::optional<call_counts> calls;  ///< nullopt: not counted
  double seconds = 0;                ///< of a run, with preparation and server
  double seconds_left = 0;           ///< of the budget
};

struct plan {
  bool nothing_to_gain = false;  ///< the program has no locks, or the library is not loaded, and the user named no lock
  std::vector<choice> taken;
  std::vector<left_out_lock> left_out;
  std::size_t least_rounds = contest_rules{}.least_rounds;  ///< even if the budget is used up
  std::vector<std::string> notes;                           ///< for the user
};

/// Depends on its arguments alone: reads no clock, starts and prints nothing.
plan plan_of(const options& o, const std::vector<choice>& candidates, const first_runs& seen, unsigned cpus);

}  // namespace usher::cli::trial
