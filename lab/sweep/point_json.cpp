#include "lab/sweep/point_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <variant>

#include "lab/sweep/point_settings.hpp"
#include "support/text/input_file.hpp"
#include "support/text/json_fields.hpp"

namespace usher::lab {

using nlohmann::ordered_json;

// ---- values ----------------------------------------------------------------------------------------------------------

static ordered_json to_json(const machine_value& v) {
  return v.is_text ? ordered_json(v.text) : ordered_json::parse(v.text);
}

namespace {

machine_value value_of(const ordered_json& j) {
  return j.is_string() ? machine_value{j.get<std::string>(), true} : machine_value{j.dump(), false};
}

/// Reads the integer of a key; nullopt if the key is absent. Throws if the value is not an integer in the key's range.
std::optional<std::uint64_t> integer(const ordered_json& j, const point_key& k) {
  const auto at = j.find(k.key);
  if (at == j.end()) return std::nullopt;
  if (!at->is_number_unsigned() || at->get<std::uint64_t>() < k.least || at->get<std::uint64_t>() > k.most)
    throw std::runtime_error(
        fmt::format("the point's {} is {}, no whole number from {} to {}", k.key, at->dump(), k.least, k.most));
  return at->get<std::uint64_t>();
}

/// Reads a measurement, which is at least 0. A slightly negative value becomes 0: it is the rounding error of a
/// difference of sums.
double measured(const ordered_json& value, const char* key) {
  constexpr double rounding = 1e-9;
  const double v = value.is_number() ? value.get<double>() : -1;
  if (!(v >= -rounding) || !std::isfinite(v))
    throw support::bad_input(fmt::format("its {} is {}, no number from 0 on", key, value.dump().substr(0, 40)));
  return v;
}

std::optional<double> number(const ordered_json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || at->is_null() ? std::nullopt : std::optional(measured(*at, key));
}

std::optional<support::durations> durations(const ordered_json& j, const char* key) {
  const auto at = j.find(key);
  if (at == j.end() || !at->is_object()) return std::nullopt;
  support::durations d;
  d.mean = number(*at, "mean").value_or(0);
  d.median = support::whole_or(*at, "median", std::uint64_t{0});
  d.p99 = support::whole_or(*at, "p99", std::uint64_t{0});
  d.longest = support::whole_or(*at, "longest", std::uint64_t{0});
  return d.longest == 0 ? std::nullopt : std::optional(d);  // 0: no such duration was measured
}

// ---- points ----------------------------------------------------------------------------------------------------------

}  // namespace

ordered_json to_json(const machine_settings& settings) {
  ordered_json j = ordered_json::object();
  for (const auto& [key, value] : settings) j[key] = to_json(value);
  return j;
}

constexpr auto json_fields(const varied_number*) {
  return std::tuple(support::field("key", &varied_number::key), support::field("value", &varied_number::value));
}

namespace {

/// Reads the value of a key into a member of the point. If the key is absent, the member keeps its value.
struct value_from_json {
  const ordered_json& from;
  const point_key& k;

  void operator()(bool& to) const { to = from.value(k.key, to); }
  template <std::unsigned_integral T>
  void operator()(T& to) const {
    to = static_cast<T>(integer(from, k).value_or(to));
  }
  void operator()(std::string& to) const {
    to = k.need == needed::in_results ? from.at(k.key).get<std::string>() : from.value(k.key, to);
  }
  void operator()(std::optional<std::uint64_t>& to) const { to = integer(from, k); }
  void operator()(std::optional<double>& to) const {
    if (const auto at = from.find(k.key); at != from.end()) to = at->get<double>();
  }
  void operator()(std::map<std::string, long>& to) const {
    if (const auto at = from.find(k.key); at != from.end())
      for (const auto& [name, value] : at->items()) to[name] = support::whole(value);
  }
  void operator()(machine_settings& to) const {
    const auto at = from.find(k.key);
    if (at == from.end()) return;
    if (!at->is_object()) throw std::runtime_error(fmt::format("the point's {} are no object", k.key));
    for (const auto& [key, value] : at->items()) to.emplace_back(key, value_of(value));
  }
  void operator()(std::optional<varied_number>& to) const {
    if (const auto at = from.find(k.key); at != from.end())
      to = varied_number{at->at("key").get<std::string>(), value_of(at->at("value"))};
  }
};

ordered_json to_json(const sweep_point& p) {
  ordered_json j;
  for (const point_key& k : point_keys)
    std::visit(
        [&](auto member) {
          if (k.need != needed::no || !support::is_empty(p.*member)) j[k.key] = support::json_value(p.*member);
        },
        k.member);
  return j;
}

sweep_point point_from_json(const ordered_json& j) {
  sweep_point p;
  for (const point_key& k : point_keys) std::visit([&](auto member) { value_from_json{j, k}(p.*member); }, k.member);
  return p;
}

group_result group_from_json(const ordered_json& j) {
  return {number(j, "throughput"), durations(j, "wait_ns")};
}

}  // namespace

std::string json_text(const sweep_point& p) {
  return to_json(p).dump();
}

sweep_point point_from_text(const std::string& text) {
  const ordered_json j = [&] {
    try {
      return support::parsed_json<ordered_json>(text);
    } catch (const support::bad_input& e) {
      throw support::bad_input(std::string("--point: ") + e.what());
    }
  }();
  for (const point_key& k : point_keys)
    if (k.need != needed::no) static_cast<void>(j.at(k.key));
  sweep_point p = point_from_json(j);
  if (!p.seed && !p.round) throw std::runtime_error("the point has neither a seed nor a round");
  return p;
}

point_result result_from_json(const ordered_json& j) {
  point_result r;
  r.point = point_from_json(j);
  r.all = group_from_json(j);
  if (const auto groups = j.find("groups"); groups != j.end())
    for (const auto& [name, group] : groups->items()) r.groups[name] = group_from_json(group);
  if (const auto each = j.find("operations"); each != j.end())
    r.operations = std::accumulate(each->begin(), each->end(), 0.0,
                                   [](double sum, const ordered_json& n) { return sum + measured(n, "operations"); });
  r.settled = j.value("settled", true);
  if (const auto exclusive = j.find("exclusive"); exclusive != j.end()) r.exclusive = exclusive->get<bool>();
  r.gini = number(j, "gini");
  r.smallest_share = number(j, "smallest_share");
  r.lwss = number(j, "lwss");
  r.mttr = number(j, "mttr");
  r.utilisation = number(j, "utilisation");
  r.cpus_used = number(j, "cpus_used");
  r.voluntary_switches = number(j, "voluntary_switches");
  r.involuntary_switches = number(j, "involuntary_switches");
  r.misses = number(j, "misses");
  r.hand_overs = durations(j, "hand_over_ns");
  ordered_json kept = j;
  for (const auto& [key, value] : {std::pair{"usher", &r.usher}, {"commit", &r.commit}}) {
    *value = j.value(key, "");
    if (!r.point.seed) kept.erase(key);  // files of usher bench have the build in their header
  }
  r.json = kept.dump();
  return r;
}

}  // namespace usher::lab
