// usher sim validate: the same benchmark on the computer that it runs on, and simulated on a machine that describes it.
#pragma once

#include <functional>
#include <string>

#include "sim/machine.hpp"
#include "subcommand.hpp"

namespace usher::cli {

/// `sim` has it as its subcommand. `find`: a machine by its name or file; throws sim::bad_machine.
subcommand validate_command(CLI::App& sim, std::function<sim::machine(const std::string& name)> find);

}  // namespace usher::cli
