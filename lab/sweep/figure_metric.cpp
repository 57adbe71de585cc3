#include "lab/sweep/figure_metric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "library/catalog/names.hpp"
#include "library/catalog/suggestion.hpp"

namespace usher::lab {
namespace {

using measurement = std::optional<double>;

measurement an_operation(const point_result& r, measurement count) {
  return count && r.operations > 0 ? measurement(*count / r.operations) : std::nullopt;
}

using all_of = const point_result&;
using group_of = const group_result&;

struct known_metric {
  const char *name, *axis;
  measurement (*measured)(all_of, group_of);
  bool of_groups = false;  ///< also exists for groups of threads
  bool of_one_lock = false, of_arrays = false;
};

constexpr known_metric metrics[]{
    {"throughput", "operations a microsecond; more is better", [](all_of, group_of g) { return g.throughput; }, true},
    {"latency", "mean wait for the lock, µs; less is better",
     [](all_of, group_of g) { return g.waits ? measurement(1e-3 * g.waits->mean) : std::nullopt; }, true, true},
    {"latency-p99", "wait that 1 % of the admissions exceed, µs; less is better",
     [](all_of, group_of g) { return g.waits ? measurement(1e-3 * static_cast<double>(g.waits->p99)) : std::nullopt; },
     true, true},
    {"latency-longest", "longest wait for the lock, µs; less is better",
     [](all_of, group_of g) {
       return g.waits ? measurement(1e-3 * static_cast<double>(g.waits->longest)) : std::nullopt;
     },
     true, true},
    {"hand-over", "median hand-over, from unlock to the next admission, ns; less is better",
     [](all_of r, group_of) { return r.hand_overs ? measurement(r.hand_overs->median) : std::nullopt; }, false, true},
    {"lwss", "threads among 1000 admissions (LWSS)", [](all_of r, group_of) { return r.lwss; }, false, true},
    {"mttr", "median admissions until a thread has the lock again", [](all_of r, group_of) { return r.mttr; }, false,
     true},
    {"utilisation", "part of the time in which the lock is held", [](all_of r, group_of) { return r.utilisation; },
     false, true},
    {"gini", "Gini coefficient of the threads' operations; 0 where all have the same",
     [](all_of r, group_of) { return r.gini; }},
    {"cpus", "CPUs in use", [](all_of r, group_of) { return r.cpus_used; }},
    {"switches", "voluntary context switches an operation",
     [](all_of r, group_of) { return an_operation(r, r.voluntary_switches); }},
    {"misses", "last-level cache misses an operation", [](all_of r, group_of) { return an_operation(r, r.misses); },
     false, false, true},
};

}  // namespace

std::optional<double> figure_metric::of(const point_result& r) const {
  if (group.empty()) return measured(r, r.all);
  const auto at = r.groups.find(group);
  return at == r.groups.end() ? std::nullopt : measured(r, at->second);
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
    const std::string axis = group.empty() ? m.axis : group + ": " + m.axis;
    return {name, axis, group, m.of_one_lock, m.of_arrays, m.measured};
  }
  std::string near(nearest.best());
  if (!near.empty() && !group.empty()) near = group + "." + near;
  throw std::runtime_error(
      fmt::format("--chart-metric: unknown '{}'{} (there are {})", name, did_you_mean(near), figure_metric_names()));
}

void check_metric(const figure_metric& metric, const std::string& workload,
                  std::span<const workloads::description> programs, bool simulated) {
  const std::string& group = metric.group;
  const auto has = [&](const workloads::description& w) {
    return (w.some != nullptr && w.some == group) || (w.others != nullptr && w.others == group);
  };
  const auto asked = std::find_if(programs.begin(), programs.end(), [&](const auto& w) { return w.name == workload; });
  if (asked == programs.end()) return;
  if (simulated && metric.of_one_lock && !asked->one_lock)
    throw std::runtime_error(
        fmt::format("--chart-metric {}: {} has no one lock whose admissions are seen", metric.name, workload));
  if (simulated && metric.of_arrays && !asked->arrays)
    throw std::runtime_error(
        fmt::format("--chart-metric {}: {} reads no arrays that caches matter for", metric.name, workload));
  if (group.empty() || has(*asked)) return;
  throw std::runtime_error(
      fmt::format("--chart-metric {}: {} has no threads that are called {}{}", metric.name, workload, group,
                  asked->some == nullptr ? "" : fmt::format(", but {} and {}", asked->some, asked->others)));
}

std::string figure_metric_names() {
  std::string all;
  for (const known_metric& m : metrics) all += (all.empty() ? "" : ", ") + std::string(m.name);
  return all;
}

}  // namespace usher::lab
