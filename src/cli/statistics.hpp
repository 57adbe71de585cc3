// What can be said of a few runs.
#pragma once

#include <cstddef>
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

/// An interval that misses the median of what the values were drawn from with a probability of at most `error`, however that
/// is distributed: between two of the values (the sign test's). Infinite if there are too few.
interval between_values(std::vector<double> values, double error);
/// How many values that takes at least.
std::size_t fewest_values(double error);

}  // namespace usher::cli
