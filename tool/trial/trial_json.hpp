// Conversion between a trial's results and JSON. docs/schema/try.json describes the format.
#pragma once

#include <nlohmann/json.hpp>

#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {

nlohmann::ordered_json json_of(const trial_results& t);

/// Throws bad_input, whose text is an error message for users.
trial_results trial_from(const nlohmann::json& j);

}  // namespace usher::tool::trial
