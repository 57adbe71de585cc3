#include "lab/sweep/figure_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "support/measure/statistics.hpp"
#include "support/text/messages.hpp"
#include "support/text/table.hpp"

namespace usher::lab {
namespace {

std::string number(double v) {
  if (v >= 1000) return fmt::format("{:.0f}", v);
  return v >= 0.1 || v == 0 ? fmt::format("{:.3f}", v) : fmt::format("{:.3g}", v);
}

std::string median_and_range(const std::vector<double>& v) {
  if (v.empty()) return "-";
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return v.size() == 1 ? number(v.front())
                       : fmt::format("{} {}–{}", number(support::median(v)), number(*low), number(*high));
}

constexpr const char *unsettled_mark = "*", *states_mark = "!";

std::string marks_of(const repetitions& same) {
  return std::string(unsettled(same) != 0 ? unsettled_mark : "") + (has_two_states(same) ? states_mark : "");
}

/// Returns the measurement `count` divided by the operations of all threads.
std::vector<double> per_operation(const repetitions& same, std::optional<double> point_result::*count) {
  std::vector<double> all;
  for (const point_result* r : same)
    if (r->operations > 0) all.push_back((r->*count).value_or(0) / r->operations);
  return all;
}

/// Returns a cell of a table: the median throughput with its range and marks.
std::string cell(const series& s, double x) {
  const auto at = s.points.find(x);
  return at == s.points.end() ? "-" : median_and_range(throughputs(at->second)) + marks_of(at->second);
}

/// A row of details_text().
std::vector<std::string> details_of(const series& s, const repetitions& same) {
  const auto shown = [](const std::vector<double>& v, const char* format) {
    return v.empty() ? "-" : fmt::format(fmt::runtime(format), support::median(v));
  };
  const std::vector<double> shares = values(same, &point_result::smallest_share);
  return {s.name,
          median_and_range(throughputs(same)),
          shown(shares, "{:.2f}"),
          shares.empty() ? "-" : fmt::format("{:.2f}", *std::min_element(shares.begin(), shares.end())),
          shown(values(same, &point_result::gini), "{:.3f}"),
          shown(per_operation(same, &point_result::voluntary_switches), "{:.5f}"),
          shown(per_operation(same, &point_result::involuntary_switches), "{:.5f}")};
}

}  // namespace

std::string table_text(const figure& f, std::size_t width) {
  constexpr std::size_t many = 8;
  const std::set<double> counts = all_x(f);
  const bool row_a_lock = f.all.size() > many && f.all.size() > counts.size();
  std::vector<support::column> columns{{row_a_lock ? "lock" : f.x, !row_a_lock}};
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
  return support::format_table(columns, rows, width);
}

std::string legend_text(const figure& f) {
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

std::string plot_text(const figure& f) {
  constexpr std::size_t width = 64, letters = 26;
  double most = 0;
  for (const series& s : f.all)
    for (const auto& [threads, same] : s.points) most = std::max(most, support::median(throughputs(same)));
  if (most <= 0 || f.all.size() > letters) return "";
  const auto letter = [](std::size_t i) { return static_cast<char>('a' + i); };
  std::string text =
      fmt::format("{:>7}  0{:>{}} operations/µs\n", f.is_by_threads() ? f.x : "", number(most), width - 1);
  for (const double x : all_x(f)) {
    std::string line(width, ' ');
    for (std::size_t i = f.all.size(); i-- > 0;) {
      const auto at = f.all[i].points.find(x);
      if (at == f.all[i].points.end()) continue;
      const std::vector<double> v = throughputs(at->second);
      if (v.empty()) continue;
      const double place = support::median(v) / most * static_cast<double>(width - 1);
      if (place >= 0 && place < static_cast<double>(width))  // a file may have negative or huge throughputs
        line[static_cast<std::size_t>(place)] = letter(i);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:>7}  {}\n", x_value(x), line);
  }
  for (std::size_t i = 0; i < f.all.size(); i++)
    text += fmt::format("{}{} {}", i == 0 ? "         " : ", ", letter(i), f.all[i].name);
  return text + "\n";
}

std::string details_text(const figure& f, std::size_t width) {
  std::string text;
  for (const double x : all_x(f)) {
    std::vector<std::vector<std::string>> rows;
    for (const series& s : f.all)
      if (const auto at = s.points.find(x); at != s.points.end()) rows.push_back(details_of(s, at->second));
    text += (f.is_by_threads() ? fmt::format("\n{} thread{}\n", x_value(x), x == 1 ? "" : "s")
                               : fmt::format("\n{} {}\n", f.x, x_value(x))) +
            support::format_table({{"lock"},
                                   {"operations/µs", true},
                                   {"smallest", true},
                                   {"worst", true},
                                   {"Gini", true},
                                   {"voluntary", true},
                                   {"involuntary", true}},
                                  rows, width);
  }
  return text +
         "\nsmallest: the operations of the thread that had fewest, relative to an equal part; voluntary, involuntary: "
         "context switches an operation\n";
}

void warn_of_unsettled(const figure& f) {
  constexpr std::size_t most = 6;
  std::string list;
  std::size_t points = 0;
  for (const series& s : f.all)
    for (const auto& [x, same] : s.points) {
      const std::size_t n = unsettled(same);
      if (n == 0 || ++points > most) continue;
      list += fmt::format("{}{} with {} ({} of {} runs)", list.empty() ? "" : ", ", s.name,
                          f.is_by_threads() ? x_value(x) + " threads" : f.x + " " + x_value(x), n, same.size());
    }
  if (points == 0) return;
  if (points > most) list += fmt::format(" and {} more", points - most);
  support::warn("not settled, take a longer --warm-up or --ms: {}", list);
}

}  // namespace usher::lab
