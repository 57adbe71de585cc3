#define _GNU_SOURCE
#include "preload/cancellable_wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__)
/* pthread_cleanup_push() expands to calls of these. Weak, so that a program on another C library that inherits our
 * LD_PRELOAD can start; such a program never calls them. */
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#pragma weak __pthread_unwind_next
#pragma weak __sigsetjmp
#endif

int usher_cancellable_wait(uint32_t* word, uint32_t expected, const struct timespec* until, int realtime,
                           void (*cleanup)(void*), void* argument) {
  const int op = FUTEX_WAIT_BITSET_PRIVATE | (realtime ? FUTEX_CLOCK_REALTIME : 0);
  const int saved = errno;
  int result;
  int type;
  pthread_cleanup_push(cleanup, argument);
  /* A cancellation that is pending acts here, before the sleep. */
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
  result = syscall(SYS_futex, word, op, expected, until, NULL, FUTEX_BITSET_MATCH_ANY) == 0 ? 0 : errno;
  pthread_setcanceltype(type, &type);
  pthread_cleanup_pop(0);
  errno = saved;
  return result;
}

int usher_call_with_cleanup(int (*call)(void*), void* argument, void (*cleanup)(void*)) {
  int result;
  pthread_cleanup_push(cleanup, argument);
  result = call(argument);
  pthread_cleanup_pop(0);
  return result;
}

usher_cancel_type usher_defer_cancellation(void) {
  int type;
  return pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type) == 0 ? type : PTHREAD_CANCEL_DEFERRED;
}

void usher_restore_cancellation(usher_cancel_type type) {
  if (type != PTHREAD_CANCEL_DEFERRED) pthread_setcanceltype(type, &type);
}
