// Times as nanoseconds until a deadline.
#pragma once

#include "usher/core/cxx20.hpp"

#include <chrono>
#include <cstdint>

namespace usher::inline v1 {

/// Nanoseconds until `deadline`, rounded up; 0 if it has passed; at most an hour: the caller asks again.
template <class Clock, class Duration>
std::uint64_t nanoseconds_until(const std::chrono::time_point<Clock, Duration>& deadline) {
  const auto now = std::chrono::time_point_cast<Duration>(Clock::now());
  if (deadline <= now) return deadline <= Clock::now() ? 0 : 1;
  constexpr auto slice = std::chrono::hours(1);  // no overflow
  if (deadline - now > slice) return std::uint64_t(std::chrono::nanoseconds(slice).count());
  return std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - now).count()) + 1;
}

/// The point of the steady clock that is `d` from now, or a year, if that is less.
template <class Rep, class Period>
std::chrono::steady_clock::time_point from_now(const std::chrono::duration<Rep, Period>& d) {
  constexpr auto for_ever = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() +
         (d < for_ever ? std::chrono::duration_cast<std::chrono::nanoseconds>(d) : for_ever);
}

}  // namespace usher::inline v1
