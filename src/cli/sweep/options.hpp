// The options that `usher sim` and `usher bench` have in common, and the meaning of their values.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/programs/program.hpp"
#include "cli/draw/chart_options.hpp"

namespace CLI {
class App;
}

namespace usher::cli {

struct figure_options {
  std::string workload;
  std::vector<std::string> locks, threads, settings, merge;
  double limit = 0;  ///< of a point, in seconds
  std::string json_file, csv_file, chart_file, one_point;
  std::string chart_metric = "throughput";
  chart_options look;
  bool log_x = false, log_y = false;  ///< older names for look.log
  bool pinned = false, list = false, list_points = false, details = false, quiet = false;
};

/// The parser refuses any of `these` together with any of `those`.
void keep_apart(CLI::App& app, std::initializer_list<const char*> these, std::initializer_list<const char*> those);

/// `default_limit`: the time limit of a point without --timeout, for the help text.
void add_figure_options(CLI::App& to, figure_options& o, const std::string& default_limit);

/// "1..8", "1,2,4", "72". Throws std::runtime_error.
std::vector<unsigned> thread_counts(const std::vector<std::string>& texts);

/// The default of --threads on a machine with so many CPUs: dense at first, then wider.
std::vector<unsigned> default_counts(unsigned cpus);

/// NAME=NUMBER. Throws std::runtime_error.
std::map<std::string, long> parameters_of(const std::vector<std::string>& settings);

/// The names in the same order; "all" stands for `all`.
std::vector<std::string> chosen_locks(const std::vector<std::string>& names, const std::vector<std::string>& all);

/// Throws std::runtime_error if the workload does not have the metric of --chart-metric.
void check_chart_metric(const figure_options& o, std::span<const workloads::description> programs,
                        bool simulated = false);

void list_workloads(std::span<const workloads::description> programs);

}  // namespace usher::cli
