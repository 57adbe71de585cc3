// usher predict: replays a recording of `usher record` on a simulated machine. Each run is in a process of its own, as
// in `usher sim`. The runs are all combinations of lock, number of threads, seed, and lower or upper limit of the
// number of cache lines that critical sections move between CPUs (moved lines). In a few further runs a number that is
// not known well is changed.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/commands/bench_commands.hpp"
#include "lab/commands/machines.hpp"
#include "lab/draw/curves.hpp"
#include "lab/forecast/forecast.hpp"
#include "lab/predict/prediction.hpp"
#include "lab/predict/thin_out.hpp"
#include "lab/recordings/file.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "lab/sweep/measured_json.hpp"
#include "lab/sweep/point_json.hpp"
#include "lab/sweep/run_points.hpp"
#include "lab/sweep/sweep_options.hpp"
#include "support/measure/host.hpp"
#include "support/process/process.hpp"
#include "support/process/scratch_file.hpp"
#include "support/text/help.hpp"
#include "support/text/messages.hpp"
#include "support/text/output_file.hpp"
#include "support/text/printable_json.hpp"
#include "support/text/table.hpp"
#include "support/text/utf8.hpp"
#include "support/text/words.hpp"

namespace usher::lab {
namespace {

using nlohmann::ordered_json;

const figure_command predict_runs{"predict", {}};

struct predict_options : figure_options {
  predict_options() {
    locks = {"futex", "steady"};
    limit = 600;
  }
  std::string machine = "x5-2", lines = "auto";
  std::vector<std::string> machine_settings, halve, split, roles;
  unsigned seeds = 2, jobs = 0;
  double ms = 0;
  bool no_unknowns = false;
};

// ---- changes of the program ------------------------------------------------------------------------------------------

// Changes of the program are parameters of a point: "halve.3" (object 3), "halve.site.2", "split.3", "role.1", "work"
// (in per cent). So is the number of cache lines that sections move: "lines" is a fixed number for all sections,
// "most_lines" means the upper limits of the estimates. Without either of them, the lower limits apply.
constexpr const char* halved_site = "halve.site.";
constexpr const char* halved_object = "halve.";
constexpr const char* split_object = "split.";
constexpr const char* fixed_role = "role.";

std::optional<std::uint32_t> number_in(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return static_cast<std::uint32_t>(std::stoul(text));
}

predict::plan_changes changes_of(const std::map<std::string, long>& parameters) {
  predict::plan_changes c;
  for (const auto& [key, value] : parameters) {
    const auto after = [&key = key](const char* prefix) -> std::optional<std::uint32_t> {
      return key.starts_with(prefix) ? number_in(key.substr(std::string(prefix).size())) : std::nullopt;
    };
    if (const auto site = after(halved_site))
      c.halved_sites.insert(*site);
    else if (const auto halved = after(halved_object))
      c.halved_objects.insert(*halved);
    else if (const auto split = after(split_object))
      c.split[*split] = static_cast<unsigned>(std::clamp(value, 1L, 100000L));
    else if (const auto role = after(fixed_role))
      c.fixed_roles[*role] = static_cast<unsigned>(std::clamp(value, 0L, 100000L));
    else if (key == "work")
      c.work_percent = static_cast<unsigned>(std::clamp(value, 1L, 10000L));
  }
  return c;
}

predict::lines_option lines_of(const std::map<std::string, long>& parameters) {
  predict::lines_option o;
  o.most = parameters.contains("most_lines");
  if (const auto fixed = parameters.find("lines"); fixed != parameters.end())
    o.fixed = static_cast<int>(std::clamp(fixed->second, 0L, 64L));
  return o;
}

/// Finds an object by its number or name. Throws std::runtime_error.
std::uint32_t object_named(const recording::recording& r, const std::string& option, const std::string& text) {
  if (const auto number = number_in(text)) {
    if (*number < r.objects.size()) return *number;
    throw std::runtime_error(
        fmt::format("{}: the recording has no object {}, it has {}", option, *number, r.objects.size()));
  }
  std::optional<std::uint32_t> found;
  for (std::uint32_t o = 0; o < r.objects.size(); o++) {
    if (r.objects[o].name != text) continue;
    if (found)
      throw std::runtime_error(fmt::format("{}: several objects are called {}: give the number", option, text));
    found = o;
  }
  if (!found) throw std::runtime_error(fmt::format("{}: the recording has no object {}", option, text));
  return *found;
}

/// NAME=N.
std::pair<std::string, unsigned> name_and_number(const std::string& option, const std::string& text, unsigned least) {
  const std::size_t sign = text.rfind('=');
  const auto number = sign == std::string::npos ? std::nullopt : number_in(text.substr(sign + 1));
  if (!number || *number < least || *number > 10000)
    throw std::runtime_error(
        fmt::format("{}: '{}' is not NAME=N, with a number from {} to 10000", option, text, least));
  return {text.substr(0, sign), *number};
}

std::map<std::string, long> parameters_of(const predict_options& o, const recording::recording& r,
                                          const predict::replay_plan& plan) {
  std::map<std::string, long> all;
  for (const std::string& text : o.halve) {
    const std::string prefix = "site:";
    if (!text.starts_with(prefix)) {
      all[fmt::format("{}{}", halved_object, object_named(r, "--halve", text))] = 1;
      continue;
    }
    const auto site = number_in(text.substr(prefix.size()));
    if (!site ||
        std::none_of(r.objects.begin(), r.objects.end(), [&](const recording::object& x) { return x.site == *site; }))
      throw std::runtime_error(fmt::format("--halve: the recording has no {}", text));
    all[fmt::format("{}{}", halved_site, *site)] = 1;
  }
  for (const std::string& text : o.split) {
    const auto [name, parts] = name_and_number("--split", text, 1);
    all[fmt::format("{}{}", split_object, object_named(r, "--split", name))] = parts;
  }
  for (const std::string& text : o.roles) {
    const auto [name, threads] = name_and_number("--role", text, 0);
    const auto found = std::find_if(plan.roles.begin(), plan.roles.end(),
                                    [&name = name](const predict::role& x) { return x.name == name; });
    if (found == plan.roles.end()) throw std::runtime_error(fmt::format("--role: the recording has no role {}", name));
    all[fmt::format("{}{}", fixed_role, found - plan.roles.begin())] = threads;
  }
  if (o.lines != "auto") {
    const auto lines = number_in(o.lines);
    if (!lines || *lines > 64)
      throw std::runtime_error("--lines: '" + o.lines + "' is neither auto nor a number from 0 to 64");
    all["lines"] = *lines;
  }
  return all;
}

// ---- one run -----------------------------------------------------------------------------------------------------------

sim::machine machine_of(const sweep_point& p) {
  machine_changes changes;
  for (const auto& [key, value] : p.settings) changes[key] = value.text;
  return find_machine(p.machine, changes);
}

sim::point simulated(const sweep_point& p) {
  sim::point to;
  static_cast<sim::settings&>(to) = p;
  to.lock = p.lock;
  to.threads = p.threads;
  to.seed = p.seed.value_or(1);
  to.run_ns = p.run_ns;
  to.watch = false;
  return to;
}

void print_result(const std::string& point, const sim::machine& m, const predict::prediction& r) {
  ordered_json j = begun_result(point, workloads_commit);
  j["machine_hash"] = m.hash;
  add_operations(j, r.run.throughput, r.run.operations);
  j["settled"] = r.run.settled;
  j["operations_per_second"] = r.operations_per_second;
  j["waiting_share"] = r.waiting_share;
  j["token_share"] = r.token_share;
  j["longest_wait_ns"] = r.longest_wait;
  j["lwss"] = r.working_set;
  j["cpus_used"] = r.run.cpus_used;
  j["voluntary_switches"] = r.run.voluntary;
  j["involuntary_switches"] = r.run.involuntary;
  const double operations = r.operations_per_second * static_cast<double>(j["run_ns"].get<std::uint64_t>()) / 1e9;
  j["stalls"] = operations > 0 ? static_cast<double>(r.stalls) / operations : 0.0;
  j["not_acquired"] = operations > 0 ? static_cast<double>(r.not_acquired) / operations : 0.0;
  j["locks"] = ordered_json::array();
  for (const predict::lock_result& l : r.locks)
    j["locks"].push_back({{"object", l.object},
                          {"part", l.part},
                          {"operations", l.operations},
                          {"utilisation", l.utilisation},
                          {"wanted", l.wanted}});
  j["cpu_s"] = r.run.cpu_seconds;
  fmt::print("{}\n", j.dump());
}

int replay_point(const std::string& point) {
  const sweep_point p = point_from_text(point);
  const sim::machine m = machine_of(p);
  if (!p.machine_hash.empty() && p.machine_hash != m.hash)
    throw std::runtime_error(fmt::format("the machine {} has changed since the run was planned", p.machine));
  const predict::plan_changes changes = changes_of(p.parameters);
  const predict::replay_plan plan = predict::make_plan(recording::read_recording(p.workload), changes);
  print_result(point, m, predict::predict_point(m, plan, changes, simulated(p), lines_of(p.parameters)));
  return 0;
}

// ---- all runs ----------------------------------------------------------------------------------------------------------

/// Numbers that neither the recording nor the machine file gives exactly. To show their effect they are changed by the
/// factors below. Chosen, not measured.
const std::vector<unknown> unknowns{
    {"work", "threads need a tenth more time for their work"},
    {"scheduler.latency_mean", "a woken thread needs half as long again until it runs"},
    {"coherence.dirty", "a line that another core has written takes half as long again"},
};
constexpr long more_work = 110;
constexpr double more_time = 1.5;

/// Returns a copy of the point with the number changed; nullopt if the machine file does not have the number.
std::optional<sweep_point> trying(sweep_point p, const unknown& u, const sim::machine& m) {
  if (u.key == "work") {
    p.parameters["work"] = more_work;
    return p;
  }
  for (const auto& [key, value] : p.settings)
    if (key == u.key) return std::nullopt;
  const auto values = sim::machine_values(m.file);
  const auto found = values.find(u.key);
  if (found == values.end()) return std::nullopt;
  ordered_json value = ordered_json::parse(found->second, nullptr, false);
  const auto scaled = [](const ordered_json& n) {
    return static_cast<long>(std::llround(n.get<double>() * more_time));
  };
  if (value.is_number()) {
    value = scaled(value);
  } else if (value.is_array()) {
    for (ordered_json& n : value) {
      if (!n.is_number()) return std::nullopt;
      n = scaled(n);
    }
  } else {
    return std::nullopt;
  }
  p.settings.emplace_back(u.key, machine_value{value.dump(), false});
  p.machine_hash.clear();
  return p;
}

/// If a recording has more events, only about this many are replayed. Each run has to read them, and a run does not
/// need more. Chosen, not measured.
constexpr std::size_t most_events = 200000;

/// The replayed part of a recording, in a file in memory from which the processes of the runs read it.
class replayed_part {
 public:
  /// Returns the file's name.
  std::string write(const recording::recording& r) {
    const std::string content = recording::encoded(r);
    if (!support::write_all(file_.descriptor(), content))
      throw std::runtime_error("no memory for the part of the recording that is replayed");
    return fmt::format("/proc/{}/fd/{}", getpid(), file_.descriptor());
  }

