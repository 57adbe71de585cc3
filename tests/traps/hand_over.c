// Traps of the hand-over: an unlock that accesses the mutex too late, queue nodes of threads that do not exist in a
// child, deadlines under load, unlocks by threads that do not own the mutex.
#include "kinds.h"

#include <limits.h>
#include <sys/syscall.h>

// -- unlock does not access the mutex once another thread may own it --

enum { sharers = 3, pages = 3000 };

struct object {
  pthread_mutex_t mutex;
  int references;
};

struct relay {
  struct object* objects[pages];
  int ready[pages];
  int unmapped;
};

// The last owner unmaps the page as soon as it has released the mutex. The previous owner may still be in its unlock:
// if this accesses the page later, the program crashes. A stress test does not show every incorrect access, since few
// come that late.
static void* drop_all(void* argument) {
  struct relay* relay = argument;
  for (int i = 0; i < pages; ++i) {
    // The threads wait for each other before each round, so that they contend.
    flag_add(&relay->ready[i], 1);
    for (int spins = 0; flag_get(&relay->ready[i]) < sharers; ++spins)
      if (spins > 200) sched_yield();
    struct object* object = relay->objects[i];
    CHECK_OK(pthread_mutex_lock(&object->mutex));
    const bool last = --object->references == 0;
    CHECK_OK(pthread_mutex_unlock(&object->mutex));
    if (last) {
      CHECK(munmap(object, 4096) == 0);
      flag_add(&relay->unmapped, 1);
    }
  }
  return NULL;
}

