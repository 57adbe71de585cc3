/* Usher's locks for C, chosen by name at run time. Link with libusher_locks (pkg-config usher).
 *
 *     usher_mutex_t m = USHER_MUTEX_INITIALIZER;            // the default lock
 *     usher_mutex_t t;
 *     if (usher_mutex_init(&t, "twa") != 0) …               // by name: `usher list`
 *     usher_mutex_lock(&t);  …  usher_mutex_unlock(&t);
 *
 * Functions return 0 or an error number, as pthread's do; they leave errno alone. Any thread may unlock. Zero bytes are a
 * valid, free mutex of the default lock. */
#ifndef USHER_USHER_H
#define USHER_USHER_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct usher_mutex {
  const void* usher_table; /* which lock; null: the default */
  uint32_t usher_gate;     /* waiters with a deadline */
  uint32_t usher_unused;
  uint64_t usher_state[6]; /* the lock */
} usher_mutex_t;

#define USHER_MUTEX_INITIALIZER \
  {                             \
    0, 0, 0, {                  \
      0                         \
    }                           \
  }

/* EINVAL: no lock has that name. A null name means the default lock. */
int usher_mutex_init(usher_mutex_t* mutex, const char* name);
int usher_mutex_lock(usher_mutex_t* mutex);
/* EBUSY: somebody has it. */
int usher_mutex_trylock(usher_mutex_t* mutex);
/* Waits until an absolute time of CLOCK_MONOTONIC. ETIMEDOUT: it passed. EINVAL: not a time. */
int usher_mutex_timedlock(usher_mutex_t* mutex, const struct timespec* until);
int usher_mutex_unlock(usher_mutex_t* mutex);
/* A mutex that nobody holds need not be destroyed. Afterwards it is as USHER_MUTEX_INITIALIZER. */
int usher_mutex_destroy(usher_mutex_t* mutex);

/* The names of all locks, one after the other; null past the last. */
const char* usher_lock_name(unsigned index);

#ifdef __cplusplus
}
#endif

#endif
