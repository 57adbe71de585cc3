#include "support/measure/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace usher::support {

double gini(std::span<const std::uint64_t> shares) {
  std::vector<std::uint64_t> sorted(shares.begin(), shares.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  double sum = 0, weighted = 0;
  for (std::size_t i = 0; i < sorted.size(); i++) {
    sum += static_cast<double>(sorted[i]);
    weighted += static_cast<double>(i + 1) * static_cast<double>(sorted[i]);
  }
  return sum == 0 ? 0 : 2 * weighted / (n * sum) - (n + 1) / n;
}

double relative_deviation(std::span<const std::uint64_t> shares) {
  const auto n = static_cast<double>(shares.size());
  double sum = 0, squares = 0;
  for (const std::uint64_t s : shares) sum += static_cast<double>(s);
  if (sum == 0) return 0;
  const double mean = sum / n;
  for (const std::uint64_t s : shares) squares += (static_cast<double>(s) - mean) * (static_cast<double>(s) - mean);
  return std::sqrt(squares / n) / mean;
}

double smallest_share(std::span<const std::uint64_t> shares) {
  double sum = 0;
  for (const std::uint64_t s : shares) sum += static_cast<double>(s);
  if (sum == 0) return 0;
  const auto least = static_cast<double>(*std::min_element(shares.begin(), shares.end()));
  return least * static_cast<double>(shares.size()) / sum;
}

double working_set(std::span<const std::uint16_t> history, std::size_t window) {
  if (history.empty()) return 0;
  if (history.size() < window) window = history.size();
  std::vector<std::size_t> last(std::size_t{1} << 16, ~std::size_t{0});  // the window in which a thread was seen
  std::size_t windows = 0, seen = 0;
  for (; (windows + 1) * window <= history.size(); windows++)
    for (std::size_t i = windows * window; i < (windows + 1) * window; i++)
      if (std::exchange(last[history[i]], windows) != windows) seen++;
  return static_cast<double>(seen) / static_cast<double>(windows);
}

double median_reacquire(std::span<const std::uint16_t> history) {
  std::vector<std::size_t> last(std::size_t{1} << 16, ~std::size_t{0});
  std::vector<std::uint64_t> times;
  for (std::size_t i = 0; i < history.size(); i++) {
    if (last[history[i]] != ~std::size_t{0}) times.push_back(i - last[history[i]] - 1);
    last[history[i]] = i;
  }
  return static_cast<double>(percentile(times, 0.5));
}

std::uint64_t percentile(std::vector<std::uint64_t>& values, double part) {
  if (values.empty()) return 0;
  const auto at = std::min(values.size() - 1, static_cast<std::size_t>(part * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace usher::support
