#include "lab/commands/validate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lab/calibrate/native_machine.hpp"
#include "lab/calibrate/validation.hpp"
#include "lab/commands/calibrate.hpp"
#include "lab/sweep/point_json.hpp"
#include "lab/sweep/sweep_options.hpp"
#include "support/measure/statistics.hpp"
#include "support/process/files.hpp"
#include "support/process/foreign_cpu.hpp"
#include "support/process/process.hpp"
#include "support/process/this_computer.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/progress.hpp"
#include "support/text/table.hpp"

namespace usher::lab {
namespace {

using nlohmann::ordered_json;

using calibrate::agreement;
using calibrate::compared_point;

struct validate_options {
  calibrate::validation what;
  std::string machine, json_file;
  std::vector<std::string> machine_settings;
  bool quiet = false;
};

/// Returns the throughput of one native run by `usher bench`, in a process of its own. Nullopt if the run fails or does
/// not end in time.
std::optional<double> run_natively(const calibrate::compared_point& c, const calibrate::validation& v, unsigned round) {
  sweep_point p;
  p.workload = "mutexbench";
  p.machine = support::cpu_name();
  p.lock = c.lock->name;
  p.threads = c.threads;
  p.round = round;
  p.run_ns = static_cast<std::uint64_t>(v.seconds * 1e9);
  p.pinned = v.pinned;
  std::string words[] = {support::own_path().string(), "bench", "--point", json_text(p)};
  char* const command[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  support::process run(command, {});
  const support::ended end = run.wait(20 + 10 * v.seconds);
  if (end.way != support::ended::how::exited || end.status != 0) return std::nullopt;
  const auto said = ordered_json::parse(run.out().text(), nullptr, false);
  if (said.is_discarded() || !said.contains("throughput")) return std::nullopt;
  return said["throughput"].get<double>();
}

/// Calibrates this computer and returns the machine, with the changes applied.
sim::machine calibrated(const machine_changes& changes) {
  return sim::read_machine_text(calibrated_machine_file("usher sim validate"), "this computer", changes);
}

/// Runs all points natively, in rounds, so that load by other programs affects all locks alike. Returns a line for
/// each run that failed.
std::vector<std::string> run_all_natively(std::vector<calibrate::compared_point>& points,
                                          const calibrate::validation& v, support::progress& bar) {
  std::vector<std::string> failures;
  for (unsigned round = 1; round <= v.rounds; round++)
    for (calibrate::compared_point& c : points) {
      bar.show(c.lock->name);
      if (const auto rate = run_natively(c, v, round))
        c.native.push_back(*rate);
      else
        failures.push_back(fmt::format("{}, {} threads: the native run did not end", c.lock->name, c.threads));
      bar.one_done();
    }
  return failures;
}

void simulate_all(std::vector<calibrate::compared_point>& points, const sim::machine& m, const calibrate::validation& v,
                  support::progress& bar) {
  for (calibrate::compared_point& c : points)
    for (unsigned seed = 1; seed <= v.seeds; seed++) {
      bar.show(c.lock->name);
      calibrate::simulate(m, c, v, seed);
      bar.one_done();
    }
}

ordered_json to_json(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {{"median", support::median(values)}, {"low", *low}, {"high", *high}, {"runs", values}};
}

ordered_json to_json(const calibrate::compared_point& c) {
  return {{"lock", c.lock->name},        {"threads", c.threads},
          {"native", to_json(c.native)}, {"simulated", to_json(c.simulated)},
          {"unsettled", c.unsettled},    {"error", c.error()}};
}

/// Data of the JSON file and of the table that concern the whole measurement and not one point.
struct circumstances {
  calibrate::native_machine here;
  std::string machine;
  machine_settings settings;
  double others;  ///< other programs' share of the CPU time during the native runs
};

ordered_json to_json(const std::vector<calibrate::compared_point>& points, const calibrate::agreement& a,
                     const calibrate::validation& v, const circumstances& c) {
  ordered_json all{
      {"benchmark", "mutexbench"},
      {"date", support::now_in_words()},
      {"computer", {{"processor", support::cpu_name()}, {"cpus", c.here.cpus.size()}, {"virtual", c.here.hypervisor}}},
      {"machine", c.machine},
      {"machine_settings", to_json(c.settings)},
      {"pinned", v.pinned},
      {"seconds", v.seconds},
      {"rounds", v.rounds},
      {"seeds", v.seeds},
      {"others_cpu_share", c.others},
      {"spin_ns", v.spin_ns ? ordered_json(*v.spin_ns) : ordered_json()},
      {"points", ordered_json::array()}};
  for (const calibrate::compared_point& p : points) all["points"].push_back(to_json(p));
  all["within_10_percent"] = a.within_10;
  all["within_25_percent"] = a.within_25;
  all["pairs"] = a.pairs;
  all["pairs_in_order"] = a.pairs_in_order;
  return all;
}

void print_table(const std::vector<calibrate::compared_point>& points, const calibrate::agreement& a,
                 const calibrate::validation& v, const circumstances& c) {
  const auto rate = [](double r) { return r >= 0.01 || r == 0 ? fmt::format("{:.3f}", r) : fmt::format("{:.1e}", r); };
  const auto cell = [&](const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return fmt::format("{} {}–{}", rate(support::median(values)), rate(*low), rate(*high));
  };
  std::vector<std::vector<std::string>> rows;
  for (const calibrate::compared_point& p : points)
    rows.push_back({std::to_string(p.threads), p.lock->name, cell(p.native), cell(p.simulated),
                    fmt::format("{:+.1f} %", p.error() * 100)});
  fmt::print(
      "mutexbench, operations a microsecond, median and range: {}, and simulated on {}; threads are {}\n{}",
      support::cpu_name(), c.machine, v.pinned ? "pinned" : "free",
      support::format_table({{"threads", true}, {"lock"}, {"native", true}, {"simulated", true}, {"error", true}}, rows,
                            support::terminal_width()));
  fmt::print("Within 10 %: {} of {}; within 25 %: {}. Others took {:.1f} % of the CPU time of the native runs.\n",
             a.within_10, points.size(), a.within_25, c.others * 100);
  if (a.pairs != 0)
    fmt::print("In the native order: {} of {} pairs of locks whose native runs do not overlap.\n", a.pairs_in_order,
               a.pairs);
}

int carry_out(const validate_options& o, const find_machine_function& find) try {
  support::output_file json;
  circumstances c{calibrate::look_around(), {}, machine_settings_of(o.machine_settings), 0};
  std::vector<calibrate::compared_point> points =
      calibrate::points_of(o.what, static_cast<unsigned>(c.here.cpus.size()));
  if (!json.open(o.json_file)) return support::cannot_start;
  machine_changes changes;
  for (const auto& [key, value] : c.settings) changes[key] = value.text;
  const sim::machine m = o.machine.empty() ? calibrated(changes) : find(o.machine, changes);
  c.machine = m.name;
  calibrate::check_points(m, points);

  support::progress bar(points.size() * (o.what.rounds + o.what.seeds), o.quiet);
  const support::foreign_cpu others;
  const std::vector<std::string> failures = run_all_natively(points, o.what, bar);
  c.others = others.share();
  simulate_all(points, m, o.what, bar);
  bar.clear();
  for (const calibrate::compared_point& p : points)
    if (p.unsettled != 0)
      support::warn("validate: {}, {} threads: {} of {} simulated runs have not settled", p.lock->name, p.threads,
                    p.unsettled, o.what.seeds);
  for (const std::string& f : failures) support::report_error("validate: {}", f);
  std::erase_if(points, [](const calibrate::compared_point& p) { return p.native.empty(); });

  const calibrate::agreement a = calibrate::agreement_of(points);
  print_table(points, a, o.what, c);
  const bool written = !json.wanted() || json.write(to_json(points, a, o.what, c).dump(1) + "\n");
  return !written ? int{support::cannot_start} : failures.empty() ? 0 : 1;
} catch (const sim::bad_machine& e) {
  support::report_error("{}", e.what());
  return support::bad_usage;
} catch (const std::runtime_error& e) {
  support::report_error("{}", e.what());
  return support::bad_usage;
}

constexpr const char* validate_notes =
    R"(Runs MutexBench on this computer and on a simulated machine, by default the one that this computer is measured to be,
and shows how far they are apart. Where there are more threads than CPUs, much depends on the operating system's scheduler, of
which little is simulated.

Examples:
  usher sim validate
  usher sim validate --machine ./here.toml --locks mcs,steady --threads 2,8 --json out.json)";

}  // namespace

support::subcommand validate_command(CLI::App& sim, find_machine_function find) {
  auto* sub = sim.add_subcommand("validate", "Compare a simulated machine with this computer");
  auto o = std::make_shared<validate_options>();
  sub->add_option("--machine", o->machine, "A machine's name, or its file (default: this computer is measured)")
      ->type_name("M");
  auto* const locks =
      sub->add_option("--locks", o->what.locks, "Which locks (default: ticket-spin,ttas-spin,twa,mcs,steady,futex)")
          ->type_name("a,b,...")
          ->delimiter(',')
          ->allow_extra_args(false);
  sub->add_option("--threads", o->what.threads, "How many (default: 1, 2, and one, two and four times the CPUs)")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1u, 1024u));
  sub->add_flag("--pinned", o->what.pinned, "Each thread stays on one CPU");
  sub->add_option("--set-machine", o->machine_settings, "A number of the simulated machine, as coherence.per_read=0")
      ->type_name("SECTION.KEY=V")
      ->allow_extra_args(false);
  sub->add_option("--spin", o->what.spin_ns,
                  "How long simulated waiters that park spin first, in ns (default: as the machine says, or 5555)")
      ->type_name("NS")
      ->check(CLI::Range(0u, 1000000000u));
  sub->add_option("--seconds", o->what.seconds, "Of each native run (default: 0.3)")
      ->type_name("T")
      ->check(CLI::Range(0.001, 3600.0));
  sub->add_option("--rounds", o->what.rounds, "Native runs of each (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--seeds", o->what.seeds, "Simulated runs of each (default: 3)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--json", o->json_file, "Write all runs to this file")->type_name("F");
  sub->add_flag("--quiet", o->quiet, "No progress bar");
  sub->formatter(std::make_shared<support::help>("usher sim validate [OPTIONS]"));
  sub->footer(validate_notes);
  return {sub, [o, locks, find = std::move(find)](char**) {
            o->what.locks_asked = locks->count() != 0;
            return carry_out(*o, find);
          }};
}

}  // namespace usher::lab
