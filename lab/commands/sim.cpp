// usher sim: runs a benchmark program on a simulated machine. Each point of a figure (a combination of lock, number of
// threads, seed and jitter) is simulated in a process of its own.
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
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "lab/commands/bench_commands.hpp"
#include "lab/commands/calibrate.hpp"
#include "lab/commands/machine_from_lstopo.hpp"
#include "lab/commands/machines.hpp"
#include "lab/commands/validate.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "lab/sweep/figure_files.hpp"
#include "lab/sweep/machine_settings.hpp"
#include "lab/sweep/measured_json.hpp"
#include "lab/sweep/point_json.hpp"
#include "lab/sweep/point_settings.hpp"
#include "lab/sweep/point_trace.hpp"
#include "lab/sweep/run_points.hpp"
#include "lab/sweep/sweep_options.hpp"
#include "support/measure/host.hpp"
#include "support/process/files.hpp"
#include "support/process/near.hpp"
#include "support/text/help.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"
#include "support/text/utf8.hpp"
#include "support/text/words.hpp"

namespace usher::lab {
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
  unsigned seeds = 5, jobs = 0;
  double ms = 0;  ///< length of a run; 0: sim::usual_run_ns()
  std::string vary;
  std::vector<std::string> machine_settings;
  std::string lstopo_file, like;
  trace_options trace;
};

/// Throws std::runtime_error if a fraction is out of its range: results of older versions may have such numbers.
void check_numbers(const sweep_point& p) {
  for (const point_key& k : point_keys) {
    const auto* const member = std::get_if<std::optional<double> sweep_point::*>(&k.member);
    if (member == nullptr || !(p.*(*member))) continue;
    const double value = *(p.*(*member));
    if (!(value >= static_cast<double>(k.least) && value <= static_cast<double>(k.most)))
      throw std::runtime_error(fmt::format("the point's {} is {}", k.key, value));
  }
}

/// The machine on which the point runs, with the point's settings and jitter. Throws std::runtime_error and
/// sim::bad_machine.
sim::machine machine_of(const sweep_point& p) {
  machine_changes changes;
  for (const auto& [key, value] : p.settings) changes[key] = value.text;
  if (p.varied) changes[p.varied->key] = p.varied->value.text;
  sim::machine m = find_machine(p.machine, changes);
  check_numbers(p);
  if (p.jitter) m.jitter = static_cast<unsigned>(std::lround(*p.jitter * 1024));
  return m;
}

// ---- points ----------------------------------------------------------------------------------------------------------

/// Converts the point to the simulator's type.
sim::point simulated(const sweep_point& p) {
  sim::point to;
  static_cast<sim::settings&>(to) = p;
  to.workload = p.workload;
  to.lock = p.lock;
  to.threads = p.threads;
  to.seed = p.seed.value_or(1);
  to.parameters = p.parameters;
  to.run_ns = p.run_ns;
  return to;
}

/// Prints the point and its result as a line of JSON.
void print_result(const std::string& point, const sim::machine& m, const sim::result& r) {
  ordered_json j = begun_result(point, workloads_commit);
  j["machine_hash"] = m.hash;
  add_operations(j, r.throughput, r.operations);
  j["first_half"] = r.first_half;
  j["second_half"] = r.second_half;
  j["settled"] = r.settled;
  j["sockets"] = r.sockets;
  if (!r.groups.empty()) {
    j["admissions"] = r.admissions;
    j["found_free"] = r.found_free;
    j["lwss"] = r.working_set;
    j["mttr"] = r.reacquire;
    j["between_sockets"] = r.between_sockets;
    j["bypasses"] = r.bypasses;
    j["leaders_too_late"] = r.leaders_too_late;
    j["utilisation"] = r.utilisation;
    j["hold_ns"] = durations_to_json(r.holds);
    j["unlock_ns"] = durations_to_json(r.unlocks);
    j["hand_over_ns"] = durations_to_json(r.hand_overs);
  }
  for (const sim::group& g : r.groups) {
    ordered_json& to = add_group(j, g, true);
    if (!g.name.empty()) to["bypasses"] = g.bypasses;
  }
  j["voluntary_switches"] = r.voluntary;
  j["involuntary_switches"] = r.involuntary;
  j["migrations"] = r.migrations;
  j["cpus_used"] = r.cpus_used;
  j["cpus_without_pipeline"] = r.cpus_without_pipeline;
  j["writes"] = r.writes;
  if (r.loads != 0) {
    j["loads"] = r.loads;
    j["private_hits"] = r.private_hits;
    j["misses"] = r.misses;
    j["displaced_own"] = r.own_displaced;
    j["displaced_others"] = r.others_displaced;
    j["tlb_misses"] = r.tlb_misses;
  }
  j["measured_after_ns"] = r.warm_up_ns;
  j["events"] = r.events;
  j["looks"] = r.polls;
  j["cpu_s"] = r.cpu_seconds;
  fmt::print("{}\n", j.dump());
}

