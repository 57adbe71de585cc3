#include "cli/sweep/figure_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "cli/draw/chart_file.hpp"
#include "cli/process/files.hpp"
#include "cli/process/process.hpp"
#include "cli/sweep/figure.hpp"
#include "cli/sweep/figure_chart.hpp"
#include "cli/sweep/figure_text.hpp"
#include "cli/sweep/point_json.hpp"
#include "cli/text/input_file.hpp"
#include "cli/text/messages.hpp"
#include "cli/text/printable_json.hpp"
#include "cli/text/table.hpp"

namespace usher::cli {

using nlohmann::ordered_json;

namespace {

/// "name=value name=value", and for what --vary set "key=value".
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
  if (at == point.end()) return "";
  if (!at->is_string() && !at->is_object()) return at->dump();
  const std::string text = at->is_string() ? at->get<std::string>() : in_words(*at);
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return fmt::format("\"{}\"", quoted);
}

std::string csv_of_points(const std::vector<ordered_json>& points) {
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

/// The points of a result file, with all measurements.
std::vector<ordered_json> json_of(const std::vector<point_result>& results) {
  std::vector<ordered_json> all;
  all.reserve(results.size());
  for (const point_result& r : results) all.push_back(ordered_json::parse(r.json));
  return all;
}

/// Where, when and by what the points of a run were measured.
std::vector<std::string> caption_of_one(const ordered_json& about) {
  std::vector<std::string> parts;
  if (const auto m = about.find("machine"); m != about.end() && m->is_object())
    parts.push_back(fmt::format("{}, {} CPUs", m->value("cpu", ""), whole_or(*m, "cpus", 0)));
  if (const auto m = about.find("simulated_machine"); m != about.end() && m->is_object())
    parts.push_back(fmt::format("simulated: {}, {} CPUs", m->value("title", ""), whole_or(*m, "cpus", 0)));
  if (about.contains("compiler")) parts.push_back(about["compiler"]);
  if (about.contains("commit")) parts.push_back("commit " + about["commit"].get<std::string>());
  if (about.contains("others_cpu_share"))
    parts.push_back(fmt::format("others took {:.1f} % of the CPU time", 100 * about["others_cpu_share"].get<double>()));
  if (about.contains("date")) parts.push_back(about["date"]);
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

/// The results in a file. An exit status after an error message, or 0.
int read_results(const std::string& file, merged_results& into) {
  try {
    add_results(read_input(file), into);
    return 0;
  } catch (const bad_input& e) {
    report_error("--merge {}: {}", file, e.what());
  } catch (const std::exception& e) {  // of a point's keys
    report_error("--merge {}: it has no results as --json writes them: {}", file, e.what());
  }
  return cannot_start;
}

}  // namespace

void add_results(const std::string& text, merged_results& into) {
  if (const char* const why = objection_to_json(text)) throw bad_input(why);
  const std::size_t before = into.results.size();
  if (auto whole = ordered_json::parse(text, nullptr, false); !whole.is_discarded() && whole.contains("points")) {
    make_printable(whole);
    for (const ordered_json& p : whole["points"]) into.results.push_back(result_from_json(p));
    whole.erase("points");
    if (!whole.empty()) into.headers.push_back(std::move(whole));
  } else {
    std::size_t number = 1;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line); number++) {
      if (line.empty()) continue;
      auto p = ordered_json::parse(line, nullptr, false);
      make_printable(p);
      if (p.is_discarded() || !p.contains("throughput"))
        throw bad_input(fmt::format("it is not what --json writes, and its line {} is not a point's result", number));
      into.results.push_back(result_from_json(p));
    }
  }
  if (into.results.size() == before) throw bad_input("it has no results");
}

ordered_json about(const merged_results& merged) {
  if (merged.headers.size() == 1) return merged.headers.front();
  ordered_json all = ordered_json::object();
  if (!merged.headers.empty()) all["merged"] = merged.headers;
  return all;
}

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

bool figure_outputs::write(const figure& f, const std::vector<point_result>& results, const ordered_json& about) {
  bool written = true;
  if (json_.wanted()) {
    ordered_json all = about;
    all["points"] = json_of(results);
    written = json_.write(all.dump(1) + "\n") && written;
  }
  if (csv_.wanted()) written = csv_.write(csv_of(results)) && written;
  if (!format_) return written;
  curve_chart c = chart_of(f, results, metric_, caption_of(about));
  if (!look_.title.empty()) c.title = look_.title;
  c.size = look_.pixels();
  c.x_scale = look_.horizontal();
  c.y_scale = look_.vertical();
  if (c.curves.empty() && !results.empty()) {
    report_error("--chart-metric {}: no point has it", metric_.name);
    return false;
  }
  return write_chart(chart_, c, *format_) && written;
}

int show(figure_outputs& to, const figure_options& o, const ordered_json& about,
         const std::vector<point_result>& results, bool all_well) {
  const figure f = figure_of(results);
  if (!results.empty()) {
    const std::size_t width = terminal_width();
    fmt::print("{}: operations a microsecond, median and range\n{}{}\n{}", title_of(f), table_text(f, width),
               legend_text(f), plot_text(f));
    if (o.details) fmt::print("{}", details_text(f, width));
    warn_of_unsettled(f);
  }
  const bool written = to.write(f, results, about);
  if (interrupted() != 0) return 128 + interrupted();
  return !written ? cannot_start : all_well ? 0 : 1;
}

int merge(const figure_options& o) {
  figure_outputs to;
  if (const int status = to.open(o); status != 0) return status;
  merged_results merged;
  for (const std::string& file : o.merge)
    if (const int status = read_results(file, merged); status != 0) return status;
  return show(to, o, about(merged), merged.results, true);
}

}  // namespace usher::cli
