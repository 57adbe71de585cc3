// usher sim: a benchmark program on a simulated machine. Each point of a figure is simulated in a process of its own: locks × numbers of
// threads × seeds × jitters.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/native/host.hpp"
#include "cli/commands/calibrate.hpp"
#include "cli/commands/subcommand.hpp"
#include "cli/commands/validate.hpp"
#include "cli/sweep/figure_files.hpp"
#include "cli/sweep/machine_settings.hpp"
#include "cli/sweep/options.hpp"
#include "cli/sweep/point_json.hpp"
#include "cli/sweep/run_points.hpp"
#include "cli/sweep/simulated_point.hpp"
#include "cli/sweep/trace.hpp"
#include "cli/text/help.hpp"
#include "cli/text/input_file.hpp"
#include "cli/text/messages.hpp"
#include "cli/text/utf8.hpp"
#include "sim/harness.hpp"
#include "sim/simulated_lock.hpp"

namespace usher::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const figure_command sim_figures{"sim", {}};

struct sim_options : figure_options {
  sim_options() {
    locks = {"ticket-spin", "twa-spin", "mcs-spin", "ttas-spin"};
    limit = 600;
  }
  std::string machine = "x5-2";
  std::vector<double> jitters;
  unsigned seeds = 5, jobs = 0, others = 0;
  double ms = 0;        ///< 0: sim::usual_run_ns()
  double warm_up = -1;  ///< in ms; below 0: sim::usual_warm_up_ns()
  std::string spin, placement, vary;
  std::vector<std::string> machine_settings;
  bool together = false;
  trace_options trace;
};

// ---- points ----------------------------------------------------------------------------------------------------------

/// Simulates one point, in a process of its own.
int simulate(const sim_options& o) {
  const sweep_point p = point_from_text(o.one_point);
  const sim::machine m = machine_of(p);
  if (!p.machine_hash.empty() && p.machine_hash != m.hash)
    throw std::runtime_error(
        fmt::format("the machine {} is not the one that the point was made for: its file has changed, "
                    "or is another of that name (hash {}, not {})",
                    p.machine, m.hash, p.machine_hash));
  ordered_json result{{"machine_hash", m.hash}};
  result.update(to_json(sim::run_point(m, simulated(p))));
  print_result(o.one_point, workloads_commit, result);
  return 0;
}

/// The locks of `--locks all`. On a machine without a scheduler threads must not sleep.
std::vector<std::string> all_locks(const sim::machine& m) {
  std::vector<std::string> names;
  for (const sim::simulated_lock* l : sim::simulated_locks())
    if (l->traits->excludes && l->kind == (m.os ? waiting_kind::spin_then_park : waiting_kind::spin))
      names.emplace_back(l->name);
  return names;
}

/// The value of --spin; absent: the machine's.
std::optional<std::uint64_t> spin_ns(const std::string& text) {
  if (text.empty() || text == "auto") return std::nullopt;
  const bool digits = text.size() <= 10 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoull(text) > most_spin_ns)
    throw std::runtime_error(
        fmt::format("--spin: '{}' is neither nanoseconds, 0 to {}, nor auto, the machine's", text, most_spin_ns));
  return std::stoull(text);
}

/// The values of --vary; one absent value without it.
std::vector<std::optional<varied_number>> varied_by(const sim_options& o, const machine_settings& settings) {
  if (o.vary.empty()) return {std::nullopt};
  std::vector<std::optional<varied_number>> varied;
  for (varied_number& v : varied_numbers(o.vary)) varied.emplace_back(std::move(v));
  if (is_set(settings, varied.front()->key))
    throw std::runtime_error("--vary and --set-machine both set " + varied.front()->key);
  return varied;
}

/// Throws std::runtime_error for numbers that the parser's ranges let pass, and for two options that set the jitter.
void check_numbers(const sim_options& o, const machine_settings& settings, const std::optional<varied_number>& varied) {
  for (const auto& [option, value] : {std::pair{"--ms", o.ms}, {"--warm-up", o.warm_up}})
    if (std::isnan(value)) throw std::runtime_error(std::string(option) + ": nan is no time");
  for (const double jitter : o.jitters)
    if (std::isnan(jitter)) throw std::runtime_error("--jitter: nan is no number");
  if (o.jitters.empty()) return;
  const std::string key = "coherence.jitter";
  const char* const other = is_set(settings, key) ? "--set-machine" : varied && varied->key == key ? "--vary" : nullptr;
  if (other != nullptr) throw std::runtime_error(std::string("--jitter and ") + other + " both set " + key);
}

