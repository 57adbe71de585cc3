// Tests the end of a process and of its threads while other threads still wait or work. Code that runs last (exit
// handlers, destructors of static objects and of thread-specific data) locks, waits and posts.
#include "kinds.h"
#include "semaphore_calls.h"

#include <sys/syscall.h>

struct world {
  pthread_mutex_t mutex, held;
  pthread_cond_t condition;
  sem_t semaphore, empty;
  int waiting, stop, way;
  long count;
};
static struct world world;
static int* outcome;  // in a page shared with the case

static void make_world(const struct mutex_kind* kind) {
  memset(&world, 0, sizeof world);
  make_mutex(&world.mutex, kind);
  make_mutex(&world.held, kind);
  CHECK_OK(pthread_cond_init(&world.condition, NULL));
  make_semaphore(&world.semaphore, 1);
  make_semaphore(&world.empty, 0);
}

// -- threads that wait when the process ends --

static void* wait_for_ever(void* argument) {
  const long way = (long)(intptr_t)argument;
  const struct timespec deadline = later(now(CLOCK_REALTIME), 60000);
  flag_add(&world.waiting, 1);
  switch (way % 7) {
    case 0:
      (void)pthread_mutex_lock(&world.held);
      break;
    case 1:
      (void)pthread_mutex_timedlock(&world.held, &deadline);
      break;
    case 2:
      (void)sem_wait(&world.empty);
      break;
    case 3:
      (void)sem_timedwait(&world.empty, &deadline);
      break;
    case 4:
      CHECK_OK(pthread_mutex_lock(&world.mutex));
      for (;;) CHECK_OK(pthread_cond_wait(&world.condition, &world.mutex));
    case 5:
      CHECK_OK(pthread_mutex_lock(&world.mutex));
      for (;;) CHECK_OK(pthread_cond_timedwait(&world.condition, &world.mutex, &deadline));
    default:
      (void)semaphore_wait_monotonic(&world.empty, &deadline);
  }
  return NULL;
}

static void* work_for_ever(void* argument) {
  struct world* all = argument;
  for (long i = 0; !flag_get(&all->stop); ++i) {
    CHECK_OK(pthread_mutex_lock(&all->mutex));
    const struct timespec soon = later(now(CLOCK_REALTIME), 1);
    if (i % 16 == 3) (void)pthread_cond_timedwait(&all->condition, &all->mutex, &soon);
    CHECK_OK(i % 2 ? pthread_cond_signal(&all->condition) : pthread_cond_broadcast(&all->condition));
    ++all->count;
    CHECK_OK(pthread_mutex_unlock(&all->mutex));
    CHECK_SUCCESS(wait_long(&semaphore_waits[i % 4], &all->semaphore));
    linger(i);
    CHECK_SUCCESS(sem_post(&all->semaphore));
  }
  return NULL;
}

static void start_detached(thread_body body, void* argument) {
  pthread_attr_t attribute;
  pthread_t thread;
  CHECK_OK(pthread_attr_init(&attribute));
  CHECK_OK(pthread_attr_setdetachstate(&attribute, PTHREAD_CREATE_DETACHED));
  CHECK_OK(pthread_create(&thread, &attribute, body, argument));
  CHECK_OK(pthread_attr_destroy(&attribute));
}

// -- the code that runs last --

// Called by the code that runs last. It uses the same objects as the other threads, while these threads still use them.
static void use_the_world(void) {
  for (int i = 0; i < 40; ++i) {
    CHECK_OK(pthread_mutex_lock(&world.mutex));
    const struct timespec past = {0, 0};
    if (i % 8 == 0) {
      const int code = pthread_cond_timedwait(&world.condition, &world.mutex, &past);
      CHECK(code == 0 || code == ETIMEDOUT);
    }
    CHECK_OK(pthread_cond_broadcast(&world.condition));
    ++world.count;
    CHECK_OK(pthread_mutex_unlock(&world.mutex));
    CHECK_SUCCESS(wait_long(&semaphore_waits[i % 4], &world.semaphore));
    CHECK_SUCCESS(sem_post(&world.semaphore));
  }
  ++*outcome;
}

static bool destructor_wanted;
__attribute__((destructor)) static void at_the_very_end(void) {
  if (destructor_wanted) use_the_world();
}

// -- the ways to end --

struct end {
  const char* name;
  void (*leave)(int);
  bool handlers, quick_handlers;
};

static void leave_raw(int status) {
  syscall(SYS_exit_group, status);
}

