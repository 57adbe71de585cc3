/* Weak references to functions that only libpthread.so.0 had before glibc 2.34. libusher.so must not depend on that
 * library: a program without threads would then load it, and the C++ library would use atomic operations for reference
 * counts. A reference is null if the program starts without libpthread.so.0, or on another C library. If dlopen() loads
 * libpthread.so.0 later, the references stay null, and the process's waits are no cancellation points.
 * usher/platform/native/fork.hpp has one more such reference. */
#pragma once

#include <pthread.h>

#pragma weak pthread_testcancel
#if defined(__GLIBC__)
/* In C, pthread_cleanup_push() and pthread_cleanup_pop() expand to calls of these functions. */
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#pragma weak __pthread_unwind_next
#pragma weak __sigsetjmp
#endif

static inline void usher_test_cancel(void) {
  if (&pthread_testcancel != 0) pthread_testcancel();
}
