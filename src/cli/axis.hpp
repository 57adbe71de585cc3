// The axis of a chart: which place a value has, and where the ticks are.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace usher::cli {

struct axis {
  double low, high;  ///< values, low < high; above 0 if logarithmic
  bool logarithmic;
  double begin, end;  ///< their places

  /// Beyond the ends for values beyond them.
  double at(double value) const;
};

struct tick {
  double value;
  std::string label;
};

/// At round values, as many as there is room for, at most `most`.
std::vector<tick> ticks(const axis& a, std::size_t most);

}  // namespace usher::cli
