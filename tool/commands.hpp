// The subcommands of the executable `usher`.
#pragma once

#include "support/command/subcommand.hpp"

namespace usher::tool {

support::subcommand list(CLI::App& app);
support::subcommand run(CLI::App& app);
support::subcommand try_locks(CLI::App& app);
support::subcommand status(CLI::App& app);

}  // namespace usher::tool
