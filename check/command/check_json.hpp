// The results of a check as JSON, and back: docs/schema/check.json describes it.
#pragma once

#include <nlohmann/json.hpp>

#include "check/command/check_results.hpp"

namespace usher::check::command {

nlohmann::ordered_json json_of(const results& r);

/// Throws bad_input, whose text is an error message for users.
results results_from(const nlohmann::json& j);

}  // namespace usher::check::command
