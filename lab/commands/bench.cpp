// usher bench: runs a benchmark program on this computer under locks of the catalogue. Each point of a figure runs in a
// process of its own with a time limit, one after another. So a lock that hangs is reported as an error; so is a lock
// that takes minutes because more threads queue than there are CPUs. Rounds are interleaved (A B C A B C), so that
// other load affects every lock alike.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lab/bench/native/native_point.hpp"
#include "lab/commands/bench_commands.hpp"
#include "lab/sweep/figure_files.hpp"
#include "lab/sweep/measured_json.hpp"
#include "lab/sweep/point_json.hpp"
#include "lab/sweep/run_points.hpp"
#include "lab/sweep/sweep_options.hpp"
#include "support/measure/host.hpp"
#include "support/process/foreign_cpu.hpp"
#include "support/process/process.hpp"
#include "support/process/this_computer.hpp"
#include "support/text/help.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"
#include "usher/catalog.hpp"

namespace usher::lab {
namespace {

using nlohmann::ordered_json;

struct bench_options : figure_options {
  bench_options() { locks = {"ticket", "twa", "mcs", "steady", "pthread"}; }
  unsigned rounds = 3;
  double seconds = 1;
};

/// Returns the error of a result, or an empty text. The null lock, a baseline without mutual exclusion, need not
/// exclude.
std::string judge(const point_result& r) {
  if (r.exclusive.value_or(true)) return "";
  const lock_table* const lock = find_lock(r.point.lock);
  return lock != nullptr && !lock->traits->excludes ? "" : "WRONG: it does not let one thread in at a time";
}

const figure_command bench_figures{"bench", judge};

bench::point measured(const sweep_point& p) {
  return {p.workload, p.lock, p.threads, p.round.value_or(1), p.parameters, p.run_ns, p.pinned};
}

/// Measures one point, in a process of its own. Prints the point and its result as a line of JSON.
int measure(const std::string& point) {
  const bench::result r = bench::run_point(measured(point_from_text(point)));
  ordered_json j = begun_result(point, workloads_commit);
  j["machine"] = support::cpu_name();  // this computer may differ from the one that listed the point
  j["lock"] = r.lock;
  j["seconds"] = r.seconds;
  add_operations(j, r.throughput, r.operations);
  if (!r.sockets.empty()) j["sockets"] = r.sockets;
  if (r.exclusive) j["exclusive"] = *r.exclusive;
  if (r.metered) {
    j["utilisation"] = r.utilisation;
    j["hold_ns"] = durations_to_json(r.holds);
  }
  for (const support::group& g : r.groups) add_group(j, g, r.metered);
  j["voluntary_switches"] = r.voluntary;
  j["involuntary_switches"] = r.involuntary;
  j["cpus_used"] = r.cpus_used;
  j["others_cpu_share"] = r.others;
  j["cpu_s"] = r.cpu_seconds;
  fmt::print("{}\n", j.dump());
  return 0;
}

std::vector<std::string> all_locks() {
  std::vector<std::string> names;
  for (const lock_table* t : catalog())
    if (t->plain() && t->traits->excludes) names.emplace_back(t->name);
  return names;
}

std::vector<planned_point> points_of(const bench_options& o) {
  std::vector<planned_point> points;
  std::vector<unsigned> counts = thread_counts(o.threads);
  if (counts.empty()) {
    const unsigned cpus = std::max(1u, std::thread::hardware_concurrency());
    counts = default_counts(cpus);
    for (const unsigned more : {2 * cpus, 4 * cpus}) counts.push_back(more);
  }
  sweep_point p = common_point(o);
  p.machine = support::cpu_name();
  p.run_ns = static_cast<std::uint64_t>(o.seconds * 1e9);
  const std::vector<std::string> locks = chosen_locks(o.locks, all_locks());
  for (const unsigned threads : counts)
    for (const std::string& lock : locks)
      for (unsigned round = 1; round <= o.rounds; round++) {
        p.lock = lock;
        p.threads = threads;
        p.round = round;
        bench::check_point(measured(p));  // before hours of work
        points.push_back({p, {}, {}});
      }
  return points;
}

/// The command line as the user typed it, with the executable's name instead of its path.
std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string all;
  for (std::string word; std::getline(in, word, '\0');) all += all.empty() ? "usher" : " " + word;
  return all;
}

ordered_json about_this_run(const support::foreign_cpu& others) {
  return {{"command", command_line()},       {"date", support::utc_now()}, {"machine", support::machine()},
          {"compiler", support::compiler()}, {"commit", workloads_commit}, {"others_cpu_share", others.share()}};
}

int carry_out(bench_options& o) try {
  if (o.list) {
    list_workloads(bench::programs());
    fmt::print("\nThis computer: {}, {} CPUs\n", support::cpu_name(), std::thread::hardware_concurrency());
    return 0;
  }
  if (!o.one_point.empty()) return measure(o.one_point);
  if (!o.merge.empty()) return merge(o);
  if (o.workload.empty()) {
    support::report_error("bench: which workload? usher bench --list shows them");
    return support::bad_usage;
  }
  std::vector<planned_point> points = points_of(o);
  if (o.list_points) return list_points(bench_figures, points);
  figure_outputs to;
  if (const int status = to.open(o, bench::programs()); status != 0) return status;
  if (o.limit == 0) o.limit = 3 * o.seconds + 10;
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return points[a].point.round < points[b].point.round; });
  const support::foreign_cpu others;
  const bool all_well = run_points(bench_figures, o, 1, order, points);
  const ordered_json about = about_this_run(others);
  const int status = show(to, o, about, results_of(points), all_well);
  fmt::print("{}, {} CPUs, {}, commit {}; others took {:.1f} % of the CPU time.\n", support::cpu_name(),
             std::thread::hardware_concurrency(), support::compiler(), workloads_commit,
             100 * about["others_cpu_share"].get<double>());
  return status;
} catch (const std::runtime_error& e) {
  support::report_error("bench: {}", e.what());
  return support::bad_usage;
} catch (const nlohmann::json::exception& e) {
  support::report_error("bench: --point: it is no point: {}", support::reason_of(e));
  return support::bad_usage;
}

constexpr const char* bench_notes =
    R"(Runs a benchmark program on this computer, in a process of its own for each point, one after another. The programs are
those of `usher sim`.

A lock that hands over in order of arrival and only spins may take minutes if there are more threads than CPUs: such a run
is ended at its time limit and reported.

Examples:
  usher bench --list
  usher bench mutexbench --locks ticket,mcscr,steady,pthread --threads 1,2,4,8 --chart out.svg
  usher bench mutexbench --set shared=1 --locks all --threads 4 --seconds 0.5 --details
  usher run --lock steady -- usher bench mutexbench --locks pthread --threads 4)";

}  // namespace

support::subcommand bench_command(CLI::App& app) {
  auto* sub = app.add_subcommand("bench", support::bench_summary);
  auto o = std::make_shared<bench_options>();
  sub->add_option("--rounds", o->rounds, "Runs of each point (default: 3)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--seconds", o->seconds, "Measured duration of a run (default: 1)")
      ->type_name("S")
      ->check(CLI::Range(0.001, 3600.0));
  add_figure_options(*sub, *o, "three times --seconds, plus 10", {"--rounds", "--seconds"});
  sub->formatter(std::make_shared<support::help>("usher bench [OPTIONS] WORKLOAD"));
  sub->footer(bench_notes);
  return {sub, [o](char**) { return carry_out(*o); }};
}

}  // namespace usher::lab