static const struct end ends[] = {
    {"exit", exit, true, false},
    {"quick_exit", quick_exit, false, true},
    {"_exit", _exit, false, false},
    {"exit_group", leave_raw, false, false},
};

static void end_world(const struct end* end, const struct mutex_kind* kind, int waiters, int workers, bool detached) {
  outcome = shared_page();
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    make_world(kind);
    destructor_wanted = true;
    if (atexit(use_the_world) != 0 || at_quick_exit(use_the_world) != 0) _exit(2);
    CHECK_OK(pthread_mutex_lock(&world.held));
    for (int i = 0; i < waiters + workers; ++i) {
      thread_body body = i < waiters ? wait_for_ever : work_for_ever;
      void* argument = i < waiters ? (void*)(intptr_t)i : &world;
      if (detached)
        start_detached(body, argument);
      else
        start_thread(body, argument);
    }
    CHECK(flag_comes(&world.waiting, waiters));
    if (waiters % 2) await_sleepers(waiters);
    end->leave(17);
  }
  CHECK_CHILD(child, 17);
  CHECK_NUMBER(*outcome, end->handlers ? 2 : end->quick_handlers ? 1 : 0);
  munmap(outcome, 4096);
}

CASE_FOR(ends_among_waiters, struct end, end, ends) {
  for (int round = 0; round < 8; ++round) end_world(end, &main_kinds[round % 4], 7 + round % 2, 0, round % 3 == 0);
}
CASE_FOR(ends_among_workers, struct end, end, ends) {
  for (int round = 0; round < 12; ++round) end_world(end, &main_kinds[round % 4], 0, 3, round % 3 == 0);
}
CASE_FOR(ends_among_both, struct end, end, ends) {
  for (int round = 0; round < 4; ++round) end_world(end, &main_kinds[round % 4], 7, 2, round % 2 == 0);
}

// -- exit is called by another thread while the first thread waits --

static void* exit_from_here(void* argument) {
  (void)argument;
  CHECK(flag_comes(&world.waiting, 1));
  await_asleep(getpid());
  exit(18);
}

CASE(ended_while_the_first_thread_waits) {
  for (int way = 0; way < 7; ++way) {
    outcome = shared_page();
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      make_world(&all_kinds[0]);
      destructor_wanted = true;
      if (atexit(use_the_world) != 0) _exit(2);
      struct holder holder;
      hold(&holder, &world.held);
      start_thread(exit_from_here, NULL);
      wait_for_ever((void*)(intptr_t)way);
      _exit(3);
    }
    CHECK_CHILD(child, 18);
    CHECK_NUMBER(*outcome, 2);
    munmap(outcome, 4096);
  }
}

// An exit handler that ends the threads in an orderly way: it tells them to stop, and joins them.
static pthread_t to_be_joined[6];
static void stop_and_join(void) {
  CHECK_OK(pthread_mutex_lock(&world.mutex));
  world.stop = 1;
  CHECK_OK(pthread_cond_broadcast(&world.condition));
  CHECK_OK(pthread_mutex_unlock(&world.mutex));
  for (int i = 0; i < 3; ++i) CHECK_SUCCESS(sem_post(&world.empty));
  for (int i = 0; i < 6; ++i) join_thread(to_be_joined[i]);
  CHECK_OK(pthread_cond_destroy(&world.condition));
  CHECK_OK(pthread_mutex_destroy(&world.mutex));
  CHECK_SUCCESS(sem_destroy(&world.empty));
  ++*outcome;
}

static void* wait_to_be_stopped(void* argument) {
  flag_add(&world.waiting, 1);
  if (argument) {
    CHECK_SUCCESS(wait_long(&semaphore_waits[0], &world.empty));
    return NULL;
  }
  CHECK_OK(pthread_mutex_lock(&world.mutex));
  while (!world.stop) CHECK_OK(pthread_cond_wait(&world.condition, &world.mutex));
  CHECK_OK(pthread_mutex_unlock(&world.mutex));
  return NULL;
}

CASE(exit_handlers_stop_the_threads) {
  for (int round = 0; round < 10; ++round) {
    outcome = shared_page();
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      make_world(&main_kinds[round % 4]);
      if (atexit(stop_and_join) != 0) _exit(2);
      for (int i = 0; i < 6; ++i) to_be_joined[i] = start_thread(wait_to_be_stopped, i % 2 ? &world : NULL);
      if (round % 2) CHECK(flag_comes(&world.waiting, 6));
      exit(19);
    }
    CHECK_CHILD(child, 19);
    CHECK_NUMBER(*outcome, 1);
    munmap(outcome, 4096);
  }
}

