// What the calling thread has done while it waited for locks, counted for `usher stat`: only in libusher.so, which is built
// with USHER_COUNT_WAITS. Elsewhere nothing, and no thread-local storage.
#pragma once

#include "usher/core/cxx20.hpp"

#include <cstdint>

namespace usher::inline v1::native_detail {

/// Since the thread began.
struct wait_tally {
  std::uint64_t polls = 0;   ///< looks at a word that was not yet as hoped
  std::uint64_t sleeps = 0;  ///< calls of the kernel to sleep
  std::uint64_t grants = 0;  ///< queue nodes of its own that others have granted
};

#if defined(USHER_COUNT_WAITS)
inline constinit thread_local wait_tally own_waits{};
inline void count_polls(std::uint64_t n) {
  own_waits.polls += n;
}
inline void count_sleep() {
  own_waits.sleeps++;
}
inline void count_grant() {
  own_waits.grants++;
}
#else
inline void count_polls(std::uint64_t) {}
inline void count_sleep() {}
inline void count_grant() {}
#endif

}  // namespace usher::inline v1::native_detail
