// The subcommands of usher_bench, the executable behind `usher sim`, `usher bench`, `usher record` and `usher predict`.
#include <CLI/CLI.hpp>

#include "lab/commands/bench_commands.hpp"

std::vector<usher::support::subcommand> usher::support::subcommands(CLI::App& app) {
  return {lab::sim_command(app), lab::bench_command(app), lab::record_command(app), lab::predict_command(app)};
}