 private:
  support::scratch_file file_;
};

struct sweep_of_replays {
  forecast about;
  predict::replay_plan plan;
  std::vector<planned_point> points;
};

/// The lower and the upper number of lines that a section moves, for the mutex slot with the most work in its sections.
std::pair<unsigned, unsigned> lines_of_busiest(const predict::replay_plan& plan, const predict::lines_option& low,
                                               const predict::lines_option& high, bool& measured) {
  const predict::slot* busiest = nullptr;
  for (const predict::slot& s : plan.slots)
    if (!s.is_read_write && (busiest == nullptr || s.section_ns > busiest->section_ns)) busiest = &s;
  if (busiest == nullptr) return {0, 0};
  measured = busiest->lines_measured;
  const auto whole = [busiest](const predict::lines_option& o) {
    return static_cast<unsigned>(std::lround(predict::lines_under(*busiest, o)));
  };
  return {whole(low), whole(high)};
}

bool limits_differ(const predict::replay_plan& plan) {
  return std::any_of(plan.slots.begin(), plan.slots.end(), [](const predict::slot& s) {
    constexpr double same = 0.1;
    return s.operations != 0 && predict::lines_under(s, {true, -1}) > predict::lines_under(s, {false, -1}) + same;
  });
}

sweep_of_replays planned(const predict_options& o, replayed_part& part) {
  recording::recording whole = recording::read_recording(o.workload);
  const std::size_t windows = whole.windows.size();
  const predict::thinned_recording thinned = predict::thin_out(std::move(whole), most_events);
  const recording::recording& r = thinned.made;
  sweep_of_replays s;
  sweep_point p = common_point(o, o.machine_settings);
  if (thinned.windows != windows || thinned.share < 1) p.workload = part.write(r);
  p.parameters = parameters_of(o, r, predict::make_plan(r));
  const predict::plan_changes changes = changes_of(p.parameters);
  s.plan = predict::make_plan(r, changes);
  p.machine = o.machine;
  const sim::machine m = machine_of(p);
  p.machine_hash = m.hash;

  forecast& f = s.about;
  f.recording = o.workload;
  f.all_windows = windows;
  f.share_of_window = thinned.share;
  f.machine = m.name;
  f.title = m.title;
  f.machine_hash = m.hash;
  f.cpus = m.cpus();
  f.lines_given = p.parameters.contains("lines");
  predict::lines_option low = lines_of(p.parameters), high = low;
  high.most = true;
  std::tie(f.least_lines, f.most_lines) = lines_of_busiest(s.plan, low, high, f.lines_measured);
  if (f.lines_given) f.least_lines = f.most_lines = static_cast<unsigned>(low.fixed);
  for (const std::string& text : o.halve) f.changes.push_back("Sections of " + text + " halved (--halve)");
  for (const std::string& text : o.split) f.changes.push_back("Split: " + text + " (--split)");
  for (const std::string& text : o.roles) f.changes.push_back("Threads of a role: " + text + " (--role)");

  std::vector<unsigned> counts = thread_counts(o.threads);
  if (counts.empty()) counts = default_counts(m.cpus());
  const unsigned most_threads = *std::max_element(counts.begin(), counts.end());
  const bool both = !f.lines_given && limits_differ(s.plan);
  for (const unsigned threads : counts) {
    p.threads = threads;
    for (const std::string& lock : o.locks) {
      p.lock = lock;
      p.seed = 1;
      p.run_ns = o.ms > 0 ? static_cast<std::uint64_t>(o.ms * 1e6)
                          : predict::usual_prediction_ns(m, s.plan, changes, simulated(p));
      predict::check_prediction(m, s.plan, changes, simulated(p));  // reports errors before minutes of work
      for (unsigned seed = 1; seed <= o.seeds; seed++) {
        p.seed = seed;
        s.points.push_back({p, {}, {}});
        if (!both) continue;
        sweep_point upper = p;
        upper.parameters["most_lines"] = 1;
        s.points.push_back({upper, {}, {}});
      }
      if (threads != most_threads || o.no_unknowns) continue;
      p.seed = 1;
      for (const unknown& u : unknowns)
        if (auto tries = trying(p, u, m)) s.points.push_back({std::move(*tries), {}, {}});
    }
  }
  return s;
}

curve_chart chart_of(const predict_options& o, const forecast& f) {
  curve_chart c;
  c.title = o.look.title.empty() ? fmt::format("{} on {}, predicted", support::printable_line(f.recording), f.machine)
                                 : o.look.title;
  c.subtitle = "a replay of a recording; median, and range over seeds and over the cache lines that sections may move";
  for (const std::string& change : f.changes) c.subtitle += "; " + support::printable_line(change);
  c.x_name = "threads";
  c.y_name = "million lock operations a second";
  c.size = o.look.pixels();
  c.x_scale = o.look.horizontal();
  c.y_scale = o.look.vertical();
  for (const forecast_point& p : f.points) {
    if (c.curves.empty() || c.curves.back().lock != p.lock) c.curves.push_back({p.lock, p.lock, {}});
    const auto million = [](double v) { return v / 1e6; };
    c.curves.back().points.push_back({static_cast<double>(p.threads), million(p.operations.middle),
                                      million(p.operations.least), million(p.operations.most), p.unsettled == 0});
  }
  c.caption = {f.title, fmt::format("usher {}", USHER_VERSION), "commit " + std::string(workloads_commit)};
  return c;
}

int carry_out(const predict_options& o) try {
  if (!o.one_point.empty()) return replay_point(o.one_point);
  if (o.workload.empty()) {
    support::report_error("predict: which recording? usher record writes one");
    return support::bad_usage;
  }
  if (std::isnan(o.ms)) throw std::runtime_error("--ms: nan is no time");
  if (!is_chart_name(o.chart_file)) return support::bad_usage;
  replayed_part part;
  sweep_of_replays s = planned(o, part);
  support::output_file json, chart;
  if (!json.open(o.json_file) || !chart.open(o.chart_file)) return support::cannot_start;
  // Points with many threads take longest, so they run first and do not run alone at the end.
  std::vector<std::size_t> order(s.points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return s.points[a].point.threads > s.points[b].point.threads; });
  const bool all_well = run_points(predict_runs, o, o.jobs, order, s.points);
  sum_up(s.about, results_of(s.points), unknowns);
  bool written = true;
  if (!s.about.points.empty()) {
    fmt::print("{}", forecast_text(s.about, s.plan, o.details, support::terminal_width()));
    if (json.wanted()) {
      ordered_json all = forecast_json(s.about, s.plan, workloads_commit);
      support::make_printable(all);
      written = json.write(all.dump(1) + "\n");
    }
    if (chart.wanted()) written = chart.write(draw(chart_of(o, s.about))) && written;
  }
  if (support::interrupted() != 0) return 128 + support::interrupted();
  return !written ? support::cannot_start : all_well ? 0 : 1;
} catch (const sim::bad_machine& e) {
  support::report_error("{}", e.what());
  return support::bad_usage;
} catch (const std::runtime_error& e) {
  support::report_error("predict: {}", e.what());
  return support::bad_usage;
} catch (const nlohmann::json::exception& e) {
  support::report_error("predict: --point: it is no point: {}", support::reason_of(e));
  return support::bad_usage;
}

constexpr const char* predict_notes =
    R"(Replays a recording of `usher record` on a simulated machine, with other numbers of threads and under other locks: each
thread repeats blocks of recorded work and calls. The machines are those of `usher sim --list`.

A prediction knows only what threads do with their locks. It knows nothing of I/O, of spinning by hand, of code without
locks and of memory bandwidth. docs/predict.md says how predictions fared.

Examples:
  usher record -- ./server
  usher predict usher.recording --machine epyc-9654-2 --threads 2,8,32,96,192 --locks futex,steady,mcs,twa,mcscr
  usher predict usher.recording --locks futex --halve 3 --threads 2..32
  usher predict usher.recording --split 3=16 --role listener=1 --json out.json --chart out.svg)";

}  // namespace

