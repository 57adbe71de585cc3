// Registers the subcommands of usher_stat, the executable behind `usher stat`.
#include <CLI/CLI.hpp>

#include "support/command/subcommand.hpp"

namespace usher::cli {

std::vector<subcommand> subcommands(CLI::App& app) {
  return {stat_command(app)};
}

}  // namespace usher::cli
