// A trial's results as JSON, and back: docs/schema/try.json describes it.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/trial/results.hpp"

namespace usher::cli::trial {

nlohmann::ordered_json json_of(const trial_seen& t);

/// What is no result of a trial, or of a format that is not known; in words for people.
struct unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Throws unreadable.
trial_seen trial_from(const nlohmann::json& j);

}  // namespace usher::cli::trial
