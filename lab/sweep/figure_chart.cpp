#include "lab/sweep/figure_chart.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "support/measure/statistics.hpp"

namespace usher::lab {
namespace {

/// The seeds of the points as text: "seeds 1–5", "seeds 1, 4"; empty if the points have none.
std::string seeds_of(const std::vector<point_result>& results) {
  std::set<std::uint64_t> seeds;
  for (const point_result& r : results)
    if (r.point.seed) seeds.insert(*r.point.seed);
  if (seeds.empty()) return "";
  const std::uint64_t first = *seeds.begin(), last = *seeds.rbegin();
  if (seeds.size() == 1) return fmt::format("seed {}", first);
  if (last - first + 1 == seeds.size()) return fmt::format("seeds {}–{}", first, last);
  return fmt::format("seeds {}", fmt::join(seeds, ", "));
}

/// A text for the caption: "median and range of 5 seeds".
std::string repetitions_of(const figure& f, const std::vector<point_result>& results) {
  const auto all_have = [&](std::optional<std::uint64_t> sweep_point::*number) {
    return std::all_of(results.begin(), results.end(),
                       [number](const point_result& r) { return (r.point.*number).has_value(); });
  };
  const char* const noun = all_have(&sweep_point::seed) ? "seed" : all_have(&sweep_point::round) ? "round" : "run";
  if (f.most_repetitions == 1) return fmt::format("1 {}", noun);
  return fmt::format("median and range of {} {}s", f.most_repetitions, noun);
}

/// The curve of a series. Points that do not have the metric are left out.
curve curve_of(const series& s, const figure_metric& m) {
  curve c{s.name, s.lock, {}};
  for (const auto& [x, same] : s.points) {
    std::vector<double> v;
    for (const point_result* r : same)
      if (const auto value = m.of(*r)) v.push_back(*value);
    if (v.empty()) continue;
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    c.points.push_back({x, support::median(v), *low, *high, unsettled(same) == 0});
  }
  return c;
}

}  // namespace

curve_chart chart_of(const figure& f, const std::vector<point_result>& results, const figure_metric& m,
                     const std::vector<std::string>& caption) {
  curve_chart c;
  c.title = title_of(f);
  c.subtitle = f.same;
  if (!results.empty()) c.subtitle += (c.subtitle.empty() ? "" : "; ") + repetitions_of(f, results);
  c.x_name = f.x;
  c.y_name = m.axis;
  bool all_settled = true;
  for (const series& s : f.all) {
    curve one = curve_of(s, m);
    if (one.points.empty()) continue;
    for (const curve_point& p : one.points) all_settled = all_settled && p.settled;
    c.curves.push_back(std::move(one));
  }
  if (!all_settled) c.caption.emplace_back("hollow: a run has not settled");
  c.caption.insert(c.caption.end(), caption.begin(), caption.end());
  if (std::string seeds = seeds_of(results); !seeds.empty()) c.caption.push_back(std::move(seeds));
  return c;
}

}  // namespace usher::lab
