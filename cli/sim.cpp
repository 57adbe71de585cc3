// usher sim: a benchmark program on a machine that is not there. A figure is cut into points, each a simulation in a process of
// its own: locks × numbers of threads × seeds × jitters.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "calibrate.hpp"
#include "checker.hpp"
#include "help.hpp"
#include "messages.hpp"
#include "output_file.hpp"
#include "process.hpp"
#include "progress.hpp"
#include "sim/point.hpp"
#include "statistics.hpp"
#include "subcommand.hpp"
#include "table.hpp"
#include "trace.hpp"
#include "validate.hpp"
#include "words.hpp"

namespace usher::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

struct sim_options {
  std::string workload, machine = "x5-2";
  std::vector<std::string> locks{"ticket-spin", "twa-spin", "mcs-spin", "ttas-spin"};
  std::vector<std::string> threads, settings, merge;
  std::vector<double> jitters;
  unsigned seeds = 5, jobs = 0;
  double ms = 2, limit = 600;
  std::string json_file, csv_file, one_point;
  unsigned others = 0;
  trace_options trace;
  bool list = false, list_points = false, quiet = false, pinned = false;
};

/// A point with what the process that simulates it needs to know.
struct numbered_point {
  sim::point p;
  double jitter = -1;  ///< below 0: the machine's
  std::optional<ordered_json> result;
  std::string trouble;
};

// ---- machines --------------------------------------------------------------------------------------------------------

std::vector<fs::path> machine_folders() {
  std::vector<fs::path> folders;
  if (const std::string own = environment("USHER_MACHINES"); !own.empty()) folders.emplace_back(own);
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error).parent_path();
  folders.push_back(self.parent_path() / "share" / "usher" / "machines");
  folders.push_back(self.parent_path() / USHER_DATADIR / "usher" / "machines");
  return folders;
}

/// A name, or a path of a file. Throws sim::bad_machine.
sim::machine find_machine(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos || fs::path(name).extension() == ".toml") {
    if (!fs::is_regular_file(name, error)) throw sim::bad_machine("there is no machine file " + name);
    return sim::read_machine(name);
  }
  std::set<std::string> known;
  for (const fs::path& folder : machine_folders()) {
    if (const fs::path file = folder / (name + ".toml"); fs::is_regular_file(file, error))
      return sim::read_machine(file);
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") known.insert(entry.path().stem());
  }
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  throw sim::bad_machine("unknown machine '" + name + "': " +
                         (list.empty() ? "no machine files were found; USHER_MACHINES may name their folder" : list));
}

// ---- points ----------------------------------------------------------------------------------------------------------

/// "1..8", "1,2,4", "72". Throws std::runtime_error.
std::vector<unsigned> thread_counts(const std::vector<std::string>& texts) {
  std::vector<unsigned> counts;
  const auto number = [](const std::string& text) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 4 ||
        std::stoul(text) == 0)
      throw std::runtime_error("--threads: '" + text + "' is not a number of threads");
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

/// What a figure of this machine needs: dense where it begins, then wider.
std::vector<unsigned> default_counts(unsigned cpus) {
  std::vector<unsigned> counts;
  for (const unsigned n :
       {1u, 2u, 3u, 4u, 5u, 6u, 8u, 10u, 12u, 16u, 20u, 24u, 28u, 36u, 48u, 60u, 72u, 96u, 128u, 192u, 256u})
    if (n < cpus) counts.push_back(n);
  counts.push_back(cpus);
  return counts;
}

ordered_json to_json(const numbered_point& n, const std::string& machine) {
  ordered_json j;
  j["workload"] = n.p.workload;
  j["machine"] = machine;
  j["lock"] = n.p.lock;
  j["threads"] = n.p.threads;
  j["seed"] = n.p.seed;
  j["run_ns"] = n.p.run_ns;
  if (n.jitter >= 0) j["jitter"] = n.jitter;
  if (n.p.pinned) j["pinned"] = true;
  if (n.p.others != 0) j["others"] = n.p.others;
  for (const auto& [name, value] : n.p.parameters) j["parameters"][name] = value;
  return j;
}

