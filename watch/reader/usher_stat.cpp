// Registers the subcommands of usher_stat, the executable behind `usher stat` and `usher diff`.
#include <CLI/CLI.hpp>

#include "watch/reader/diff.hpp"
#include "watch/reader/stat.hpp"

std::vector<usher::support::subcommand> usher::support::subcommands(CLI::App& app) {
  return {reader::stat_command(app), reader::diff_command(app)};
}
