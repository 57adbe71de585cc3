// Runs the points of a sweep, each in a process of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lab/sweep/sweep_options.hpp"
#include "lab/sweep/sweep_point.hpp"

namespace usher::lab {

/// The parts of running points in which `usher sim` and `usher bench` differ.
struct figure_command {
  const char* name;  ///< "sim"
  /// The error of a result; empty: none.
  std::function<std::string(const point_result& result)> judge;
};

/// Prints a command line for each point.
int list_points(const figure_command& c, const std::vector<planned_point>& points);

/// Runs the points in the order `order`, at most `jobs` at a time (0: one for each CPU), and prints their errors at the
/// end. Returns false if a point had an error.
bool run_points(const figure_command& c, const figure_options& o, unsigned jobs, const std::vector<std::size_t>& order,
                std::vector<planned_point>& points);

}  // namespace usher::lab