numbered_point from_json(const ordered_json& j) {
  numbered_point n;
  n.p.workload = j.at("workload");
  n.p.lock = j.at("lock");
  n.p.threads = j.at("threads");
  n.p.seed = j.at("seed");
  n.p.run_ns = j.at("run_ns");
  n.jitter = j.value("jitter", -1.0);
  n.p.pinned = j.value("pinned", false);
  n.p.others = j.value("others", 0u);
  if (j.contains("parameters"))
    for (const auto& [name, value] : j["parameters"].items()) n.p.parameters[name] = value;
  return n;
}

ordered_json to_json(const sim::durations& d) {
  return {{"mean", d.mean}, {"median", d.median}, {"p99", d.p99}, {"longest", d.longest}};
}

ordered_json to_json(const sim::result& r) {
  ordered_json j;
  j["throughput"] = r.throughput;
  j["operations"] = r.operations;
  j["sockets"] = r.sockets;
  j["gini"] = r.gini;
  j["relative_deviation"] = r.relative_deviation;
  if (!r.groups.empty()) {
    j["admissions"] = r.admissions;
    j["found_free"] = r.found_free;
    j["lwss"] = r.working_set;
    j["mttr"] = r.reacquire;
    j["between_sockets"] = r.between_sockets;
    j["bypasses"] = r.bypasses;
    j["utilisation"] = r.utilisation;
    j["hold_ns"] = to_json(r.holds);
  }
  for (const sim::group& g : r.groups) {
    ordered_json& to = g.name.empty() ? j : j["groups"][g.name];
    if (!g.name.empty()) {
      to["threads"] = g.threads;
      to["throughput"] = g.throughput;
    }
    to["wait_ns"] = to_json(g.waits);
    to["waiting_at_end"] = g.waiting_at_end;
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

/// The process that simulates one point: prints its result as a line of JSON.
int simulate(const sim_options& o) {
  const ordered_json asked = ordered_json::parse(o.one_point);
  const numbered_point n = from_json(asked);
  sim::machine m = find_machine(asked.at("machine"));
  if (n.jitter >= 0) m.jitter = static_cast<unsigned>(n.jitter * 1024 + 0.5);
  ordered_json all = asked;
  all.update(to_json(sim::run_point(m, n.p)));
  fmt::print("{}\n", all.dump());
  return 0;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin + 1, end - begin);
}

// ---- what is shown ---------------------------------------------------------------------------------------------------

/// Median and range of the throughput of each lock and number of threads.
struct cell {
  std::vector<double> values;
  std::string text() const {
    if (values.empty()) return "-";
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return values.size() == 1 ? fmt::format("{:.3f}", values.front())
                              : fmt::format("{:.3f} {:.3f}–{:.3f}", median(values), *low, *high);
  }
};

using figure = std::map<unsigned, std::map<std::string, cell>>;

std::string table_of(const figure& f, const std::vector<std::string>& locks, std::size_t width) {
  std::vector<column> columns{{"threads", true}};
  for (const std::string& l : locks) columns.push_back({l, true});
  std::vector<std::vector<std::string>> rows;
  for (const auto& [threads, cells] : f) {
    rows.push_back({std::to_string(threads)});
    for (const std::string& l : locks) {
      const auto at = cells.find(l);
      rows.back().push_back(at == cells.end() ? "-" : at->second.text());
    }
  }
  return format_table(columns, rows, width);
}

/// One row a number of threads, one letter a lock, at the place of its median.
std::string plot_of(const figure& f, const std::vector<std::string>& locks) {
  constexpr std::size_t width = 64;
  double most = 0;
  for (const auto& [threads, cells] : f)
    for (const auto& [lock, c] : cells)
      if (!c.values.empty()) most = std::max(most, median(c.values));
  if (most <= 0) return "";
  std::string text = fmt::format("{:>7}  0{:>{}.3f} operations/µs\n", "threads", most, width - 1);
  for (const auto& [threads, cells] : f) {
    std::string line(width, ' ');
    for (std::size_t l = locks.size(); l-- > 0;) {
      const auto at = cells.find(locks[l]);
      if (at == cells.end() || at->second.values.empty()) continue;
      const double place = median(at->second.values) / most * static_cast<double>(width - 1);
      line[static_cast<std::size_t>(place)] = static_cast<char>('a' + l % 26);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:>7}  {}\n", threads, line);
  }
  for (std::size_t l = 0; l < locks.size(); l++)
    text += fmt::format("{}{} {}", l == 0 ? "         " : ", ", static_cast<char>('a' + l % 26), locks[l]);
  return text + "\n";
}

std::string csv_of(const std::vector<ordered_json>& points) {
  std::string text = "workload,machine,lock,threads,seed,jitter,throughput,gini,lwss,mttr,voluntary,involuntary\n";
  for (const ordered_json& p : points)
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{}\n", p["workload"].get<std::string>(), p["machine"].get<std::string>(),
        p["lock"].get<std::string>(), p["threads"].get<unsigned>(), p["seed"].get<std::uint64_t>(),
        p.contains("jitter") ? fmt::format("{}", p["jitter"].get<double>()) : "", p["throughput"].get<double>(),
        p["gini"].get<double>(), p.contains("lwss") ? fmt::format("{}", p["lwss"].get<double>()) : "",
        p.contains("mttr") ? fmt::format("{}", p["mttr"].get<double>()) : "",
        p["voluntary_switches"].get<std::uint64_t>(), p["involuntary_switches"].get<std::uint64_t>());
  return text;
}