/// The common settings of all points of a sweep.
sweep_point common_point(const sim_options& o) {
  sweep_point p;
  p.workload = o.workload;
  p.machine = o.machine;
  p.parameters = parameters_of(o.settings);
  p.settings = machine_settings_of(o.machine_settings);
  p.pinned = o.pinned;
  p.others = o.others;
  p.spin_ns = spin_ns(o.spin);
  p.placement = o.placement;
  p.together = o.together;
  if (o.warm_up >= 0) p.warm_up_ns = static_cast<std::uint64_t>(std::llround(o.warm_up * 1e6));
  return p;
}

/// The point with each lock, jitter and seed.
void add_repetitions(std::vector<planned_point>& to, sweep_point p, const sim_options& o, const sim::machine& m,
                     const std::vector<std::string>& locks) {
  std::vector<std::optional<double>> jitters(o.jitters.begin(), o.jitters.end());
  if (jitters.empty()) jitters = {std::nullopt};
  for (const std::string& lock : locks)
    for (const std::optional<double>& jitter : jitters)
      for (unsigned seed = 1; seed <= o.seeds; seed++) {
        p.lock = lock;
        p.seed = seed;
        p.jitter = jitter;
        sim::check_point(m, simulated(p));  // before hours of work
        to.push_back({p, {}, {}});
      }
}

std::vector<planned_point> points_of(const sim_options& o) {
  std::vector<planned_point> points;
  sweep_point p = common_point(o);
  const std::vector<std::optional<varied_number>> varied = varied_by(o, p.settings);
  check_numbers(o, p.settings, varied.front());
  for (const std::optional<varied_number>& v : varied) {
    p.varied = v;
    const sim::machine m = find_machine(o.machine, changes_of(p.settings, p.varied));
    p.machine_hash = m.hash;
    const std::vector<std::string> locks = chosen_locks(o.locks, all_locks(m));
    for (const unsigned threads : o.threads.empty() ? default_counts(m.cpus()) : thread_counts(o.threads)) {
      p.threads = threads;
      p.run_ns = o.ms > 0 ? static_cast<std::uint64_t>(o.ms * 1e6) : sim::usual_run_ns(m, simulated(p));
      add_repetitions(points, p, o, m, locks);
    }
  }
  return points;
}

int list_all() {
  int status = 0;
  list_workloads(sim::programs());
  std::set<std::string> seen;
  fmt::print("\nMachines:\n");
  for (const fs::path& folder : machine_folders()) {
    std::error_code error;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml" && seen.insert(entry.path().stem()).second) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) try {
        const sim::machine m = sim::read_machine(file);
        fmt::print("    {:<14} {} ({} CPUs{})\n", printable_line(m.name), printable_line(m.title), m.cpus(),
                   m.os ? "" : "; threads do not share CPUs");
      } catch (const sim::bad_machine& e) {
        report_error("{}", e.what());
        status = bad_usage;
      }
  }
  return status;
}

/// Traces only the first seed of each point.
int trace_of(const std::vector<planned_point>& points, const trace_options& o) {
  std::vector<sim::point> first;
  for (const planned_point& p : points)
    if (p.point.seed == 1u) first.push_back(simulated(p.point));
  return show_trace(machine_of(points.front().point), std::move(first), o);
}

/// The header of result files. It has neither date nor host, so that the same command writes the same file on every computer.
ordered_json about_this_run(const sim_options& o) {
  const sim::machine m = find_machine(o.machine, changes_of(machine_settings_of(o.machine_settings), std::nullopt));
  return {{"usher", USHER_VERSION},
          {"commit", workloads_commit},
          {"simulated_machine", {{"name", m.name}, {"hash", m.hash}, {"title", m.title}, {"cpus", m.cpus()}}}};
}

int carry_out(const sim_options& o) try {
  if (o.list) return list_all();
  if (!o.one_point.empty()) return simulate(o);
  if (!o.merge.empty()) return merge(o);
  if (o.workload.empty()) {
    report_error("sim: which workload? usher sim --list shows them");
    return bad_usage;
  }
  std::vector<planned_point> points = points_of(o);
  if (o.list_points) return list_points(sim_figures, points);
  if (o.trace.us > 0) return trace_of(points, o.trace);
  check_chart_metric(o, sim::programs(), true);
  figure_outputs to;
  if (const int status = to.open(o); status != 0) return status;
  // The longest points first, so that none of them runs alone at the end.
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return points[a].point.threads > points[b].point.threads; });
  const bool all_well = run_points(sim_figures, o, o.jobs, order, points);
  return show(to, o, about_this_run(o), results_of(points), all_well);
} catch (const sim::bad_machine& e) {
  report_error("{}", e.what());
  return bad_usage;
} catch (const std::runtime_error& e) {
  report_error("sim: {}", e.what());
  return bad_usage;
} catch (const nlohmann::json::exception& e) {
  report_error("sim: --point: it is no point: {}", reason_of(e));
  return bad_usage;
}

