// Counts of the calling thread's actions while it waited for locks, for `usher stat`. They exist only in libusher.so,
// which is built with USHER_COUNT_WAITS. Elsewhere the functions are empty and use no thread-local storage.
#pragma once

#include "usher/core/cxx20.hpp"

#include <cstdint>

namespace usher::inline v2::native_detail {

/// The counts since the thread began.
struct wait_tally {
  std::uint64_t polls = 0;   ///< loads of a word whose value did not end the wait
  std::uint64_t sleeps = 0;  ///< system calls to sleep
  std::uint64_t grants = 0;  ///< grants of this thread's queue nodes by other threads
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

}  // namespace usher::inline v2::native_detail
