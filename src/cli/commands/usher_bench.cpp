// The executable behind `usher sim` and `usher bench`: what simulates, measures, and is of no use to those who run a program.
#include <CLI/CLI.hpp>

#include "cli/commands/subcommand.hpp"

namespace usher::cli {

std::vector<subcommand> subcommands(CLI::App& app) {
  return {sim_command(app), bench_command(app)};
}

}  // namespace usher::cli
