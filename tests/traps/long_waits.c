// Tests how long threads wait, and how often they wake up while they wait. The unit of the first is a critical section
// of other threads, that of the second a context switch, because these numbers do not depend on the machine's load as
// times do.
#include "kinds.h"

#include <sys/resource.h>

struct scene {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int go, waiting, stop, returned;  // `waiting` and `returned` are flags; the others are guarded by the mutex
  long sections;                    // the number of critical sections of the threads that use the mutex; guarded by it
  long last_return;                 // the number of sections when the last waiter returned
  long switches;                    // the sum of the waiters' context switches; accessed as a flag
};

static void open_scene(struct scene* s) {
  memset(s, 0, sizeof *s);
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->condition, NULL);
}

static long my_switches(void) {
  struct rusage r;
  getrusage(RUSAGE_THREAD, &r);
  return r.ru_nvcsw;
}

/// Uses the mutex repeatedly. The thread sleeps while it holds the mutex, so that the other threads are queued when it
/// unlocks. Then the library, not the timing, decides which thread is next.
static void* use_again_and_again(void* argument) {
  struct scene* s = argument;
  for (bool over = false; !over;) {
    CHECK_OK(pthread_mutex_lock(&s->mutex));
    ++s->sections;
    sleep_ms(2);  // the length of the hold: the other threads are asleep at the unlock
    over = s->stop;
    CHECK_OK(pthread_mutex_unlock(&s->mutex));
  }
  return NULL;
}

static void* wait_for_go(void* argument) {
  struct scene* s = argument;
  CHECK_OK(pthread_mutex_lock(&s->mutex));
  flag_add(&s->waiting, 1);
  const long before = my_switches();
  while (!s->go) CHECK_OK(pthread_cond_wait(&s->condition, &s->mutex));
  __atomic_add_fetch(&s->switches, my_switches() - before, __ATOMIC_SEQ_CST);
  s->last_return = s->sections;
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  flag_add(&s->returned, 1);
  return NULL;
}

/// Returns the number of sections of `users` threads between the signal and the last waiter's return.
static long sections_of_others(struct scene* s, int users, int waiters) {
  open_scene(s);
  pthread_t wait[64], use[8];
  for (int i = 0; i < waiters; ++i) wait[i] = start_thread(wait_for_go, s);
  await_flag(&s->waiting, waiters);
  for (int i = 0; i < users; ++i) use[i] = start_thread(use_again_and_again, s);
  // Locks twice and signals the second time: the library does not know a thread that has never waited for a mutex.
  long sections = 0;
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(pthread_mutex_lock(&s->mutex));
    if (i == 1) {
      sections = s->sections;
      s->go = 1;
      CHECK_OK(waiters == 1 ? pthread_cond_signal(&s->condition) : pthread_cond_broadcast(&s->condition));
    }
    CHECK_OK(pthread_mutex_unlock(&s->mutex));
  }
  await_flag(&s->returned, waiters);
  CHECK_OK(pthread_mutex_lock(&s->mutex));
  s->stop = 1;
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  for (int i = 0; i < waiters; ++i) join_thread(wait[i]);
  for (int i = 0; i < users; ++i) join_thread(use[i]);
  return s->last_return - sections;
}

// A signalled thread gets the mutex after few critical sections of other threads, however long these are. (An earlier
// version let eight pass.)
CASE(signalled_among_long_sections) {
  struct scene s;
  int soon = 0;
  for (int i = 0; i < 5; ++i) soon += sections_of_others(&s, 2, 1) <= 4 ? 1 : 0;
  CHECK(soon >= 3);
}

// The 40 waiters of a broadcast return within 20 critical sections of other threads. (An earlier version needed two to
// four sections per waiter.)
CASE(broadcast_among_long_sections) {
  struct scene s;
  const long sections = sections_of_others(&s, 3, 40);
  note("%ld sections, %ld switches of 40 waiters", sections, s.switches);
  CHECK(sections <= 20);
  CHECK(s.switches <= 2 * 40 + 10);
}

struct turns {
  pthread_mutex_t mutex;
  pthread_cond_t condition[2];
  int turn, stop;  // guarded by the mutex
  int begun;       // a flag
  long sections;   // guarded by the mutex
};
struct player {
  struct turns* turns;
  int side;
};

