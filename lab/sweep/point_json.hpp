// Points and results as JSON: the output of --list-points, the argument and output of --point, and the content of
// result files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lab/sweep/sweep_point.hpp"

namespace usher::lab {

/// One line.
std::string json_text(const sweep_point& p);

/// Reads the argument of --point, which must have every key that all points have. Throws std::runtime_error, or what
/// nlohmann::json throws.
sweep_point point_from_text(const std::string& text);

/// Reads a result. Results of older versions may lack keys. Throws the same as point_from_text().
point_result result_from_json(const nlohmann::ordered_json& j);

/// Returns a JSON object with the changed machine keys.
nlohmann::ordered_json to_json(const machine_settings& settings);

}  // namespace usher::lab
