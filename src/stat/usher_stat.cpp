// Registers the only subcommand of usher_stat, the executable that `usher stat` runs.
#include <CLI/CLI.hpp>

#include "cli/commands/subcommand.hpp"

namespace usher::cli {

std::vector<subcommand> subcommands(CLI::App& app) {
  return {stat_command(app)};
}

}  // namespace usher::cli
