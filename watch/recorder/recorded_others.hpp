// The recorded functions to which libusher-stat.so leads while something is recorded (record/others.hpp). Each calls the
// C library's function, whose result it returns. A function that may wait first tries without waiting; if that fails,
// the C library's waiting function gives the result, also for invalid arguments.
//
// Process-shared objects are recorded in each process separately, as mutexes are.
#pragma once

#include "watch/recorder/holding.hpp"
#include "watch/recorder/others.hpp"
#include "watch/recorder/recorded_calls.hpp"

/// The functions that libusher-stat.so calls; null while nothing is recorded.
USHER_EXPORT std::atomic<const usher::preload::other_calls*> usher_recorded_others_v2;

namespace usher::preload {

/// Sets usher_recorded_others_v2.
void connect_others(bool recording);

/// The C library's functions. Only for functions that libusher-stat.so has called.
inline const other_pointers& unrecorded_others() {
  return usher_companion_v3.c_library;
}

/// Whether the recording is over; ends it in this process, too. Only for slow paths.
inline bool is_over(recorded_thread& me) {
  if (!has_ended(*me.of)) return false;
  end_recording(*me.of);
  return true;
}

// NOLINTNEXTLINE(bugprone-macro-parentheses): a type
#define USHER_RECORDED_OTHER(member, name, parameters, arguments) int recorded_##member parameters;
USHER_OTHERS(USHER_RECORDED_OTHER)
#undef USHER_RECORDED_OTHER

}  // namespace usher::preload
