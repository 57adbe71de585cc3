// Computes the outcome of each goal from the runs of the checker.
#pragma once

#include <vector>

#include "check/command/check_plan.hpp"
#include "check/command/check_results.hpp"

namespace usher::check::command {

/// `works` is false if the checker itself failed.
results results_of(const options& o, const std::vector<goal>& goals, bool works);

/// Records the steps of the first failures of `r`, which results_of() made of the same goals.
void record_steps(const options& o, const std::vector<goal>& goals, results& r);

}  // namespace usher::check::command
