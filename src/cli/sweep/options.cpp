#include "cli/sweep/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "cli/sweep/figure_metric.hpp"

namespace usher::cli {

void keep_apart(CLI::App& app, std::initializer_list<const char*> these, std::initializer_list<const char*> those) {
  for (const char* one : these)
    for (const char* other : those) app.get_option(one)->excludes(app.get_option(other));
}

void add_figure_options(CLI::App& to, figure_options& o, const std::string& default_limit) {
  to.add_option("workload", o.workload, "The workload; --list shows all")->type_name("WORKLOAD");
  std::string locks;
  for (const std::string& l : o.locks) locks += (locks.empty() ? "" : ",") + l;
  to.add_option("--locks", o.locks, "The locks, or all (default: " + locks + ")")
      ->type_name("a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  to.add_option("--threads", o.threads, "Numbers of threads: 1..72, or 1,2,4 (default: a sweep)")
      ->type_name("N,A..B")
      ->delimiter(',')
      ->allow_extra_args(false);
  to.add_flag("--pinned", o.pinned, "Threads stay on the CPUs that they begin on");
  to.add_option("--set", o.settings, "A parameter of the workload")->type_name("NAME=N");
  to.add_option("--json", o.json_file, "Write all points to this file")->type_name("F");
  to.add_option("--csv", o.csv_file, "Write all points to this file as comma-separated values")->type_name("F");
  to.add_option("--chart", o.chart_file, "Draw the throughput into this file, .svg or .png")->type_name("F");
  to.add_option("--chart-metric", o.chart_metric,
                "With --chart: " + figure_metric_names() + "; of a group of threads as guests.latency")
      ->type_name("M");
  add_chart_options(to, o.look,
                    "the logarithmic axes (default: that of the threads, if they span more than a factor of 8)");
  to.add_flag("--log-x", o.log_x, "With --chart: the same as --log x");
  to.add_flag("--log-y", o.log_y, "With --chart: the same as --log y; with both, as --log xy");
  for (const char* name : {"--chart-metric", "--log-x", "--log-y"})
    to.get_option(name)->needs(to.get_option("--chart"));
  to.add_flag("--details", o.details, "Show also the shares of the threads, and context switches");
  to.add_option("--timeout", o.limit, "Time limit of one point, in seconds (default: " + default_limit + ")")
      ->type_name("S")
      ->check(CLI::Range(0.1, 1e6));
  to.add_flag("--list", o.list, "Show workloads with their parameters, and machines");
  to.add_flag("--list-points", o.list_points, "Print a command for each point, and do nothing");
  to.add_option("--point", o.one_point, "Run one point, as --list-points prints it; its result is a line of JSON")
      ->type_name("JSON");
  to.add_option("--merge", o.merge, "Show results of other runs")->type_name("F")->expected(1, -1);
  keep_apart(to, {"--merge", "--point"},
             {"workload", "--locks", "--threads", "--pinned", "--set", "--timeout", "--list-points"});
  keep_apart(to, {"--merge"}, {"--point"});
  keep_apart(to, {"--log"}, {"--log-x", "--log-y"});
  keep_apart(to, {"--point", "--list-points"},
             {"--json", "--csv", "--chart", "--chart-metric", "--title", "--size", "--log", "--log-x", "--log-y",
              "--details"});
  to.add_flag("--quiet", o.quiet, "No progress bar");
}

std::vector<unsigned> thread_counts(const std::vector<std::string>& texts) {
  std::vector<unsigned> counts;
  const auto number = [](const std::string& text) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 4 ||
        std::stoul(text) == 0)
      throw std::runtime_error("--threads: '" + text + "' is not a number of threads from 1 to 9999");
    return static_cast<unsigned>(std::stoul(text));
  };
  for (const std::string& text : texts) {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) {
      counts.push_back(number(text));
      continue;
    }
    const unsigned from = number(text.substr(0, dots)), to = number(text.substr(dots + 2));
    if (from > to) throw std::runtime_error("--threads: " + text + " goes backwards");
    for (unsigned n = from; n <= to; n++) counts.push_back(n);
  }
  return counts;
}

std::vector<unsigned> default_counts(unsigned cpus) {
  std::vector<unsigned> counts;
  for (const unsigned n :
       {1u, 2u, 3u, 4u, 5u, 6u, 8u, 10u, 12u, 16u, 20u, 24u, 28u, 36u, 48u, 60u, 72u, 96u, 128u, 192u, 256u})
    if (n < cpus) counts.push_back(n);
  counts.push_back(cpus);
  return counts;
}

std::map<std::string, long> parameters_of(const std::vector<std::string>& settings) {
  std::map<std::string, long> parameters;
  for (const std::string& s : settings) {
    const std::size_t at = s.find('=');
    char* end = nullptr;
    const long value = at == std::string::npos ? 0 : std::strtol(s.c_str() + at + 1, &end, 10);
    if (at == std::string::npos || at + 1 == s.size() || *end != '\0')
      throw std::runtime_error("--set: '" + s + "' is not NAME=NUMBER");
    parameters[s.substr(0, at)] = value;
  }
  return parameters;
}

std::vector<std::string> chosen_locks(const std::vector<std::string>& names, const std::vector<std::string>& all) {
  std::vector<std::string> chosen;
  for (const std::string& name : names)
    if (name == "all")
      chosen.insert(chosen.end(), all.begin(), all.end());
    else
      chosen.push_back(name);
  return chosen;
}

void check_chart_metric(const figure_options& o, std::span<const workloads::description> programs, bool simulated) {
  const figure_metric metric = figure_metric_named(o.chart_metric);
  const std::string& group = metric.group;
  const auto has = [&](const workloads::description& w) {
    return (w.some != nullptr && w.some == group) || (w.others != nullptr && w.others == group);
  };
  const auto asked =
      std::find_if(programs.begin(), programs.end(), [&](const auto& w) { return w.name == o.workload; });
  if (asked == programs.end()) return;
  if (simulated && metric.of_one_lock && !asked->one_lock)
    throw std::runtime_error(
        fmt::format("--chart-metric {}: {} has no one lock whose admissions are seen", o.chart_metric, o.workload));
  if (simulated && metric.of_arrays && !asked->arrays)
    throw std::runtime_error(
        fmt::format("--chart-metric {}: {} reads no arrays that caches matter for", o.chart_metric, o.workload));
  if (group.empty() || has(*asked)) return;
  throw std::runtime_error(
      fmt::format("--chart-metric {}: {} has no threads that are called {}{}", o.chart_metric, o.workload, group,
                  asked->some == nullptr ? "" : fmt::format(", but {} and {}", asked->some, asked->others)));
}

void list_workloads(std::span<const workloads::description> programs) {
  for (const workloads::description& w : programs) {
    fmt::print("{}: {} ({})\n", w.name, w.summary, w.source);
    for (const workloads::parameter& p : w.parameters) fmt::print("    --set {}={}  {}\n", p.name, p.value, p.meaning);
  }
}

}  // namespace usher::cli
