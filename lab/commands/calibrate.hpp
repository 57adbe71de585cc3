// usher sim calibrate: measures the computer that it runs on, and describes it in a machine file for `usher sim`.
#pragma once

#include <string>

#include "support/command/subcommand.hpp"

namespace usher::cli {

/// Measures this computer. Returns the text of a machine file, which says that `command` made it.
std::string calibrated_machine_file(const std::string& command);

/// The subcommand of `usher sim`.
subcommand calibrate_command(CLI::App& sim);

}  // namespace usher::cli
