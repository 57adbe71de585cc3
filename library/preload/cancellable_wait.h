/* A futex wait that is a cancellation point. In C, because the clean-up handlers of a cancelled thread are not found
 * from within C++ frames when the cancellation is asynchronous, which it must be around a bare system call. */
#pragma once

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sleeps while *word == expected, until the absolute time `until` (null: for ever) of CLOCK_REALTIME or, if not
 * `realtime`, CLOCK_MONOTONIC. Returns 0, EAGAIN, EINTR or ETIMEDOUT; errno is not touched. If the thread is cancelled,
 * cleanup(argument) runs before the program's own handlers. */
__attribute__((visibility("hidden"))) int usher_cancellable_wait(uint32_t* word, uint32_t expected,
                                                                 const struct timespec* until, int realtime,
                                                                 void (*cleanup)(void*), void* argument);

/* call(argument). If the thread is cancelled in it, cleanup(argument) runs before the program's own handlers. */
__attribute__((visibility("hidden"))) int usher_call_with_cleanup(int (*call)(void*), void* argument,
                                                                  void (*cleanup)(void*));

/* Defers cancellation while the calling thread holds a lock of the library's, also if the program has made it
 * asynchronous. Returns the type to restore. */
typedef int usher_cancel_type;
__attribute__((visibility("hidden"))) usher_cancel_type usher_defer_cancellation(void);
__attribute__((visibility("hidden"))) void usher_restore_cancellation(usher_cancel_type type);

#ifdef __cplusplus
}
#endif
