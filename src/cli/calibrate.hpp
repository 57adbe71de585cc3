// usher sim calibrate: measures the computer that it runs on, and writes down a machine that `usher sim` can simulate.
#pragma once

#include <string>

#include "cli/commands/subcommand.hpp"

namespace usher::cli {

/// The text of a machine's file. `command`: how it was asked for.
std::string calibrate(const std::string& command);

/// `sim` has it as its subcommand.
subcommand calibrate_command(CLI::App& sim);

}  // namespace usher::cli
