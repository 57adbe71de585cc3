// The plan of a trial: the candidates that suit the program, and the number of rounds that fit into the budget.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tool/trial/candidates.hpp"
#include "tool/trial/contest.hpp"
#include "tool/trial/trial_options.hpp"
#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {

/// Chosen, not measured: if so many rounds do not show a gain, it is too small to matter.
inline constexpr std::size_t most_rounds = 200;

/// The results of the reference's first runs.
struct first_runs {
  std::optional<call_counts> calls;               ///< nullopt: not counted
  double seconds = 0;                             ///< of a run, with preparation and server
  double seconds_left = 0;                        ///< of the budget
  double counted_seconds = 0, counted_cpu_s = 0;  ///< of the run whose calls were counted, without preparation
};

struct plan {
  /// The program has no locks, or only read-write locks for which threads hardly wait, or the library is not loaded; and
  /// the user named no lock.
  bool nothing_to_gain = false;
  std::vector<choice> taken;
  std::vector<left_out_lock> left_out;
  double seconds_wanted = 0;       ///< for the fewest rounds that decide; 0: they fit into the budget
  std::vector<std::string> notes;  ///< for the user
};

/// Makes the plan from its arguments alone: reads no clock, starts no program, prints nothing.
plan plan_of(const options& o, const std::vector<choice>& candidates, const first_runs& seen, unsigned cpus);

}  // namespace usher::tool::trial
