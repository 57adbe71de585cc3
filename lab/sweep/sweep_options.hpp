// The options that `usher sim` and `usher bench` have in common, and functions that evaluate them.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "lab/bench/programs/program.hpp"
#include "lab/draw/chart_options.hpp"
#include "lab/sweep/point_settings.hpp"
#include "lab/sweep/sweep_point.hpp"

namespace CLI {
class App;
}

namespace usher::lab {

struct figure_options {
  const CLI::App* parser = nullptr;
  sweep_point point;  ///< its settings, by the options of the table in cli/sweep/point_settings.hpp
  std::string workload;
  std::vector<std::string> locks, threads, settings, merge;
  double limit = 0;  ///< of a point, in seconds
  std::string json_file, csv_file, chart_file, one_point;
  std::string chart_metric = "throughput";
  chart_options look;
  bool log_x = false, log_y = false;  ///< older names for look.log
  bool list = false, list_points = false, details = false, quiet = false, mixed = false;
};

/// Adds the options in the table of point_settings.hpp that belong to this part.
void add_settings(CLI::App& to, figure_options& o, option_part part);

/// Adds the options of figures. `default_limit`: the time limit of a point without --timeout, for the help text. `own`:
/// options of the subcommand that the parser refuses together with --merge and --point; the settings of the table are
/// refused likewise.
void add_figure_options(CLI::App& to, figure_options& o, const std::string& default_limit,
                        std::initializer_list<const char*> own);

/// Returns a point with the settings that all points of a sweep have in common. Throws std::runtime_error.
sweep_point common_point(const figure_options& o, const std::vector<std::string>& machine_settings = {});

/// Reads numbers of threads: "1..8", "1,2,4", "72". Throws std::runtime_error.
std::vector<unsigned> thread_counts(const std::vector<std::string>& texts);

/// Returns the default numbers of threads for a machine with `cpus` CPUs: small numbers are dense, large ones farther
/// apart.
std::vector<unsigned> default_counts(unsigned cpus);

/// Returns `names`, in which "all" is replaced by the names in `all`.
std::vector<std::string> chosen_locks(const std::vector<std::string>& names, const std::vector<std::string>& all);

void list_workloads(std::span<const workloads::description> programs);

}  // namespace usher::lab