int list_all() {
  for (const workloads::description& w : sim::programs()) {
    fmt::print("{}: {} ({})\n", w.name, w.summary, w.source);
    for (const workloads::parameter& p : w.parameters) fmt::print("    --set {}={}  {}\n", p.name, p.value, p.meaning);
  }
  std::set<std::string> seen;
  fmt::print("\nMachines:\n");
  for (const fs::path& folder : machine_folders()) {
    std::error_code error;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml" && seen.insert(entry.path().stem()).second) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const sim::machine m = sim::read_machine(file);
      fmt::print("    {:<10} {} ({} CPUs{})\n", m.name, m.title, m.cpus(), m.os ? "" : "; threads do not share CPUs");
    }
  }
  return 0;
}

/// Where results go besides the terminal. Opened first: who cannot write should not work for hours.
struct outputs {
  output_file json, csv;
  bool open(const sim_options& o) { return json.open(o.json_file) && csv.open(o.csv_file); }
};

int show(outputs& to, const std::vector<ordered_json>& points, bool failed) {
  figure f;
  std::vector<std::string> locks;
  for (const ordered_json& p : points) {
    const std::string lock = p["lock"];
    if (std::find(locks.begin(), locks.end(), lock) == locks.end()) locks.push_back(lock);
    f[p["threads"].get<unsigned>()][lock].values.push_back(p["throughput"]);
  }
  if (!points.empty()) {
    fmt::print("{} on {}: operations a microsecond, median and range\n{}\n{}",
               points.front()["workload"].get<std::string>(), points.front()["machine"].get<std::string>(),
               table_of(f, locks, terminal_width()), plot_of(f, locks));
  }
  bool written = true;
  if (to.json.wanted()) written = to.json.write(ordered_json{{"points", points}}.dump(1) + "\n") && written;
  if (to.csv.wanted()) written = to.csv.write(csv_of(points)) && written;
  return !written ? cannot_start : failed ? 1 : 0;
}

