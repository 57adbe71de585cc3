#include "sim/settling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace usher::sim {

std::uint64_t settling::sum(unsigned from, unsigned to) const {
  return std::accumulate(counts_.begin() + from, counts_.begin() + to, std::uint64_t{0});
}

/// Of the distances from their mean.
double settling::squares(unsigned from, unsigned to) const {
  const double mean = static_cast<double>(sum(from, to)) / (to - from);
  double squares = 0;
  for (unsigned i = from; i < to; i++)
    squares += (static_cast<double>(counts_[i]) - mean) * (static_cast<double>(counts_[i]) - mean);
  return squares;
}

bool settling::settled() const {
  constexpr double a_tenth = 0.1, errors = 4;
  constexpr unsigned half = parts / 2;
  if (first_half() + second_half() < std::max<std::uint64_t>(fewest, threads_)) return false;
  const auto first = static_cast<double>(first_half()), second = static_cast<double>(second_half());
  const double difference = std::fabs(first - second);
  if (difference <= a_tenth * std::max(first, second)) return true;
  const double variance_of_a_part = (squares(0, half) + squares(half, parts)) / (parts - 2);
  return difference <= errors * std::sqrt(variance_of_a_part * parts);
}

}  // namespace usher::sim
