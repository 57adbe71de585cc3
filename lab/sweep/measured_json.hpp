// Measurements as JSON: the keys that `usher sim` and `usher bench` have in common.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/measure/metrics.hpp"

namespace usher::lab {

/// Returns the first keys of the line that --point prints: the point as given, and the build that ran it, since --merge
/// accepts lines of several builds and machines.
nlohmann::ordered_json begun_result(const std::string& point, const std::string& commit);

nlohmann::ordered_json durations_to_json(const support::durations& d);

/// Adds the operations of each thread, and measures of their distribution.
void add_operations(nlohmann::ordered_json& to, double throughput, const std::vector<std::uint64_t>& operations);

/// Adds the measurements of a group of threads and, if `waits`, the durations of their waits. Returns the object that
/// contains them.
nlohmann::ordered_json& add_group(nlohmann::ordered_json& to, const support::group& g, bool waits);

}  // namespace usher::lab
