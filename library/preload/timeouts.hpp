// Checks and adapts the deadlines that pthread functions take.
#pragma once

#include <time.h>

#include "usher/core/timespec.hpp"

namespace usher::preload {

inline bool is_waitable(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/// Replaces a time before the clock's epoch, which the kernel and perhaps the C library refuse, by the epoch itself.
inline const timespec* not_before_epoch(const timespec* t) {
  static constexpr timespec past{0, 0};
  return t != nullptr && t->tv_sec < 0 ? &past : t;
}

}  // namespace usher::preload
