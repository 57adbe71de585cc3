#include "cli/sweep/point_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "cli/text/input_file.hpp"

namespace usher::cli {

using nlohmann::ordered_json;

namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

// ---- values ----------------------------------------------------------------------------------------------------------

ordered_json to_json(const machine_value& v) {
  return v.is_text ? ordered_json(v.text) : ordered_json::parse(v.text);
}

machine_value value_from_json(const ordered_json& j) {
  return j.is_string() ? machine_value{j.get<std::string>(), true} : machine_value{j.dump(), false};
}

/// Absent if there is no such key. Throws for anything but an integer in this range.
std::optional<std::uint64_t> integer(const ordered_json& j, const char* key, std::uint64_t least = 0,
                                     std::uint64_t most = unlimited) {
  const auto at = j.find(key);
  if (at == j.end()) return std::nullopt;
  if (!at->is_number_unsigned() || at->get<std::uint64_t>() < least || at->get<std::uint64_t>() > most)
    throw std::runtime_error(
        fmt::format("the point's {} is {}, no whole number from {} to {}", key, at->dump(), least, most));
  return at->get<std::uint64_t>();
}

/// A measurement: absent, null, or a number from 0 on. Those that are differences of sums may be a little below.
double measured(const ordered_json& value, const char* key) {
  constexpr double rounding = 1e-9;
  const double v = value.is_number() ? value.get<double>() : -1;
  if (!(v >= -rounding) || !std::isfinite(v))
    throw bad_input(fmt::format("its {} is {}, no number from 0 on", key, value.dump().substr(0, 40)));
  return v;
}

std::optional<double> number(const ordered_json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || at->is_null() ? std::nullopt : std::optional(measured(*at, key));
}

std::optional<workloads::durations> durations(const ordered_json& j, const char* key) {
  const auto at = j.find(key);
  if (at == j.end() || !at->is_object()) return std::nullopt;
  workloads::durations d;
  d.mean = number(*at, "mean").value_or(0);
  d.median = whole_or(*at, "median", std::uint64_t{0});
  d.p99 = whole_or(*at, "p99", std::uint64_t{0});
  d.longest = whole_or(*at, "longest", std::uint64_t{0});
  return d.longest == 0 ? std::nullopt : std::optional(d);  // 0: no such duration was measured
}

// ---- points ----------------------------------------------------------------------------------------------------------

}  // namespace

ordered_json to_json(const machine_settings& settings) {
  ordered_json j = ordered_json::object();
  for (const auto& [key, value] : settings) j[key] = to_json(value);
  return j;
}

namespace {

ordered_json to_json(const sweep_point& p) {
  ordered_json j;
  j["workload"] = p.workload;
  j["machine"] = p.machine;
  if (!p.machine_hash.empty()) j["machine_hash"] = p.machine_hash;
  j["lock"] = p.lock;
  j["threads"] = p.threads;
  if (p.seed) j["seed"] = *p.seed;
  if (p.round) j["round"] = *p.round;
  j["run_ns"] = p.run_ns;
  if (p.pinned) j["pinned"] = true;
  for (const auto& [name, value] : p.parameters) j["parameters"][name] = value;
  if (p.jitter) j["jitter"] = *p.jitter;
  if (!p.settings.empty()) j["machine_settings"] = to_json(p.settings);
  if (p.varied) j["vary"] = {{"key", p.varied->key}, {"value", to_json(p.varied->value)}};
  if (p.others != 0) j["others"] = p.others;
  if (p.spin_ns) j["spin_ns"] = *p.spin_ns;
  if (!p.placement.empty()) j["placement"] = p.placement;
  if (p.together) j["together"] = true;
  if (p.warm_up_ns) j["warm_up_ns"] = *p.warm_up_ns;
  return j;
}

void read_simulated(sweep_point& p, const ordered_json& j) {
  if (const auto jitter = j.find("jitter"); jitter != j.end()) p.jitter = jitter->get<double>();
  if (const auto settings = j.find("machine_settings"); settings != j.end()) {
    if (!settings->is_object()) throw std::runtime_error("the point's machine_settings are no object");
    for (const auto& [key, value] : settings->items()) p.settings.emplace_back(key, value_from_json(value));
  }
  if (const auto v = j.find("vary"); v != j.end())
    p.varied = varied_number{v->at("key").get<std::string>(), value_from_json(v->at("value"))};
  p.others = static_cast<unsigned>(integer(j, "others", 0, most_others).value_or(0));
  p.spin_ns = integer(j, "spin_ns", 0, most_spin_ns);
  p.placement = j.value("placement", "");
  p.together = j.value("together", false);
  p.warm_up_ns = integer(j, "warm_up_ns", 0, static_cast<std::uint64_t>(most_warm_up_ms * 1e6));
}

sweep_point point_from_json(const ordered_json& j) {
  sweep_point p;
  p.workload = j.value("workload", "");
  p.machine = j.value("machine", "");
  p.machine_hash = j.value("machine_hash", "");
  p.lock = j.at("lock").get<std::string>();
  p.threads = static_cast<unsigned>(integer(j, "threads", 1, most_threads).value_or(1));
  p.seed = integer(j, "seed");
  p.round = integer(j, "round");
  p.run_ns = integer(j, "run_ns", 1, longest_run_ns).value_or(0);
  p.pinned = j.value("pinned", false);
  if (const auto parameters = j.find("parameters"); parameters != j.end())
    for (const auto& [name, value] : parameters->items()) p.parameters[name] = whole(value);
  read_simulated(p, j);
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
      return parsed_json<ordered_json>(text);
    } catch (const bad_input& e) {
      throw bad_input(std::string("--point: ") + e.what());
    }
  }();
  for (const char* key : {"workload", "machine", "lock", "threads", "run_ns"}) static_cast<void>(j.at(key));
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
  ordered_json kept = j;  // files have the build in their header
  for (const auto& [key, value] : {std::pair{"usher", &r.usher}, {"commit", &r.commit}}) {
    *value = j.value(key, "");
    kept.erase(key);
  }
  r.json = kept.dump();
  return r;
}

void print_result(const std::string& point, const std::string& commit, const ordered_json& measured) {
  ordered_json all = ordered_json::parse(point);
  all["usher"] = USHER_VERSION;
  all["commit"] = commit;
  all.update(measured);
  fmt::print("{}\n", all.dump());
}

// ---- measurements ----------------------------------------------------------------------------------------------------

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

}  // namespace usher::cli
