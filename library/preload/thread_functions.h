/* Functions that only libpthread.so.0 had before glibc 2.34. libusher.so must not depend on that library: a program
 * without threads would then have it, and the C++ library would use atomic operations for its reference counts. So the
 * references are weak: null if the program does not have libpthread.so.0, and on another C library. A program that
 * starts without it has one thread. If a library brings it later, by dlopen(), the references remain null, and the
 * waits of the process are no cancellation points. The header usher/platform/native/fork.hpp has one more such reference. */
#pragma once

#include <pthread.h>

#pragma weak pthread_testcancel
#if defined(__GLIBC__)
/* pthread_cleanup_push() and pthread_cleanup_pop() of C expand to calls of these. */
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#pragma weak __pthread_unwind_next
#pragma weak __sigsetjmp
#endif

static inline void usher_test_cancel(void) {
  if (&pthread_testcancel != 0) pthread_testcancel();
}
