// usher sim --trace: the steps of one simulated point.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/sim/harness.hpp"

namespace CLI {
class App;
}

namespace usher::lab {

struct trace_options {
  double us = 0;  ///< 0: no trace
  std::uint64_t seed = 1;
};

void add_trace_options(CLI::App& to, trace_options& o);

/// Prints the first microseconds of the measured time of a point. Throws std::runtime_error if there is more than one point.
int show_trace(const sim::machine& m, std::vector<sim::point> points, const trace_options& o);

}  // namespace usher::lab