// The first thread leaves by pthread_exit(). The last thread works with the others and then ends the process.
static void* work_without_main(void* argument) {
  const pthread_t* main_thread = argument;
  if (main_thread) CHECK_OK(pthread_join(*main_thread, NULL));
  for (int i = 0; i < 50; ++i) {
    CHECK_OK(pthread_mutex_lock(&world.mutex));
    ++world.count;
    CHECK_OK(pthread_cond_broadcast(&world.condition));
    const struct timespec soon = later(now(CLOCK_MONOTONIC), 1);
    if (i % 16 == 0) (void)pthread_cond_clockwait(&world.condition, &world.mutex, CLOCK_MONOTONIC, &soon);
    CHECK_OK(pthread_mutex_unlock(&world.mutex));
    CHECK_SUCCESS(sem_wait(&world.semaphore));
    CHECK_SUCCESS(sem_post(&world.semaphore));
  }
  flag_add(&world.stop, 1);
  // The thread that has joined the first thread checks that all threads have done their work.
  if (main_thread) {
    CHECK(flag_comes(&world.stop, 4));
    CHECK_SUCCESS(sem_wait(&world.empty));
    ++*outcome;
  }
  return NULL;
}

static void leave_something(void* argument) {
  CHECK_SUCCESS(sem_post(argument));
}

CASE(others_go_on_without_the_first_thread) {
  for (int round = 0; round < 8; ++round) {
    outcome = shared_page();
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      make_world(&main_kinds[round % 4]);
      static pthread_t self;
      self = pthread_self();
      if (atexit(use_the_world) != 0) _exit(2);
      for (int i = 0; i < 4; ++i) start_detached(work_without_main, i ? NULL : &self);
      pthread_cleanup_push(leave_something, &world.empty);
      pthread_exit(NULL);
      pthread_cleanup_pop(0);
    }
    CHECK_CHILD(child, 0);
    CHECK_NUMBER(*outcome, 2);
    munmap(outcome, 4096);
  }
}

// -- thread-specific data: a library may have released its record of the thread before these destructors run --

struct farewell {
  const char* name;
  const struct mutex_kind* kind;
  bool used_before;  ///< the thread has locked and waited before its destructors run
  bool again;        ///< the destructor sets the key again, so that it is called in further rounds
};
static const struct farewell farewells[] = {
    {"normal", &main_kinds[0], true, false},   {"first_use_ever", &main_kinds[0], false, false},
    {"recursive", &main_kinds[1], true, true}, {"errorcheck", &main_kinds[2], false, true},
    {"adaptive", &main_kinds[3], true, true},
};

static pthread_key_t keys[3];
static const struct farewell* farewell;
static int destroyed;

static void destroy_data(void* data) {
  int* rounds = data;
  // Every kind of object is used, and some of them are contended.
  CHECK_OK(pthread_mutex_lock(&world.mutex));
  linger(++world.count);
  const struct timespec past = {0, 0};
  const int code = pthread_cond_timedwait(&world.condition, &world.mutex, &past);
  CHECK(code == 0 || code == ETIMEDOUT);
  CHECK_OK(pthread_cond_signal(&world.condition));
  CHECK_OK(pthread_mutex_unlock(&world.mutex));
  CHECK_SUCCESS(sem_wait(&world.semaphore));
  linger(world.count);
  CHECK_SUCCESS(sem_post(&world.semaphore));
  // In the first round of destructors two threads wait for each other, one on the condition and the other on the
  // semaphore. In later rounds a thread might find no partner.
  CHECK_OK(pthread_mutex_lock(&world.mutex));
  if (*rounds != 3) {
    CHECK_OK(pthread_mutex_unlock(&world.mutex));
  } else if (++world.waiting % 2) {
    const int mine = world.waiting;
    while (world.waiting == mine) CHECK_OK(pthread_cond_wait(&world.condition, &world.mutex));
    CHECK_SUCCESS(sem_post(&world.empty));
    CHECK_OK(pthread_mutex_unlock(&world.mutex));
  } else {
    CHECK_OK(pthread_cond_broadcast(&world.condition));
    CHECK_OK(pthread_mutex_unlock(&world.mutex));
    CHECK_SUCCESS(sem_wait(&world.empty));
  }
  flag_add(&destroyed, 1);
  if (farewell->again && --*rounds > 0) {
    CHECK_OK(pthread_setspecific(keys[1], data));
    return;
  }
  free(data);
}