constexpr const char* sim_notes =
    R"(Simulates a benchmark program on the machine of a paper or on a machine that a file describes: its CPUs and the costs of
its caches. The locks are those that `usher run` puts under programs.

A run has the same result whenever and wherever it is repeated: it depends on the machine, the point and the seed only.

Examples:
  usher sim --list
  usher sim mutexbench --machine x5-2 --locks ticket-spin,twa-spin,mcs-spin --threads 1..72
  usher sim mutexbench --set ncs=0 --threads 1,8,72 --seeds 3 --json out.json
  usher sim randarray --machine t5 --locks mcs,mcscr --threads 32 --spin 20000 --set-machine scheduler.latency_mean=34000
  usher sim mutexbench --threads 72 --vary coherence.per_read=0,3,6,12
  usher sim mutexbench --list-points | parallel > lines; usher sim --merge lines)";

/// Machine, runs and durations.
void add_time_options(CLI::App& sub, sim_options& o) {
  sub.add_option("--machine", o.machine, "A machine's name, or its file (default: x5-2)")->type_name("M");
  sub.add_option("--seeds", o.seeds, "Runs of each point, with seeds 1, 2, … (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub.add_option("--jitter", o.jitters,
                 "Mean of the random part of a latency, relative to the latency, instead of the machine's")
      ->type_name("J,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.0, most_jitter));
  sub.add_option("--ms", o.ms,
                 "Simulated milliseconds that are measured (default: 2; several time slices if threads share CPUs)")
      ->type_name("T")
      ->check(CLI::Range(0.001, 100000.0));
  sub.add_option(
         "--warm-up", o.warm_up,
         "Simulated milliseconds before the measured time (default: a fifth of that, plus 0.02 for each thread)")
      ->type_name("T")
      ->check(CLI::Range(0.0, most_warm_up_ms));
}

/// Waiting, threads, variation of the machine, and processes.
void add_thread_options(CLI::App& sub, sim_options& o) {
  sub.add_option(
         "--spin", o.spin,
         "Time in ns for which waiters spin before they park (default: auto, the machine file's value, or 5555)")
      ->type_name("NS");
  sub.add_option("--placement", o.placement,
                 "Where threads begin: compact, scattered, even, or CPUs as 0,18,1..3 (default: the workload's)")
      ->type_name("P");
  sub.add_flag("--together", o.together,
               "All threads begin at once, as from a barrier, not one after another as they are created");
  sub.add_option("--set-machine", o.machine_settings, "Replace a number of the machine, as coherence.per_read=0")
      ->type_name("SECTION.KEY=V")
      ->allow_extra_args(false);
  sub.add_option("--vary", o.vary, "A sweep over a number of the machine, as coherence.per_read=0,6,12")
      ->type_name("SECTION.KEY=V,...");
  sub.add_option("--others", o.others, "Threads of other processes, each of which uses a CPU for a quarter of the time")
      ->type_name("N")
      ->check(CLI::Range(0u, most_others));
  sub.add_option("--jobs", o.jobs, "Processes in parallel (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
}

}  // namespace

subcommand sim_command(CLI::App& app) {
  auto* sub = app.add_subcommand("sim", sim_summary);
  auto o = std::make_shared<sim_options>();
  add_time_options(*sub, *o);
  add_thread_options(*sub, *o);
  add_figure_options(*sub, *o, "600");
  add_trace_options(*sub, o->trace);
  keep_apart(*sub, {"--merge", "--point"},
             {"--machine", "--seeds", "--jitter", "--ms", "--warm-up", "--spin", "--placement", "--together",
              "--set-machine", "--vary", "--others", "--jobs"});
  sub->formatter(std::make_shared<help>("usher sim [OPTIONS] WORKLOAD"));
  sub->footer(sim_notes);
  const subcommand parts[] = {calibrate_command(*sub), validate_command(*sub, find_machine)};
  return {sub, [=](char** words) {
            for (const subcommand& p : parts) {
              if (!p.options->parsed()) continue;
              for (const CLI::Option* own : sub->get_options())
                if (own->count() != 0) {
                  report_error("sim {}: {} is not for it; its own options come after the word", p.options->get_name(),
                               own->get_name());
                  return int{bad_usage};
                }
              return p.carry_out(words);
            }
            return carry_out(*o);
          }};
}

}  // namespace usher::cli
