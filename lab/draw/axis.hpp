// The axis of a chart: the position of a value, and the ticks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace usher::lab {

/// Automatic: decided by the values.
enum class scale { automatic, linear, logarithmic };

struct axis {
  double low, high;  ///< values, low < high; above 0 if logarithmic
  bool logarithmic;
  double begin, end;  ///< their places

  /// The position of a value, which may be beyond the ends.
  double at(double value) const;
};

struct tick {
  double value;
  std::string label;
};

/// `positive`: all values are above 0; `factor`: the greatest divided by the least.
bool is_logarithmic(scale chosen, bool positive, double factor);

/// Ticks at round values, as many as fit, at most `most`.
std::vector<tick> ticks(const axis& a, std::size_t most);

}  // namespace usher::lab
