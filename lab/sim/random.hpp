// The only source of random numbers in the simulation: a seeded generator of integers, so that a run is the same on
// every computer.
#pragma once

#include <bit>
#include <cstdint>

namespace usher::sim {

class random {
 public:
  explicit random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 88172645463325252u) {
    for (int i = 0; i < 8; i++) bits();
  }

  /// xorshift64* (Vigna, 2016).
  std::uint64_t bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }

  /// Returns a uniform random number in [0, n), for n > 0.
  std::uint32_t below(std::uint32_t n) { return std::uint32_t((bits() >> 32) * n >> 32); }

  /// Returns an exponentially distributed number with this mean: −ln u times the mean. The logarithm is computed from
  /// the position of the highest one bit of u and a quadratic polynomial in the bits behind it, with an error within
  /// 0.5 %.
  std::uint64_t exponential(std::uint64_t mean) {
    const std::uint64_t u = bits() | 1;
    const int zeros = std::countl_zero(u);
    const std::uint64_t rest = zeros == 63 ? 0 : (u << zeros << 1) >> 48;             // 16 bits of fraction
    const std::uint64_t log2 = rest + (22545 * (rest * (65536 - rest) >> 16) >> 16);  // of 1 + fraction
    const std::uint64_t minus_log2 = (std::uint64_t(zeros + 1) << 16) - log2;
    return mean * minus_log2 * 45426 >> 32;  // ln 2 in 1/65536
  }

 private:
  std::uint64_t state_;
};

}  // namespace usher::sim
