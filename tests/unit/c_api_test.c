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
  for (int i = 0; i < 2500; i++) {
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
  CHECK(counter == 10000);
  CHECK(usher_mutex_trylock(&shared) == 0);
  CHECK(usher_mutex_trylock(&shared) == EBUSY);
  CHECK(pthread_create(&threads[0], NULL, time_out, NULL) == 0);
  CHECK(pthread_join(threads[0], &result) == 0);
  CHECK(result == NULL);
  CHECK(usher_mutex_unlock(&shared) == 0);
  CHECK(usher_mutex_destroy(&shared) == 0);
  return 0;
}

/* Three threads pass a turn round: by a condition variable, then by semaphores. */
static usher_cond_t turned = USHER_COND_INITIALIZER;
static usher_sem_t empty = USHER_SEM_INITIALIZER, full;
static int turn;

static void* take_turns(void* number) {
  const int me = (int)(long)number;
  for (int i = 0; i < 1000; i++) {
    usher_mutex_lock(&shared);
    while (turn != me) usher_cond_wait(&turned, &shared);
    turn = (me + 1) % 3;
    usher_cond_broadcast(&turned);
    usher_mutex_unlock(&shared);
  }
  return NULL;
}

static void* produce(void* unused) {
  (void)unused;
  for (int i = 0; i < 1000; i++) {
    usher_sem_wait(&empty);
    usher_sem_post(&full);
  }
  return NULL;
}

static int waits(double append) {
  pthread_t threads[3];
  struct timespec soon;
  turn = 0;
  CHECK(usher_mutex_init(&shared, NULL) == 0);
  CHECK(usher_cond_init(&turned, append) == 0);
  for (long i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, take_turns, (void*)i) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(turn == 0);

  clock_gettime(CLOCK_MONOTONIC, &soon);
  soon.tv_nsec = soon.tv_nsec < 990000000 ? soon.tv_nsec + 10000000 : 999999999;
  usher_mutex_lock(&shared);
  CHECK(usher_cond_timedwait(&turned, &shared, &soon) == ETIMEDOUT);
  CHECK(usher_mutex_trylock(&shared) == EBUSY);
  usher_mutex_unlock(&shared);
  CHECK(usher_cond_signal(&turned) == 0);
  CHECK(usher_cond_destroy(&turned) == 0);

  CHECK(usher_sem_init(&empty, 2, append) == 0);
  CHECK(usher_sem_init(&full, 0, append) == 0);
  CHECK(pthread_create(&threads[0], NULL, produce, NULL) == 0);
  for (int i = 0; i < 1000; i++) {
    CHECK(usher_sem_wait(&full) == 0);
    CHECK(usher_sem_post(&empty) == 0);
  }
  CHECK(pthread_join(threads[0], NULL) == 0);
  CHECK(usher_sem_trywait(&full) == EAGAIN);
  CHECK(usher_sem_timedwait(&full, &soon) == ETIMEDOUT);
  CHECK(usher_sem_trywait(&empty) == 0);
  CHECK(usher_sem_timedwait(&empty, &soon) == 0);
  soon.tv_nsec = 1000000000;
  CHECK(usher_sem_timedwait(&empty, &soon) == EINVAL);
  CHECK(usher_cond_timedwait(&turned, &shared, &soon) == EINVAL);
  return 0;
}

int main(void) {
  unsigned n = 0;
  CHECK(usher_cond_init(&turned, 0) == EINVAL && usher_cond_init(&turned, 1.5) == EINVAL);
  CHECK(usher_sem_init(&full, 1, 0) == EINVAL && usher_sem_init(&full, 0x80000000u, 1) == EINVAL);
  CHECK(usher_sem_init(&full, 0x7fffffff, 1) == 0 && usher_sem_post(&full) == EOVERFLOW);
  CHECK(waits(1) == 0);
  CHECK(waits(0.001) == 0);
  CHECK(usher_mutex_init(&shared, "no such lock") == EINVAL);
  CHECK(usher_mutex_init(&shared, "null") == EINVAL);
  CHECK(one_lock(NULL) == 0);
  for (const char* name; (name = usher_lock_name(n)) != NULL; n++)
    if (strstr(name, "-spin") == NULL && one_lock(name) != 0) {
      fprintf(stderr, "lock: %s\n", name);
      return 1;
    }
  CHECK(n > 10);
  return 0;
}
