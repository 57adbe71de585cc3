// `usher top`.
#pragma once

#include "support/command/subcommand.hpp"

namespace usher::reader {

support::subcommand top_command(CLI::App& app);

}  // namespace usher::reader
