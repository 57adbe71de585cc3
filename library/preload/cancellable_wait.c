#define _GNU_SOURCE
#include "library/preload/cancellable_wait.h"
#include "library/preload/thread_functions.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>

#include "usher/platform/native/system_call.h"

static int futex_wait(uint32_t* word, uint32_t expected, const struct timespec* until, int realtime) {
  const int op = FUTEX_WAIT_BITSET_PRIVATE | (realtime ? FUTEX_CLOCK_REALTIME : 0);
  return (int)-system_call_of_longs(SYS_futex, (long)word, op, expected, (long)until, 0, (long)FUTEX_BITSET_MATCH_ANY);
}

/* Whether the C library can register cleanup handlers; false without libpthread.so.0, before glibc 2.34. */
static int has_cancellation(void) {
#if defined(__GLIBC__)
  return &__pthread_register_cancel != NULL;
#else
  return 1;
#endif
}

int usher_cancellable_wait(uint32_t* word, uint32_t expected, const struct timespec* until, int realtime,
                           void (*cleanup)(void*), void* argument) {
  const int saved = errno;
  int result;
  int type = PTHREAD_CANCEL_DEFERRED;
  if (!has_cancellation()) {
    result = futex_wait(word, expected, until, realtime);
    errno = saved;
    return result;
  }
  pthread_cleanup_push(cleanup, argument);
  /* This call acts on a pending cancellation before the sleep. */
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
  result = futex_wait(word, expected, until, realtime);
  pthread_setcanceltype(type, &type);
  pthread_cleanup_pop(0);
  errno = saved;
  return result;
}

int usher_call_with_cleanup(int (*call)(void*), void* argument, void (*cleanup)(void*)) {
  int result;
  if (!has_cancellation()) return call(argument);
  pthread_cleanup_push(cleanup, argument);
  result = call(argument);
  pthread_cleanup_pop(0);
  return result;
}

usher_cancel_type usher_defer_cancellation(void) {
  /* Before glibc 2.34, pthread_setcanceltype() does nothing in a program without libpthread.so.0. */
  int type = PTHREAD_CANCEL_DEFERRED;
  return pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type) == 0 ? type : PTHREAD_CANCEL_DEFERRED;
}

void usher_restore_cancellation(usher_cancel_type type) {
  if (type != PTHREAD_CANCEL_DEFERRED) pthread_setcanceltype(type, &type);
}
