// Conversion of deadlines into nanoseconds from now.
//
// A deadline may have any unit and representation, and may be the greatest value of its type. It is compared as a long
// double: no unit is too coarse, and no conversion overflows. On x86-64 its 64-bit mantissa is exact for nanoseconds.
#pragma once

#include "usher/core/cxx20.hpp"

#include <cstdint>
#include <mutex>  // durations, time points and clocks; <chrono> would add the calendars

namespace usher::inline v2 {

/// Returns the nanoseconds until `deadline`, rounded up: 0 if it has passed, at most an hour. The caller then asks
/// again.
template <class Clock, class Duration>
std::uint64_t nanoseconds_until(const std::chrono::time_point<Clock, Duration>& deadline) {
  using exact = std::chrono::duration<long double, std::nano>;
  constexpr std::uint64_t hour = 3600000000000;
  const long double left = (exact(deadline.time_since_epoch()) - exact(Clock::now().time_since_epoch())).count();
  if (!(left > 0)) return 0;
  if (left >= hour) return hour;
  const auto whole = std::uint64_t(left);
  return whole + (whole < left ? 1 : 0);
}

/// Returns the time of the steady clock that is `d` from now, rounded up. Negative `d`: now; at most a year.
template <class Rep, class Period>
std::chrono::steady_clock::time_point from_now(const std::chrono::duration<Rep, Period>& d) {
  using clock = std::chrono::steady_clock;
  using seconds = std::chrono::duration<long double>;
  constexpr auto for_ever = std::chrono::hours(24 * 365);
  if (!(seconds(d) > seconds::zero())) return clock::now();
  if (seconds(d) >= seconds(for_ever)) return clock::now() + for_ever;
  return clock::now() + std::chrono::ceil<clock::duration>(d);
}

}  // namespace usher::inline v2
