// Tests threads that a condition variable has selected while their mutex is held. A library may requeue such a thread
// to the mutex instead of waking it. Whatever happens before the mutex is free, no requeued thread may stay asleep for
// ever.
#include "cases.h"

struct scene {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int go, done, waiting, queued, turn, stop;
  long held;  // guarded by the mutex
};

static void open_scene(struct scene* s) {
  memset(s, 0, sizeof *s);
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->condition, NULL);
}

/// Makes the calling thread known to the library. Some libraries know a thread only after it has locked a mutex that
/// records its owner, and requeue waiters only to a mutex whose holder they know.
static void become_known(void) {
  pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_OK(pthread_mutex_unlock(&mutex));
}

static void* wait_for_go(void* argument) {
  struct scene* s = argument;
  CHECK_OK(pthread_mutex_lock(&s->mutex));
  flag_add(&s->waiting, 1);
  while (!s->go) CHECK_OK(pthread_cond_wait(&s->condition, &s->mutex));
  flag_add(&s->done, 1);
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  return NULL;
}

static void* pass_through(void* argument) {
  struct scene* s = argument;
  flag_add(&s->queued, 1);
  CHECK_OK(pthread_mutex_lock(&s->mutex));
  sleep_ms(1);  // the length of the hold: the next threads of the queue are asleep at the unlock
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  return NULL;
}

static void* signal_after_a_timed_lock(void* argument) {
  struct scene* s = argument;
  become_known();
  flag_add(&s->queued, 1);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 10000);
  CHECK_OK(pthread_mutex_timedlock(&s->mutex, &deadline));
  s->go = 1;
  CHECK_OK(pthread_cond_signal(&s->condition));
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  return NULL;
}

// The signalling thread has acquired the mutex by a timed call. When it unlocks, other threads are queued for the
// mutex.
CASE(signal_by_a_thread_with_a_deadline) {
  for (int round = 0; round < 4; ++round) {
    struct scene s;
    open_scene(&s);
    pthread_t waiter = start_thread(wait_for_go, &s);
    await_flag(&s.waiting, 1);
    CHECK_OK(pthread_mutex_lock(&s.mutex));
    pthread_t others[3];
    for (int i = 0; i < 3; ++i) {
      others[i] = start_thread(i < 2 ? pass_through : signal_after_a_timed_lock, &s);
      await_flag(&s.queued, i + 1);
      sleep_ms(5);  // the thread queues before the next one, and long enough (4 ms) to be handed the mutex
    }
    CHECK_OK(pthread_mutex_unlock(&s.mutex));
    for (int i = 0; i < 3; ++i) join_thread(others[i]);
    CHECK(flag_comes(&s.done, 1));
    join_thread(waiter);
  }
}

static void* hold_again_and_again(void* argument) {
  struct scene* s = argument;
  while (!flag_get(&s->stop)) {
    CHECK_OK(pthread_mutex_lock(&s->mutex));
    ++s->held;
    sleep_ms(1);  // the length of the hold: the other threads queue
    CHECK_OK(pthread_mutex_unlock(&s->mutex));
  }
  return NULL;
}

// Signalled threads acquire the mutex although other threads use it all the time.
CASE(signalled_among_threads_that_keep_the_mutex_busy) {
  struct scene s;
  open_scene(&s);
  pthread_t waiters[3], busy[3];
  for (int i = 0; i < 3; ++i) waiters[i] = start_thread(wait_for_go, &s);
  await_flag(&s.waiting, 3);
  for (int i = 0; i < 3; ++i) busy[i] = start_thread(hold_again_and_again, &s);
  sleep_ms(20);  // about 20 holds: the busy threads hand the mutex to each other
  become_known();
  CHECK_OK(pthread_mutex_lock(&s.mutex));
  s.go = 1;
  CHECK_OK(pthread_cond_signal(&s.condition));
  CHECK_OK(pthread_cond_broadcast(&s.condition));
  CHECK_OK(pthread_mutex_unlock(&s.mutex));
  const double start = seconds();
  while (flag_get(&s.done) < 3 && seconds() - start < 15) sleep_ms(1);  // polls
  flag_set(&s.stop, 1);
  CHECK_NUMBER(flag_get(&s.done), 3);
  for (int i = 0; i < 3; ++i) join_thread(waiters[i]);
  for (int i = 0; i < 3; ++i) join_thread(busy[i]);
}

static void* wait_again_and_again(void* argument) {
  struct scene* s = argument;
  CHECK_OK(pthread_mutex_lock(&s->mutex));
  while (!flag_get(&s->stop)) {
    s->go = 0;
    flag_set(&s->waiting, 1);
    while (!s->go) CHECK_OK(pthread_cond_wait(&s->condition, &s->mutex));
    flag_add(&s->done, 1);
  }
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  return NULL;
}

static void* unlock_for_another(void* argument) {
  struct scene* s = argument;
  while (!flag_get(&s->stop))
    if (flag_get(&s->turn)) {
      flag_set(&s->turn, 0);
      CHECK_OK(pthread_mutex_unlock(&s->mutex));
    }
  return NULL;
}

// One thread locks and signals while another thread unlocks. POSIX leaves an unlock by another thread undefined, but
// programs do it.
CASE(signal_while_another_thread_unlocks) {
  struct scene s;
  open_scene(&s);
  pthread_t waiter = start_thread(wait_again_and_again, &s);
  pthread_t unlocker = start_thread(unlock_for_another, &s);
  become_known();
  unsigned spread = 1;
  const double start = seconds();
  for (int round = 0; round < 20000 && seconds() - start < 1; ++round) {
    CHECK(flag_comes(&s.waiting, 1));
    flag_set(&s.waiting, 0);
    CHECK_OK(pthread_mutex_lock(&s.mutex));
    s.go = 1;
    flag_set(&s.turn, 1);
    spread = spread * 1664525 + 1013904223;
    compute(spread >> 26);
    CHECK_OK(pthread_cond_signal(&s.condition));
  }
  CHECK(flag_comes(&s.waiting, 1));
  flag_set(&s.stop, 1);
  join_thread(unlocker);
  CHECK_OK(pthread_mutex_lock(&s.mutex));
  s.go = 1;
  CHECK_OK(pthread_cond_signal(&s.condition));
  CHECK_OK(pthread_mutex_unlock(&s.mutex));
  join_thread(waiter);
}