CASE_FOR(unmapped_right_after, struct mutex_kind, kind, main_kinds) {
  static struct relay relay;
  for (int i = 0; i < pages; ++i) {
    relay.objects[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(relay.objects[i] != MAP_FAILED);
    make_mutex(&relay.objects[i]->mutex, kind);
    relay.objects[i]->references = sharers;
  }
  run_threads(sharers, drop_all, &relay, 0);
  CHECK_NUMBER(relay.unmapped, pages);
}

// The waiter sleeps when the owner unlocks, so that unlock takes its slow path and wakes the waiter.
struct pair {
  struct object* object;
  int thread_id;
};

static void* take_and_unmap(void* argument) {
  struct pair* pair = argument;
  flag_set(&pair->thread_id, (int)gettid());
  CHECK_OK(pthread_mutex_lock(&pair->object->mutex));
  // the new owner unmaps the locked mutex: undefined in POSIX, but the previous unlock must permit it
  CHECK(munmap(pair->object, 4096) == 0);
  return NULL;
}

static void* take_in_time_and_unmap(void* argument) {
  struct pair* pair = argument;
  flag_set(&pair->thread_id, (int)gettid());
  const struct timespec deadline = later(now(CLOCK_REALTIME), 10000);
  CHECK_OK(pthread_mutex_timedlock(&pair->object->mutex, &deadline));
  CHECK(munmap(pair->object, 4096) == 0);
  return NULL;
}

CASE(unmapped_by_the_woken) {
  for (int round = 0; round < 300; ++round) {
    struct object* object = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(object != MAP_FAILED);
    struct pair pair = {object, 0};
    CHECK_OK(pthread_mutex_lock(&object->mutex));
    pthread_t thread = start_thread(round % 3 == 2 ? take_in_time_and_unmap : take_and_unmap, &pair);
    await_flag(&pair.thread_id, 1);
    if (round % 2) await_asleep(pair.thread_id);
    CHECK_OK(pthread_mutex_unlock(&object->mutex));
    join_thread(thread);
  }
}

// -- fork: the queue has nodes of threads that do not exist in the child --

struct haunted {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int arrived;
  long count;
};

static void* ghost_untimed(void* argument) {
  struct haunted* house = argument;
  flag_add(&house->arrived, 1);
  CHECK_OK(pthread_mutex_lock(&house->mutex));
  CHECK_OK(pthread_mutex_unlock(&house->mutex));
  return NULL;
}

static void* ghost_timed(void* argument) {
  struct haunted* house = argument;
  flag_add(&house->arrived, 1);
  const struct timespec deadline = later(now(CLOCK_MONOTONIC), 60000);
  CHECK_OK(pthread_mutex_clocklock(&house->mutex, CLOCK_MONOTONIC, &deadline));
  CHECK_OK(pthread_mutex_unlock(&house->mutex));
  return NULL;
}

static void* use_often(void* argument) {
  struct haunted* house = argument;
  for (int i = 0; i < 30; ++i) {
    CHECK_OK(pthread_mutex_lock(&house->mutex));
    linger(++house->count);
    CHECK_OK(pthread_mutex_unlock(&house->mutex));
    const struct timespec deadline = later(now(CLOCK_MONOTONIC), 10000);
    CHECK_OK(pthread_mutex_clocklock(&house->mutex, CLOCK_MONOTONIC, &deadline));
    linger(++house->count);
    CHECK_OK(pthread_mutex_unlock(&house->mutex));
  }
  return NULL;
}

static void live_on(struct haunted* house) {
  house->count = 0;
  use_often(house);
  run_threads(3, use_often, house, 0);
  CHECK_NUMBER(house->count, 4 * 60);
  const struct timespec soon = later(now(CLOCK_REALTIME), 2);
  CHECK_OK(pthread_mutex_lock(&house->mutex));
  int code = 0;
  while (code == 0) code = pthread_cond_timedwait(&house->condition, &house->mutex, &soon);
  CHECK_CODE(code, ETIMEDOUT);
  CHECK_CODE(pthread_mutex_trylock(&house->mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&house->mutex));
}

static pid_t raw_clone(void) {
  return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

struct way_to_fork {
  const char* name;
  pid_t (*fork)(void);
  int generations;
};
static const struct way_to_fork ways_to_fork[] = {
    {"fork", fork, 1}, {"fork_of_a_fork", fork, 3}, {"raw_clone", raw_clone, 1}, {"raw_clone_of_one", raw_clone, 3}};

// Forks while it holds the mutex, and releases the mutex in both processes, as handlers of pthread_atfork do. Threads
// of the parent (`ghosts`) are then queued on a mutex of the child, in which they do not exist.
static void haunt(const struct way_to_fork* way, int generations) {
  struct haunted house;
  memset(&house, 0, sizeof house);
  pthread_t ghosts[4];
  CHECK_OK(pthread_mutex_lock(&house.mutex));
  // After a raw clone the child cannot start threads, because the C library does not know the child. In later
  // generations the queue has only threads of the first generation.
  const bool threads = way->fork == fork || generations == way->generations;
  for (int i = 0; threads && i < 4; ++i) ghosts[i] = start_thread(i % 2 ? ghost_timed : ghost_untimed, &house);
  if (threads) {
    await_flag(&house.arrived, 4);
    await_sleepers(4);
  }
  const pid_t child = way->fork();
  CHECK(child >= 0);
  if (child == 0) {
    be_a_child();
    CHECK_CODE(pthread_mutex_trylock(&house.mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&house.mutex));
    if (way->fork == fork)
      live_on(&house);
    else
      use_often(&house);
    if (generations > 1) haunt(way, generations - 1);
    _exit(0);
  }
  CHECK_OK(pthread_mutex_unlock(&house.mutex));
  for (int i = 0; threads && i < 4; ++i) join_thread(ghosts[i]);
  CHECK_CHILD(child, 0);
}

CASE_FOR(ghosts, struct way_to_fork, way, ways_to_fork) {
  for (int round = 0; round < 30 / way->generations; ++round) haunt(way, way->generations);
}

// -- deadlines under load --

struct rush {
  pthread_mutex_t mutex;
  int stop;
  long count;
  int successes;
};

static void* rush_on(void* argument) {
  struct rush* rush = argument;
  while (!flag_get(&rush->stop)) {
    CHECK_OK(pthread_mutex_lock(&rush->mutex));
    linger(++rush->count);
    CHECK_OK(pthread_mutex_unlock(&rush->mutex));
  }
  return NULL;
}

static void* wait_a_second(void* argument) {
  struct rush* rush = argument;
  for (int i = 0; i < 5; ++i) {
    const struct timespec deadline = later(now(CLOCK_REALTIME), 1000);
    CHECK_OK(pthread_mutex_timedlock(&rush->mutex, &deadline));
    linger(++rush->count);
    CHECK_OK(pthread_mutex_unlock(&rush->mutex));
    flag_add(&rush->successes, 1);
  }
  return NULL;
}

// Eight threads use the mutex all the time. Four other threads lock it with deadlines of one second, and must succeed
// every time.
CASE_FOR(a_second_is_enough, struct mutex_kind, kind, main_kinds) {
  static struct rush rush;
  make_mutex(&rush.mutex, kind);
  pthread_t threads[12];
  for (int i = 0; i < 12; ++i) threads[i] = start_thread(i < 8 ? rush_on : wait_a_second, &rush);
  for (int i = 8; i < 12; ++i) join_thread(threads[i]);
  CHECK_NUMBER(rush.successes, 4 * 5);
  flag_set(&rush.stop, 1);
  for (int i = 0; i < 8; ++i) join_thread(threads[i]);
}

// Locks the mutex with deadlines of one millisecond, over and over. This must not keep threads without a deadline from
// the mutex.
static void* short_patience(void* argument) {
  struct rush* rush = argument;
  while (!flag_get(&rush->stop)) {
    const struct timespec deadline = later(now(CLOCK_MONOTONIC), 1);
    if (pthread_mutex_clocklock(&rush->mutex, CLOCK_MONOTONIC, &deadline) != 0) continue;
    linger(++rush->count);
    CHECK_OK(pthread_mutex_unlock(&rush->mutex));
  }
  return NULL;
}

static void* a_hundred_times(void* argument) {
  struct rush* rush = argument;
  for (int i = 0; i < 100; ++i) {
    CHECK_OK(pthread_mutex_lock(&rush->mutex));
    linger(++rush->count);
    CHECK_OK(pthread_mutex_unlock(&rush->mutex));
  }
  return NULL;
}

CASE(the_patient_are_not_kept_out) {
  static struct rush rush = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) threads[i] = start_thread(i < 6 ? short_patience : a_hundred_times, &rush);
  for (int i = 6; i < 8; ++i) join_thread(threads[i]);
  flag_set(&rush.stop, 1);
  for (int i = 0; i < 6; ++i) join_thread(threads[i]);
}

// -- unlocks by threads that do not own the mutex, among threads that do --

static void* unlock_out_of_turn(void* argument) {
  struct rush* rush = argument;
  for (int i = 0; i < 200; ++i) {
    CHECK_OK(pthread_mutex_lock(&rush->mutex));
    linger(++rush->count);
    CHECK_OK(pthread_mutex_unlock(&rush->mutex));
  }
  return NULL;
}

CASE_FOR(ticket_stays_in_step, struct mutex_kind, kind, careless_kinds) {
  static struct rush rush;
  make_mutex(&rush.mutex, kind);
  long expected = 0;
  for (int round = 0; round < 20; ++round) {
    // The mutex is unlocked several times while it is free.
    for (int i = 0; i < 1 + round % 5; ++i) CHECK_OK(pthread_mutex_unlock(&rush.mutex));
    CHECK_OK(pthread_mutex_trylock(&rush.mutex));
    CHECK_CODE(elsewhere(thread_trylock, &rush.mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&rush.mutex));
    if (round % 5) continue;
    run_threads(3, unlock_out_of_turn, &rush, 0);
    expected += 600;
  }
  CHECK_NUMBER(rush.count, expected);
}

// -- the last destructors of a thread, which may run after the thread's record is gone --

struct late {
  pthread_mutex_t mutex;
  pthread_key_t key;
  long count;
};
static struct late late;

static void lock_in_every_round(void* value) {
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(pthread_mutex_lock(&late.mutex));
    linger(++late.count);
    CHECK_OK(pthread_mutex_unlock(&late.mutex));
  }
  const intptr_t left = (intptr_t)value - 1;
  if (left > 0) CHECK_OK(pthread_setspecific(late.key, (void*)left));
}

