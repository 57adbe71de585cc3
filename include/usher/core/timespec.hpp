// Deadlines in C: an absolute time on a clock.
#pragma once

#include <time.h>

#include <cstdint>

#include "usher/core/cxx20.hpp"

namespace usher::inline v2 {

/// Returns whether a wait may have this deadline. A time before the clock's epoch is valid whatever its nanoseconds:
/// libstdc++ makes negative ones of such a time point, and would take EINVAL for a lock acquired.
inline bool is_time(const timespec& t) {
  return t.tv_sec < 0 || (t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
}

/// Returns the nanoseconds from `now` until `t`: 0 if `t` has passed, at most a year. The caller then asks again.
inline std::uint64_t nanoseconds_between(const timespec& now, const timespec& t) {
  if (t.tv_sec < now.tv_sec || (t.tv_sec == now.tv_sec && t.tv_nsec <= now.tv_nsec)) return 0;
  constexpr std::uint64_t year = 31536000;  // far enough, and no overflow
  const std::uint64_t seconds = std::uint64_t(t.tv_sec) - std::uint64_t(now.tv_sec);
  if (seconds > year) return year * 1000000000u;
  return seconds * 1000000000u + std::uint64_t(t.tv_nsec) - std::uint64_t(now.tv_nsec);
}

/// Returns the nanoseconds until `t` on `clock`, as the program sees that clock.
inline std::uint64_t nanoseconds_until(clockid_t clock, const timespec& t) {
  timespec now;
  clock_gettime(clock, &now);
  return nanoseconds_between(now, t);
}

}  // namespace usher::inline v2
