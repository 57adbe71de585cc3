// A report as JSON: docs/schema/stat.json describes it. Times are seconds; unknown values are null.
#pragma once

#include <nlohmann/json.hpp>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

inline constexpr int json_version = 1;
nlohmann::ordered_json as_json(const report& r);

}  // namespace usher::reader
