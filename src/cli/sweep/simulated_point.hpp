// A point of a sweep on a simulated machine: the machine's file, the point as the simulator takes it, and its measurements.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/sweep/machine_settings.hpp"
#include "cli/sweep/point.hpp"
#include "sim/harness.hpp"
#include "sim/machine.hpp"

namespace usher::cli {

// Limits of the options and of the keys of a point.
inline constexpr double most_jitter = 10;
inline constexpr std::uint64_t most_spin_ns = 1'000'000'000;
inline constexpr double most_warm_up_ms = 100000;
inline constexpr unsigned most_others = 1000;

/// Folders with machine files; the first that has a machine decides.
std::vector<std::filesystem::path> machine_folders();

/// A machine by its name, or by the path of its file. Throws sim::bad_machine.
sim::machine find_machine(const std::string& name, const machine_changes& changes = {});

/// The machine that the point runs on, with its settings and jitter. Throws std::runtime_error and sim::bad_machine.
sim::machine machine_of(const sweep_point& p);

/// Throws std::runtime_error for numbers beyond the limits.
sim::point simulated(const sweep_point& p);

nlohmann::ordered_json to_json(const sim::result& r);

}  // namespace usher::cli
