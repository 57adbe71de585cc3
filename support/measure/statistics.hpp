// Medians of a few runs.
#pragma once

#include <cmath>
#include <vector>

namespace usher::support {

/// The median; not a number if there are no values.
double median(std::vector<double> values);
double median_of_sorted(const std::vector<double>& sorted);

struct interval {
  double low = -HUGE_VAL, high = HUGE_VAL;
};

}  // namespace usher::support
