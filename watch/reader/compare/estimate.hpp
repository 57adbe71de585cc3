// How exactly a share of the threads' time is known, from the windows of one run or from several runs.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "support/measure/statistics.hpp"

namespace usher::reader {

struct estimate {
  double value = 0;
  double variance = 0;        ///< of the value
  double freedom = HUGE_VAL;  ///< degrees of freedom of the variance
};

inline constexpr std::size_t fewest_windows = 8;

/// An estimate from the windows of a run: `waited` and `threads` are seconds by window, at least `fewest_windows`. Neighbouring
/// windows depend on each other, so the variance is that of the means of 8 to 16 batches of successive windows.
estimate of_windows(double value, std::span<const double> waited, std::span<const double> threads);
/// The mean of at least two runs.
estimate of_runs(std::span<const double> shares);
/// The interval of b − a that misses the true difference with this probability, by Welch's approximation with at most
/// `most_freedom` degrees of freedom.
support::interval difference(const estimate& a, const estimate& b, double miss, double most_freedom = HUGE_VAL);

}  // namespace usher::reader
