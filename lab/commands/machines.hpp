// The machine files that come with Usher, and those of the user.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lab/sim/machine.hpp"
#include "lab/sweep/machine_settings.hpp"

namespace usher::lab {

/// Returns the folders with the machine files that come with Usher.
std::vector<std::filesystem::path> shipped_folders();

/// Returns the folders in which machine files are searched for, in the order of the search.
std::vector<std::filesystem::path> machine_folders();

/// Reads a machine, given its name or the path of its file. Throws sim::bad_machine.
sim::machine find_machine(const std::string& name, const machine_changes& changes);

}  // namespace usher::lab
