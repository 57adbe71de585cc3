#include "tool/trial/betting.hpp"

#include <cmath>

namespace usher::tool {
namespace {

constexpr std::size_t sharpness =
    12;  // the prior's density is in proportion to p^(sharpness - 1); chosen, see the header

}  // namespace

/// Computes 2^tosses times the integral of p^wins (1 - p)^losses over the prior. It is an incomplete beta function of
/// integers, and so a sum of binomial coefficients C(n, j), j <= k, computed here relative to C(n, k).
double wealth(std::size_t wins, std::size_t tosses) {
  const std::size_t k = wins + sharpness - 1;
  double next = static_cast<double>(tosses - wins + 2);  // n - k + 1
  const double shares = next - 1;
  double sum = 1, term = 1;
  for (std::size_t j = k; j > 0 && term > sum * 1e-17; --j, ++next) {
    term *= static_cast<double>(j) / next;
    sum += term;
  }
  return static_cast<double>(sharpness) / (std::ldexp(1.0, sharpness) - 1) * sum / shares;
}

wins_needed::wins_needed(double factor) : factor_(factor) {
  while (known_.size() < known_beforehand) find_next();
}

/// Finds the fewest wins for the next number of tosses. They never decrease from one number to the next, so the search
/// begins at the last result.
void wins_needed::find_next() const {
  const std::size_t tosses = known_.size();
  std::size_t fewest = known_.empty() ? 0 : known_.back();
  while (fewest <= tosses && wealth(fewest, tosses) < factor_) ++fewest;
  known_.push_back(fewest);
}

std::size_t wins_needed::of(std::size_t tosses) const {
  while (known_.size() <= tosses) find_next();
  return known_[tosses];
}

}  // namespace usher::tool
