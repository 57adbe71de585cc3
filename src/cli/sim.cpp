// usher sim: a benchmark program on a machine that is not there. A figure is cut into points, each a simulation in a process of
// its own: locks × numbers of threads × seeds × jitters.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "calibrate.hpp"
#include "files.hpp"
#include "help.hpp"
#include "messages.hpp"
#include "near.hpp"
#include "points.hpp"
#include "sim/harness.hpp"
#include "sim/simulated_lock.hpp"
#include "subcommand.hpp"
#include "trace.hpp"
#include "validate.hpp"
#include "words.hpp"

namespace usher::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const figure_command sim_figures{"sim", "seed", {}};

constexpr double most_jitter = 10;

struct sim_options : figure_options {
  sim_options() {
    locks = {"ticket-spin", "twa-spin", "mcs-spin", "ttas-spin"};
    limit = 600;
  }
  std::string machine = "x5-2";
  std::vector<double> jitters;
  unsigned seeds = 5, jobs = 0, others = 0;
  double ms = 0;  ///< 0: as long as it takes
  trace_options trace;
};

// ---- machines --------------------------------------------------------------------------------------------------------

std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders;
  if (const std::string own = environment("USHER_MACHINES"); !own.empty()) folders.emplace_back(own);
  const fs::path tree = own_tree();
  folders.push_back(tree / "share" / "usher" / "machines");
  folders.push_back(tree / USHER_DATADIR / "usher" / "machines");
  return folders;
}

/// A name, or a path of a file. Throws sim::bad_machine.
sim::machine find_machine(const std::string& name) {
  if (name.find('/') != std::string::npos || fs::path(name).extension() == ".toml") {
    if (!is_file(name)) throw sim::bad_machine("there is no machine file " + name);
    return sim::read_machine(name);
  }
  std::set<std::string> known;
  for (const fs::path& folder : machine_folders()) {
    if (const fs::path file = folder / (name + ".toml"); is_file(file)) return sim::read_machine(file);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") known.insert(entry.path().stem());
  }
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  throw sim::bad_machine("unknown machine '" + name + "': " +
                         (list.empty() ? "no machine files were found; USHER_MACHINES may name their folder" : list));
}

// ---- points ----------------------------------------------------------------------------------------------------------

/// `jitter`: below 0: the machine's.
ordered_json to_json(const sim::point& p, const std::string& machine, double jitter) {
  ordered_json j = point_to_json(p, machine, sim_figures.repetition);
  if (jitter >= 0) j["jitter"] = jitter;
  if (p.others != 0) j["others"] = p.others;
  return j;
}

sim::point from_json(const ordered_json& j) {
  auto p = point_from_json<sim::point>(j, sim_figures.repetition);
  p.others = j.value("others", 0u);
  return p;
}

