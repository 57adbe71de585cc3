// The results of a check as JSON, and back: docs/schema/check.json describes it.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/checking/check_results.hpp"

namespace usher::cli::checking {

nlohmann::ordered_json json_of(const results& r);

/// The JSON is no result of a check, or of an unknown format; the text says which.
struct unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Throws unreadable.
results results_from(const nlohmann::json& j);

}  // namespace usher::cli::checking
