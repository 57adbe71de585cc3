// The subcommands of usher_bench, the executable behind `usher sim`, `usher bench`, `usher record` and `usher predict`.
#include <CLI/CLI.hpp>

#include "support/command/subcommand.hpp"

namespace usher::cli {

std::vector<subcommand> subcommands(CLI::App& app) {
  return {sim_command(app), bench_command(app), record_command(app), predict_command(app)};
}

}  // namespace usher::cli
