// usher sim calibrate: measures the computer on which it runs, and writes a machine file that describes it for `usher
// sim`.
#pragma once

#include <string>

#include "support/command/subcommand.hpp"

namespace usher::lab {

/// Measures this computer. Returns the text of a machine file, which names `command` as its origin.
std::string calibrated_machine_file(const std::string& command);

/// The subcommand of `usher sim`.
support::subcommand calibrate_command(CLI::App& sim);

}  // namespace usher::lab
