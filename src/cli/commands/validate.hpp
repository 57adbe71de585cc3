// usher sim validate: the same benchmark on the computer that it runs on, and simulated on a machine that describes it.
#pragma once

#include <functional>
#include <string>

#include "cli/commands/subcommand.hpp"
#include "cli/sweep/machine_settings.hpp"
#include "sim/machine.hpp"

namespace usher::cli {

/// By its name or file, with numbers that are other than it says. Throws sim::bad_machine.
using find_machine_function = std::function<sim::machine(const std::string& name, const machine_changes& changes)>;

/// `sim` has it as its subcommand.
subcommand validate_command(CLI::App& sim, find_machine_function find);

}  // namespace usher::cli