int merge(const sim_options& o) {
  outputs to;
  if (!to.open(o)) return cannot_start;
  std::vector<ordered_json> points;
  for (const std::string& file : o.merge) {
    std::ifstream in(file);
    if (!in) {
      complain("cannot read {}", file);
      return cannot_start;
    }
    std::stringstream text;
    text << in.rdbuf();
    // What --json writes, or lines as --point prints them.
    if (const auto whole = ordered_json::parse(text.str(), nullptr, false);
        !whole.is_discarded() && whole.contains("points")) {
      for (const auto& p : whole["points"]) points.push_back(p);
      continue;
    }
    for (std::string line; std::getline(text, line);) {
      const auto p = ordered_json::parse(line, nullptr, false);
      if (p.is_discarded() || !p.contains("throughput")) {
        complain("{} is neither a result of usher sim nor lines of points", file);
        return cannot_start;
      }
      points.push_back(p);
    }
  }
  return show(to, points, false);
}

std::vector<numbered_point> points_of(const sim_options& o, const sim::machine& m) {
  std::vector<numbered_point> points;
  const auto counts = o.threads.empty() ? default_counts(m.cpus()) : thread_counts(o.threads);
  const std::vector<double> jitters = o.jitters.empty() ? std::vector<double>{-1} : o.jitters;
  std::map<std::string, long> parameters;
  for (const std::string& s : o.settings) {
    const std::size_t at = s.find('=');
    char* end = nullptr;
    const long value = at == std::string::npos ? 0 : std::strtol(s.c_str() + at + 1, &end, 10);
    if (at == std::string::npos || at + 1 == s.size() || *end != '\0')
      throw std::runtime_error("--set: '" + s + "' is not NAME=NUMBER");
    parameters[s.substr(0, at)] = value;
  }
  for (const unsigned threads : counts)
    for (const std::string& lock : o.locks)
      for (const double jitter : jitters)
        for (unsigned seed = 1; seed <= o.seeds; seed++) {
          numbered_point n;
          n.p = {o.workload, lock,     threads, seed, parameters, static_cast<std::uint64_t>(o.ms * 1e6),
                 o.pinned,   o.others, true};
          n.jitter = jitter;
          points.push_back(std::move(n));
        }
  return points;
}

/// What differs by the seed only is one point.
int trace_of(const std::vector<numbered_point>& points, sim::machine m, const trace_options& o) {
  std::vector<sim::point> first;
  for (const numbered_point& n : points)
    if (n.p.seed == 1) first.push_back(n.p);
  if (points.front().jitter >= 0) m.jitter = static_cast<unsigned>(points.front().jitter * 1024 + 0.5);
  return show_trace(m, first, o);
}

int carry_out(const sim_options& o) try {
  if (o.list) return list_all();
  if (!o.one_point.empty()) return simulate(o);
  if (!o.merge.empty()) return merge(o);
  if (o.workload.empty()) {
    complain("sim: which workload? usher sim --list shows them");
    return bad_usage;
  }
  const sim::machine m = find_machine(o.machine);
  std::vector<numbered_point> points = points_of(o, m);
  for (const numbered_point& n : points) sim::check_point(m, n.p);  // before hours of work
  if (o.trace.us > 0) return trace_of(points, m, o.trace);
  const std::string self = fs::read_symlink("/proc/self/exe");
  const auto words_of = [&](const numbered_point& n) {
    return std::vector<std::string>{self, "sim", "--point", to_json(n, o.machine).dump()};
  };
  if (o.list_points) {
    for (const numbered_point& n : points)
      fmt::print("usher sim --point {}\n", shell_quoted(to_json(n, o.machine).dump()));
    return 0;
  }
  outputs to;
  if (!to.open(o)) return cannot_start;

  progress bar(points.size(), o.quiet);
  std::size_t given = 0;
  // The longest first, so that no core is left alone with one of them.
  std::vector<std::size_t> order(points.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return points[a].p.threads > points[b].p.threads; });
  const unsigned jobs = o.jobs != 0 ? o.jobs : std::max(1u, std::thread::hardware_concurrency());
  run_side_by_side(
      jobs,
      [&]() -> std::optional<command_to_run> {
        if (given == order.size()) return std::nullopt;
        const std::size_t id = order[given++];
        return command_to_run{words_of(points[id]), o.limit, id};
      },
      [&](std::size_t id, const ended_run& run) {
        numbered_point& n = points[id];
        if (run.timed_out)
          n.trouble = fmt::format("no end after {:.0f} s", o.limit);
        else if (run.end.way != ended::how::exited)
          n.trouble = fmt::format("was ended by signal {}", run.end.status);
        else if (run.end.status != 0)
          n.trouble = last_line(run.err);
        else
          n.result = ordered_json::parse(run.out);
        bar.one_done();
        bar.show(n.p.lock);
      });
  bar.clear();
  std::vector<ordered_json> results;
  bool failed = false;
  for (const numbered_point& n : points) {
    if (n.result) results.push_back(*n.result);
    if (n.trouble.empty()) continue;
    failed = true;
    complain("{}, {} threads, seed {}: {}", n.p.lock, n.p.threads, n.p.seed, n.trouble);
  }
  const int status = show(to, results, failed);
  return interrupted() != 0 ? 128 + interrupted() : status;
} catch (const sim::bad_machine& e) {
  complain("{}", e.what());
  return bad_usage;
} catch (const std::runtime_error& e) {
  complain("sim: {}", e.what());
  return bad_usage;
}

