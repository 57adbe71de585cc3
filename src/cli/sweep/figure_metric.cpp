#include "cli/sweep/figure_metric.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "catalog/names.hpp"
#include "catalog/suggestion.hpp"

namespace usher::cli {

using nlohmann::ordered_json;

namespace {

struct known_metric {
  const char *name, *axis, *pointer;
  double scale = 1;
  bool an_operation = false, of_times = false;
  bool of_groups = false;  ///< is also said of groups of threads
  bool of_one_lock = false, of_arrays = false;
};

constexpr known_metric metrics[]{
    {"throughput", "operations a microsecond; more is better", "/throughput", 1, false, false, true},
    {"latency", "mean wait for the lock, µs; less is better", "/wait_ns/mean", 1e-3, false, true, true, true},
    {"latency-p99", "wait that 1 % of the admissions exceed, µs; less is better", "/wait_ns/p99", 1e-3, false, true,
     true, true},
    {"latency-longest", "longest wait for the lock, µs; less is better", "/wait_ns/longest", 1e-3, false, true, true,
     true},
    {"hand-over", "median hand-over, from unlock to the next admission, ns; less is better", "/hand_over_ns/median", 1,
     false, true, false, true},
    {"lwss", "threads among 1000 admissions (LWSS)", "/lwss", 1, false, false, false, true},
    {"mttr", "median admissions until a thread has the lock again", "/mttr", 1, false, false, false, true},
    {"utilisation", "part of the time in which the lock is held", "/utilisation", 1, false, false, false, true},
    {"gini", "Gini coefficient of the threads' operations; 0 where all have the same", "/gini"},
    {"cpus", "CPUs in use", "/cpus_used"},
    {"switches", "voluntary context switches an operation", "/voluntary_switches", 1, true},
    {"misses", "last-level cache misses an operation", "/misses", 1, true, false, false, false, true},
};

}  // namespace

std::optional<double> figure_metric::of(const ordered_json& point) const {
  const ordered_json::json_pointer at(pointer);
  if (!point.contains(at) || !point.at(at).is_number()) return std::nullopt;
  if (of_times && point.at(at.parent_pointer()).value("longest", 0.0) == 0) return std::nullopt;
  const double value = scale * point.at(at).get<double>();
  if (!an_operation) return value;
  double operations = 0;
  for (const ordered_json& n : point.at("operations")) operations += n.get<double>();
  return operations > 0 ? std::optional(value / operations) : std::nullopt;
}

figure_metric figure_metric_named(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == 0 || (dot != std::string::npos && dot + 1 == name.size()))
    throw std::runtime_error(
        fmt::format("--chart-metric: '{}' is neither a metric nor GROUP.METRIC, as guests.latency", name));
  const std::string group = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string rest = dot == std::string::npos ? name : name.substr(dot + 1);
  nearest_name nearest(rest);
  for (const known_metric& m : metrics) {
    if (!group.empty() && !m.of_groups) continue;
    nearest.consider(m.name);
    if (rest != m.name) continue;
    figure_metric found{name, m.axis, m.pointer, m.scale, m.an_operation, m.of_times, m.of_one_lock, m.of_arrays};
    if (dot != std::string::npos) {
      found.axis = group + ": " + found.axis;
      found.pointer = "/groups/" + group + found.pointer;
    }
    return found;
  }
  std::string near(nearest.best());
  if (!near.empty() && !group.empty()) near = group + "." + near;
  throw std::runtime_error(
      fmt::format("--chart-metric: unknown '{}'{} (there are {})", name, did_you_mean(near), figure_metric_names()));
}

std::string figure_metric_names() {
  std::string all;
  for (const known_metric& m : metrics) all += (all.empty() ? "" : ", ") + std::string(m.name);
  return all;
}

}  // namespace usher::cli
