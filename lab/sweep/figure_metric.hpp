// The metric that a chart shows: a measurement of each point, selected by name.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "lab/bench/programs/program.hpp"
#include "lab/sweep/sweep_point.hpp"

namespace usher::lab {

struct figure_metric {
  std::string name;
  std::string axis;          ///< in words, with its unit
  std::string group;         ///< the group of threads that is measured; empty: all threads
  bool of_one_lock = false;  ///< of simulated programs, only those that record the admissions of one lock have it
  bool of_arrays = false;    ///< of simulated programs, only those that read large arrays have it
  std::optional<double> (*measured)(const point_result&, const group_result&) = nullptr;

  /// Returns the metric of a point; nullopt if the point lacks it.
  std::optional<double> of(const point_result& r) const;
};

/// Finds a metric by its name: "throughput", "latency", …, or "guests.latency" for one group of threads. Throws
/// std::runtime_error.
figure_metric figure_metric_named(const std::string& name);

/// Throws std::runtime_error if the workload, which is one of `programs`, does not have the metric.
void check_metric(const figure_metric& m, const std::string& workload, std::span<const workloads::description> programs,
                  bool simulated);

/// The names, for help texts and error messages.
std::string figure_metric_names();

}  // namespace usher::lab
