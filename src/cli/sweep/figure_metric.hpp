// What a chart of a figure shows: a number of each point, by name.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace usher::cli {

struct figure_metric {
  std::string name;
  std::string axis;     ///< in words, with its unit
  std::string pointer;  ///< where in a point it stands, as JSON has it
  double scale = 1;
  bool an_operation = false;  ///< it is a count, of which an operation's share is meant
  bool of_times = false;      ///< it is of a group of times; there may have been none
  bool of_one_lock = false;   ///< a simulated program has it if one lock's admissions are seen …
  bool of_arrays = false;     ///< … and this if it reads large arrays

  /// Of threads that it is of; empty: all.
  std::string group() const { return name.substr(0, name.find('.') == std::string::npos ? 0 : name.rfind('.')); }
  /// Nothing where the point does not have it.
  std::optional<double> of(const nlohmann::ordered_json& point) const;
};

/// "throughput", "latency", …, and "guests.latency": of one group of threads. Throws std::runtime_error.
figure_metric figure_metric_named(const std::string& name);

/// The names, for help texts and complaints.
std::string figure_metric_names();

}  // namespace usher::cli
