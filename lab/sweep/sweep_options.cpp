#include "lab/sweep/sweep_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "lab/sweep/figure_metric.hpp"

namespace usher::lab {

namespace {

/// Makes the parser refuse each option of `these` together with each option of `those`.
template <class These, class Those>
void keep_apart(CLI::App& app, const These& these, const Those& those) {
  for (const char* one : these)
    for (const char* other : those) app.get_option(one)->excludes(app.get_option(other));
}

using names = std::initializer_list<const char*>;

/// Adds the option of a key to the parser, by the type of the key's member.
struct option_adder {
  CLI::App& to;
  const point_key& k;

  void operator()(bool& set) const { to.add_flag(k.option.name, set, k.option.help); }
  void operator()(unsigned& set) const {
    to.add_option(k.option.name, set, k.option.help)
        ->type_name(k.option.type)
        ->check(CLI::Range(static_cast<unsigned>(k.least), static_cast<unsigned>(k.most)));
  }
  void operator()(std::string& set) const {
    to.add_option(k.option.name, set, k.option.help)->type_name(k.option.type);
  }
  /// A duration: the parser takes text, which duration_of() reads later.
  void operator()(std::optional<std::uint64_t>&) const {
    auto* const added = to.add_option(k.option.name, k.option.help)->type_name(k.option.type);
    if (k.option.unit_ns == 1) return;
    added->check(
        CLI::Range(static_cast<double>(k.least) / k.option.unit_ns, static_cast<double>(k.most) / k.option.unit_ns));
  }
  template <class T>
  void operator()(T&) const = delete;
};

}  // namespace

void add_settings(CLI::App& to, figure_options& o, option_part part) {
  for (const point_key& k : point_keys)
    if (k.option.name != nullptr && k.option.part == part)
      std::visit(
          [&](auto member) {
            if constexpr (std::is_invocable_v<option_adder, decltype((o.point.*member))>)
              option_adder{to, k}(o.point.*member);
          },
          k.member);
}

void add_figure_options(CLI::App& to, figure_options& o, const std::string& default_limit, names own) {
  o.parser = &to;
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
  add_settings(to, o, option_part::both);
  to.add_option("--set", o.settings, "A parameter of the workload")->type_name("NAME=N");
  to.add_option("--json", o.json_file, "Write all points to this file")->type_name("F");
  to.add_option("--csv", o.csv_file, "Write all points to this file as comma-separated values")->type_name("F");
  to.add_option("--chart", o.chart_file, "Draw the throughput into this file, .svg")->type_name("F");
  to.add_option("--chart-metric", o.chart_metric,
                "With --chart: " + figure_metric_names() + "; of a group of threads as guests.latency")
      ->type_name("METRIC");
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
  to.add_flag("--mixed", o.mixed, "With --merge: simulated results of several builds, machines or settings, too")
      ->needs(to.get_option("--merge"));
  std::vector<const char*> of_points{"workload", "--locks", "--threads", "--set", "--timeout", "--list-points"};
  of_points.insert(of_points.end(), own);
  for (const point_key& k : point_keys)
    if (k.option.name != nullptr && to.get_option_no_throw(k.option.name) != nullptr)
      of_points.push_back(k.option.name);
  keep_apart(to, names{"--merge", "--point"}, of_points);
  keep_apart(to, names{"--merge"}, names{"--point"});
  keep_apart(to, names{"--log"}, names{"--log-x", "--log-y"});
  keep_apart(to, names{"--point", "--list-points"},
             names{"--json", "--csv", "--chart", "--chart-metric", "--title", "--size", "--log", "--log-x", "--log-y",
                   "--details"});
  to.add_flag("--quiet", o.quiet, "No progress bar");
}

void list_workloads(std::span<const workloads::description> programs) {
  for (const workloads::description& w : programs) {
    fmt::print("{}: {} ({})\n", w.name, w.summary, w.source);
    for (const workloads::parameter& p : w.parameters) fmt::print("    --set {}={}  {}\n", p.name, p.value, p.meaning);
  }
}

}  // namespace usher::lab