ordered_json to_json(const sim::result& r) {
  ordered_json j;
  add_operations(j, r.throughput, r.operations);
  j["sockets"] = r.sockets;
  if (!r.groups.empty()) {
    j["admissions"] = r.admissions;
    j["found_free"] = r.found_free;
    j["lwss"] = r.working_set;
    j["mttr"] = r.reacquire;
    j["between_sockets"] = r.between_sockets;
    j["bypasses"] = r.bypasses;
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
  if (r.loads != 0) {
    j["loads"] = r.loads;
    j["private_hits"] = r.private_hits;
    j["misses"] = r.misses;
    j["displaced_own"] = r.own_displaced;
    j["displaced_others"] = r.others_displaced;
    j["tlb_misses"] = r.tlb_misses;
  }
  j["events"] = r.events;
  j["looks"] = r.looks;
  j["cpu_s"] = r.cpu_seconds;
  return j;
}

sim::machine machine_of(const ordered_json& asked) {
  sim::machine m = find_machine(asked.at("machine"));
  if (asked.contains("jitter")) {
    const double jitter = asked["jitter"];
    if (!(jitter >= 0 && jitter <= most_jitter))
      throw std::runtime_error(fmt::format("the point's jitter is {}", jitter));
    m.jitter = static_cast<unsigned>(std::lround(jitter * 1024));
  }
  return m;
}

/// The process that simulates one point.
int simulate(const sim_options& o) {
  const ordered_json asked = ordered_json::parse(o.one_point);
  return print_result(asked, to_json(sim::run_point(machine_of(asked), from_json(asked))));
}

/// As `all` means them: without a scheduler threads must not sleep.
std::vector<std::string> all_locks(const sim::machine& m) {
  std::vector<std::string> names;
  for (const sim::simulated_lock* l : sim::simulated_locks())
    if (l->traits->excludes && l->kind == (m.os ? waiting_kind::spin_then_park : waiting_kind::spin))
      names.emplace_back(l->name);
  return names;
}

std::vector<numbered_point> points_of(const sim_options& o, const sim::machine& m) {
  std::vector<numbered_point> points;
  const auto counts = o.threads.empty() ? default_counts(m.cpus()) : thread_counts(o.threads);
  const std::vector<double> jitters = o.jitters.empty() ? std::vector<double>{-1} : o.jitters;
  const auto parameters = parameters_of(o.settings);
  const std::vector<std::string> locks = chosen_locks(o.locks, all_locks(m));
  for (const unsigned threads : counts) {
    const std::uint64_t run_ns = o.ms > 0 ? static_cast<std::uint64_t>(o.ms * 1e6) : sim::usual_run_ns(m, threads);
    for (const std::string& lock : locks)
      for (const double jitter : jitters)
        for (unsigned seed = 1; seed <= o.seeds; seed++) {
          const sim::point p{o.workload, lock, threads, seed, parameters, run_ns, o.pinned, o.others, true};
          sim::check_point(m, p);  // before hours of work
          points.push_back({to_json(p, o.machine, jitter), {}, {}});
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
        fmt::print("    {:<14} {} ({} CPUs{})\n", m.name, m.title, m.cpus(), m.os ? "" : "; threads do not share CPUs");
      } catch (const sim::bad_machine& e) {
        complain("{}", e.what());
        status = bad_usage;
      }
  }
  return status;
}

/// What differs by the seed only is one point.
int trace_of(const std::vector<numbered_point>& points, const trace_options& o) {
  std::vector<sim::point> first;
  for (const numbered_point& n : points)
    if (n.asked["seed"] == 1) first.push_back(from_json(n.asked));
  return show_trace(machine_of(points.front().asked), std::move(first), o);
}

int carry_out(const sim_options& o) try {
  if (o.list) return list_all();
  if (!o.one_point.empty()) return simulate(o);
  if (!o.merge.empty()) return merge(o);
  if (o.workload.empty()) {
    complain("sim: which workload? usher sim --list shows them");
    return bad_usage;
  }
  std::vector<numbered_point> points = points_of(o, find_machine(o.machine));
  if (o.list_points) return list_points(sim_figures, points);
  if (o.trace.us > 0) return trace_of(points, o.trace);
  figure_outputs to;
  if (const int status = to.open(o); status != 0) return status;
  // The longest first, so that no core is left alone with one of them.
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return points[a].asked["threads"].get<unsigned>() > points[b].asked["threads"].get<unsigned>();
  });
  const bool all_well = run_points(sim_figures, o, o.jobs, order, points);
  return show(to, o, ordered_json::object(), results_of(points), all_well);
} catch (const sim::bad_machine& e) {
  complain("{}", e.what());
  return bad_usage;
} catch (const std::runtime_error& e) {
  complain("sim: {}", e.what());
  return bad_usage;
} catch (const nlohmann::json::exception& e) {
  complain("sim: neither a point nor a result: {}", e.what());
  return bad_usage;
}

constexpr const char* sim_notes =
    R"(Simulates a benchmark program on the machine of a paper, or on one of your own: a file that says how many
CPUs it has and what its caches cost. The locks are the very ones that `usher run` puts under programs.

A run is the same wherever and whenever it is repeated: everything follows from the machine, the point and the seed.

Examples:
  usher sim --list
  usher sim mutexbench --machine x5-2 --locks ticket-spin,twa-spin,mcs-spin --threads 1..72
  usher sim mutexbench --set ncs=0 --threads 1,8,72 --seeds 3 --json out.json
  usher sim mutexbench --list-points | parallel > lines; usher sim --merge lines)";

}  // namespace

subcommand sim_command(CLI::App& app) {
  auto* sub = app.add_subcommand("sim", sim_summary);
  auto o = std::make_shared<sim_options>();
  sub->add_option("--machine", o->machine, "A machine's name, or its file (default: x5-2)")->type_name("M");
  sub->add_option("--seeds", o->seeds, "Runs of each point, with seeds 1, 2, … (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--jitter", o->jitters,
                  "Instead of the machine's: mean of the random part of a latency, relative to it")
      ->type_name("J,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.0, most_jitter));
  sub->add_option("--ms", o->ms,
                  "Simulated milliseconds that are measured (default: 2; many time slices where threads share CPUs)")
      ->type_name("T")
      ->check(CLI::Range(0.001, 100000.0));
  sub->add_option("--others", o->others, "Threads of other processes, each of which wants a CPU a quarter of the time")
      ->type_name("N")
      ->check(CLI::Range(0u, 1000u));
  sub->add_option("--jobs", o->jobs, "Processes side by side (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
  add_figure_options(*sub, *o, "600");
  add_trace_options(*sub, o->trace);
  keep_apart(*sub, {"--merge", "--point"}, {"--machine", "--seeds", "--jitter", "--ms", "--others", "--jobs"});
  sub->formatter(std::make_shared<help>("usher sim [OPTIONS] WORKLOAD"));
  sub->footer(sim_notes);
  const subcommand parts[] = {calibrate_command(*sub), validate_command(*sub, find_machine)};
  return {sub, [=](char** words) {
            for (const subcommand& p : parts) {
              if (!p.options->parsed()) continue;
              for (const CLI::Option* own : sub->get_options())
                if (own->count() != 0) {
                  complain("sim {}: {} is not for it; its own options come after the word", p.options->get_name(),
                           own->get_name());
                  return int{bad_usage};
                }
              return p.carry_out(words);
            }
            return carry_out(*o);
          }};
}

}  // namespace usher::cli
