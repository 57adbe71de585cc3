// usher sim validate: compares MutexBench on this computer with MutexBench on a simulated machine that describes it.
#pragma once

#include <functional>
#include <string>

#include "lab/sim/machine.hpp"
#include "lab/sweep/machine_settings.hpp"
#include "support/command/subcommand.hpp"

namespace usher::lab {

/// Finds a machine by its name or file, and applies the changes. Throws sim::bad_machine.
using find_machine_function = std::function<sim::machine(const std::string& name, const machine_changes& changes)>;

/// The subcommand of `usher sim`.
support::subcommand validate_command(CLI::App& sim, find_machine_function find);

}  // namespace usher::lab
