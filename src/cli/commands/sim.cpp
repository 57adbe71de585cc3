// usher sim: a benchmark program on a machine that is not there. A figure is cut into points, each a simulation in a process of
// its own: locks × numbers of threads × seeds × jitters.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
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
#include "cli/process/files.hpp"
#include "cli/process/near.hpp"
#include "cli/sweep/machine_settings.hpp"
#include "cli/sweep/points.hpp"
#include "cli/sweep/trace.hpp"
#include "cli/text/help.hpp"
#include "cli/text/messages.hpp"
#include "cli/text/words.hpp"
#include "sim/harness.hpp"
#include "sim/simulated_lock.hpp"

namespace usher::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const figure_command sim_figures{"sim", "seed", {}};

constexpr double most_jitter = 10;
constexpr std::uint64_t most_spin_ns = 1'000'000'000;
constexpr double most_warm_up_ms = 100000;
constexpr unsigned most_others = 1000;

struct sim_options : figure_options {
  sim_options() {
    locks = {"ticket-spin", "twa-spin", "mcs-spin", "ttas-spin"};
    limit = 600;
  }
  std::string machine = "x5-2";
  std::vector<double> jitters;
  unsigned seeds = 5, jobs = 0, others = 0;
  double ms = 0;        ///< 0: as long as it takes
  double warm_up = -1;  ///< in ms; below 0: what is usual
  std::string spin, placement, vary;
  std::vector<std::string> machine_settings;
  bool together = false;
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
sim::machine find_machine(const std::string& name, const machine_changes& changes = {}) {
  if (name.find('/') != std::string::npos || fs::path(name).extension() == ".toml") {
    if (!is_file(name)) throw sim::bad_machine("there is no machine file " + name);
    return sim::read_machine(name, changes);
  }
  std::set<std::string> known;
  for (const fs::path& folder : machine_folders()) {
    if (const fs::path file = folder / (name + ".toml"); is_file(file)) return sim::read_machine(file, changes);
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

/// The machine that a point runs on, beside its name.
struct machine_variant {
  double jitter = -1;  ///< below 0: the machine's
  ordered_json settings = ordered_json::object();
  std::optional<varied_number> varied;
};

ordered_json to_json(const sim::point& p, const std::string& machine, const machine_variant& v) {
  ordered_json j = point_to_json(p, machine, sim_figures.repetition);
  if (v.jitter >= 0) j["jitter"] = v.jitter;
  if (!v.settings.empty()) j["machine_settings"] = v.settings;
  if (v.varied) j["vary"] = {{"key", v.varied->key}, {"value", v.varied->value}};
  if (p.others != 0) j["others"] = p.others;
  if (p.spin_ns) j["spin_ns"] = *p.spin_ns;
  if (!p.placement.empty()) j["placement"] = p.placement;
  if (p.together) j["together"] = true;
  if (p.warm_up_ns) j["warm_up_ns"] = *p.warm_up_ns;
  return j;
}

/// Nothing if it is not there. Throws where it is no whole number up to that.
std::optional<std::uint64_t> whole_number(const ordered_json& j, const char* name, std::uint64_t most) {
  const auto at = j.find(name);
  if (at == j.end()) return std::nullopt;
  if (!at->is_number_unsigned() || at->get<std::uint64_t>() > most)
    throw std::runtime_error(fmt::format("the point's {} is {}, no whole number from 0 to {}", name, at->dump(), most));
  return at->get<std::uint64_t>();
}

sim::point from_json(const ordered_json& j) {
  auto p = point_from_json<sim::point>(j, sim_figures.repetition);
  p.others = static_cast<unsigned>(whole_number(j, "others", most_others).value_or(0));
  p.spin_ns = whole_number(j, "spin_ns", most_spin_ns);
  p.placement = j.value("placement", "");
  p.together = j.value("together", false);
  p.warm_up_ns = whole_number(j, "warm_up_ns", static_cast<std::uint64_t>(most_warm_up_ms * 1e6));
  return p;
}

ordered_json to_json(const sim::result& r) {
  ordered_json j;
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
  j["looks"] = r.looks;
  j["cpu_s"] = r.cpu_seconds;
  return j;
}

sim::machine machine_of(const ordered_json& asked) {
  sim::machine m = find_machine(asked.at("machine"), changes_of(asked));
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

/// Of waiters that park. Nothing: the machine's.
std::optional<std::uint64_t> spin_ns(const std::string& text) {
  if (text.empty() || text == "auto") return std::nullopt;
  const bool digits = text.size() <= 10 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoull(text) > most_spin_ns)
    throw std::runtime_error(
        fmt::format("--spin: '{}' is neither nanoseconds, 0 to {}, nor auto, the machine's", text, most_spin_ns));
  return std::stoull(text);
}

std::vector<numbered_point> points_of(const sim_options& o) {
  std::vector<numbered_point> points;
  machine_variant variant;
  variant.settings = machine_settings_of(o.machine_settings);
  std::vector<std::optional<varied_number>> varied{std::nullopt};
  if (!o.vary.empty()) {
    varied.clear();
    for (varied_number& v : varied_numbers(o.vary)) varied.emplace_back(std::move(v));
    if (variant.settings.contains(varied.front()->key))
      throw std::runtime_error("--vary and --set-machine both set " + varied.front()->key);
  }
  for (const auto& [option, value] : {std::pair{"--ms", o.ms}, {"--warm-up", o.warm_up}})
    if (std::isnan(value)) throw std::runtime_error(std::string(option) + ": nan is no time");
  for (const double jitter : o.jitters)
    if (std::isnan(jitter)) throw std::runtime_error("--jitter: nan is no number");
  if (!o.jitters.empty()) {
    const char* const other = variant.settings.contains("coherence.jitter")                 ? "--set-machine"
                              : varied.front() && varied.front()->key == "coherence.jitter" ? "--vary"
                                                                                            : nullptr;
    if (other != nullptr) throw std::runtime_error(std::string("--jitter and ") + other + " both set coherence.jitter");
  }
  const std::vector<double> jitters = o.jitters.empty() ? std::vector<double>{-1} : o.jitters;
  sim::point p;
  p.workload = o.workload;
  p.parameters = parameters_of(o.settings);
  p.pinned = o.pinned;
  p.others = o.others;
  p.spin_ns = spin_ns(o.spin);
  p.placement = o.placement;
  p.together = o.together;
  if (o.warm_up >= 0) p.warm_up_ns = static_cast<std::uint64_t>(std::llround(o.warm_up * 1e6));
  for (std::optional<varied_number>& v : varied) {
    variant.varied = std::move(v);
    const sim::machine m = find_machine(o.machine, changes_of(variant.settings, variant.varied));
    if (points.empty()) warn_of_old_keys(m);
    const std::vector<std::string> locks = chosen_locks(o.locks, all_locks(m));
    for (const unsigned threads : o.threads.empty() ? default_counts(m.cpus()) : thread_counts(o.threads)) {
      p.threads = threads;
      p.run_ns = o.ms > 0 ? static_cast<std::uint64_t>(o.ms * 1e6) : sim::usual_run_ns(m, p);
      for (const std::string& lock : locks)
        for (const double jitter : jitters)
          for (unsigned seed = 1; seed <= o.seeds; seed++) {
            p.lock = lock;
            p.seed = seed;
            variant.jitter = jitter;
            sim::check_point(m, p);  // before hours of work
            points.push_back({to_json(p, o.machine, variant), {}, {}});
          }
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

/// Neither date nor host: the same command writes the same header on every computer.
ordered_json about_this_run(const sim_options& o) {
  const sim::machine m = find_machine(o.machine, changes_of(machine_settings_of(o.machine_settings), std::nullopt));
  return {{"usher", USHER_VERSION},
          {"commit", workloads_commit},
          {"simulated_machine", {{"name", m.name}, {"title", m.title}, {"cpus", m.cpus()}}}};
}

int carry_out(const sim_options& o) try {
  if (o.list) return list_all();
  if (!o.one_point.empty()) return simulate(o);
  if (!o.merge.empty()) return merge(o);
  if (o.workload.empty()) {
    complain("sim: which workload? usher sim --list shows them");
    return bad_usage;
  }
  std::vector<numbered_point> points = points_of(o);
  if (o.list_points) return list_points(sim_figures, points);
  if (o.trace.us > 0) return trace_of(points, o.trace);
  check_chart_metric(o, sim::programs(), true);
  figure_outputs to;
  if (const int status = to.open(o); status != 0) return status;
  // The longest first, so that no core is left alone with one of them.
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return points[a].asked["threads"].get<unsigned>() > points[b].asked["threads"].get<unsigned>();
  });
  const bool all_well = run_points(sim_figures, o, o.jobs, order, points);
  return show(to, o, about_this_run(o), results_of(points), all_well);
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
  usher sim randarray --machine t5 --locks mcs,mcscr --threads 32 --spin 20000 --set-machine scheduler.latency_mean=34000
  usher sim mutexbench --threads 72 --vary coherence.per_read=0,3,6,12
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
  sub->add_option("--warm-up", o->warm_up,
                  "Simulated milliseconds before what is measured (default: a fifth of that, and 0.02 for each thread)")
      ->type_name("T")
      ->check(CLI::Range(0.0, most_warm_up_ms));
  sub->add_option("--spin", o->spin,
                  "How long waiters that park spin first, in ns (default: auto, what the machine's file says, or 5555)")
      ->type_name("NS");
  sub->add_option("--placement", o->placement,
                  "Where threads begin: compact, scattered, even, or CPUs as 0,18,1..3 (default: the workload's)")
      ->type_name("P");
  sub->add_flag("--together", o->together,
                "All threads begin at once, as from a barrier, not one after another as they are created");
  sub->add_option("--set-machine", o->machine_settings, "A number of the machine, as coherence.per_read=0")
      ->type_name("SECTION.KEY=V")
      ->allow_extra_args(false);
  sub->add_option("--vary", o->vary, "A sweep over a number of the machine, as coherence.per_read=0,6,12")
      ->type_name("SECTION.KEY=V,...");
  sub->add_option("--others", o->others, "Threads of other processes, each of which wants a CPU a quarter of the time")
      ->type_name("N")
      ->check(CLI::Range(0u, most_others));
  sub->add_option("--jobs", o->jobs, "Processes side by side (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
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
