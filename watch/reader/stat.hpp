// `usher stat`.
#pragma once

#include "support/command/subcommand.hpp"

namespace usher::reader {

support::subcommand stat_command(CLI::App& app);

}  // namespace usher::reader