constexpr const char* more =
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
  auto* sub = app.add_subcommand("sim", "Simulate a benchmark on another machine");
  auto o = std::make_shared<sim_options>();
  sub->add_option("workload", o->workload, "Which program; --list shows them")->type_name("WORKLOAD");
  sub->add_option("--machine", o->machine, "A machine's name, or its file (default: x5-2)")->type_name("M");
  sub->add_option("--locks", o->locks, "Which locks (default: ticket-spin,twa-spin,mcs-spin,ttas-spin)")
      ->type_name("a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option("--threads", o->threads, "How many: 1..72, or 1,2,4 (default: a sweep up to the CPUs)")
      ->type_name("N,A..B")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option("--seeds", o->seeds, "Runs of each point, with seeds 1, 2, … (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--jitter", o->jitters,
                  "Instead of the machine's: mean of the random part of a latency, relative to it")
      ->type_name("J,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.0, 10.0));
  sub->add_option("--ms", o->ms, "Simulated milliseconds that are measured (default: 2)")
      ->type_name("T")
      ->check(CLI::Range(0.001, 100000.0));
  sub->add_flag("--pinned", o->pinned, "Threads stay on their CPUs");
  sub->add_option("--others", o->others, "Threads of other processes, each of which wants a CPU a quarter of the time")
      ->type_name("N")
      ->check(CLI::Range(0u, 1000u));
  sub->add_option("--set", o->settings, "A parameter of the workload")->type_name("NAME=N");
  sub->add_option("--json", o->json_file, "Write all points to this file")->type_name("F");
  sub->add_option("--csv", o->csv_file, "The same as lines")->type_name("F");
  sub->add_option("--jobs", o->jobs, "Processes side by side (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
  sub->add_option("--timeout", o->limit, "Of one point, in seconds (default: 600)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 1e6));
  sub->add_flag("--list", o->list, "Show workloads and machines");
  sub->add_flag("--list-points", o->list_points, "Print a command for each point, and do nothing");
  sub->add_option("--point", o->one_point, "One point as --list-points prints it: its result is a line of JSON")
      ->type_name("JSON");
  sub->add_option("--merge", o->merge, "Show results that were made elsewhere")->type_name("F")->expected(1, -1);
  add_trace_options(*sub, o->trace);
  sub->add_flag("--quiet", o->quiet, "No progress bar");
  sub->formatter(std::make_shared<help>("usher sim [OPTIONS] WORKLOAD"));
  sub->footer(more);
  const subcommand parts[] = {calibrate_command(*sub), validate_command(*sub, find_machine)};
  return {sub, [=](char** command) {
            for (const subcommand& p : parts)
              if (p.options->parsed()) return p.carry_out(command);
            return carry_out(*o);
          }};
}

}  // namespace usher::cli
