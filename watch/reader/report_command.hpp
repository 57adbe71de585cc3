// `usher report`.
#pragma once

#include "support/command/subcommand.hpp"

namespace usher::reader {

support::subcommand report_command(CLI::App& app);

}  // namespace usher::reader
