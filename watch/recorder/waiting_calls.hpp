// Calls of functions that wait, with their arguments, for the functions that record (recorded_*.cpp) and those that write streams
// (streamed_*.cpp).
#pragma once

#include "library/preload/selection.hpp"
#include "library/preload/timeouts.hpp"
#include "watch/recorder/recorded_calls.hpp"
#include "watch/recorder/recorded_others.hpp"

namespace usher::preload {

/// A wait for a semaphore.
struct sem_call {
  enum class how { wait, timed, clock } which;
  sem_t* semaphore;
  clockid_t clock;
  const timespec* until;

  int wait() const {
    if (which == how::wait) return unrecorded().sem_wait(semaphore);
    if (which == how::timed) return unrecorded().sem_timedwait(semaphore, until);
    return unrecorded().sem_clockwait(semaphore, clock, until);
  }
  /// Whether time and clock are valid. As in the C library, invalid ones are an error even if a credit is available.
  bool is_valid() const {
    return (which == how::wait || is_time(*until)) && (which != how::clock || is_waitable(clock));
  }
};

/// A wait for the end of a thread.
struct join_call {
  enum class how { wait, timed, clock } which;
  pthread_t thread;
  void** value;
  clockid_t clock;
  const timespec* until;

  int wait() const {
    const other_pointers& c = unrecorded_others();
    if (which == how::wait) return c.join(thread, value);
    if (which == how::timed) return c.timedjoin(thread, value, until);
    return c.clockjoin(thread, value, clock, until);
  }
};

}  // namespace usher::preload
