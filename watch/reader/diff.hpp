// `usher diff`.
#pragma once

#include "support/command/subcommand.hpp"

namespace usher::reader {

support::subcommand diff_command(CLI::App& app);

}  // namespace usher::reader
