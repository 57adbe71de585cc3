// Results as a figure: a series for each lock, and within it the repetitions of each point.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lab/sweep/sweep_point.hpp"

namespace usher::lab {

/// Results of points that differ only in the seed or round. The pointers point into the vector from which the figure
/// was made.
using repetitions = std::vector<const point_result*>;

struct series {
  std::string name, lock;
  std::map<double, repetitions> points;  ///< by the number of threads, or by the number of the machine that is varied
};

struct figure {
  std::vector<series> all;        ///< in the order of their first results
  std::string workload, machine;  ///< empty: several
  std::string x = "threads";      ///< or the key of the machine that is varied
  std::string same;               ///< the common settings of all points
  std::size_t most_repetitions = 0;

  bool is_by_threads() const { return x == "threads"; }
};

/// Makes a figure of results. A series is named after its lock and the settings that differ among the points.
figure figure_of(const std::vector<point_result>& results);

std::string title_of(const figure& f);

/// Returns the values on the horizontal axis, of all series.
std::set<double> all_x(const figure& f);

/// "8", "0.5".
std::string x_value(double v);

/// Returns a measurement of each repetition that has it.
std::vector<double> values(const repetitions& same, std::optional<double> point_result::*measurement);
std::vector<double> throughputs(const repetitions& same);

// The next two functions find problems that a median and a range hide: runs that were measured before they had settled,
// and a lock with a fast and a slow state between which chance decides.

std::size_t unsettled(const repetitions& same);

/// Whether the throughputs of simulated runs differ by a large factor. Only the seed varies between these runs.
bool has_two_states(const repetitions& same);

}  // namespace usher::lab