static void* live_and_die(void* argument) {
  (void)argument;
  if (farewell->used_before) {
    CHECK_OK(pthread_mutex_lock(&world.mutex));
    linger(++world.count);
    CHECK_OK(pthread_mutex_unlock(&world.mutex));
    CHECK_SUCCESS(sem_wait(&world.semaphore));
    CHECK_SUCCESS(sem_post(&world.semaphore));
  }
  int* rounds = malloc(sizeof *rounds);
  CHECK(rounds != NULL);
  *rounds = 3;
  CHECK_OK(pthread_setspecific(keys[1], rounds));
  return NULL;
}

CASE_FOR(data_destructors, struct farewell, way, farewells) {
  farewell = way;
  make_world(way->kind);
  for (int i = 0; i < 3; ++i) CHECK_OK(pthread_key_create(&keys[i], destroy_data));
  const int each = way->again ? 3 : 1;
  for (int round = 1; round <= 15; ++round) {
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) {
      if (round % 2)
        threads[i] = start_thread(live_and_die, NULL);
      else
        start_detached(live_and_die, NULL);
    }
    CHECK(flag_comes(&destroyed, 4 * each * round));
    if (round % 2)
      for (int i = 0; i < 4; ++i) join_thread(threads[i]);
  }
  CHECK_NUMBER(value_of(&world.semaphore), 1);
  CHECK_NUMBER(value_of(&world.empty), 0);
}

// Cancelled threads also run these destructors, after their clean-up handlers.
static void unlock_mutex(void* mutex) {
  CHECK_OK(pthread_mutex_unlock(mutex));
}

static void* be_cancelled(void* argument) {
  live_and_die(NULL);
  flag_add(&world.stop, 1);
  if (argument) {
    CHECK_SUCCESS(sem_wait(&world.empty));
  } else {
    CHECK_OK(pthread_mutex_lock(&world.held));
    pthread_cleanup_push(unlock_mutex, &world.held);
    for (;;) CHECK_OK(pthread_cond_wait(&world.condition, &world.held));
    pthread_cleanup_pop(1);
  }
  return NULL;
}

CASE(data_destructors_of_cancelled) {
  farewell = &farewells[0];
  make_world(farewell->kind);
  CHECK_OK(pthread_key_create(&keys[1], destroy_data));
  for (int round = 1; round <= 20; ++round) {
    pthread_t threads[2];
    // In one half of the rounds both threads wait on the condition, in the other half on the semaphore.
    for (int i = 0; i < 2; ++i) threads[i] = start_thread(be_cancelled, round % 2 ? &world : NULL);
    CHECK(flag_comes(&world.stop, 2 * round));
    if (round % 3) await_sleepers(2);
    for (int i = 0; i < 2; ++i) CHECK_OK(pthread_cancel(threads[i]));
    for (int i = 0; i < 2; ++i) CHECK(join_thread(threads[i]) == PTHREAD_CANCELED);
    CHECK_NUMBER(destroyed, 2 * round);
    CHECK_OK(try_elsewhere(&world.held));
  }
}

// The thread ends while it holds a mutex and a unit of a semaphore. Both must become available when another thread
// releases them.
static void* die_holding(void* argument) {
  CHECK_OK(pthread_mutex_lock(&world.mutex));
  CHECK_SUCCESS(sem_wait(&world.semaphore));
  flag_set(argument, (int)gettid());
  return NULL;
}

CASE(threads_end_while_they_hold) {
  for (int i = 0; i < 7; ++i) {
    note("mutex %s", careless_kinds[i].name);
    make_world(&careless_kinds[i]);
    int held = 0;
    start_detached(die_holding, &held);
    await_flag(&held, 1);
    while (tgkill(getpid(), held, 0) == 0) usleep(100);  // until the thread has ended; the case has a time limit
    CHECK_CODE(pthread_mutex_trylock(&world.mutex), EBUSY);
    const struct timespec soon = later(now(CLOCK_REALTIME), 2);
    CHECK_CODE(pthread_mutex_timedlock(&world.mutex, &soon), ETIMEDOUT);
    CHECK_ERROR(sem_timedwait(&world.semaphore, &soon), ETIMEDOUT);
    pthread_t waiter = start_thread(thread_lock_unlock, &world.mutex);
    await_sleepers(1);
    // An unlock by a thread that is not the owner is undefined, but programs do it.
    CHECK_OK(pthread_mutex_unlock(&world.mutex));
    CHECK_SUCCESS(sem_post(&world.semaphore));
    CHECK_OK((int)(intptr_t)join_thread(waiter));
    CHECK_SUCCESS(sem_wait(&world.semaphore));
    CHECK_OK(try_elsewhere(&world.mutex));
  }
}
