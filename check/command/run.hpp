// Runs the checker's programs, and collects their replies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "check/command/check_plan.hpp"
#include "check/command/check_results.hpp"

namespace usher::check::command {

/// Runs the goals' chunks side by side and keeps the reply of each run. Calls `ended` for each goal whose outcome is
/// known, in the order of the goals. Returns false if the checker itself failed.
bool run(const options& o, std::vector<goal>& goals, const std::function<void(const goal&)>& ended);

/// Repeats the execution that --replay names. Returns nullopt after an error message, and an outcome without a failure
/// if it passes.
std::optional<outcome> replay(const options& o, const std::string& checker, const goal& g);

/// The steps of an execution that failed, found by running it again.
std::vector<step> steps_of(const options& o, const goal& g, const part& p, const verdict& v);

}  // namespace usher::check::command
