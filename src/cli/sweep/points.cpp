#include "cli/sweep/points.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>

#include "cli/draw/chart_file.hpp"
#include "cli/draw/curves.hpp"
#include "cli/process/files.hpp"
#include "cli/process/process.hpp"
#include "cli/process/side_by_side.hpp"
#include "cli/text/messages.hpp"
#include "cli/text/progress.hpp"
#include "cli/text/table.hpp"
#include "cli/text/words.hpp"
#include "cli/trial/statistics.hpp"

namespace usher::cli {

using nlohmann::ordered_json;
using points_as_json = std::vector<ordered_json>;

// ---- what is asked ---------------------------------------------------------------------------------------------------

void keep_apart(CLI::App& app, std::initializer_list<const char*> these, std::initializer_list<const char*> those) {
  for (const char* one : these)
    for (const char* other : those) app.get_option(one)->excludes(app.get_option(other));
}

void add_figure_options(CLI::App& to, figure_options& o, const std::string& default_limit) {
  to.add_option("workload", o.workload, "Which program; --list shows them")->type_name("WORKLOAD");
  std::string locks;
  for (const std::string& l : o.locks) locks += (locks.empty() ? "" : ",") + l;
  to.add_option("--locks", o.locks, "Which locks, or all (default: " + locks + ")")
      ->type_name("a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  to.add_option("--threads", o.threads, "How many: 1..72, or 1,2,4 (default: a sweep)")
      ->type_name("N,A..B")
      ->delimiter(',')
      ->allow_extra_args(false);
  to.add_flag("--pinned", o.pinned, "Threads stay on the CPUs that they begin on");
  to.add_option("--set", o.settings, "A parameter of the workload")->type_name("NAME=N");
  to.add_option("--json", o.json_file, "Write all points to this file")->type_name("F");
  to.add_option("--csv", o.csv_file, "The same as lines")->type_name("F");
  to.add_option("--chart", o.chart_file, "Draw the throughput into this file, .svg or .png")->type_name("F");
  to.add_option("--chart-metric", o.chart_metric,
                "With --chart: " + figure_metric_names() + "; of a group of threads as guests.latency")
      ->type_name("M");
  add_chart_options(
      to, o.look, "which axes are logarithmic (default: that of the threads, where they span more than a factor of 8)");
  to.add_flag("--log-x", o.log_x, "With --chart: the same as --log x");
  to.add_flag("--log-y", o.log_y, "With --chart: the same as --log y; with both, as --log xy");
  for (const char* name : {"--chart-metric", "--log-x", "--log-y"})
    to.get_option(name)->needs(to.get_option("--chart"));
  to.add_flag("--details", o.details, "Show also how even the threads' shares are, and how often threads are switched");
  to.add_option("--timeout", o.limit, "Of one point, in seconds (default: " + default_limit + ")")
      ->type_name("S")
      ->check(CLI::Range(0.1, 1e6));
  to.add_flag("--list", o.list, "Show workloads with their parameters, and what they can run on");
  to.add_flag("--list-points", o.list_points, "Print a command for each point, and do nothing");
  to.add_option("--point", o.one_point, "One point as --list-points prints it: its result is a line of JSON")
      ->type_name("JSON");
  to.add_option("--merge", o.merge, "Show results that were made elsewhere")->type_name("F")->expected(1, -1);
  keep_apart(to, {"--merge", "--point"},
             {"workload", "--locks", "--threads", "--pinned", "--set", "--timeout", "--list-points"});
  keep_apart(to, {"--merge"}, {"--point"});
  keep_apart(to, {"--log"}, {"--log-x", "--log-y"});
  keep_apart(to, {"--point", "--list-points"},
             {"--json", "--csv", "--chart", "--chart-metric", "--title", "--size", "--log", "--log-x", "--log-y",
              "--details"});
  to.add_flag("--quiet", o.quiet, "No progress bar");
}

std::vector<unsigned> thread_counts(const std::vector<std::string>& texts) {
  std::vector<unsigned> counts;
  const auto number = [](const std::string& text) {
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 4 ||
        std::stoul(text) == 0)
      throw std::runtime_error("--threads: '" + text + "' is not a number of threads from 1 to 9999");
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

std::vector<unsigned> default_counts(unsigned cpus) {
  std::vector<unsigned> counts;
  for (const unsigned n :
       {1u, 2u, 3u, 4u, 5u, 6u, 8u, 10u, 12u, 16u, 20u, 24u, 28u, 36u, 48u, 60u, 72u, 96u, 128u, 192u, 256u})
    if (n < cpus) counts.push_back(n);
  counts.push_back(cpus);
  return counts;
}

std::map<std::string, long> parameters_of(const std::vector<std::string>& settings) {
  std::map<std::string, long> parameters;
  for (const std::string& s : settings) {
    const std::size_t at = s.find('=');
    char* end = nullptr;
    const long value = at == std::string::npos ? 0 : std::strtol(s.c_str() + at + 1, &end, 10);
    if (at == std::string::npos || at + 1 == s.size() || *end != '\0')
      throw std::runtime_error("--set: '" + s + "' is not NAME=NUMBER");
    parameters[s.substr(0, at)] = value;
  }
  return parameters;
}

std::vector<std::string> chosen_locks(const std::vector<std::string>& names, const std::vector<std::string>& all) {
  std::vector<std::string> chosen;
  for (const std::string& name : names)
    if (name == "all")
      chosen.insert(chosen.end(), all.begin(), all.end());
    else
      chosen.push_back(name);
  return chosen;
}

void check_chart_metric(const figure_options& o, std::span<const workloads::description> programs, bool simulated) {
  const figure_metric metric = figure_metric_named(o.chart_metric);
  const std::string group = metric.group();
  const auto has = [&](const workloads::description& w) {
    return (w.some != nullptr && w.some == group) || (w.others != nullptr && w.others == group);
  };
  const auto asked =
      std::find_if(programs.begin(), programs.end(), [&](const auto& w) { return w.name == o.workload; });
  if (asked == programs.end()) return;
  if (simulated && metric.of_one_lock && !asked->one_lock)
    throw std::runtime_error(
        fmt::format("--chart-metric {}: {} has no one lock whose admissions are seen", o.chart_metric, o.workload));
  if (simulated && metric.of_arrays && !asked->arrays)
    throw std::runtime_error(
        fmt::format("--chart-metric {}: {} reads no arrays that caches matter for", o.chart_metric, o.workload));
  if (group.empty() || has(*asked)) return;
  throw std::runtime_error(
      fmt::format("--chart-metric {}: {} has no threads that are called {}{}", o.chart_metric, o.workload, group,
                  asked->some == nullptr ? "" : fmt::format(", but {} and {}", asked->some, asked->others)));
}

void list_workloads(std::span<const workloads::description> programs) {
  for (const workloads::description& w : programs) {
    fmt::print("{}: {} ({})\n", w.name, w.summary, w.source);
    for (const workloads::parameter& p : w.parameters) fmt::print("    --set {}={}  {}\n", p.name, p.value, p.meaning);
  }
}

// ---- points as JSON --------------------------------------------------------------------------------------------------

ordered_json durations_to_json(const workloads::durations& d) {
  return {{"mean", d.mean}, {"median", d.median}, {"p99", d.p99}, {"longest", d.longest}};
}

void add_operations(ordered_json& to, double throughput, const std::vector<std::uint64_t>& operations) {
  to["throughput"] = throughput;
  to["operations"] = operations;
  to["gini"] = workloads::gini(operations);
  to["relative_deviation"] = workloads::relative_deviation(operations);
  to["smallest_share"] = workloads::smallest_share(operations);
}

ordered_json& add_group(ordered_json& to, const workloads::group& g, bool waits) {
  ordered_json& here = g.name.empty() ? to : to["groups"][g.name];
  if (!g.name.empty()) {
    here["threads"] = g.threads;
    here["throughput"] = g.throughput;
  }
  if (waits) {
    here["wait_ns"] = durations_to_json(g.waits);
    here["waiting_at_end"] = g.waiting_at_end;
  }
  return here;
}

int print_result(ordered_json asked, const ordered_json& result) {
  asked.update(result);
  fmt::print("{}\n", asked.dump());
  return 0;
}

// ---- running ---------------------------------------------------------------------------------------------------------

int list_points(const figure_command& c, const std::vector<numbered_point>& points) {
  for (const numbered_point& n : points) fmt::print("usher {} --point {}\n", c.name, shell_quoted(n.asked.dump()));
  return 0;
}

namespace {

/// What a point's process says is wrong, without our own name before it.
std::string error_of(const std::string& err) {
  const std::string line = last_line(err), prefix = "usher: ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

void note(numbered_point& n, const ended_run& run, double limit, const figure_command& c) {
  if (run.timed_out) {
    n.error = fmt::format("no end after {:g} s", limit);
  } else if (run.end.way != ended::how::exited) {
    n.error = fmt::format("was ended by signal {}", run.end.status);
  } else if (run.end.status != 0) {
    n.error = error_of(run.err);
  } else if (auto result = ordered_json::parse(run.out, nullptr, false); result.is_discarded()) {
    n.error = "printed no result";
  } else {
    if (c.judge) n.error = c.judge(result);
    n.result = std::move(result);
  }
}

}  // namespace

bool run_points(const figure_command& c, const figure_options& o, unsigned jobs, const std::vector<std::size_t>& order,
                std::vector<numbered_point>& points) {
  const std::string self = own_path();
  if (self.empty()) throw std::runtime_error("cannot tell where this program is, to run it for each point");
  watch_for_interruption();
  progress bar(points.size(), o.quiet);
  std::size_t given = 0;
  run_side_by_side(
      jobs,
      [&]() -> std::optional<command_to_run> {
        if (given == order.size()) return std::nullopt;
        const std::size_t id = order[given++];
        return command_to_run{{self, c.name, "--point", points[id].asked.dump()}, o.limit, id};
      },
      [&](std::size_t id, const ended_run& run) {
        note(points[id], run, o.limit, c);
        bar.one_done();
        bar.show(points[id].asked["lock"]);
      });
  bar.clear();
  bool all_well = true;
  for (const numbered_point& n : points) {
    if (n.error.empty()) continue;
    all_well = false;
    report_error("{}, {} threads, {} {}: {}", n.asked["lock"].get<std::string>(), n.asked["threads"].get<unsigned>(),
                 c.repetition, n.asked[c.repetition].get<std::uint64_t>(), n.error);
  }
  return all_well;
}

points_as_json results_of(const std::vector<numbered_point>& points) {
  points_as_json results;
  for (const numbered_point& n : points)
    if (n.result) results.push_back(*n.result);
  return results;
}

// ---- showing ---------------------------------------------------------------------------------------------------------

namespace {

std::string in_words(const ordered_json& value) {
  if (value.is_string()) return value;
  if (!value.is_object()) return value.dump();
  if (value.contains("key") && value.contains("value"))
    return fmt::format("{}={}", value.at("key").get<std::string>(), in_words(value.at("value")));
  std::string all;
  for (const auto& [name, v] : value.items()) all += (all.empty() ? "" : " ") + fmt::format("{}={}", name, v.dump());
  return all;
}

/// Points that differ in nothing but the number of threads or the number of the machine that is varied, and what repeats.
struct series {
  std::string name, lock;
  std::map<double, std::vector<const ordered_json*>> points;  ///< by that
};

struct figure {
  std::vector<series> all;  ///< in the order in which they come
  std::string workload, machine;
  std::string x = "threads";    ///< or the number of the machine that is varied
  std::string same;             ///< what else all points were run with
  std::size_t repetitions = 0;  ///< most of one point
};

/// "pinned", "jitter 0.5", "ncs=0", "coherence.per_read=6".
std::string said(const std::string& key, const ordered_json& value) {
  if (value.is_boolean()) return key;
  return value.is_object() || key == "workload" || key == "machine" ? in_words(value) : key + " " + in_words(value);
}

/// What is varied where nothing else is: one number of the machine, with one number of threads. Empty: the threads.
std::string varied_alone(const points_as_json& points) {
  std::set<std::string> keys;
  std::set<unsigned> threads;
  std::set<double> values;
  for (const ordered_json& p : points) {
    const auto v = p.find("vary");
    if (v == p.end() || !v->at("value").is_number()) return "";
    keys.insert(v->at("key"));
    values.insert(v->at("value").get<double>());
    threads.insert(p["threads"].get<unsigned>());
  }
  return keys.size() == 1 && threads.size() == 1 && values.size() > 1 ? *keys.begin() : "";
}

/// The lock names a series; and what else is not the same for all points, as after --merge.
figure figure_of(const points_as_json& points) {
  static constexpr std::array keys{"workload", "machine", "parameters", "machine_settings", "vary",     "jitter",
                                   "pinned",   "others",  "spin_ns",    "placement",        "together", "warm_up_ns"};
  figure f;
  std::vector<std::string> telling;
  const std::string varied = varied_alone(points);
  if (!varied.empty()) {
    f.x = varied;
    f.same = fmt::format("{} threads", points.front()["threads"].get<unsigned>());
  }
  for (const char* key : keys) {
    if (!varied.empty() && key == std::string_view("vary")) continue;
    std::set<std::string> values;
    for (const ordered_json& p : points) values.insert(p.contains(key) ? in_words(p[key]) : "");
    if (values.size() > 1) telling.emplace_back(key);
    if (values.size() != 1 || values.begin()->empty()) continue;
    const std::string& value = *values.begin();
    if (key == keys[0]) {
      f.workload = value;
    } else if (key == keys[1]) {
      f.machine = value;
    } else {
      f.same += (f.same.empty() ? "" : ", ") + said(key, points.front()[key]);
    }
  }
  for (const ordered_json& p : points) {
    std::string name = p["lock"];
    for (const std::string& key : telling)
      if (p.contains(key)) name += " " + said(key, p[key]);
    auto at = std::find_if(f.all.begin(), f.all.end(), [&](const series& s) { return s.name == name; });
    if (at == f.all.end()) at = f.all.insert(at, series{name, p["lock"], {}});
    auto& same = at->points[(varied.empty() ? p["threads"] : p["vary"]["value"]).get<double>()];
    same.push_back(&p);
    f.repetitions = std::max(f.repetitions, same.size());
  }
  return f;
}

std::vector<double> values(const std::vector<const ordered_json*>& points, const char* key) {
  std::vector<double> all;
  for (const ordered_json* p : points)
    if (const auto at = p->find(key); at != p->end() && at->is_number()) all.push_back(*at);
  return all;
}

std::string number(double v) {
  if (v >= 1000) return fmt::format("{:.0f}", v);
  return v >= 0.1 || v == 0 ? fmt::format("{:.3f}", v) : fmt::format("{:.3g}", v);
}

/// Of threads, or of what is varied.
std::string x_value(double v) {
  return v == std::floor(v) && std::fabs(v) < 1e15 ? fmt::format("{:.0f}", v) : fmt::format("{:g}", v);
}

std::string median_and_range(const std::vector<double>& v) {
  if (v.empty()) return "-";
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return v.size() == 1 ? number(v.front()) : fmt::format("{} {}–{}", number(median(v)), number(*low), number(*high));
}

std::set<double> all_x(const figure& f) {
  std::set<double> all;
  for (const series& s : f.all)
    for (const auto& [x, same] : s.points) all.insert(x);
  return all;
}

// What cannot be seen in a median and a range: that a run was measured before it had settled, and that a lock has a good and a bad
// state and chance decides between them.

bool has_settled(const ordered_json* point) {
  return point->value("settled", true);
}

std::size_t unsettled(const std::vector<const ordered_json*>& same) {
  return same.size() - static_cast<std::size_t>(std::count_if(same.begin(), same.end(), has_settled));
}

/// Of simulated runs, where nobody else is to blame.
bool has_two_states(const std::vector<const ordered_json*>& same) {
  constexpr double factor = 1.5;
  if (same.size() < 2 ||
      !std::all_of(same.begin(), same.end(), [](const ordered_json* p) { return p->contains("seed"); }))
    return false;
  const auto v = values(same, "throughput");
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return *high > factor * *low;
}

constexpr const char *unsettled_mark = "*", *states_mark = "!";

std::string marks_of(const std::vector<const ordered_json*>& same) {
  return std::string(unsettled(same) != 0 ? unsettled_mark : "") + (has_two_states(same) ? states_mark : "");
}

/// Lines that say what the marks of a table mean, if it has them.
std::string legend_of_marks(const figure& f) {
  bool some_unsettled = false, some_states = false;
  for (const series& s : f.all)
    for (const auto& [x, same] : s.points) {
      some_unsettled |= unsettled(same) != 0;
      some_states |= has_two_states(same);
    }
  std::string text;
  if (some_unsettled)
    text += fmt::format(
        "{}: has not settled: the halves of a run differ, it has fewer operations than threads, threads still came,\n"
        "   or one that shares its CPU had no operation\n",
        unsettled_mark);
  if (some_states)
    text += fmt::format(
        "{}: seeds differ by more than a factor of 1.5: chance decides between a good and a bad state\n", states_mark);
  return text;
}

/// One line on standard error for all.
void warn_of_unsettled(const figure& f) {
  constexpr std::size_t most = 6;
  std::string list;
  std::size_t points = 0;
  for (const series& s : f.all)
    for (const auto& [x, same] : s.points) {
      const std::size_t n = unsettled(same);
      if (n == 0 || ++points > most) continue;
      list += fmt::format("{}{} with {} ({} of {} runs)", list.empty() ? "" : ", ", s.name,
                          f.x == "threads" ? x_value(x) + " threads" : f.x + " " + x_value(x), n, same.size());
    }
  if (points == 0) return;
  if (points > most) list += fmt::format(" and {} more", points - most);
  warn("not settled, take a longer --warm-up or --ms: {}", list);
}

/// A row a number of threads; of many locks, a row a lock.
std::string table_of(const figure& f, std::size_t width) {
  constexpr std::size_t many = 8;
  const std::set<double> counts = all_x(f);
  const auto cell = [](const series& s, double x) {
    const auto at = s.points.find(x);
    return at == s.points.end() ? "-" : median_and_range(values(at->second, "throughput")) + marks_of(at->second);
  };
  const bool row_a_lock = f.all.size() > many && f.all.size() > counts.size();
  std::vector<column> columns{{row_a_lock ? "lock" : f.x, !row_a_lock}};
  std::vector<std::vector<std::string>> rows;
  if (row_a_lock) {
    for (const double n : counts) columns.push_back({x_value(n), true});
    for (const series& s : f.all) {
      rows.push_back({s.name});
      for (const double n : counts) rows.back().push_back(cell(s, n));
    }
  } else {
    for (const series& s : f.all) columns.push_back({s.name, true});
    for (const double n : counts) {
      rows.push_back({x_value(n)});
      for (const series& s : f.all) rows.back().push_back(cell(s, n));
    }
  }
  return format_table(columns, rows, width);
}

/// One row a number of threads, one letter a lock, at the place of its median.
std::string plot_of(const figure& f) {
  constexpr std::size_t width = 64, letters = 26;
  double most = 0;
  for (const series& s : f.all)
    for (const auto& [threads, same] : s.points) most = std::max(most, median(values(same, "throughput")));
  if (most <= 0 || f.all.size() > letters) return "";
  const auto letter = [](std::size_t i) { return static_cast<char>('a' + i); };
  std::string text =
      fmt::format("{:>7}  0{:>{}} operations/µs\n", f.x == "threads" ? f.x : "", number(most), width - 1);
  for (const double x : all_x(f)) {
    std::string line(width, ' ');
    for (std::size_t i = f.all.size(); i-- > 0;) {
      const auto at = f.all[i].points.find(x);
      if (at == f.all[i].points.end()) continue;
      const double place = median(values(at->second, "throughput")) / most * static_cast<double>(width - 1);
      line[static_cast<std::size_t>(place)] = letter(i);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:>7}  {}\n", x_value(x), line);
  }
  for (std::size_t i = 0; i < f.all.size(); i++)
    text += fmt::format("{}{} {}", i == 0 ? "         " : ", ", letter(i), f.all[i].name);
  return text + "\n";
}

/// Of each point an operation's share of what was counted in all.
std::vector<double> per_operation(const std::vector<const ordered_json*>& points, const char* key) {
  std::vector<double> all;
  for (const ordered_json* p : points) {
    const auto& each = p->at("operations");
    const double sum = std::accumulate(each.begin(), each.end(), 0.0,
                                       [](double s, const ordered_json& n) { return s + n.get<double>(); });
    if (sum > 0) all.push_back(p->value(key, 0.0) / sum);
  }
  return all;
}

/// A table for each number of threads, or whatever is varied.
std::string details_of(const figure& f, std::size_t width) {
  std::string text;
  for (const double x : all_x(f)) {
    std::vector<std::vector<std::string>> rows;
    for (const series& s : f.all) {
      const auto at = s.points.find(x);
      if (at == s.points.end()) continue;
      const auto shown = [](const std::vector<double>& v, const char* format) {
        return v.empty() ? "-" : fmt::format(fmt::runtime(format), median(v));
      };
      const auto shares = values(at->second, "smallest_share");
      rows.push_back({s.name, median_and_range(values(at->second, "throughput")), shown(shares, "{:.2f}"),
                      shares.empty() ? "-" : fmt::format("{:.2f}", *std::min_element(shares.begin(), shares.end())),
                      shown(values(at->second, "gini"), "{:.3f}"),
                      shown(per_operation(at->second, "voluntary_switches"), "{:.5f}"),
                      shown(per_operation(at->second, "involuntary_switches"), "{:.5f}")});
    }
    text += (f.x == "threads" ? fmt::format("\n{} thread{}\n", x_value(x), x == 1 ? "" : "s")
                              : fmt::format("\n{} {}\n", f.x, x_value(x))) +
            format_table({{"lock"},
                          {"operations/µs", true},
                          {"smallest", true},
                          {"worst", true},
                          {"Gini", true},
                          {"voluntary", true},
                          {"involuntary", true}},
                         rows, width);
  }
  return text +
         "\nsmallest: what the thread that got least has, relative to an equal part; voluntary, involuntary: switches "
         "an "
         "operation\n";
}

std::string csv_cell(const ordered_json& point, const char* key) {
  const auto at = point.find(key);
  if (at == point.end()) return "";
  if (!at->is_string() && !at->is_object()) return at->dump();
  std::string text;
  if (at->is_string())
    text = *at;
  else  // as --set, --set-machine, --vary take them
    text = in_words(*at);
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return fmt::format("\"{}\"", quoted);
}

std::string csv_of(const points_as_json& points) {
  static constexpr std::pair<const char*, const char*> columns[]{{"workload", "workload"},
                                                                 {"machine", "machine"},
                                                                 {"lock", "lock"},
                                                                 {"threads", "threads"},
                                                                 {"seed", "seed"},
                                                                 {"round", "round"},
                                                                 {"run_ns", "run_ns"},
                                                                 {"parameters", "parameters"},
                                                                 {"machine_settings", "machine_settings"},
                                                                 {"vary", "vary"},
                                                                 {"jitter", "jitter"},
                                                                 {"pinned", "pinned"},
                                                                 {"others", "others"},
                                                                 {"spin_ns", "spin_ns"},
                                                                 {"placement", "placement"},
                                                                 {"warm_up_ns", "warm_up_ns"},
                                                                 {"together", "together"},
                                                                 {"throughput", "throughput"},
                                                                 {"first_half", "first_half"},
                                                                 {"second_half", "second_half"},
                                                                 {"settled", "settled"},
                                                                 {"gini", "gini"},
                                                                 {"smallest_share", "smallest_share"},
                                                                 {"lwss", "lwss"},
                                                                 {"mttr", "mttr"},
                                                                 {"voluntary", "voluntary_switches"},
                                                                 {"involuntary", "involuntary_switches"}};
  std::string text;
  const auto row = [&](const auto& cell) {
    for (const auto& c : columns) text += fmt::format("{}{}", &c == columns ? "" : ",", cell(c));
    text += "\n";
  };
  row([](const auto& c) { return c.first; });
  for (const ordered_json& p : points) row([&](const auto& c) { return csv_cell(p, c.second); });
  return text;
}

/// What was noted of a run beside its points.
std::vector<std::string> caption_of_one(const ordered_json& about) {
  std::vector<std::string> parts;
  if (const auto m = about.find("machine"); m != about.end() && m->is_object())
    parts.push_back(fmt::format("{}, {} CPUs", m->value("cpu", ""), m->value("cpus", 0)));
  if (const auto m = about.find("simulated_machine"); m != about.end() && m->is_object())
    parts.push_back(fmt::format("simulated: {}, {} CPUs", m->value("title", ""), m->value("cpus", 0)));
  if (about.contains("compiler")) parts.push_back(about["compiler"]);
  if (about.contains("commit")) parts.push_back("commit " + about["commit"].get<std::string>());
  if (about.contains("others_cpu_share"))
    parts.push_back(fmt::format("others took {:.1f} % of the CPU time", 100 * about["others_cpu_share"].get<double>()));
  if (about.contains("date")) parts.push_back(about["date"]);
  return parts;
}

/// Parts that several merged runs have in common appear once.
std::vector<std::string> caption_of(const ordered_json& about) {
  const auto merged = about.find("merged");
  if (merged == about.end()) return caption_of_one(about);
  std::vector<std::string> parts;
  for (const ordered_json& one : *merged)
    for (std::string& part : caption_of_one(one))
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
  return parts;
}

/// "seeds 1–5", "seeds 1, 4"; empty if the points have none.
std::string seeds_of(const points_as_json& points) {
  std::set<std::uint64_t> seeds;
  for (const ordered_json& p : points)
    if (const auto s = p.find("seed"); s != p.end() && s->is_number_unsigned()) seeds.insert(s->get<std::uint64_t>());
  if (seeds.empty()) return "";
  const std::uint64_t first = *seeds.begin(), last = *seeds.rbegin();
  if (seeds.size() == 1) return fmt::format("seed {}", first);
  if (last - first + 1 == seeds.size()) return fmt::format("seeds {}–{}", first, last);
  return fmt::format("seeds {}", fmt::join(seeds, ", "));
}

std::string title_of(const figure& f) {
  return (f.workload.empty() ? "several workloads" : f.workload) + " on " +
         (f.machine.empty() ? "several machines" : f.machine);
}

curve_chart chart_of(const figure& f, const points_as_json& points, const ordered_json& about, const figure_metric& m) {
  curve_chart c;
  c.title = title_of(f);
  c.subtitle = f.same;
  if (!points.empty()) {
    const auto all_have = [&](const char* key) {
      return std::all_of(points.begin(), points.end(), [key](const ordered_json& p) { return p.contains(key); });
    };
    const char* const what = all_have("seed") ? "seed" : all_have("round") ? "round" : "run";
    c.subtitle += (c.subtitle.empty() ? "" : "; ") +
                  (f.repetitions == 1 ? fmt::format("1 {}", what)
                                      : fmt::format("median and range of {} {}s", f.repetitions, what));
  }
  c.x_name = f.x;
  c.y_name = m.axis;
  bool all_settled = true;
  for (const series& s : f.all) {
    curve one{s.name, s.lock, {}};
    for (const auto& [x, same] : s.points) {
      std::vector<double> v;
      for (const ordered_json* p : same)
        if (const auto one_of = m.of(*p)) v.push_back(*one_of);
      if (v.empty()) continue;
      const auto [low, high] = std::minmax_element(v.begin(), v.end());
      one.points.push_back({x, median(v), *low, *high, unsettled(same) == 0});
      all_settled = all_settled && one.points.back().settled;
    }
    if (!one.points.empty()) c.curves.push_back(std::move(one));
  }
  if (!all_settled) c.caption.emplace_back("hollow: a run has not settled");
  for (std::string& part : caption_of(about)) c.caption.push_back(std::move(part));
  if (std::string seeds = seeds_of(points); !seeds.empty()) c.caption.push_back(std::move(seeds));
  return c;
}

}  // namespace

int figure_outputs::open(const figure_options& o) {
  if (!is_chart_name(o.chart_file)) return bad_usage;
  format_ = image_format_of(o.chart_file);
  metric_ = figure_metric_named(o.chart_metric);
  look_ = o.look;
  if (o.log_x || o.log_y) look_.log = std::string(o.log_x ? "x" : "") + (o.log_y ? "y" : "");
  const std::array<std::pair<const char*, const std::string*>, 3> files{
      {{"--json", &o.json_file}, {"--csv", &o.csv_file}, {"--chart", &o.chart_file}}};
  for (std::size_t i = 0; i < files.size(); i++)
    for (std::size_t k = 0; k < i; k++)
      if (!files[i].second->empty() && !files[k].second->empty() && is_same_file(*files[i].second, *files[k].second)) {
        report_error("{} and {} are to write the same file, {}", files[k].first, files[i].first, *files[i].second);
        return bad_usage;
      }
  const bool good =
      can_draw(o.chart_file) && json_.open(o.json_file) && csv_.open(o.csv_file) && chart_.open(o.chart_file);
  return good ? 0 : cannot_start;
}

bool figure_outputs::write(const ordered_json& about, const points_as_json& points) {
  bool written = true;
  if (json_.wanted()) {
    ordered_json all = about;
    all["points"] = points;
    written = json_.write(all.dump(1) + "\n") && written;
  }
  if (csv_.wanted()) written = csv_.write(csv_of(points)) && written;
  if (!format_) return written;
  curve_chart c = chart_of(figure_of(points), points, about, metric_);
  if (!look_.title.empty()) c.title = look_.title;
  c.size = look_.pixels();
  c.x_scale = look_.horizontal();
  c.y_scale = look_.vertical();
  if (c.curves.empty() && !points.empty()) {
    report_error("--chart-metric {}: no point has it", metric_.name);
    return false;
  }
  return write_chart(chart_, c, *format_) && written;
}

int show(figure_outputs& to, const figure_options& o, const ordered_json& about, const points_as_json& points,
         bool all_well) {
  if (!points.empty()) {
    const figure f = figure_of(points);
    const std::size_t width = terminal_width();
    fmt::print("{}: operations a microsecond, median and range\n{}{}\n{}", title_of(f), table_of(f, width),
               legend_of_marks(f), plot_of(f));
    if (o.details) fmt::print("{}", details_of(f, width));
    warn_of_unsettled(f);
  }
  const bool written = to.write(about, points);
  if (interrupted() != 0) return 128 + interrupted();
  return !written ? cannot_start : all_well ? 0 : 1;
}

int merge(const figure_options& o) {
  figure_outputs to;
  if (const int status = to.open(o); status != 0) return status;
  points_as_json points, headers;
  for (const std::string& file : o.merge) {
    std::ifstream in(file);
    if (!in) {
      report_error("cannot read {}", file);
      return cannot_start;
    }
    std::stringstream text;
    text << in.rdbuf();
    const std::size_t before = points.size();
    // What --json writes, or lines as --point prints them.
    if (auto whole = ordered_json::parse(text.str(), nullptr, false);
        !whole.is_discarded() && whole.contains("points")) {
      for (const auto& p : whole["points"]) points.push_back(p);
      whole.erase("points");
      if (!whole.empty()) headers.push_back(std::move(whole));
    } else {
      std::size_t number = 1;
      for (std::string line; std::getline(text, line); number++) {
        if (line.empty()) continue;
        const auto p = ordered_json::parse(line, nullptr, false);
        if (p.is_discarded() || !p.contains("throughput")) {
          report_error("{} is not what --json writes, and its line {} is not a point's result", file, number);
          return cannot_start;
        }
        points.push_back(p);
      }
    }
    if (points.size() == before) {
      report_error("{} has no results", file);
      return cannot_start;
    }
  }
  ordered_json about = ordered_json::object();
  if (headers.size() == 1)
    about = headers.front();
  else if (!headers.empty())
    about["merged"] = headers;
  return show(to, o, about, points, true);
}

}  // namespace usher::cli
