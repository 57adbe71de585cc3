// A signal handler parks a thread while it waits for a mutex, as collectors and debuggers park threads. The mutex is unlocked
// then: other threads must get it, since only they can let the parked thread go on.
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

// Parks the waiter after `ms` in its wait. `behind` threads wait behind it; the users come after the unlock.
static void park_after(int ms, int behind) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t waiter, more[2], threads[kinds_of_user];
  struct user users[kinds_of_user];
  flag_set(&parked, 0), flag_set(&let_go, 0), flag_set(&handled, 0);
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_OK(pthread_create(&waiter, NULL, lock_once, &mutex));
  sleep_ms(ms);
  for (int i = 0; i < behind; ++i) CHECK_OK(pthread_create(&more[i], NULL, lock_once, &mutex));
  if (behind) sleep_ms(ms);
  CHECK_OK(pthread_kill(waiter, SIGUSR1));
  while (!flag_get(&parked)) sleep_ms(1);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  for (int i = 0; i < behind; ++i) CHECK_OK(pthread_join(more[i], NULL));
  for (int i = 0; i < kinds_of_user; ++i) {
    users[i] = (struct user){&mutex, i, 0};
    CHECK_OK(pthread_create(&threads[i], NULL, use, &users[i]));
  }
  for (int i = 0; i < kinds_of_user; ++i) CHECK_OK(pthread_join(threads[i], NULL));
  CHECK_NUMBER(flag_get(&handled), 0);
  flag_set(&let_go, 1);
  CHECK_OK(pthread_join(waiter, NULL));
  CHECK_OK(pthread_mutex_destroy(&mutex));
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
