// Registers the subcommands of usher_stat, the executable that `usher stat` and `usher record` run.
#include <CLI/CLI.hpp>

#include "cli/commands/subcommand.hpp"

namespace usher::cli {

std::vector<subcommand> subcommands(CLI::App& app) {
  return {stat_command(app), record_command(app)};
}

}  // namespace usher::cli