static void* live_briefly(void* unused) {
  (void)unused;
  CHECK_OK(pthread_setspecific(late.key, (void*)(intptr_t)PTHREAD_DESTRUCTOR_ITERATIONS));
  return NULL;
}

CASE(lock_in_the_last_destructor) {
  CHECK_OK(pthread_key_create(&late.key, lock_in_every_round));
  for (int round = 0; round < 50; ++round) run_threads(4, live_briefly, NULL, 0);
  CHECK_NUMBER(late.count, 50 * 4 * 3 * PTHREAD_DESTRUCTOR_ITERATIONS);
}

// -- signals: a handler may run between the entry into the queue and the sleep --

static pthread_mutex_t in_handler = PTHREAD_MUTEX_INITIALIZER;
static int handler_runs;

static void lock_another(int number) {
  (void)number;
  // POSIX forbids lock calls in handlers, but the handlers of sampling profilers make them. Only the handler uses this
  // mutex, so the interrupted code cannot hold it. An implementation with one queue node for each thread, instead of
  // one for each wait, would fail here.
  const int saved = errno;
  if (pthread_mutex_trylock(&in_handler) == 0) {
    flag_add(&handler_runs, 1);
    pthread_mutex_unlock(&in_handler);
  }
  errno = saved;
}

static void* rush_under_signals(void* argument) {
  struct rush* rush = argument;
  long rounds = 0;
  while (!flag_get(&rush->stop)) {
    CHECK_OK(pthread_mutex_lock(&rush->mutex));
    linger(++rush->count);
    ++rounds;
    CHECK_OK(pthread_mutex_unlock(&rush->mutex));
  }
  return (void*)rounds;
}

CASE(handlers_that_lock_another) {
  static struct rush rush = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = lock_another;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = start_thread(rush_under_signals, &rush);
  while (flag_get(&handler_runs) < 400) {
    for (int i = 0; i < 4; ++i) pthread_kill(threads[i], SIGUSR1);
    usleep(200);  // the threads use the mutex between two signals
  }
  flag_set(&rush.stop, 1);
  long rounds = 0;
  for (int i = 0; i < 4; ++i) rounds += (long)(intptr_t)join_thread(threads[i]);
  CHECK_NUMBER(rush.count, rounds);
}
