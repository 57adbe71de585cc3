/* Tests the C interface from C. */
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
  CHECK(usher_mutex_destroy(&shared) == EBUSY);
  CHECK(usher_mutex_trylock(&shared) == EBUSY);
  CHECK(usher_mutex_unlock(&shared) == 0);
  CHECK(usher_mutex_destroy(&shared) == 0);
  usher_mutex_t* const on_heap = usher_mutex_new(name);
  CHECK(on_heap != NULL && usher_mutex_lock(on_heap) == 0);
  CHECK(usher_mutex_free(on_heap) == EBUSY);
  CHECK(usher_mutex_unlock(on_heap) == 0);
  CHECK(usher_mutex_free(on_heap) == 0);
  CHECK(usher_mutex_free(NULL) == 0);
  return 0;
}

/* Three threads pass a turn round, first by a condition variable, then by semaphores. */
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

/* Objects on the heap, as in other languages. */
static int on_the_heap(void) {
  usher_mutex_t* m = usher_mutex_new(NULL);
  usher_cond_t* c = usher_cond_new(1);
  usher_sem_t* s = usher_sem_new(1, 1);
  struct timespec past = {0, 0};
  CHECK(m != NULL && c != NULL && s != NULL);
  CHECK(usher_mutex_lock(m) == 0 && usher_mutex_trylock(m) == EBUSY);
  CHECK(usher_cond_timedwait(c, m, &past) == ETIMEDOUT);
  CHECK(usher_mutex_unlock(m) == 0);
  CHECK(usher_sem_trywait(s) == 0 && usher_sem_trywait(s) == EAGAIN);
  usher_mutex_free(m);
  CHECK(usher_cond_free(c) == 0);
  usher_sem_free(s);
  errno = 7;
  CHECK(usher_mutex_new("no such lock") == NULL && usher_cond_new(2) == NULL && usher_sem_new(1, 0) == NULL &&
        errno == 7);
  usher_mutex_free(NULL);
  CHECK(usher_cond_free(NULL) == 0);
  usher_sem_free(NULL);
  CHECK(usher_mutex_size() == sizeof(usher_mutex_t) && usher_cond_size() == sizeof(usher_cond_t) &&
        usher_sem_size() == sizeof(usher_sem_t));
  return 0;
}

/* A condition variable is not freed while a thread waits without a signal. */
static usher_cond_t* waited_for;
static int waits_now, signalled;
static void* wait_once(void* unused) {
  (void)unused;
  usher_mutex_lock(&shared);
  waits_now = 1;
  while (!signalled) usher_cond_wait(waited_for, &shared);
  usher_mutex_unlock(&shared);
  return NULL;
}
static int freed_while_waited_for(void) {
  pthread_t waiter;
  int seen = 0;
  CHECK(usher_mutex_init(&shared, NULL) == 0);
  waited_for = usher_cond_new(1);
  CHECK(waited_for != NULL && pthread_create(&waiter, NULL, wait_once, NULL) == 0);
  while (!seen) {
    usher_mutex_lock(&shared); /* once locked, the thread waits if it has begun to */
    seen = waits_now;
    if (seen) CHECK(usher_cond_free(waited_for) == EBUSY);
    usher_mutex_unlock(&shared);
  }
  usher_mutex_lock(&shared);
  signalled = 1;
  usher_cond_signal(waited_for);
  usher_mutex_unlock(&shared);
  CHECK(pthread_join(waiter, NULL) == 0);
  CHECK(usher_cond_free(waited_for) == 0);
  return 0;
}

