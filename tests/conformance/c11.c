// Tests C11's mutexes and condition variables: the calls' results, the end of waits, mutual exclusion.
#include "cases.h"

#include <stdatomic.h>
#include <threads.h>

enum { n_threads = 4, n_rounds = 5000 };

static const struct mutex_type {
  const char* name;
  int type;
  bool recursive;
} types[] = {
    {"plain", mtx_plain, false},
    {"timed", mtx_timed, false},
    {"recursive", mtx_plain | mtx_recursive, true},
    {"timed, recursive", mtx_timed | mtx_recursive, true},
};

static const struct timespec past = {1, 0}, invalid = {1, -1};

static struct timespec after_ms(long ms) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += ms * 1000000;
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

/// Returns the result of `call` in another thread.
static int elsewhere(int (*call)(void*), void* argument) {
  thrd_t thread;
  int result = -1;
  CHECK_CODE(thrd_create(&thread, call, argument), thrd_success);
  CHECK_CODE(thrd_join(thread, &result), thrd_success);
  return result;
}
static int tries(void* mutex) {
  const int result = mtx_trylock(mutex);
  if (result == thrd_success) CHECK_CODE(mtx_unlock(mutex), thrd_success);
  return result;
}
static int waits_shortly(void* mutex) {
  const struct timespec until = after_ms(20);
  return mtx_timedlock(mutex, &until);
}
static int waits_until_the_past(void* mutex) {
  return mtx_timedlock(mutex, &past);
}
static int waits_without_a_time(void* mutex) {
  return mtx_timedlock(mutex, &invalid);
}

CASE_FOR(results, struct mutex_type, t, types) {
  mtx_t mutex;
  memset(&mutex, 0x5a, sizeof mutex);
  CHECK_CODE(mtx_init(&mutex, t->type), thrd_success);
  CHECK_CODE(elsewhere(tries, &mutex), thrd_success);
  CHECK_CODE(mtx_lock(&mutex), thrd_success);
  CHECK_CODE(elsewhere(tries, &mutex), thrd_busy);
  CHECK_CODE(elsewhere(waits_shortly, &mutex), thrd_timedout);
  CHECK_CODE(elsewhere(waits_until_the_past, &mutex), thrd_timedout);
  CHECK_CODE(elsewhere(waits_without_a_time, &mutex), thrd_error);
  if (t->recursive) {
    CHECK_CODE(mtx_lock(&mutex), thrd_success);
    CHECK_CODE(mtx_trylock(&mutex), thrd_success);
    CHECK_CODE(mtx_timedlock(&mutex, &past), thrd_success);
    for (int i = 0; i < 3; i++) CHECK_CODE(mtx_unlock(&mutex), thrd_success);
    CHECK_CODE(elsewhere(tries, &mutex), thrd_busy);
  } else {
    CHECK_CODE(mtx_trylock(&mutex), thrd_busy);
    CHECK_CODE(waits_shortly(&mutex), thrd_timedout);
  }
  CHECK_CODE(mtx_unlock(&mutex), thrd_success);
  CHECK_CODE(elsewhere(tries, &mutex), thrd_success);
  const struct timespec soon = after_ms(1000);
  CHECK_CODE(mtx_timedlock(&mutex, &soon), thrd_success);
  CHECK_CODE(mtx_unlock(&mutex), thrd_success);
  mtx_destroy(&mutex);
}

// Threads take turns: a thread's turn has come when `number` modulo the number of threads is the thread's own number.
static struct {
  mtx_t mutex;
  cnd_t turn;
  int next;
  long count;
} ring;

static int takes_turns(void* number) {
  const int self = (int)(intptr_t)number;
  for (int i = 0; i < n_rounds / n_threads; i++) {
    CHECK_CODE(mtx_lock(&ring.mutex), thrd_success);
    while (ring.next != self) CHECK_CODE(cnd_wait(&ring.turn, &ring.mutex), thrd_success);
    ring.next = (self + 1) % n_threads;
    ring.count++;
    CHECK_CODE(cnd_broadcast(&ring.turn), thrd_success);
    CHECK_CODE(mtx_unlock(&ring.mutex), thrd_success);
  }
  return 0;
}

