// Garbage collectors and debuggers *park* a thread: its signal handler does not return until another thread permits it.
// The handler may interrupt a thread that waits for a mutex: in a lock call with or without a deadline, or at the end
// of a condition variable's wait. If the mutex is then unlocked, other threads must get it, because only they can let
// the parked thread go on.
#include "cases.h"

#include <signal.h>

enum { give_up_after = 20000, /* ms */ kinds_of_user = 3 };

static int parked, let_go, handled;

static void park(int signal) {
  (void)signal;
  flag_add(&parked, 1);
  while (!flag_get(&let_go)) sleep_ms(1);
  flag_add(&handled, 1);
}

static void* lock_once(void* mutex) {
  CHECK_OK(pthread_mutex_lock(mutex));
  CHECK_OK(pthread_mutex_unlock(mutex));
  return NULL;
}

struct user {
  pthread_mutex_t* mutex;
  int kind, done;
};

static void* use(void* argument) {
  struct user* const user = argument;
  const struct timespec until = later(now(CLOCK_REALTIME), give_up_after);
  if (user->kind == 0)
    CHECK_OK(pthread_mutex_timedlock(user->mutex, &until));
  else if (user->kind == 1)
    CHECK_OK(pthread_mutex_lock(user->mutex));
  else
    while (pthread_mutex_trylock(user->mutex) != 0) sleep_ms(1);
  CHECK_OK(pthread_mutex_unlock(user->mutex));
  flag_add(&user->done, 1);
  return NULL;
}

// Starts the users `first` to `last`, which must get the mutex while the waiter is parked, and joins them.
static void let_in(pthread_mutex_t* mutex, int first, int last) {
  pthread_t threads[kinds_of_user];
  struct user users[kinds_of_user];
  for (int i = first; i <= last; ++i) {
    users[i] = (struct user){mutex, i, 0};
    CHECK_OK(pthread_create(&threads[i], NULL, use, &users[i]));
  }
  for (int i = first; i <= last; ++i) CHECK_OK(pthread_join(threads[i], NULL));
  CHECK_NUMBER(flag_get(&handled), 0);
}

static void begin_case(void) {
  flag_set(&parked, 0), flag_set(&let_go, 0), flag_set(&handled, 0);
}

static void park_thread(pthread_t waiter) {
  CHECK_OK(pthread_kill(waiter, SIGUSR1));
  while (!flag_get(&parked)) sleep_ms(1);
}

// Parks a thread that has waited for the mutex for `ms` milliseconds. `behind` threads wait behind it. Users come when
// the mutex has been unlocked.
static void park_after(int ms, int behind) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t waiter, more[2];
  begin_case();
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_OK(pthread_create(&waiter, NULL, lock_once, &mutex));
  sleep_ms(ms);
  for (int i = 0; i < behind; ++i) CHECK_OK(pthread_create(&more[i], NULL, lock_once, &mutex));
  if (behind) sleep_ms(ms);
  park_thread(waiter);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  for (int i = 0; i < behind; ++i) CHECK_OK(pthread_join(more[i], NULL));
  let_in(&mutex, 0, kinds_of_user - 1);
  flag_set(&let_go, 1);
  CHECK_OK(pthread_join(waiter, NULL));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

static void* lock_in_time(void* mutex) {
  const struct timespec until = later(now(CLOCK_REALTIME), 10 * give_up_after);
  CHECK_OK(pthread_mutex_timedlock(mutex, &until));
  CHECK_OK(pthread_mutex_unlock(mutex));
  return NULL;
}

// The parked waiter has a deadline; if `behind`, a second thread waits behind it without a deadline. Only users of the
// given kind come.
static void park_timed(int kind, int behind) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t waiter, other;
  begin_case();
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_OK(pthread_create(&waiter, NULL, lock_in_time, &mutex));
  sleep_ms(5);
  if (behind) {
    CHECK_OK(pthread_create(&other, NULL, lock_once, &mutex));
    sleep_ms(5);
  }
  park_thread(waiter);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  if (behind) CHECK_OK(pthread_join(other, NULL));
  let_in(&mutex, kind, kind);
  flag_set(&let_go, 1);
  CHECK_OK(pthread_join(waiter, NULL));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

