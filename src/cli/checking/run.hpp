// Runs of the checker.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/checking/check_plan.hpp"
#include "cli/checking/check_results.hpp"

namespace usher::cli::checking {

/// Runs the goals' chunks side by side and keeps the reply of each run. `ended` gets each goal whose outcome is
/// known, in their order. False: the checker itself failed.
bool run(const options& o, std::vector<goal>& goals, const std::function<void(const goal&)>& ended);

/// One execution, as --replay names it. Nothing after an error message; an outcome without a failure: it passes.
std::optional<outcome> replay(const options& o, const std::string& checker, const goal& g);

/// The steps of an execution that failed, found by running it again.
std::vector<step> steps_of(const options& o, const goal& g, const part& p, const verdict& v);

}  // namespace usher::cli::checking
