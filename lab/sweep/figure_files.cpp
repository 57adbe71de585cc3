#include "lab/sweep/figure_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "lab/draw/curves.hpp"
#include "lab/sweep/figure.hpp"
#include "lab/sweep/figure_chart.hpp"
#include "lab/sweep/figure_text.hpp"
#include "lab/sweep/point_json.hpp"
#include "lab/sweep/point_settings.hpp"
#include "support/process/files.hpp"
#include "support/process/process.hpp"
#include "support/text/input_file.hpp"
#include "support/text/messages.hpp"
#include "support/text/printable_json.hpp"
#include "support/text/table.hpp"

namespace usher::lab {

using nlohmann::ordered_json;

namespace {

/// Returns a JSON object as text, "name=value name=value". An object of --vary, with the members "key" and "value",
/// becomes "KEY=VALUE".
std::string in_words(const ordered_json& object) {
  const auto text = [](const ordered_json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  if (object.contains("key") && object.contains("value")) return text(object["key"]) + "=" + text(object["value"]);
  std::string all;
  for (const auto& [name, value] : object.items())
    all += fmt::format("{}{}={}", all.empty() ? "" : " ", name, value.dump());
  return all;
}

std::string csv_cell(const ordered_json& point, const char* key) {
  const auto at = point.find(key);
  if (at == point.end() || at->is_null()) return "";
  if (!at->is_string() && !at->is_object()) return at->dump();
  const std::string text = at->is_string() ? at->get<std::string>() : in_words(*at);
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return fmt::format("\"{}\"", quoted);
}

std::string csv_of_points(const std::vector<ordered_json>& points) {
  std::vector<std::pair<const char*, const char*>> columns;
  for (const point_key* k : shown_keys(true)) columns.emplace_back(k->key, k->key);
  for (const char* const measured :
       {"throughput", "first_half", "second_half", "settled", "gini", "smallest_share", "lwss", "mttr"})
    columns.emplace_back(measured, measured);
  columns.insert(
      columns.end(),
      {{"voluntary", "voluntary_switches"}, {"involuntary", "involuntary_switches"}, {"machine_hash", "machine_hash"}});
  static constexpr std::pair<const char*, const char*> durations[]{{"wait", "wait_ns"}, {"hand_over", "hand_over_ns"}};
  static constexpr const char* parts[]{"mean", "median", "p99", "longest"};
  std::string text;
  for (const auto& c : columns) text += fmt::format("{}{}", &c == columns.data() ? "" : ",", c.first);
  for (const auto& d : durations)
    for (const char* const part : parts) text += fmt::format(",{}_{}_ns", d.first, part);
  text += "\n";
  for (const ordered_json& p : points) {
    for (const auto& c : columns) text += (&c == columns.data() ? "" : ",") + csv_cell(p, c.second);
    for (const auto& d : durations) {
      const auto at = p.find(d.second);
      for (const char* const part : parts) text += "," + (at == p.end() ? "" : csv_cell(*at, part));
    }
    text += "\n";
  }
  return text;
}

/// The points of a result file, with all measurements.
std::vector<ordered_json> json_of(const std::vector<point_result>& results) {
  std::vector<ordered_json> all;
  all.reserve(results.size());
  for (const point_result& r : results) all.push_back(ordered_json::parse(r.json));
  return all;
}

/// The text at the key; empty if there is none.
std::string text_at(const ordered_json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

/// The place, date and build of the points of a run.
std::vector<std::string> caption_of_one(const ordered_json& about) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& before, const std::string& text, const std::string& after = "") {
    if (!text.empty()) parts.push_back(before + text + after);
  };
  if (const auto m = about.find("machine"); m != about.end() && m->is_object())
    add("", text_at(*m, "cpu"), fmt::format(", {} CPUs", support::whole_or(*m, "cpus", 0)));
  if (const auto m = about.find("simulated_machine"); m != about.end() && m->is_object())
    add("simulated: ", text_at(*m, "title"), fmt::format(", {} CPUs", support::whole_or(*m, "cpus", 0)));
  add("", text_at(about, "compiler"));
  add("commit ", text_at(about, "commit"));
  if (const auto share = about.find("others_cpu_share"); share != about.end() && share->is_number())
    parts.push_back(fmt::format("others took {:.1f} % of the CPU time", 100 * share->get<double>()));
  add("", text_at(about, "date"));
  return parts;
}

}  // namespace

std::vector<std::string> caption_of(const ordered_json& about) {
  const auto merged = about.find("merged");
  if (merged == about.end()) return caption_of_one(about);
  std::vector<std::string> parts;
  for (const ordered_json& one : *merged)
    for (std::string& part : caption_of_one(one))
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
  return parts;
}

std::string csv_of(const std::vector<point_result>& results) {
  return csv_of_points(json_of(results));
}

namespace {

/// Adds the results in a file. Returns false after an error message.
bool read_results(const std::string& file, merged_results& into) {
  try {
    add_results(file, support::read_input(file), into);
    return true;
  } catch (const support::bad_input& e) {
    support::report_error("--merge {}: {}", file, e.what());
  } catch (const ordered_json::exception& e) {
    support::report_error("--merge {}: it has no results as --json writes them: {}", file, support::reason_of(e));
  } catch (const std::runtime_error& e) {  // of a point's numbers
    support::report_error("--merge {}: it has no results as --json writes them: {}", file, e.what());
  }
  return false;
}

void add_header(ordered_json header, merged_results& into) {
  if (header.empty() || std::find(into.headers.begin(), into.headers.end(), header) != into.headers.end()) return;
  into.headers.push_back(std::move(header));
}

/// Adds the header of a file that --json wrote. A file of merged results contains the headers of all its source files.
void add_headers(ordered_json header, merged_results& into) {
  if (const auto all = header.find("merged"); all != header.end() && all->is_array())
    for (ordered_json& one : *all) add_header(std::move(one), into);
  else
    add_header(std::move(header), into);
}

std::string name_of(const sweep_point& p) {
  return fmt::format("{}, {} threads, seed {}", p.lock, p.threads, p.seed.value_or(0));
}

}  // namespace

void add_results(const std::string& file, const std::string& text, merged_results& into) {
  if (const char* const why = support::objection_to_json(text)) throw support::bad_input(why);
  const std::size_t before = into.results.size();
  into.files.push_back(file);
  const auto add = [&into](const ordered_json& p) {
    into.results.push_back(result_from_json(p));
    into.results.back().file = into.files.size() - 1;
  };
  if (auto whole = ordered_json::parse(text, nullptr, false); whole.is_object() && whole.contains("points")) {
    support::make_printable(whole);
    for (const ordered_json& p : whole["points"]) {
      add(p);
      point_result& r = into.results.back();
      if (!r.usher.empty() || !r.commit.empty()) continue;
      r.usher = text_at(whole, "usher");  // files of older versions have the build in their header only
      r.commit = text_at(whole, "commit");
    }
    whole.erase("points");
    add_headers(std::move(whole), into);
  } else {
    std::size_t number = 1;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line); number++) {
      if (line.empty()) continue;
      auto p = ordered_json::parse(line, nullptr, false);
      support::make_printable(p);
      if (!p.is_object() || !p.contains("throughput"))
        throw support::bad_input(
            fmt::format("it is not what --json writes, and its line {} is not a point's result", number));
      add(p);
      const point_result& r = into.results.back();
      ordered_json header = ordered_json::object();
      if (!r.usher.empty()) header["usher"] = r.usher;
      if (!r.commit.empty()) header["commit"] = r.commit;
      add_header(std::move(header), into);
    }
  }
  if (into.results.size() == before) throw support::bad_input("it has no results");
}

