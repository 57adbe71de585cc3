/* Usher's locks, condition variables, semaphores and read-write locks for C. A lock's algorithm is chosen by name at
 * run time. Link with libusher_locks.a (pkg-config usher), or with the shared library libusher-locks.so (pkg-config
 * usher-locks), which exports only the functions of this file.
 *
 *     usher_mutex_t m = USHER_MUTEX_INITIALIZER;            // the default lock
 *     usher_mutex_t t;
 *     if (usher_mutex_init(&t, "twa") != 0) …               // `usher list` shows the names
 *     usher_mutex_lock(&t);  …  usher_mutex_unlock(&t);
 *
 * `usher stat` records these objects, except read-write locks. Functions return 0 or an error number, as pthread's do;
 * they leave errno alone. Any thread may unlock. Zero bytes are a valid, free mutex of the default lock. */
#ifndef USHER_USHER_H
#define USHER_USHER_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "usher/version.h"

#ifdef __cplusplus
extern "C" {
#endif

struct timespec; /* <time.h> declares it only since C11, for example not with -std=c99 */

typedef struct usher_mutex {
  const void* usher_table; /* the lock's functions; null: the default lock */
  uint32_t usher_tag;      /* identifies the owner */
  uint32_t usher_timed;    /* the number of waiters with a deadline, and flags: core/timed_waiters.hpp */
  void* usher_requeued;    /* threads notified by a condition variable, which unlock() wakes */
  uint32_t usher_epoch;    /* the fork epoch in which usher_requeued was set */
  uint32_t usher_unused;
#if defined(__aarch64__)
  uint64_t usher_state[6]; /* the lock's words; the C library's mutex has 48 bytes */
#else
  uint64_t usher_state[5]; /* the lock's words */
#endif
} usher_mutex_t;

#define USHER_MUTEX_INITIALIZER \
  {                             \
    0, 0, 0, 0, 0, 0, {         \
      0                         \
    }                           \
  }

/* EINVAL: no lock has that name. A null name means the default lock. */
int usher_mutex_init(usher_mutex_t* mutex, const char* name);
int usher_mutex_lock(usher_mutex_t* mutex);
/* EBUSY: the mutex is locked. */
int usher_mutex_trylock(usher_mutex_t* mutex);
/* Waits until an absolute time of CLOCK_MONOTONIC. ETIMEDOUT: the time has passed. EINVAL: not a valid time. */
int usher_mutex_timedlock(usher_mutex_t* mutex, const struct timespec* until);
int usher_mutex_unlock(usher_mutex_t* mutex);
/* Destroying a mutex is optional; it leaves the bytes of USHER_MUTEX_INITIALIZER. EBUSY: the mutex is locked. */
int usher_mutex_destroy(usher_mutex_t* mutex);

/* With USHER_DEBUG, three errors end the program with one line and abort(): locking a mutex that the calling thread
 * holds, unlocking a free mutex, and destroying a locked one. Sources with and without USHER_DEBUG may be mixed. */
int usher_debug_mutex_lock(usher_mutex_t* mutex);
int usher_debug_mutex_timedlock(usher_mutex_t* mutex, const struct timespec* until);
int usher_debug_mutex_unlock(usher_mutex_t* mutex);
int usher_debug_mutex_destroy(usher_mutex_t* mutex);
#ifdef USHER_DEBUG
#define usher_mutex_lock usher_debug_mutex_lock
#define usher_mutex_timedlock usher_debug_mutex_timedlock
#define usher_mutex_unlock usher_debug_mutex_unlock
#define usher_mutex_destroy usher_debug_mutex_destroy
#endif

/* Condition variables for usher_mutex_t. `append` is the probability, above 0 and at most 1, with which a waiter is
 * appended at the tail of the list and not at its head: 1 is first in, first out, 0.001 mostly last in, first out.
 * Zero bytes are a valid condition variable with append = 1. EINVAL: `append` is not such a probability. */
typedef struct usher_cond {
  uint64_t usher_state[7];
} usher_cond_t;

#define USHER_COND_INITIALIZER \
  {                            \
    { 0 }                      \
  }

int usher_cond_init(usher_cond_t* cond, double append);
/* The caller holds the mutex, and holds it again on return. Spurious returns are possible. Not a cancellation point. */
int usher_cond_wait(usher_cond_t* cond, usher_mutex_t* mutex);
/* Waits until an absolute time of CLOCK_MONOTONIC. ETIMEDOUT: the time has passed. EINVAL: not a valid time. */
int usher_cond_timedwait(usher_cond_t* cond, usher_mutex_t* mutex, const struct timespec* until);
int usher_cond_signal(usher_cond_t* cond);
/* Notifies all waiters. At most one of them at a time is awake without the mutex: an unlock wakes the next waiter. */
int usher_cond_broadcast(usher_cond_t* cond);
/* Allowed right after a broadcast. EBUSY: there are waiters that have not been notified. */
int usher_cond_destroy(usher_cond_t* cond);

/* Semaphores. Zero bytes are a valid semaphore with 0 credits whose waiters are served first in, first out. */
typedef struct usher_sem {
  uint64_t usher_state[5];
} usher_sem_t;

#define USHER_SEM_INITIALIZER \
  {                           \
    { 0 }                     \
  }

/* EINVAL: `value` is above 0x7fffffff, or `append` is not in (0, 1]. */
int usher_sem_init(usher_sem_t* sem, unsigned value, double append);
int usher_sem_wait(usher_sem_t* sem);
/* EAGAIN: there is no credit. */
int usher_sem_trywait(usher_sem_t* sem);
int usher_sem_timedwait(usher_sem_t* sem, const struct timespec* until);
/* May be called from a signal handler. EOVERFLOW: there are 0x7fffffff credits. */
int usher_sem_post(usher_sem_t* sem);

/* Experimental, not for production.
 * Read-write locks. The names are "phase-fair" and "bravo" (visible readers: many readers, few writers). With the
 * suffix "-recursive" a thread that holds the lock for reading may lock it again for reading; without the suffix it
 * must not, because a reader waits behind a waiting writer. Guarantees: locks/phase_fair.hpp. Zero bytes are a valid,
 * free lock "phase-fair". Any thread may call usher_rwlock_rdunlock(). `usher stat` does not record these objects. */
typedef struct usher_rwlock {
  uint32_t usher_kind;
  uint32_t usher_unused;
  uint64_t usher_state[5];
} usher_rwlock_t;

#define USHER_RWLOCK_INITIALIZER \
  {                              \
    0, 0, {                      \
      0                          \
    }                            \
  }

/* EINVAL: no read-write lock has that name. A null name means "phase-fair". */
int usher_rwlock_init(usher_rwlock_t* lock, const char* name);
int usher_rwlock_rdlock(usher_rwlock_t* lock);
/* EBUSY: a thread holds the lock for writing, or waits to do so. */
int usher_rwlock_tryrdlock(usher_rwlock_t* lock);
/* Waits until an absolute time of CLOCK_MONOTONIC. ETIMEDOUT: the time has passed. EINVAL: not a valid time. */
int usher_rwlock_timedrdlock(usher_rwlock_t* lock, const struct timespec* until);
int usher_rwlock_rdunlock(usher_rwlock_t* lock);
int usher_rwlock_wrlock(usher_rwlock_t* lock);
/* EBUSY: another thread holds the lock, or is about to acquire it. */
int usher_rwlock_trywrlock(usher_rwlock_t* lock);
int usher_rwlock_timedwrlock(usher_rwlock_t* lock, const struct timespec* until);
int usher_rwlock_wrunlock(usher_rwlock_t* lock);
/* Turns the calling thread's hold for reading into one for writing. EBUSY: another thread holds the lock, or is about
 * to acquire it; the calling thread still holds the lock for reading. Never waits. */
int usher_rwlock_tryupgrade(usher_rwlock_t* lock);
/* Turns the calling thread's hold for writing into one for reading. */
int usher_rwlock_downgrade(usher_rwlock_t* lock);
/* Destroying a lock is optional; it leaves the bytes of USHER_RWLOCK_INITIALIZER. EBUSY: a thread holds the lock or
 * waits for it. No other thread may be inside a call. */
int usher_rwlock_destroy(usher_rwlock_t* lock);

/* The name of lock number `index`, from 0 on; null if there are not so many locks. */
const char* usher_lock_name(unsigned index);

/* The release of the library; that of this header is USHER_VERSION. */
const char* usher_version(void);

/* For languages that cannot use this header (ctypes, LuaJIT, Panama …), and may move their own objects in memory.
 * _new() creates an object on the heap, alone in its cache lines, at a fixed address. It returns null where _init()
 * returns EINVAL, or if there is no memory. _free() takes a pointer from _new(), or null; its preconditions are
 * those of _destroy(). */
usher_mutex_t* usher_mutex_new(const char* name);
/* EBUSY: the mutex is locked; nothing is freed. */
int usher_mutex_free(usher_mutex_t* mutex);
usher_cond_t* usher_cond_new(double append);
/* EBUSY: there are waiters that have not been notified; nothing is freed. */
int usher_cond_free(usher_cond_t* cond);
usher_sem_t* usher_sem_new(unsigned value, double append);
void usher_sem_free(usher_sem_t* sem);
usher_rwlock_t* usher_rwlock_new(const char* name);
/* EBUSY: a thread holds the lock or waits for it; nothing is freed. */
int usher_rwlock_free(usher_rwlock_t* lock);

/* The size of an object in bytes, for callers that allocate it. The memory must be aligned to 8 bytes, and either
 * filled with zeros or initialised by _init(). */
size_t usher_mutex_size(void);
size_t usher_cond_size(void);
size_t usher_sem_size(void);
size_t usher_rwlock_size(void);

#ifdef __cplusplus
}
#endif

#endif
