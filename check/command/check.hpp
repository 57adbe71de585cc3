// `usher check`.
#pragma once

#include "support/command/subcommand.hpp"

namespace usher::check::command {

support::subcommand check(CLI::App& app);

}  // namespace usher::check::command
