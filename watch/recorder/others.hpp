// The interface between libusher.so and its companion libusher-stat.so. Only `usher stat -- CMD` loads the companion,
// and `usher try` where it counts lock calls.
//
// The companion exports the functions below. libusher.so does not export them, so they cost nothing in processes that
// are not recorded. While a recording runs each function jumps to libusher.so's version, else to the C library's. Each
// library exports one object for the other. The references are weak, so each library works alone; the loader resolves
// them, so the order of constructors does not matter.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <threads.h>
#include <time.h>

#include <atomic>

#include "library/preload/calls.hpp"
#include "library/preload/export.hpp"

namespace usher::recorder {

// clang-format off
#define USHER_OTHERS(call) \
  call(spin_init, pthread_spin_init, (pthread_spinlock_t* s, int shared), (s, shared)) \
  call(spin_destroy, pthread_spin_destroy, (pthread_spinlock_t* s), (s)) \
  call(spin_lock, pthread_spin_lock, (pthread_spinlock_t* s), (s)) \
  call(spin_trylock, pthread_spin_trylock, (pthread_spinlock_t* s), (s)) \
  call(spin_unlock, pthread_spin_unlock, (pthread_spinlock_t* s), (s)) \
  call(barrier_init, pthread_barrier_init, \
       (pthread_barrier_t* b, const pthread_barrierattr_t* a, unsigned n), (b, a, n)) \
  call(barrier_destroy, pthread_barrier_destroy, (pthread_barrier_t* b), (b)) \
  call(barrier_wait, pthread_barrier_wait, (pthread_barrier_t* b), (b)) \
  call(join, pthread_join, (pthread_t t, void** value), (t, value)) \
  call(tryjoin, pthread_tryjoin_np, (pthread_t t, void** value), (t, value)) \
  call(timedjoin, pthread_timedjoin_np, (pthread_t t, void** value, const timespec* until), (t, value, until)) \
  call(clockjoin, pthread_clockjoin_np, \
       (pthread_t t, void** value, clockid_t k, const timespec* until), (t, value, k, until)) \
  call(join_c11, thrd_join, (thrd_t t, int* value), (t, value)) \
  call(yield, sched_yield, (), ())
// clang-format on

// NOLINTBEGIN(bugprone-macro-parentheses): types, not expressions
#define USHER_OTHER_MEMBER(member, name, parameters, arguments) int(*member) parameters;
struct other_calls {
  USHER_OTHERS(USHER_OTHER_MEMBER)
};
#undef USHER_OTHER_MEMBER
#define USHER_OTHER_POINTER(member, name, parameters, arguments) preload::call_pointer<int parameters> member;
struct other_pointers {
  USHER_OTHERS(USHER_OTHER_POINTER)
};
#undef USHER_OTHER_POINTER
// NOLINTEND(bugprone-macro-parentheses)

/// The C library's functions. libusher.so gets them from the companion, because its own search would find the
/// companion's functions first.
struct companion {
  other_pointers c_library;
};

}  // namespace usher::recorder

extern "C" {
/// Defined by the companion; null if the companion is not loaded.
[[gnu::weak, gnu::visibility("default")]] extern usher::recorder::companion usher_companion_v3;
}
