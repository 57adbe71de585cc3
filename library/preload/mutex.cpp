// The mutex functions that do not depend on the lock (mutex_operations.hpp has those that do).
#include <cerrno>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/layout.hpp"
#include "library/preload/left_mutexes.hpp"
#include "library/preload/ours.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/timeouts.hpp"
#include "library/preload/users.hpp"

namespace usher::preload::ours {

int mutex_timedlock(pthread_mutex_t* m, const timespec* until) {
  return selected().clocklock(m, CLOCK_REALTIME, until);
}

int mutex_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  return is_waitable(clock) ? selected().clocklock(m, clock, until) : EINVAL;
}

int mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int error = c_library::mutex_init(m, attributes);  // checks the attributes and writes the kind
  if (error != 0) return error;
  const int kind = kind_of(kind_and_epoch(m).load(std::memory_order_relaxed));
  // The C library gives kind 0x200 (no lock elision) to mutexes that are normal by attribute, and 0 by default. Usher
  // never elides locks, so both become 0, the kind with which the fast path compares.
  if (is_ours(kind)) kind_and_epoch(m).store(std::uint64_t(type_of(kind)), std::memory_order_relaxed);
  return 0;
}

int mutex_destroy(pthread_mutex_t* m) {
  const std::uint64_t seen = kind_and_epoch(m).load(std::memory_order_relaxed);
  if (!is_ours(kind_of(seen))) return c_library::mutex_destroy(m);
  if (is_held_by_c_library(m, seen)) return EBUSY;
  if (selected().is_held(m) || has_users(m)) return EBUSY;
  kind_and_epoch(m).store(0xffffffffu, std::memory_order_relaxed);  // kind −1: destroyed, as in the C library
  return 0;
}

}  // namespace usher::preload::ours
