#include "cli/commands/validate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/native/point.hpp"
#include "calibrate/native_machine.hpp"
#include "cli/commands/calibrate.hpp"
#include "cli/commands/locks.hpp"
#include "cli/process/files.hpp"
#include "cli/process/process.hpp"
#include "cli/process/this_computer.hpp"
#include "cli/sweep/points.hpp"
#include "cli/text/help.hpp"
#include "cli/text/messages.hpp"
#include "cli/text/output_file.hpp"
#include "cli/text/progress.hpp"
#include "cli/text/table.hpp"
#include "cli/trial/statistics.hpp"
#include "sim/harness.hpp"
#include "sim/simulated_lock.hpp"

namespace usher::cli {
namespace {

using nlohmann::ordered_json;

struct validate_options {
  std::string machine, json_file;
  std::vector<std::string> locks{"ticket-spin", "ttas-spin", "twa", "mcs", "steady", "futex"};
  std::vector<unsigned> threads;
  std::vector<std::string> machine_settings;
  std::optional<std::uint32_t> spin_ns;
  unsigned rounds = 5, seeds = 3;
  double seconds = 0.3;
  bool locks_asked = false, pinned = false, quiet = false;
};

struct compared_point {
  const lock_table* lock;
  unsigned threads;
  std::vector<double> native, simulated;  ///< operations a microsecond
  unsigned unsettled = 0;                 ///< simulated runs whose halves differ
  double error() const { return median(simulated) / median(native) - 1; }
};

struct order {
  std::size_t pairs = 0, same = 0;
};

/// Fewer native runs of a lock do not say how far they differ.
constexpr std::size_t enough_runs = 3;

/// Of two locks with as many threads: if no native run of the one was as fast as any of the other, which is faster, simulated?
order order_of(const std::vector<compared_point>& points) {
  order o;
  const auto above = [](const std::vector<double>& a, const std::vector<double>& b) {
    return *std::min_element(a.begin(), a.end()) > *std::max_element(b.begin(), b.end());
  };
  for (const compared_point& a : points)
    for (const compared_point& b : points) {
      if (std::min(a.native.size(), b.native.size()) < enough_runs) continue;
      if (a.threads != b.threads || !above(a.native, b.native)) continue;
      o.pairs++;
      o.same += median(a.simulated) > median(b.simulated);
    }
  return o;
}

/// By `usher bench`, in a process of its own. Nothing if it does not end in time, or fails.
std::optional<double> run_natively(const compared_point& c, const validate_options& o, unsigned round) {
  sweep_point p;
  p.workload = "mutexbench";
  p.machine = cpu_name();
  p.lock = c.lock->name;
  p.threads = c.threads;
  p.round = round;
  p.run_ns = static_cast<std::uint64_t>(o.seconds * 1e9);
  p.pinned = o.pinned;
  std::string words[] = {own_path().string(), "bench", "--point", json_text(p)};
  char* const command[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  process run(command, {});
  const ended end = run.wait(20 + 10 * o.seconds);
  if (end.way != ended::how::exited || end.status != 0) return std::nullopt;
  const auto said = ordered_json::parse(run.out().text(), nullptr, false);
  if (said.is_discarded() || !said.contains("throughput")) return std::nullopt;
  return said["throughput"].get<double>();
}

sim::result simulate(const sim::machine& m, const compared_point& c, const validate_options& o, unsigned seed) {
  sim::point p;
  p.workload = "mutexbench";
  p.lock = c.lock->name;
  p.threads = c.threads;
  p.seed = seed;
  p.pinned = o.pinned;
  p.spin_ns = o.spin_ns;
  p.watch = false;
  constexpr std::uint64_t ms = 1000000;
  p.run_ns = std::max((c.threads <= m.cpus() ? 20 : 200) * ms, sim::usual_run_ns(m, p));
  return sim::run_point(m, p);
}

std::vector<compared_point> points_of(const validate_options& o, unsigned cpus) {
  std::vector<unsigned> counts = o.threads;
  if (counts.empty()) counts = {1, 2, cpus, 2 * cpus, 4 * cpus};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::vector<compared_point> points;
  for (const unsigned threads : counts)
    for (const std::string& name : o.locks) {
      const lock_table* const lock = find_lock(name);
      if (lock == nullptr || sim::find_simulated_lock(lock->name) == nullptr) {
        if (!o.locks_asked) continue;  // a build of a few locks
        throw std::runtime_error("validate: unknown lock '" + name +
                                 "', or one that is not simulated (usher list shows all)");
      }
      // Its holder must be the one that runs: it gets nowhere where threads wait for CPUs.
      if (!o.locks_asked && lock->kind == waiting_kind::spin && lock->traits->fifo && threads > cpus) continue;
      points.push_back({lock, threads, {}, {}, 0});
    }
  return points;
}

/// This computer, measured now.
sim::machine calibrated(const machine_changes& changes) {
  return sim::read_machine_text(calibrated_machine_file("usher sim validate"), "this computer", changes);
}

ordered_json to_json(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {{"median", median(values)}, {"low", *low}, {"high", *high}, {"runs", values}};
}

int carry_out(const validate_options& o, const find_machine_function& find) try {
  output_file json;
  const calibrate::native_machine here = calibrate::look_around();
  const auto cpus = static_cast<unsigned>(here.cpus.size());
  const machine_settings settings = machine_settings_of(o.machine_settings);
  std::vector<compared_point> points = points_of(o, cpus);  // what is wrong with them is said at once
  if (!json.open(o.json_file)) return cannot_start;
  const machine_changes changes = changes_of(settings, std::nullopt);
  const sim::machine m = o.machine.empty() ? calibrated(changes) : find(o.machine, changes);
  for (const compared_point& c : points) {
    sim::point p;
    p.workload = "mutexbench";
    p.lock = c.lock->name;
    p.threads = c.threads;
    sim::check_point(m, p);
  }

  progress bar(points.size() * (o.rounds + o.seeds), o.quiet);
  const foreign_cpu others;
  std::vector<std::string> stuck;
  for (unsigned round = 1; round <= o.rounds; round++)  // in turns: what others do meanwhile falls on all alike
    for (compared_point& c : points) {
      bar.show(c.lock->name);
      if (const auto rate = run_natively(c, o, round))
        c.native.push_back(*rate);
      else
        stuck.push_back(fmt::format("{}, {} threads: the native run did not end", c.lock->name, c.threads));
      bar.one_done();
    }
  const double share = others.share();
  for (compared_point& c : points)
    for (unsigned seed = 1; seed <= o.seeds; seed++) {
      bar.show(c.lock->name);
      const sim::result r = simulate(m, c, o, seed);
      c.simulated.push_back(r.throughput);
      c.unsettled += r.settled ? 0 : 1;
      bar.one_done();
    }
  bar.clear();
  for (const compared_point& c : points)
    if (c.unsettled != 0)
      warn("validate: {}, {} threads: {} of {} simulated runs have not settled", c.lock->name, c.threads, c.unsettled,
           o.seeds);
  for (const std::string& s : stuck) complain("validate: {}", s);
  std::erase_if(points, [](const compared_point& c) { return c.native.empty(); });

  ordered_json all{{"benchmark", "mutexbench"},
                   {"date", now_in_words()},
                   {"computer", {{"processor", cpu_name()}, {"cpus", cpus}, {"virtual", here.hypervisor}}},
                   {"machine", m.name},
                   {"machine_settings", to_json(settings)},
                   {"pinned", o.pinned},
                   {"seconds", o.seconds},
                   {"rounds", o.rounds},
                   {"seeds", o.seeds},
                   {"others_cpu_share", share},
                   {"spin_ns", o.spin_ns ? ordered_json(*o.spin_ns) : ordered_json()},
                   {"points", ordered_json::array()}};
  std::vector<std::vector<std::string>> rows;
  const auto rate = [](double r) { return r >= 0.01 || r == 0 ? fmt::format("{:.3f}", r) : fmt::format("{:.1e}", r); };
  const auto cell = [&](const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return fmt::format("{} {}–{}", rate(median(values)), rate(*low), rate(*high));
  };
  std::size_t within_10 = 0, within_25 = 0;
  for (const compared_point& c : points) {
    const double error = c.error();
    within_10 += std::abs(error) <= 0.1;
    within_25 += std::abs(error) <= 0.25;
    rows.push_back({std::to_string(c.threads), c.lock->name, cell(c.native), cell(c.simulated),
                    fmt::format("{:+.1f} %", error * 100)});
    all["points"].push_back({{"lock", c.lock->name},
                             {"threads", c.threads},
                             {"native", to_json(c.native)},
                             {"simulated", to_json(c.simulated)},
                             {"unsettled", c.unsettled},
                             {"error", error}});
  }
  all["within_10_percent"] = within_10;
  all["within_25_percent"] = within_25;
  const order locks = order_of(points);
  all["pairs"] = locks.pairs;
  all["pairs_in_order"] = locks.same;
  fmt::print("mutexbench, operations a microsecond, median and range: {}, and simulated on {}; threads are {}\n{}",
             cpu_name(), m.name, o.pinned ? "pinned" : "free",
             format_table({{"threads", true}, {"lock"}, {"native", true}, {"simulated", true}, {"error", true}}, rows,
                          terminal_width()));
  fmt::print("Within 10 %: {} of {}; within 25 %: {}. Others took {:.1f} % of the CPU time of the native runs.\n",
             within_10, points.size(), within_25, share * 100);
  if (locks.pairs != 0)
    fmt::print("In the native order: {} of {} pairs of locks whose native runs do not overlap.\n", locks.same,
               locks.pairs);
  const bool written = !json.wanted() || json.write(all.dump(1) + "\n");
  return !written ? int{cannot_start} : stuck.empty() ? 0 : 1;
} catch (const sim::bad_machine& e) {
  complain("{}", e.what());
  return bad_usage;
} catch (const std::runtime_error& e) {
  complain("{}", e.what());
  return bad_usage;
}

constexpr const char* validate_notes =
    R"(Runs MutexBench on this computer and on a simulated machine, by default the one that this computer is measured to be,
and shows how far they are apart. Where there are more threads than CPUs, much depends on the operating system's scheduler, of
which little is simulated.

Examples:
  usher sim validate
  usher sim validate --machine ./here.toml --locks mcs,steady --threads 2,8 --json out.json)";

}  // namespace

subcommand validate_command(CLI::App& sim, find_machine_function find) {
  auto* sub = sim.add_subcommand("validate", "Compare a simulated machine with this computer");
  auto o = std::make_shared<validate_options>();
  sub->add_option("--machine", o->machine, "A machine's name, or its file (default: this computer is measured)")
      ->type_name("M");
  auto* const locks =
      sub->add_option("--locks", o->locks, "Which locks (default: ticket-spin,ttas-spin,twa,mcs,steady,futex)")
          ->type_name("a,b,...")
          ->delimiter(',')
          ->allow_extra_args(false);
  sub->add_option("--threads", o->threads, "How many (default: 1, 2, and one, two and four times the CPUs)")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1u, 1024u));
  sub->add_flag("--pinned", o->pinned, "Each thread stays on one CPU");
  sub->add_option("--set-machine", o->machine_settings, "A number of the simulated machine, as coherence.per_read=0")
      ->type_name("SECTION.KEY=V")
      ->allow_extra_args(false);
  sub->add_option("--spin", o->spin_ns,
                  "How long simulated waiters that park spin first, in ns (default: as the machine says, or 5555)")
      ->type_name("NS")
      ->check(CLI::Range(0u, 1000000000u));
  sub->add_option("--seconds", o->seconds, "Of each native run (default: 0.3)")
      ->type_name("T")
      ->check(CLI::Range(0.001, 3600.0));
  sub->add_option("--rounds", o->rounds, "Native runs of each (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--seeds", o->seeds, "Simulated runs of each (default: 3)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--json", o->json_file, "Write all runs to this file")->type_name("F");
  sub->add_flag("--quiet", o->quiet, "No progress bar");
  sub->formatter(std::make_shared<help>("usher sim validate [OPTIONS]"));
  sub->footer(validate_notes);
  return {sub, [o, locks, find = std::move(find)](char**) {
            o->locks_asked = locks->count() != 0;
            return carry_out(*o, find);
          }};
}

}  // namespace usher::cli
