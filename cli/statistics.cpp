#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

namespace usher::cli {
namespace {

/// The two-sided 95 % point of Student's distribution with n − 1 degrees of freedom.
double student(std::size_t n) {
  static constexpr double points[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                      2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093};
  return n - 2 < std::size(points) ? points[n - 2] : 1.96 + 2.4 / static_cast<double>(n - 1);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

interval bootstrap(const std::vector<double>& values) {
  const std::size_t n = values.size();
  if (n < 2) return {-HUGE_VAL, HUGE_VAL};
  constexpr std::size_t samples = 10000;
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> any(0, n - 1);
  std::vector<double> medians, sample(n);
  medians.reserve(samples);
  for (std::size_t s = 0; s < samples; ++s) {
    for (double& v : sample) v = values[any(random)];
    medians.push_back(median(sample));
  }
  std::sort(medians.begin(), medians.end());
  const double size = static_cast<double>(n);
  const double tail = std::erfc(std::sqrt(size / (size - 1)) * student(n) / std::sqrt(2.0)) / 2;
  const auto at = static_cast<std::size_t>(tail * samples);
  return {medians[at], medians[samples - 1 - at]};
}

}  // namespace usher::cli
