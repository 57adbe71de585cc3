// Figures, verdicts and winner of a trial, each decided once, from its runs and its contest. The contest numbers the candidates as the
// results do; the reference takes no part in it.
#pragma once

#include "cli/trial/conclusion.hpp"
#include "cli/trial/contest.hpp"
#include "cli/trial/trial_results.hpp"

namespace usher::cli::trial {

/// Adds the last round to the contest. If it has a figure of zero or below, all rounds are compared by differences, not by ratios.
void add_last_round(trial_results& t, contest& c);

/// Completes the results. The outlook is for the conclusion, and refers to the candidates.
outlook judge(trial_results& t, const contest& c);

}  // namespace usher::cli::trial