namespace {

std::string file_of(const merged_results& merged, const point_result& r) {
  return r.file < merged.files.size() ? merged.files[r.file] : "";
}

/// Returns the beginning of a sentence about the files of two results: "a and b have", or "a has" if both are in one
/// file.
std::string files_have(const merged_results& merged, const point_result& a, const point_result& b) {
  if (a.file == b.file) return file_of(merged, a) + " has";
  return file_of(merged, a) + " and " + file_of(merged, b) + " have";
}

/// Returns "0.3.0 (commit abc)", or "a build that is not known" for a result of an older version without this
/// information.
std::string build_of(const point_result& r) {
  if (r.usher.empty() && r.commit.empty()) return "a build that is not known";
  if (r.commit.empty()) return r.usher;
  return fmt::format("{} (commit {})", r.usher.empty() ? "of a version that is not known" : r.usher, r.commit);
}

/// Returns the machine of a point and its changed numbers as text. Points with the same text must have the same hash.
std::string machine_text(const sweep_point& p) {
  sweep_point only;
  only.machine = p.machine;
  only.settings = p.settings;
  only.varied = p.varied;
  return json_text(only);
}

std::string varied_text(const sweep_point& p) {
  sweep_point only;
  only.varied = p.varied;
  return json_text(only);
}

/// Returns the keys that distinguish the points of one sweep, as text. All other keys are settings that the points of a
/// sweep have in common.
std::string point_text(const sweep_point& p) {
  sweep_point only;
  only.workload = p.workload;
  only.machine = p.machine;
  only.lock = p.lock;
  only.threads = p.threads;
  only.seed = p.seed;
  only.jitter = p.jitter;
  only.varied = p.varied;
  return json_text(only);
}

/// Returns the keys whose values differ between two points: "spin_ns, placement".
std::string differing_keys(const sweep_point& a, const sweep_point& b) {
  const auto one = ordered_json::parse(json_text(a)), other = ordered_json::parse(json_text(b));
  std::string all;
  for (const point_key& k : point_keys) {
    const auto here = one.find(k.key), there = other.find(k.key);
    const bool same = (here == one.end()) == (there == other.end()) && (here == one.end() || *here == *there);
    if (!same) all += (all.empty() ? "" : ", ") + std::string(k.key);
  }
  return all;
}

constexpr const char* allow_mixed = "--mixed shows them together";

/// Throws if two results with the same values of --vary are from different machines.
void check_machines(const merged_results& merged, const point_result& a, const point_result& b) {
  if (a.point.machine_hash == b.point.machine_hash && a.point.machine == b.point.machine) return;
  if (a.point.machine != b.point.machine)
    throw support::bad_input(fmt::format("{} results of two machines, {} and {}: {}", files_have(merged, a, b),
                                         a.point.machine, b.point.machine, allow_mixed));
  const auto hash = [](const point_result& r) { return r.point.machine_hash.empty() ? "none" : r.point.machine_hash; };
  const bool is_changed = to_json(a.point.settings) != to_json(b.point.settings);
  throw support::bad_input(fmt::format("{} results of two machines that are both called {} (hashes {} and {}){}",
                                       files_have(merged, a, b), a.point.machine, hash(a), hash(b),
                                       is_changed ? std::string(", with other --set-machine: ") + allow_mixed : ""));
}

/// Throws for a second result of the same point: it is a duplicate or has other settings.
[[noreturn]] void refuse_second(const merged_results& merged, const point_result& a, const point_result& b) {
  const std::string keys = differing_keys(a.point, b.point);
  if (keys.empty())
    throw support::bad_input(fmt::format("{} one point twice ({}): merge each file and each line once",
                                         files_have(merged, a, b), name_of(b.point)));
  throw support::bad_input(fmt::format("{} one point ({}) with other settings ({}): {}", files_have(merged, a, b),
                                       name_of(b.point), keys, allow_mixed));
}

}  // namespace

