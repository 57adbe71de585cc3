/* The C interface, from C. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "usher/usher.h"

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition); \
      return 1;                                                         \
    }                                                                   \
  } while (0)

static usher_mutex_t shared = USHER_MUTEX_INITIALIZER;
static long counter;

static void* work(void* unused) {
  (void)unused;
  for (int i = 0; i < 10000; i++) {
    usher_mutex_lock(&shared);
    counter++;
    usher_mutex_unlock(&shared);
  }
  return NULL;
}

static void* time_out(void* unused) {
  (void)unused;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += 0;
  return usher_mutex_timedlock(&shared, &until) == ETIMEDOUT ? NULL : &shared;
}

static int one_lock(const char* name) {
  pthread_t threads[4];
  void* result;
  counter = 0;
  CHECK(usher_mutex_init(&shared, name) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(counter == 40000);
  CHECK(usher_mutex_trylock(&shared) == 0);
  CHECK(usher_mutex_trylock(&shared) == EBUSY);
  CHECK(pthread_create(&threads[0], NULL, time_out, NULL) == 0);
  CHECK(pthread_join(threads[0], &result) == 0);
  CHECK(result == NULL);
  CHECK(usher_mutex_unlock(&shared) == 0);
  CHECK(usher_mutex_destroy(&shared) == 0);
  return 0;
}

int main(void) {
  unsigned n = 0;
  CHECK(usher_mutex_init(&shared, "no such lock") == EINVAL);
  CHECK(one_lock(NULL) == 0);
  for (const char* name; (name = usher_lock_name(n)) != NULL; n++)
    if (strstr(name, "-spin") == NULL && one_lock(name) != 0) {
      fprintf(stderr, "lock: %s\n", name);
      return 1;
    }
  CHECK(n > 10);
  return 0;
}