support::subcommand predict_command(CLI::App& app) {
  auto* sub = app.add_subcommand("predict", support::predict_summary);
  auto o = std::make_shared<predict_options>();
  o->parser = sub;
  sub->add_option("file", o->workload, "A recording, as usher record writes it")->type_name("FILE");
  sub->add_option("--machine", o->machine, "A machine's name, or its file (default: x5-2)")->type_name("M");
  sub->add_option("--locks", o->locks, "The locks; the results are relative to the first (default: futex,steady)")
      ->type_name("a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option("--threads", o->threads, "Numbers of threads: 1..72, or 1,2,4 (default: a sweep)")
      ->type_name("N,A..B")
      ->delimiter(',')
      ->allow_extra_args(false);
  sub->add_option("--halve", o->halve,
                  "Sections of this object (a number or a name) or site (site:N) take half of their time")
      ->type_name("OBJECT")
      ->allow_extra_args(false);
  sub->add_option("--split", o->split, "This mutex is N mutexes, of which each section takes one")
      ->type_name("OBJECT=N")
      ->allow_extra_args(false);
  sub->add_option("--role", o->roles, "So many threads have this role; the other roles share the rest")
      ->type_name("ROLE=N")
      ->allow_extra_args(false);
  sub->add_option("--lines", o->lines,
                  "Cache lines that each section moves, or auto: as the recording tells (default: auto)")
      ->type_name("N|auto");
  sub->add_option("--seeds", o->seeds, "Runs of each point, with seeds 1, 2, … (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1000u));
  sub->add_option("--ms", o->ms, "Simulated milliseconds that are measured (default: by the recording, 10 or more)")
      ->type_name("T")
      ->check(CLI::Range(0.001, 100000.0));
  sub->add_option("--set-machine", o->machine_settings, "Replace a number of the machine, as coherence.per_read=0")
      ->type_name("SECTION.KEY=V")
      ->allow_extra_args(false);
  sub->add_flag("--no-unknowns", o->no_unknowns, "Do not try the effects of unknown numbers");
  sub->add_option("--json", o->json_file, "Write all results to this file")->type_name("F");
  sub->add_option("--chart", o->chart_file, "Draw the throughput into this file, .svg")->type_name("F");
  add_chart_options(*sub, o->look,
                    "the logarithmic axes (default: that of the threads, if they span more than a factor of 8)");
  sub->add_flag("--details", o->details, "Show also CPU use, waits, and the busiest lock");
  sub->add_option("--timeout", o->limit, "Time limit of one run, in seconds (default: 600)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 1e6));
  sub->add_option("--jobs", o->jobs, "Processes in parallel (default: one for each CPU)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1024u));
  sub->add_option("--point", o->one_point, "Run one point, for usher predict itself; its result is a line of JSON")
      ->type_name("JSON");
  sub->add_flag("--quiet", o->quiet, "No progress bar");
  sub->formatter(std::make_shared<support::help>("usher predict [OPTIONS] FILE"));
  sub->footer(predict_notes);
  return {sub, [o](char**) { return carry_out(*o); }};
}

}  // namespace usher::lab
