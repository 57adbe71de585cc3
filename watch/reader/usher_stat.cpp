// Registers the subcommands of usher_stat, the executable behind `usher stat`, `top`, `diff` and `report`.
#include <CLI/CLI.hpp>

#include "watch/reader/diff.hpp"
#include "watch/reader/report_command.hpp"
#include "watch/reader/stat.hpp"
#include "watch/reader/top.hpp"

std::vector<usher::support::subcommand> usher::support::subcommands(CLI::App& app) {
  return {reader::stat_command(app), reader::top_command(app), reader::diff_command(app), reader::report_command(app)};
}