static int counts(void* unused) {
  (void)unused;
  for (int i = 0; i < n_rounds; i++) {
    CHECK_CODE(mtx_lock(&ring.mutex), thrd_success);
    ring.count++;
    CHECK_CODE(mtx_unlock(&ring.mutex), thrd_success);
  }
  return 0;
}

static void run_all(int (*work)(void*)) {
  thrd_t threads[n_threads];
  for (intptr_t i = 0; i < n_threads; i++) CHECK_CODE(thrd_create(&threads[i], work, (void*)i), thrd_success);
  for (int i = 0; i < n_threads; i++) CHECK_CODE(thrd_join(threads[i], NULL), thrd_success);
}

CASE_FOR(exclusion, struct mutex_type, t, types) {
  CHECK_CODE(mtx_init(&ring.mutex, t->type), thrd_success);
  run_all(counts);
  CHECK(ring.count == (long)n_threads * n_rounds);
  mtx_destroy(&ring.mutex);
}

CASE(turns) {
  CHECK_CODE(mtx_init(&ring.mutex, mtx_plain), thrd_success);
  CHECK_CODE(cnd_init(&ring.turn), thrd_success);
  run_all(takes_turns);
  CHECK(ring.count == n_rounds / n_threads * n_threads);
  cnd_destroy(&ring.turn);
  mtx_destroy(&ring.mutex);
}

CASE(timed_wait) {
  CHECK_CODE(mtx_init(&ring.mutex, mtx_plain), thrd_success);
  CHECK_CODE(cnd_init(&ring.turn), thrd_success);
  CHECK_CODE(mtx_lock(&ring.mutex), thrd_success);
  CHECK_CODE(cnd_timedwait(&ring.turn, &ring.mutex, &past), thrd_timedout);
  const struct timespec until = after_ms(20);
  CHECK_CODE(cnd_timedwait(&ring.turn, &ring.mutex, &until), thrd_timedout);
  CHECK_CODE(elsewhere(tries, &ring.mutex), thrd_busy);
  CHECK_CODE(cnd_timedwait(&ring.turn, &ring.mutex, &invalid), thrd_error);
  CHECK_CODE(mtx_unlock(&ring.mutex), thrd_success);
  CHECK_CODE(cnd_signal(&ring.turn), thrd_success);
  CHECK_CODE(cnd_broadcast(&ring.turn), thrd_success);
}

static atomic_bool is_waiting;

static int waits_for_ever(void* unused) {
  (void)unused;
  CHECK_CODE(mtx_lock(&ring.mutex), thrd_success);
  is_waiting = true;
  for (;;) cnd_wait(&ring.turn, &ring.mutex);
  return 0;
}

static void unlocks(void* mutex) {
  CHECK_CODE(mtx_unlock(mutex), thrd_success);
}
static void* waits_with_a_handler(void* unused) {
  pthread_cleanup_push(unlocks, &ring.mutex);
  waits_for_ever(unused);
  pthread_cleanup_pop(0);
  return NULL;
}

// cnd_wait() is a cancellation point. A cancelled wait locks the mutex again before the thread's clean-up handlers run.
CASE(cancelled_wait) {
  CHECK_CODE(mtx_init(&ring.mutex, mtx_plain), thrd_success);
  CHECK_CODE(cnd_init(&ring.turn), thrd_success);
  pthread_t thread;
  void* result = NULL;
  CHECK_OK(pthread_create(&thread, NULL, waits_with_a_handler, NULL));
  while (!is_waiting) sched_yield();
  CHECK_CODE(mtx_lock(&ring.mutex), thrd_success);  // the thread has begun to wait
  CHECK_CODE(mtx_unlock(&ring.mutex), thrd_success);
  CHECK_OK(pthread_cancel(thread));
  CHECK_OK(pthread_join(thread, &result));
  CHECK(result == PTHREAD_CANCELED);
  CHECK_CODE(elsewhere(tries, &ring.mutex), thrd_success);
}
