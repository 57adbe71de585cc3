// The interface between libusher.so and its companion libusher-stat.so, which only `usher stat -- CMD` loads, and
// `usher try` where it counts lock calls.
//
// The companion exports the functions below, which libusher.so does not export, so that they cost nothing in processes
// that are not recorded. Each one jumps to libusher.so's function while something is recorded, else to the C library's.
// Each library exports one object for the other one. The references are weak: each library works alone. The loader
// resolves them, so neither depends on the order of constructors.
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

/// What libusher.so needs of the companion: the C library's functions, which it could not find itself, since the
/// companion's are between.
struct companion {
  other_pointers c_library;
};

}  // namespace usher::recorder

extern "C" {
/// The companion's. Missing where that is not loaded.
[[gnu::weak, gnu::visibility("default")]] extern usher::recorder::companion usher_companion_v3;
}
