// Conversion between a trial's results and JSON. docs/schema/try.json describes the format.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/trial/trial_results.hpp"

namespace usher::cli::trial {

nlohmann::ordered_json json_of(const trial_results& t);

/// The JSON is not the result of a trial, or has an unknown format. The text is an error message for users.
struct unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Throws unreadable.
trial_results trial_from(const nlohmann::json& j);

}  // namespace usher::cli::trial
