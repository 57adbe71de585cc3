#include "lab/sweep/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <variant>

#include "lab/sweep/point_settings.hpp"

namespace usher::lab {
namespace {

/// The settings of one point as text: one element for each key that figures show, empty if the point has the default
/// value.
using settings_in_words = std::vector<std::string>;

/// The shortest decimal form: "0.5", but "1.0" for a whole number.
std::string decimal(double v) {
  return v == std::floor(v) && std::fabs(v) < 1e15 ? fmt::format("{:.1f}", v) : fmt::format("{}", v);
}

/// "ncs=0 cs=4".
template <class Pairs, class Text>
std::string listed(const Pairs& pairs, Text text) {
  std::string all;
  for (const auto& [key, value] : pairs) all += fmt::format("{}{}={}", all.empty() ? "" : " ", key, text(value));
  return all;
}

/// Converts a setting to text; the result is empty for the default value.
struct value_in_words {
  std::string operator()(bool value) const { return value ? "yes" : ""; }
  template <std::unsigned_integral T>
  std::string operator()(T value) const {
    return value != 0 ? fmt::format("{}", value) : "";
  }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::optional<std::uint64_t>& value) const {
    return value ? fmt::format("{}", *value) : "";
  }
  std::string operator()(const std::optional<double>& value) const { return value ? decimal(*value) : ""; }
  std::string operator()(const std::map<std::string, long>& values) const {
    return listed(values, [](long value) { return fmt::format("{}", value); });
  }
  std::string operator()(const machine_settings& settings) const {
    return listed(settings, [](const machine_value& v) { return v.is_text ? '"' + v.text + '"' : v.text; });
  }
  std::string operator()(const std::optional<varied_number>& v) const { return v ? v->key + "=" + v->value.text : ""; }
};

settings_in_words words_of(const sweep_point& p, const std::vector<const point_key*>& keys) {
  settings_in_words all;
  for (const point_key* k : keys) {
    const std::string value = std::visit([&p](auto member) { return value_in_words()(p.*member); }, k->member);
    if (value.empty() || k->said == words::value)
      all.push_back(value);
    else
      all.push_back(std::holds_alternative<bool sweep_point::*>(k->member) ? k->key : k->key + (" " + value));
  }
  return all;
}

/// Returns the machine's key that --vary changes, if the points differ in nothing else: its values are then the
/// horizontal axis. Otherwise the result is empty, and the horizontal axis is the number of threads.
std::string varied_alone(const std::vector<point_result>& results) {
  std::set<std::string> keys;
  std::set<unsigned> threads;
  std::set<double> numbers;
  for (const point_result& r : results) {
    const auto number = r.point.varied ? r.point.varied->value.number() : std::nullopt;
    if (!number) return "";
    keys.insert(r.point.varied->key);
    numbers.insert(*number);
    threads.insert(r.point.threads);
  }
  return keys.size() == 1 && threads.size() == 1 && numbers.size() > 1 ? *keys.begin() : "";
}

/// Returns the indices of the settings that differ among the points. The settings that all points have in common become
/// part of the figure's heading.
std::vector<std::size_t> telling_settings(figure& f, const std::vector<const point_key*>& keys,
                                          const std::vector<settings_in_words>& words) {
  std::vector<std::size_t> telling;
  for (std::size_t s = 0; s < keys.size(); ++s) {
    if (!f.is_by_threads() && keys[s] == &key_of(&sweep_point::varied)) continue;
    std::set<std::string> different;
    for (const settings_in_words& w : words) different.insert(w[s]);
    if (different.size() > 1) telling.push_back(s);
    if (different.size() != 1 || different.begin()->empty()) continue;
    const std::string& word = *different.begin();
    if (keys[s] == &key_of(&sweep_point::workload))
      f.workload = word;
    else if (keys[s] == &key_of(&sweep_point::machine))
      f.machine = word;
    else
      f.same += (f.same.empty() ? "" : ", ") + word;
  }
  return telling;
}

}  // namespace

figure figure_of(const std::vector<point_result>& results) {
  figure f;
  if (const std::string key = varied_alone(results); !key.empty()) {
    f.x = key;
    f.same = fmt::format("{} threads", results.front().point.threads);
  }
  const std::vector<const point_key*> keys = shown_keys(false);
  std::vector<settings_in_words> words;
  words.reserve(results.size());
  for (const point_result& r : results) words.push_back(words_of(r.point, keys));
  const std::vector<std::size_t> telling = telling_settings(f, keys, words);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const sweep_point& p = results[i].point;
    std::string name = p.lock;
    for (const std::size_t s : telling)
      if (!words[i][s].empty()) name += " " + words[i][s];
    auto at = std::find_if(f.all.begin(), f.all.end(), [&](const series& s) { return s.name == name; });
    if (at == f.all.end()) at = f.all.insert(at, series{name, p.lock, {}});
    repetitions& same = at->points[f.is_by_threads() ? p.threads : p.varied->value.number().value_or(0)];
    same.push_back(&results[i]);
    f.most_repetitions = std::max(f.most_repetitions, same.size());
  }
  return f;
}

std::string title_of(const figure& f) {
  return (f.workload.empty() ? "several workloads" : f.workload) + " on " +
         (f.machine.empty() ? "several machines" : f.machine);
}

std::set<double> all_x(const figure& f) {
  std::set<double> all;
  for (const series& s : f.all)
    for (const auto& [x, same] : s.points) all.insert(x);
  return all;
}

std::string x_value(double v) {
  return v == std::floor(v) && std::fabs(v) < 1e15 ? fmt::format("{:.0f}", v) : fmt::format("{:g}", v);
}

std::vector<double> values(const repetitions& same, std::optional<double> point_result::*measurement) {
  std::vector<double> all;
  for (const point_result* r : same)
    if (r->*measurement) all.push_back(*(r->*measurement));
  return all;
}

std::vector<double> throughputs(const repetitions& same) {
  std::vector<double> all;
  for (const point_result* r : same)
    if (r->all.throughput) all.push_back(*r->all.throughput);
  return all;
}

std::size_t unsettled(const repetitions& same) {
  return static_cast<std::size_t>(
      std::count_if(same.begin(), same.end(), [](const point_result* r) { return !r->settled; }));
}

bool has_two_states(const repetitions& same) {
  constexpr double factor = 1.5;
  if (same.size() < 2 ||
      !std::all_of(same.begin(), same.end(), [](const point_result* r) { return r->point.seed.has_value(); }))
    return false;
  const std::vector<double> v = throughputs(same);
  if (v.empty()) return false;
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return *high > factor * *low;
}

}  // namespace usher::lab
