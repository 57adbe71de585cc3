/* A futex wait that is a cancellation point. A bare system call can only be cancelled asynchronously. The file is C,
 * because an asynchronous cancellation does not find the clean-up handlers of C++ frames. */
#pragma once

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sleeps while *word == expected, until a wake-up or the absolute time `until`, of CLOCK_REALTIME if `realtime`, else
 * of CLOCK_MONOTONIC; null: no deadline. Returns 0, EAGAIN, EINTR or ETIMEDOUT, and keeps errno. If the thread is
 * cancelled, cleanup(argument) runs before the program's own handlers. */
__attribute__((visibility("hidden"))) int usher_cancellable_wait(uint32_t* word, uint32_t expected,
                                                                 const struct timespec* until, int realtime,
                                                                 void (*cleanup)(void*), void* argument);

/* Returns call(argument). If the thread is cancelled in it, cleanup(argument) runs before the program's handlers. */
__attribute__((visibility("hidden"))) int usher_call_with_cleanup(int (*call)(void*), void* argument,
                                                                  void (*cleanup)(void*));

/* Makes the calling thread's cancellation deferred, even if the program has made it asynchronous: a thread must not be
 * cancelled while it holds a lock of this library. Returns the type for usher_restore_cancellation(). */
typedef int usher_cancel_type;
__attribute__((visibility("hidden"))) usher_cancel_type usher_defer_cancellation(void);
__attribute__((visibility("hidden"))) void usher_restore_cancellation(usher_cancel_type type);

#ifdef __cplusplus
}
#endif