void check_one_sweep(const merged_results& merged) {
  const point_result* first = nullptr;
  std::map<std::string, const point_result*> machines, points;
  for (const point_result& r : merged.results) {
    if (!r.point.seed) continue;  // results without a seed are measured, and name neither a build nor a machine
    if (first == nullptr) first = &r;
    if (r.usher != first->usher || r.commit != first->commit)
      throw support::bad_input(fmt::format("{} results of two builds of usher, {} and {}: {}",
                                           files_have(merged, *first, r), build_of(*first), build_of(r), allow_mixed));
    check_machines(merged, *machines.emplace(varied_text(r.point), &r).first->second, r);
    const auto [at, is_new] = points.emplace(point_text(r.point), &r);
    if (!is_new) refuse_second(merged, *at->second, r);
  }
}

std::size_t remove_duplicates(merged_results& merged) {
  std::map<std::string, const point_result*> machines;
  std::map<std::string, const point_result*> simulated;
  std::set<std::string_view> measured;
  std::vector<bool> twice(merged.results.size());
  for (std::size_t i = 0; i < merged.results.size(); i++) {
    const point_result& r = merged.results[i];
    if (!r.point.machine_hash.empty()) {
      const point_result& other = *machines.emplace(machine_text(r.point), &r).first->second;
      if (other.point.machine_hash != r.point.machine_hash)
        throw support::bad_input(
            fmt::format("{} points of two machines that are both called {} (hashes {} and {}): simulate "
                        "one of them under another name",
                        files_have(merged, other, r), r.point.machine, other.point.machine_hash, r.point.machine_hash));
    }
    if (r.point.seed) {  // a simulated run gives the same result each time
      sweep_point without_hash = r.point;
      without_hash.machine_hash.clear();
      const auto [at, is_new] = simulated.emplace(json_text(without_hash), &r);
      const point_result& other = *at->second;
      if (!is_new && (other.all.throughput != r.all.throughput || other.operations != r.operations))
        throw support::bad_input(
            fmt::format("{} different results of one point ({}): different builds or machines have made them",
                        files_have(merged, other, r), name_of(r.point)));
      twice[i] = !is_new;
    } else if (r.point.round) {  // measured results differ: equal ones come from the same file, given twice
      twice[i] = !measured.insert(r.json).second;
    }
  }
  std::size_t i = 0;
  return std::erase_if(merged.results, [&](const point_result&) { return twice[i++]; });
}

