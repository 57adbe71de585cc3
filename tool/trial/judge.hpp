// Computes the figures, the verdicts and the winner of a trial from its runs and its contest. The contest uses the
// candidates' numbers in the results; the reference takes no part in it.
#pragma once

#include "tool/trial/conclusion.hpp"
#include "tool/trial/contest.hpp"
#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {

/// Adds the last round to the contest. If a figure of the round is zero or below, all rounds are compared by
/// differences instead of ratios.
void add_last_round(trial_results& t, contest& c);

/// Completes the results. Returns data for the conclusion, which refer to the candidates in `t`.
outlook judge(trial_results& t, const contest& c);

}  // namespace usher::tool::trial
