// What can be said of a few runs.
#pragma once

#include <vector>

namespace usher::cli {

double median(std::vector<double> values);

struct interval {
  double low, high;
};

/// A 95 % bootstrap interval of the median: percentile, widened for small samples as Hesterberg, "What Teachers Should Know
/// About the Bootstrap" (2015), section 4.1.1 has it, since the plain percentile interval of a handful of values is too
/// narrow. The same values give the same interval.
interval bootstrap(const std::vector<double>& values);

}  // namespace usher::cli
