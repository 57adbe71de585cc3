// The machine files that come with Usher, and those of the user.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lab/sim/machine.hpp"
#include "lab/sweep/machine_settings.hpp"

namespace usher::cli {

/// The folders of the machine files that come with Usher.
std::vector<std::filesystem::path> shipped_folders();

/// The folders that are searched for machine files, in this order.
std::vector<std::filesystem::path> machine_folders();

/// A machine by its name, or by the path of its file. Throws sim::bad_machine.
sim::machine find_machine(const std::string& name, const machine_changes& changes);

}  // namespace usher::cli
