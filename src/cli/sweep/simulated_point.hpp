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

/// Folders with machine files; the first that has a machine decides.
std::vector<std::filesystem::path> machine_folders();

/// A machine by its name, or by the path of its file. Throws sim::bad_machine.
sim::machine find_machine(const std::string& name, const machine_changes& changes = {});

/// The machine that the point runs on, with its settings and jitter. Throws std::runtime_error and sim::bad_machine.
sim::machine machine_of(const sweep_point& p);

sim::point simulated(const sweep_point& p);

nlohmann::ordered_json to_json(const sim::result& r);

}  // namespace usher::cli
