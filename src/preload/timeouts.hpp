// The points in time that pthread functions take.
#pragma once

#include <time.h>

#include <cstdint>

namespace usher::preload {

inline bool is_time(const timespec& t) {
  return t.tv_nsec >= 0 && t.tv_nsec < 1000000000;
}

inline bool is_waitable(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/// The kernel refuses times before 1970; any time in the past does as well.
inline const timespec* not_before_1970(const timespec* t) {
  static constexpr timespec past{0, 0};
  return t != nullptr && t->tv_sec < 0 ? &past : t;
}

/// Nanoseconds until `t` on that clock, 0 if it has passed.
inline std::uint64_t nanoseconds_until(clockid_t clock, const timespec& t) {
  timespec now;
  clock_gettime(clock, &now);
  if (t.tv_sec < now.tv_sec || (t.tv_sec == now.tv_sec && t.tv_nsec <= now.tv_nsec)) return 0;
  constexpr std::uint64_t year = 31536000;  // far enough, and no overflow
  const std::uint64_t seconds = std::uint64_t(t.tv_sec) - std::uint64_t(now.tv_sec);
  if (seconds > year) return year * 1000000000u;
  return seconds * 1000000000u + std::uint64_t(t.tv_nsec) - std::uint64_t(now.tv_nsec);
}

}  // namespace usher::preload
