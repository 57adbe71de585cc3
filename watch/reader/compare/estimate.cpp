#include "watch/reader/compare/estimate.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <numeric>
#include <vector>

namespace usher::reader {
namespace {

constexpr std::size_t fewest_batches = 8, most_batches = 16, windows_a_batch = 4;  // chosen

}  // namespace

estimate of_windows(double value, std::span<const double> waited, std::span<const double> threads) {
  const std::size_t windows = std::min(waited.size(), threads.size());
  const std::size_t batches = std::min(windows, std::clamp(windows / windows_a_batch, fewest_batches, most_batches));
  std::vector<double> waits(batches), times(batches);
  for (std::size_t i = 0; i < windows; i++) {
    waits[i * batches / windows] += waited[i];
    times[i * batches / windows] += threads[i];
  }
  const double time = std::accumulate(times.begin(), times.end(), 0.0);
  const double all = std::accumulate(waits.begin(), waits.end(), 0.0);
  if (batches < 2 || !(time > 0)) return {value, value * value, 1};
  const double ratio = all / time;
  double squares = 0;  // of what each batch differs from its part
  for (std::size_t b = 0; b < batches; b++) squares += std::pow(waits[b] - ratio * times[b], 2);
  const auto n = static_cast<double>(batches);
  return {value, n / (n - 1) * squares / (time * time), n - 1};
}

estimate of_runs(std::span<const double> shares) {
  const auto n = static_cast<double>(shares.size());
  const double mean = std::accumulate(shares.begin(), shares.end(), 0.0) / n;
  double squares = 0;
  for (const double s : shares) squares += (s - mean) * (s - mean);
  return {mean, squares / (n - 1) / n, n - 1};
}

support::interval difference(const estimate& a, const estimate& b, double miss, double most_freedom) {
  const double middle = b.value - a.value, variance = a.variance + b.variance;
  if (!(variance > 0)) return {middle, middle};
  const double spread = a.variance * a.variance / a.freedom + b.variance * b.variance / b.freedom;
  const double freedom = spread > 0 ? variance * variance / spread : HUGE_VAL;
  const boost::math::students_t distribution(std::clamp(freedom, 1.0, std::min(most_freedom, 1e6)));
  const double half = boost::math::quantile(boost::math::complement(distribution, miss / 2)) * std::sqrt(variance);
  return {middle - half, middle + half};
}

}  // namespace usher::reader