std::vector<std::string> builds_of(const merged_results& merged) {
  std::map<std::string, std::string> builds;  // by commit: the version; without a commit by the version itself
  for (const ordered_json& header : merged.headers) {
    if (!header.is_object()) continue;
    const std::string usher = text_at(header, "usher"), commit = text_at(header, "commit");
    if (commit.empty() && usher.empty()) continue;
    std::string& version = builds[commit.empty() ? usher : commit];  // results of usher bench have a commit only
    if (version.empty() && !commit.empty()) version = usher;
  }
  std::vector<std::string> all;
  for (const auto& [build, version] : builds)
    all.push_back(version.empty() ? build : fmt::format("{} ({})", version, build));
  return all;
}

ordered_json about(const merged_results& merged) {
  if (merged.headers.size() == 1) return merged.headers.front();
  ordered_json all = ordered_json::object();
  if (!merged.headers.empty()) all["merged"] = merged.headers;
  return all;
}

int figure_outputs::open(const figure_options& o, std::span<const workloads::description> programs, bool simulated) {
  if (!programs.empty()) check_metric(figure_metric_named(o.chart_metric), o.workload, programs, simulated);
  if (!is_chart_name(o.chart_file)) return support::bad_usage;
  metric_ = figure_metric_named(o.chart_metric);
  look_ = o.look;
  if (o.log_x || o.log_y) look_.log = std::string(o.log_x ? "x" : "") + (o.log_y ? "y" : "");
  const std::array<std::pair<const char*, const std::string*>, 3> files{
      {{"--json", &o.json_file}, {"--csv", &o.csv_file}, {"--chart", &o.chart_file}}};
  for (std::size_t i = 0; i < files.size(); i++)
    for (std::size_t k = 0; k < i; k++)
      if (!files[i].second->empty() && !files[k].second->empty() &&
          support::is_same_file(*files[i].second, *files[k].second)) {
        support::report_error("{} and {} are to write the same file, {}", files[k].first, files[i].first,
                              *files[i].second);
        return support::bad_usage;
      }
  const bool good = json_.open(o.json_file) && csv_.open(o.csv_file) && chart_.open(o.chart_file);
  return good ? 0 : support::cannot_start;
}

bool figure_outputs::write(const figure& f, const std::vector<point_result>& results, const ordered_json& about) {
  bool written = true;
  if (json_.wanted()) {
    ordered_json all = about;
    all["points"] = json_of(results);
    written = json_.write(all.dump(1) + "\n") && written;
  }
  if (csv_.wanted()) written = csv_.write(csv_of(results)) && written;
  if (!chart_.wanted()) return written;
  curve_chart c = chart_of(f, results, metric_, caption_of(about));
  if (!look_.title.empty()) c.title = look_.title;
  c.size = look_.pixels();
  c.x_scale = look_.horizontal();
  c.y_scale = look_.vertical();
  if (c.curves.empty() && !results.empty()) {
    support::report_error("--chart-metric {}: no point has it", metric_.name);
    return false;
  }
  return chart_.write(draw(c)) && written;
}

int show(figure_outputs& to, const figure_options& o, const ordered_json& about,
         const std::vector<point_result>& results, bool all_well) {
  const figure f = figure_of(results);
  if (!results.empty()) {
    const std::size_t width = support::terminal_width();
    fmt::print("{}: operations a microsecond, median and range\n{}{}\n{}", title_of(f), table_text(f, width),
               legend_text(f), plot_text(f));
    if (o.details) fmt::print("{}", details_text(f, width));
    warn_of_unsettled(f);
  }
  const bool written = to.write(f, results, about);
  if (support::interrupted() != 0) return 128 + support::interrupted();
  return !written ? support::cannot_start : all_well ? 0 : 1;
}

int merge(const figure_options& o) {
  figure_outputs to;
  if (const int status = to.open(o); status != 0) return status;
  merged_results merged;
  for (const std::string& file : o.merge)
    if (!read_results(file, merged)) return support::bad_usage;
  try {
    if (!o.mixed) check_one_sweep(merged);
    if (const std::size_t twice = remove_duplicates(merged); twice != 0)
      support::warn("--merge: {} result{} there twice: each counts once", twice, twice == 1 ? " is" : "s are");
  } catch (const support::bad_input& e) {
    support::report_error("--merge: {}", e.what());
    return support::bad_usage;
  }
  if (const auto builds = builds_of(merged); builds.size() > 1)
    support::warn("--merge: the results are of several builds of usher: {}", fmt::join(builds, ", "));
  return show(to, o, about(merged), merged.results, true);
}

}  // namespace usher::lab