/// Simulates one point, in a process of its own.
int simulate(const std::string& point) {
  const sweep_point p = point_from_text(point);
  const sim::machine m = machine_of(p);
  if (!p.machine_hash.empty() && p.machine_hash != m.hash)
    throw std::runtime_error(
        fmt::format("the machine {} is not the one that the point was made for: its file has changed, "
                    "or is another of that name (hash {}, not {})",
                    p.machine, m.hash, p.machine_hash));
  print_result(point, m, sim::run_point(m, simulated(p)));
  return 0;
}

/// Returns the locks that `--locks all` stands for: the forms that only spin if the machine has no scheduler, otherwise
/// the forms that spin and then park.
std::vector<std::string> all_locks(const sim::machine& m) {
  std::vector<std::string> names;
  for (const sim::simulated_lock* l : sim::simulated_locks())
    if (l->traits->excludes && l->kind == (m.os ? waiting_kind::spin_then_park : waiting_kind::spin))
      names.emplace_back(l->name);
  return names;
}

/// The values of --vary. Without this option: one element, nullopt.
std::vector<std::optional<varied_number>> varied_by(const sim_options& o, const machine_settings& settings) {
  if (o.vary.empty()) return {std::nullopt};
  std::vector<std::optional<varied_number>> varied;
  for (varied_number& v : varied_numbers(o.vary)) varied.emplace_back(std::move(v));
  if (is_set(settings, varied.front()->key))
    throw std::runtime_error("--vary and --set-machine both set " + varied.front()->key);
  return varied;
}

/// Checks what the parser cannot check. Throws std::runtime_error for invalid numbers, and if two options set the
/// jitter.
void check_jitters(const sim_options& o, const machine_settings& settings, const std::optional<varied_number>& varied) {
  for (const double jitter : o.jitters)
    if (std::isnan(jitter)) throw std::runtime_error("--jitter: nan is no number");
  if (o.jitters.empty()) return;
  const std::string key = "coherence.jitter";
  const char* const other = is_set(settings, key) ? "--set-machine" : varied && varied->key == key ? "--vary" : nullptr;
  if (other != nullptr) throw std::runtime_error(std::string("--jitter and ") + other + " both set " + key);
}

struct sweep {
  sweep_point common;                   ///< the settings of all points
  std::optional<sim::machine> machine;  ///< of all points; absent with --vary
  std::vector<planned_point> points;
};

/// Adds a copy of the point for each combination of number of threads, lock, jitter and seed.
void add_points(sweep& to, sweep_point p, const sim_options& o, const sim::machine& m) {
  std::vector<std::optional<double>> jitters(o.jitters.begin(), o.jitters.end());
  if (jitters.empty()) jitters = {std::nullopt};
  const std::vector<std::string> locks = chosen_locks(o.locks, all_locks(m));
  for (const unsigned threads : o.threads.empty() ? default_counts(m.cpus()) : thread_counts(o.threads)) {
    p.threads = threads;
    p.run_ns = o.ms > 0 ? static_cast<std::uint64_t>(o.ms * 1e6) : sim::usual_run_ns(m, simulated(p));
    for (const std::string& lock : locks)
      for (const std::optional<double>& jitter : jitters)
        for (unsigned seed = 1; seed <= o.seeds; seed++) {
          p.lock = lock;
          p.seed = seed;
          p.jitter = jitter;
          sim::check_point(m, simulated(p));  // reports errors before hours of work
          to.points.push_back({p, {}, {}});
        }
  }
}

sweep sweep_of(const sim_options& o) {
  if (std::isnan(o.ms)) throw std::runtime_error("--ms: nan is no time");
  sweep s{common_point(o, o.machine_settings), {}, {}};
  s.common.machine = o.machine;
  const std::vector<std::optional<varied_number>> varied = varied_by(o, s.common.settings);
  check_jitters(o, s.common.settings, varied.front());
  for (const std::optional<varied_number>& v : varied) {
    sweep_point p = s.common;
    p.varied = v;
    const sim::machine m = machine_of(p);
    if (!v) s.machine = m;
    p.machine_hash = m.hash;
    add_points(s, p, o, m);
  }
  return s;
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
        fmt::print("    {:<14} {} ({} CPUs{})\n", support::printable_line(m.name), support::printable_line(m.title),
                   m.cpus(), m.os ? "" : "; threads do not share CPUs");
      } catch (const sim::bad_machine& e) {
        support::report_error("{}", e.what());
        status = support::bad_usage;
      }
  }
  return status;
}

/// Traces the point. Of its repetitions only the one with seed 1 is traced.
int trace_of(const std::vector<planned_point>& points, const trace_options& o) {
  std::vector<sim::point> first;
  for (const planned_point& p : points)
    if (p.point.seed == 1u) first.push_back(simulated(p.point));
  return show_trace(machine_of(points.front().point), std::move(first), o);
}

/// The header of result files. It has neither date nor host: the same command writes the same file on every computer.
ordered_json about_this_run(const sweep& s) {
  const sim::machine m = s.machine ? *s.machine : machine_of(s.common);
  return {{"usher", USHER_VERSION},
          {"commit", workloads_commit},
          {"simulated_machine", {{"name", m.name}, {"hash", m.hash}, {"title", m.title}, {"cpus", m.cpus()}}}};
}

