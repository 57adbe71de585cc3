// Results as a figure: a series for each lock, and within it the repetitions of each point.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/sweep/sweep_point.hpp"

namespace usher::cli {

/// Results that differ in nothing but the seed or round. They belong to the vector that the figure was made of.
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

/// A series has the lock's name, followed by all settings that differ among the points, as after --merge.
figure figure_of(const std::vector<point_result>& results);

std::string title_of(const figure& f);

/// The values of all series on the horizontal axis.
std::set<double> all_x(const figure& f);

/// "8", "0.5".
std::string x_value(double v);

/// The repetitions that have the measurement.
std::vector<double> values(const repetitions& same, std::optional<double> point_result::*measurement);
std::vector<double> throughputs(const repetitions& same);

// A median and a range do not show that a run was measured before it had settled, or that a lock has a good and a bad state and chance
// decides between them.

std::size_t unsettled(const repetitions& same);

/// Whether the throughputs of simulated runs, which have no noise but the seed, differ by a large factor.
bool has_two_states(const repetitions& same);

}  // namespace usher::cli
