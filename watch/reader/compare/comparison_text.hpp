// A comparison as text and as JSON (docs/schema/diff.json).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "watch/reader/compare/comparison.hpp"

namespace usher::reader {

struct diff_options {
  std::size_t top = 10;              ///< rows of the table, besides those that changed
  std::size_t width = 80;            ///< of the text
  std::optional<double> fail_above;  ///< share of the threads' time
};

/// Whether an object's waiting grew by more than the limit for certain: its interval's lower end is above.
bool fails(const comparison& c, const diff_options& o);

std::string verdict_of(const comparison& c);
std::string as_text(const comparison& c, const diff_options& o);
nlohmann::ordered_json as_json(const comparison& c, const diff_options& o);

}  // namespace usher::reader
