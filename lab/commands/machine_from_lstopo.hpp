// usher sim --machine-from-lstopo: writes a machine file from hwloc's XML.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lab/sim/machine.hpp"

namespace usher::lab {

/// Prints the machine file for the XML, and on standard error a line for each approximation. `like`: the machine from
/// which numbers are taken that the XML lacks; empty: the most similar machine in `folders`. Returns the exit status.
/// Throws sim::bad_machine.
int print_machine_from_lstopo(const std::string& file, const std::string& like,
                              const std::vector<std::filesystem::path>& folders,
                              const std::function<sim::machine(const std::string&)>& find_machine);

}  // namespace usher::lab