int carry_out(const sim_options& o) try {
  if (o.list) return list_all();
  if (!o.lstopo_file.empty())
    return print_machine_from_lstopo(o.lstopo_file, o.like, shipped_folders(),
                                     [](const std::string& name) { return find_machine(name, {}); });
  if (!o.one_point.empty()) return simulate(o.one_point);
  if (!o.merge.empty()) return merge(o);
  if (o.workload.empty()) {
    support::report_error("sim: which workload? usher sim --list shows them");
    return support::bad_usage;
  }
  sweep s = sweep_of(o);
  std::vector<planned_point>& points = s.points;
  if (o.list_points) return list_points(sim_figures, points);
  if (o.trace.us > 0) return trace_of(points, o.trace);
  figure_outputs to;
  if (const int status = to.open(o, sim::programs(), true); status != 0) return status;
  // Points with many threads take longest, so they run first and do not run alone at the end.
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return points[a].point.threads > points[b].point.threads; });
  const bool all_well = run_points(sim_figures, o, o.jobs, order, points);
  return show(to, o, about_this_run(s), results_of(points), all_well);
} catch (const sim::bad_machine& e) {
  support::report_error("{}", e.what());
  return support::bad_usage;
} catch (const std::runtime_error& e) {
  support::report_error("sim: {}", e.what());
  return support::bad_usage;
} catch (const nlohmann::json::exception& e) {
  support::report_error("sim: --point: it is no point: {}", support::reason_of(e));
  return support::bad_usage;
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
  usher sim mutexbench --list-points | parallel > lines; usher sim --merge lines
  lstopo --of xml here.xml; usher sim --machine-from-lstopo here.xml > here.toml)";

/// Adds the options for the machine, the number of runs and their durations.
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
      ->check(CLI::Range(0.0, static_cast<double>(key_of(&sweep_point::jitter).most)));
  sub.add_option("--ms", o.ms,
                 "Simulated milliseconds that are measured (default: 2; several time slices if threads share CPUs)")
      ->type_name("T")
      ->check(CLI::Range(0.001, 100000.0));
  add_settings(sub, o, option_part::times);
}

/// Adds the options for waiting, threads, changes of the machine, and the number of processes.
void add_thread_options(CLI::App& sub, sim_options& o) {
  add_settings(sub, o, option_part::threads);
  sub.add_option("--set-machine", o.machine_settings, "Replace a number of the machine, as coherence.per_read=0")
      ->type_name("SECTION.KEY=V")
      ->allow_extra_args(false);
  sub.add_option("--vary", o.vary, "A sweep over a number of the machine, as coherence.per_read=0,6,12")
      ->type_name("SECTION.KEY=V,...");
  add_settings(sub, o, option_part::load);
  sub.add_option("--jobs", o.jobs, "Processes in parallel (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
}

/// Adds the options that write a machine file instead of running a simulation. The parser refuses them together with
/// other options.
void add_lstopo_options(CLI::App& sub, sim_options& o) {
  const std::vector<CLI::Option*> others = sub.get_options();
  auto* const file = sub.add_option("--machine-from-lstopo", o.lstopo_file,
                                    "Print a machine file made from hwloc's XML (lstopo --of xml), and do nothing else")
                         ->type_name("F");
  auto* const like = sub.add_option("--like", o.like,
                                    "With --machine-from-lstopo: the machine whose latencies are assumed (default: the "
                                    "nearest)")
                         ->type_name("M")
                         ->needs(file);
  for (CLI::Option* const other : others)
    if (other != sub.get_help_ptr() && other->get_name() != "--quiet") {
      file->excludes(other);
      like->excludes(other);
    }
}

}  // namespace

support::subcommand sim_command(CLI::App& app) {
  auto* sub = app.add_subcommand("sim", support::sim_summary);
  auto o = std::make_shared<sim_options>();
  add_time_options(*sub, *o);
  add_thread_options(*sub, *o);
  add_figure_options(*sub, *o, "600",
                     {"--machine", "--seeds", "--jitter", "--ms", "--set-machine", "--vary", "--jobs"});
  add_trace_options(*sub, o->trace);
  add_lstopo_options(*sub, *o);
  sub->formatter(std::make_shared<support::help>("usher sim [OPTIONS] WORKLOAD"));
  sub->footer(sim_notes);
  const support::subcommand parts[] = {calibrate_command(*sub), validate_command(*sub, find_machine)};
  return {sub, [=](char** words) {
            for (const support::subcommand& p : parts) {
              if (!p.options->parsed()) continue;
              for (const CLI::Option* own : sub->get_options())
                if (own->count() != 0) {
                  support::report_error("sim {}: {} is not for it; its own options come after the word",
                                        p.options->get_name(), own->get_name());
                  return int{support::bad_usage};
                }
              return p.carry_out(words);
            }
            return carry_out(*o);
          }};
}

}  // namespace usher::lab