static void* take_turns(void* argument) {
  struct player* p = argument;
  struct turns* t = p->turns;
  CHECK_OK(pthread_mutex_lock(&t->mutex));
  while (!t->stop) {
    while (t->turn != p->side && !t->stop) CHECK_OK(pthread_cond_wait(&t->condition[p->side], &t->mutex));
    t->turn = 1 - p->side;
    CHECK_OK(pthread_cond_signal(&t->condition[1 - p->side]));
    if (++t->sections == 20) flag_set(&t->begun, 1);
    sleep_ms(2);  // the length of the hold: the signalled thread cannot run before the next wait
  }
  CHECK_OK(pthread_cond_broadcast(&t->condition[1 - p->side]));
  CHECK_OK(pthread_mutex_unlock(&t->mutex));
  return NULL;
}

// Two threads that signal each other for ever must not keep a third thread from the mutex.
CASE(beside_threads_that_take_turns) {
  struct turns t;
  memset(&t, 0, sizeof t);
  pthread_mutex_init(&t.mutex, NULL);
  for (int i = 0; i < 2; ++i) pthread_cond_init(&t.condition[i], NULL);
  struct player players[2] = {{&t, 0}, {&t, 1}};
  pthread_t all[2];
  for (int i = 0; i < 2; ++i) all[i] = start_thread(take_turns, &players[i]);
  await_flag(&t.begun, 1);
  long last = 0;
  for (int i = 0; i < 20; ++i) {
    CHECK_OK(pthread_mutex_lock(&t.mutex));
    note("%ld sections in round %d", t.sections - last, i);
    if (i != 0) CHECK(t.sections - last <= 20);
    last = t.sections;
    t.stop = i == 19;
    for (int side = 0; side < 2 && t.stop; ++side) CHECK_OK(pthread_cond_broadcast(&t.condition[side]));
    CHECK_OK(pthread_mutex_unlock(&t.mutex));
  }
  for (int i = 0; i < 2; ++i) join_thread(all[i]);
}

struct crowd {
  pthread_mutex_t mutex;
  struct timespec until;
  long switches;  // a flag
};

static void* give_up(void* argument) {
  struct crowd* c = argument;
  const long before = my_switches();
  CHECK_CODE(pthread_mutex_clocklock(&c->mutex, CLOCK_MONOTONIC, &c->until), ETIMEDOUT);
  __atomic_add_fetch(&c->switches, my_switches() - before, __ATOMIC_SEQ_CST);
  return NULL;
}

// If the mutex stays locked, a thread with a deadline sleeps until the deadline. (An earlier version woke up about a
// hundred times a second.)
CASE(deadlines_that_pass) {
  enum { threads = 64 };
  struct crowd c = {.until = later(now(CLOCK_MONOTONIC), 1000)};
  pthread_mutex_init(&c.mutex, NULL);
  CHECK_OK(pthread_mutex_lock(&c.mutex));
  pthread_t all[threads];
  for (int i = 0; i < threads; ++i) all[i] = start_thread(give_up, &c);
  for (int i = 0; i < threads; ++i) join_thread(all[i]);
  CHECK_OK(pthread_mutex_unlock(&c.mutex));
  note("%ld switches of %d threads", c.switches, threads);
  CHECK(c.switches <= 3 * threads);
}

static void* get_in(void* argument) {
  struct crowd* c = argument;
  const long before = my_switches();
  for (int i = 0; i < 20; ++i) {
    const struct timespec until = later(now(CLOCK_MONOTONIC), 10000);
    CHECK_OK(pthread_mutex_clocklock(&c->mutex, CLOCK_MONOTONIC, &until));
    sleep_ms(1);  // the length of the hold: the other threads are asleep at the unlock
    CHECK_OK(pthread_mutex_unlock(&c->mutex));
  }
  __atomic_add_fetch(&c->switches, my_switches() - before, __ATOMIC_SEQ_CST);
  return NULL;
}

// Each unlock gives the mutex to the next waiter, so no waiter sleeps until its deadline.
CASE(deadlines_that_are_met) {
  struct crowd c = {.switches = 0};
  pthread_mutex_init(&c.mutex, NULL);
  pthread_t all[8];
  const double start = seconds();
  for (int i = 0; i < 8; ++i) all[i] = start_thread(get_in, &c);
  for (int i = 0; i < 8; ++i) join_thread(all[i]);
  CHECK(seconds() - start < 8);
}
