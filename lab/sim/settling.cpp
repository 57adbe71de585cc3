#include "lab/sim/settling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace usher::sim {

std::uint64_t settling::sum(unsigned from, unsigned to) const {
  return std::accumulate(counts_.begin() + from, counts_.begin() + to, std::uint64_t{0});
}

/// Returns the sum of the squared deviations of the counts from their mean, over the parts `from` to `to`.
double settling::squares(unsigned from, unsigned to) const {
  const double mean = static_cast<double>(sum(from, to)) / (to - from);
  double squares = 0;
  for (unsigned i = from; i < to; i++)
    squares += (static_cast<double>(counts_[i]) - mean) * (static_cast<double>(counts_[i]) - mean);
  return squares;
}

/// Returns whether the throughputs before this part and from this part on differ by more than a tenth and by more than
/// `errors` standard errors.
bool settling::changes_at(unsigned part, double errors) const {
  constexpr double a_tenth = 0.1;
  const double before = static_cast<double>(sum(0, part)) / part,
               after = static_cast<double>(sum(part, parts)) / (parts - part);
  const double difference = std::fabs(before - after);
  if (difference <= a_tenth * std::max(before, after)) return false;
  const double variance_of_a_part = (squares(0, part) + squares(part, parts)) / (parts - 2);
  return difference > errors * std::sqrt(variance_of_a_part * (1.0 / part + 1.0 / (parts - part)));
}

bool settling::settled() const {
  if (first_half() + second_half() < std::max<std::uint64_t>(fewest, threads_)) return false;
  if (changes_at(parts / 2, 4)) return false;
  // The threshold is larger here, because noise is more likely to exceed a threshold somewhere if many places are
  // tested.
  for (unsigned part = 2; part <= parts - 2; part++)
    if (changes_at(part, 7)) return false;
  return true;
}

}  // namespace usher::sim
