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

interval between_values(std::vector<double> values, double error) {
  const std::size_t n = values.size();
  if (n == 0 || n < fewest_values(error)) return {-HUGE_VAL, HUGE_VAL};
  std::sort(values.begin(), values.end());
  // The chance that at most `left` of n values are on one side of the median; their number if it grows by one.
  double chance = std::ldexp(1.0, -static_cast<int>(n)), next = chance;
  std::size_t left = 0;
  for (;;) {
    next *= static_cast<double>(n - left) / static_cast<double>(left + 1);
    if (2 * (chance + next) > error) break;
    chance += next;
    ++left;
  }
  return {values[left], values[n - 1 - left]};
}

std::size_t fewest_values(double error) {
  std::size_t n = 1;
  while (std::ldexp(2.0, -static_cast<int>(n)) > error) ++n;
  return n;
}

}  // namespace usher::cli
