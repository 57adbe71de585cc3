// Figures: a benchmark program under several locks with several numbers of threads, each point in a process of its own. What
// usher sim and usher bench have in common.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/metrics.hpp"
#include "bench/programs/program.hpp"
#include "cli/draw/chart_options.hpp"
#include "cli/draw/image_format.hpp"
#include "cli/sweep/figure_metric.hpp"
#include "cli/text/output_file.hpp"

namespace CLI {
class App;
}

namespace usher::cli {

// ---- what is asked ---------------------------------------------------------------------------------------------------

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

/// None of these goes with any of those.
void keep_apart(CLI::App& app, std::initializer_list<const char*> these, std::initializer_list<const char*> those);

/// The options that all commands for figures have. `limit`: what is said of it where it is not given.
void add_figure_options(CLI::App& to, figure_options& o, const std::string& default_limit);

/// "1..8", "1,2,4", "72". Throws std::runtime_error.
std::vector<unsigned> thread_counts(const std::vector<std::string>& texts);

/// What a figure of a machine with so many CPUs needs: dense where it begins, then wider.
std::vector<unsigned> default_counts(unsigned cpus);

/// NAME=NUMBER. Throws std::runtime_error.
std::map<std::string, long> parameters_of(const std::vector<std::string>& settings);

/// As they were named; "all" stands for `all`.
std::vector<std::string> chosen_locks(const std::vector<std::string>& names, const std::vector<std::string>& all);

/// Throws std::runtime_error where the metric is of a group of threads that the workload does not have.
void check_chart_metric(const figure_options& o, std::span<const workloads::description> programs,
                        bool simulated = false);

void list_workloads(std::span<const workloads::description> programs);

// ---- points as JSON: what --list-points prints, --point takes, and results begin with -----------------------------------

/// What a point of either world has.
template <class P>
concept figure_point = requires(P p) {
  { p.workload } -> std::convertible_to<std::string>;
  { p.lock } -> std::convertible_to<std::string>;
  { p.threads } -> std::convertible_to<unsigned>;
  { p.seed } -> std::convertible_to<std::uint64_t>;
  { p.run_ns } -> std::convertible_to<std::uint64_t>;
  { p.pinned } -> std::convertible_to<bool>;
  p.parameters.begin();
};

/// `repetition`: what the seed is called.
template <figure_point P>
nlohmann::ordered_json point_to_json(const P& p, const std::string& machine, const char* repetition) {
  nlohmann::ordered_json j;
  j["workload"] = p.workload;
  j["machine"] = machine;
  j["lock"] = p.lock;
  j["threads"] = p.threads;
  j[repetition] = p.seed;
  j["run_ns"] = p.run_ns;
  if (p.pinned) j["pinned"] = true;
  for (const auto& [name, value] : p.parameters) j["parameters"][name] = value;
  return j;
}

template <figure_point P>
P point_from_json(const nlohmann::ordered_json& j, const char* repetition) {
  P p;
  p.workload = j.at("workload");
  p.lock = j.at("lock");
  p.seed = j.at(repetition);
  const auto within = [&j](const char* name, std::int64_t most) {
    const std::int64_t n = j.at(name).template get<std::int64_t>();
    if (n < 1 || n > most) throw std::runtime_error(fmt::format("the point's {} is {}", name, n));
    return n;
  };
  p.threads = static_cast<unsigned>(within("threads", 9999));
  p.run_ns = static_cast<std::uint64_t>(within("run_ns", 100'000'000'000'000));
  p.pinned = j.value("pinned", false);
  if (j.contains("parameters"))
    for (const auto& [name, value] : j["parameters"].items()) p.parameters[name] = value;
  return p;
}

nlohmann::ordered_json durations_to_json(const workloads::durations& d);

/// Operations of each thread, and how even they are.
void add_operations(nlohmann::ordered_json& to, double throughput, const std::vector<std::uint64_t>& operations);

/// What is said of a group, and how long its threads waited if that was measured. Returns where that stands.
nlohmann::ordered_json& add_group(nlohmann::ordered_json& to, const workloads::group& g, bool waits);

// ---- running ---------------------------------------------------------------------------------------------------------

struct numbered_point {
  nlohmann::ordered_json asked;
  std::optional<nlohmann::ordered_json> result;
  std::string error;
};

/// What is particular to a command.
struct figure_command {
  const char* name;        ///< "sim"
  const char* repetition;  ///< "seed"
  /// What is wrong with a result; empty: nothing.
  std::function<std::string(const nlohmann::ordered_json& result)> judge;
};

/// A command line for each point.
int list_points(const figure_command& c, const std::vector<numbered_point>& points);

/// What --point does: prints what was asked and what came of it as a line.
int print_result(nlohmann::ordered_json asked, const nlohmann::ordered_json& result);

/// Runs each in a process of its own, in this order, at most `jobs` at a time (0: one for each CPU). What went wrong is said at the
/// end. False if something did.
bool run_points(const figure_command& c, const figure_options& o, unsigned jobs, const std::vector<std::size_t>& order,
                std::vector<numbered_point>& points);

// ---- showing ---------------------------------------------------------------------------------------------------------

/// Where results go besides the terminal. Opened first: who cannot write should not work for hours.
class figure_outputs {
 public:
  /// 0, or an exit status after an error message. Throws std::runtime_error for a metric that there is not.
  int open(const figure_options& o);
  bool write(const nlohmann::ordered_json& about, const std::vector<nlohmann::ordered_json>& points);

 private:
  output_file json_, csv_, chart_;
  std::optional<image_format> format_;
  figure_metric metric_;
  chart_options look_;
};

/// Prints results, writes files, and returns the exit status. `about`: what the JSON says before its points.
int show(figure_outputs& to, const figure_options& o, const nlohmann::ordered_json& about,
         const std::vector<nlohmann::ordered_json>& points, bool all_well);

/// The results of those that have one.
std::vector<nlohmann::ordered_json> results_of(const std::vector<numbered_point>& points);

/// What --merge does.
int merge(const figure_options& o);

}  // namespace usher::cli
