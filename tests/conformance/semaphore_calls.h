// The four calls that wait for a semaphore, wrapped in functions of one signature.
#ifndef USHER_TESTS_SEMAPHORE_CALLS_H
#define USHER_TESTS_SEMAPHORE_CALLS_H

#include "cases.h"

#include <semaphore.h>

struct semaphore_wait {
  const char* name;
  clockid_t clock;
  bool timed;
  int (*call)(sem_t* semaphore, const struct timespec* deadline);
};

static inline int semaphore_wait_untimed(sem_t* semaphore, const struct timespec* deadline) {
  (void)deadline;
  return sem_wait(semaphore);
}
static inline int semaphore_wait_realtime(sem_t* semaphore, const struct timespec* deadline) {
  return sem_clockwait(semaphore, CLOCK_REALTIME, deadline);
}
static inline int semaphore_wait_monotonic(sem_t* semaphore, const struct timespec* deadline) {
  return sem_clockwait(semaphore, CLOCK_MONOTONIC, deadline);
}

static const struct semaphore_wait semaphore_waits[] = {
    {"wait", CLOCK_REALTIME, false, semaphore_wait_untimed},
    {"timedwait", CLOCK_REALTIME, true, sem_timedwait},
    {"clockwait_realtime", CLOCK_REALTIME, true, semaphore_wait_realtime},
    {"clockwait_monotonic", CLOCK_MONOTONIC, true, semaphore_wait_monotonic},
};

/// Calls this waiting function. A timed one gets a deadline that is a minute away.
static inline int wait_long(const struct semaphore_wait* wait, sem_t* semaphore) {
  const struct timespec deadline = later(now(wait->clock), 60000);
  return wait->call(semaphore, &deadline);
}

static inline int value_of(sem_t* semaphore) {
  int value = -77;
  CHECK_SUCCESS(sem_getvalue(semaphore, &value));
  return value;
}

/// Initialises a semaphore whose memory has arbitrary content before.
static inline void make_semaphore(sem_t* semaphore, unsigned value) {
  memset(semaphore, 0xa5, sizeof *semaphore);
  CHECK_SUCCESS(sem_init(semaphore, 0, value));
}

#endif
