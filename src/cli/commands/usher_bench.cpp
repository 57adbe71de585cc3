// The subcommands of usher_bench, the executable behind `usher sim`, `usher bench` and `usher predict`.
#include <CLI/CLI.hpp>

#include "cli/commands/subcommand.hpp"

namespace usher::cli {

std::vector<subcommand> subcommands(CLI::App& app) {
  return {sim_command(app), bench_command(app), predict_command(app)};
}

}  // namespace usher::cli