struct signalled {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int waits, go_on;
};

static void* wait_for_signal(void* argument) {
  struct signalled* const s = argument;
  CHECK_OK(pthread_mutex_lock(&s->mutex));
  flag_set(&s->waits, 1);
  while (!flag_get(&s->go_on)) CHECK_OK(pthread_cond_wait(&s->condition, &s->mutex));
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  return NULL;
}

// A thread signals the waiter and holds the mutex for another 10 ms, during which the waiter is parked.
static void park_signalled(int kind) {
  struct signalled s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
  pthread_t waiter;
  begin_case();
  CHECK_OK(pthread_create(&waiter, NULL, wait_for_signal, &s));
  while (!flag_get(&s.waits)) sleep_ms(1);
  CHECK_OK(pthread_mutex_lock(&s.mutex));
  flag_set(&s.go_on, 1);
  CHECK_OK(pthread_cond_signal(&s.condition));
  sleep_ms(10);
  park_thread(waiter);
  CHECK_OK(pthread_mutex_unlock(&s.mutex));
  let_in(&s.mutex, kind, kind);
  flag_set(&let_go, 1);
  CHECK_OK(pthread_join(waiter, NULL));
  CHECK_OK(pthread_mutex_destroy(&s.mutex));
  CHECK_OK(pthread_cond_destroy(&s.condition));
}

static void take_signals(void) {
  struct sigaction action = {.sa_handler = park, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

CASE(others_get_the_mutex) {
  take_signals();
  for (int ms = 0; ms < 16; ++ms) park_after(ms, 0);
}

CASE(threads_behind_the_parked_one_get_the_mutex) {
  take_signals();
  for (int ms = 0; ms < 8; ++ms) park_after(ms, 2);
}

CASE(others_get_the_mutex_of_one_with_a_deadline) {
  take_signals();
  for (int kind = 0; kind < kinds_of_user; ++kind)
    for (int behind = 0; behind < 2; ++behind) park_timed(kind, behind);
}

CASE(others_get_the_mutex_of_one_that_was_signalled) {
  take_signals();
  for (int kind = 0; kind < kinds_of_user; ++kind)
    for (int i = 0; i < 2; ++i) park_signalled(kind);
}

static void* read_once(void* lock) {
  CHECK_OK(pthread_rwlock_rdlock(lock));
  CHECK_OK(pthread_rwlock_unlock(lock));
  return NULL;
}

// A reader is parked while it waits for a writer. When the writer has unlocked, the parked reader counts as a reader,
// also in the C library. So other threads may read, and none may write until the parked thread goes on.
CASE(others_read_beside_a_parked_reader) {
  take_signals();
  for (int ms = 0; ms < 8; ++ms) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_t reader;
    begin_case();
    CHECK_OK(pthread_rwlock_wrlock(&lock));
    CHECK_OK(pthread_create(&reader, NULL, read_once, &lock));
    await_sleepers(1);
    sleep_ms(ms);
    CHECK_OK(pthread_kill(reader, SIGUSR1));
    await_flag(&parked, 1);
    CHECK_OK(pthread_rwlock_unlock(&lock));
    in_new_thread(read_once, &lock);
    // The reader may have been seen asleep before its real wait began. Then it does not count as a reader yet.
    const int code = pthread_rwlock_trywrlock(&lock);
    if (code == 0)
      CHECK_OK(pthread_rwlock_unlock(&lock));
    else
      CHECK_CODE(code, EBUSY);
    flag_set(&let_go, 1);
    CHECK_OK(pthread_join(reader, NULL));
    CHECK_OK(pthread_rwlock_wrlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
  }
}
