// Points and results as JSON: the output of --list-points, the argument and output of --point, and the content of
// result files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/sweep/point.hpp"

namespace usher::cli {

/// One line.
std::string json_text(const sweep_point& p);

/// The point of --point, with all keys that every point has. Throws std::runtime_error, or what nlohmann::json throws.
sweep_point point_from_text(const std::string& text);

/// Results of older versions may lack keys. Throws as point_from_text().
point_result result_from_json(const nlohmann::ordered_json& j);

/// An object with these keys.
nlohmann::ordered_json to_json(const machine_settings& settings);

/// The line that --point prints: the point as given, followed by the build that ran it and its measurements. Points of several builds
/// and machines meet in --merge.
void print_result(const std::string& point, const std::string& commit, const nlohmann::ordered_json& measured);

// Parts that the simulator and the benchmarks both measure.

nlohmann::ordered_json durations_to_json(const workloads::durations& d);

/// Operations of each thread, and how evenly they are distributed.
void add_operations(nlohmann::ordered_json& to, double throughput, const std::vector<std::uint64_t>& operations);

/// Measurements of a group, and with `waits` the durations of its threads' waits. Returns the object that contains them.
nlohmann::ordered_json& add_group(nlohmann::ordered_json& to, const workloads::group& g, bool waits);

}  // namespace usher::cli