/* Readers compare what writers change. */
static usher_rwlock_t table = USHER_RWLOCK_INITIALIZER;
static long written, halves[2];
static void* read_and_write(void* wrong) {
  for (int i = 0; i < 300; i++) {
    usher_rwlock_rdlock(&table);
    if (halves[0] != halves[1]) return wrong;
    if (usher_rwlock_tryupgrade(&table) == 0) {
      written++;
      halves[0]++;
      halves[1]++;
      usher_rwlock_downgrade(&table);
    }
    usher_rwlock_rdunlock(&table);
    usher_rwlock_wrlock(&table);
    written++;
    halves[0]++;
    halves[1]++;
    usher_rwlock_wrunlock(&table);
  }
  return NULL;
}
static void* attempt(void* wrong) {
  struct timespec past = {0, 0}, never = {0, 1000000000};
  if (usher_rwlock_trywrlock(&table) != EBUSY || usher_rwlock_timedwrlock(&table, &past) != ETIMEDOUT) return wrong;
  return usher_rwlock_timedrdlock(&table, &never) == EINVAL ? NULL : wrong;
}
static int one_rwlock(const char* name) {
  pthread_t threads[3];
  struct timespec past = {0, 0};
  void* result;
  CHECK(usher_rwlock_init(&table, name) == 0);
  written = halves[0] = halves[1] = 0;
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, read_and_write, &table) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], &result) == 0 && result == NULL);
  CHECK(written == halves[0] && written == halves[1] && written >= 900);
  CHECK(usher_rwlock_tryrdlock(&table) == 0 && usher_rwlock_timedrdlock(&table, &past) == 0);
  CHECK(pthread_create(&threads[0], NULL, attempt, &table) == 0);
  CHECK(pthread_join(threads[0], &result) == 0 && result == NULL);
  CHECK(usher_rwlock_destroy(&table) == EBUSY && usher_rwlock_tryupgrade(&table) == EBUSY);
  CHECK(usher_rwlock_rdunlock(&table) == 0 && usher_rwlock_rdunlock(&table) == 0);
  CHECK(usher_rwlock_trywrlock(&table) == 0 && usher_rwlock_tryrdlock(&table) == EBUSY);
  CHECK(usher_rwlock_timedrdlock(&table, &past) == ETIMEDOUT && usher_rwlock_destroy(&table) == EBUSY);
  CHECK(usher_rwlock_wrunlock(&table) == 0 && usher_rwlock_destroy(&table) == 0);
  usher_rwlock_t* const on_heap = usher_rwlock_new(name);
  CHECK(on_heap != NULL && usher_rwlock_wrlock(on_heap) == 0 && usher_rwlock_free(on_heap) == EBUSY);
  CHECK(usher_rwlock_wrunlock(on_heap) == 0 && usher_rwlock_free(on_heap) == 0);
  return 0;
}
static int rwlocks(void) {
  CHECK(one_rwlock(NULL) == 0 && one_rwlock("phase-fair") == 0 && one_rwlock("phase-fair-recursive") == 0);
  CHECK(one_rwlock("bravo") == 0 && one_rwlock("bravo-recursive") == 0);
  CHECK(usher_rwlock_init(&table, "ticket") == EINVAL && usher_rwlock_new("ticket") == NULL);
  CHECK(usher_rwlock_free(NULL) == 0 && usher_rwlock_size() == sizeof(usher_rwlock_t));
  return 0;
}

int main(void) {
  unsigned n = 0;
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", USHER_VERSION_MAJOR, USHER_VERSION_MINOR, USHER_VERSION_PATCH);
  CHECK(strcmp(version, USHER_VERSION) == 0 && strcmp(usher_version(), USHER_VERSION) == 0);
  CHECK(on_the_heap() == 0);
  CHECK(freed_while_waited_for() == 0);
  CHECK(usher_cond_init(&turned, 0) == EINVAL && usher_cond_init(&turned, 1.5) == EINVAL);
  CHECK(usher_sem_init(&full, 1, 0) == EINVAL && usher_sem_init(&full, 0x80000000u, 1) == EINVAL);
  CHECK(usher_sem_init(&full, 0x7fffffff, 1) == 0 && usher_sem_post(&full) == EOVERFLOW);
  CHECK(rwlocks() == 0);
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
