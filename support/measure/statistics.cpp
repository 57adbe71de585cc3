#include "support/measure/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace usher::support {

double median_of_sorted(const std::vector<double>& sorted) {
  if (sorted.empty()) return std::nan("");
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 != 0 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return median_of_sorted(values);
}

}  // namespace usher::support
