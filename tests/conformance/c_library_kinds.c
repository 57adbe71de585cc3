// Tests the kinds of mutex that only the C library and the kernel provide: robust, priority-inheriting,
// priority-protected, process-shared. They must work unchanged although USHER_LOCK names another lock.
#include "kinds.h"

#include <limits.h>
#include <sys/syscall.h>

struct special {
  const char* name;
  int robust, protocol, shared, type;
};

#define STALLED PTHREAD_MUTEX_STALLED
#define ROBUST PTHREAD_MUTEX_ROBUST
#define NONE PTHREAD_PRIO_NONE
#define INHERIT PTHREAD_PRIO_INHERIT
#define PROTECT PTHREAD_PRIO_PROTECT
#define PRIVATE PTHREAD_PROCESS_PRIVATE
#define SHARED PTHREAD_PROCESS_SHARED

static const struct special specials[] = {
    {"robust", ROBUST, NONE, PRIVATE, PTHREAD_MUTEX_DEFAULT},
    {"robust_normal", ROBUST, NONE, PRIVATE, PTHREAD_MUTEX_NORMAL},
    {"robust_recursive", ROBUST, NONE, PRIVATE, PTHREAD_MUTEX_RECURSIVE},
    {"robust_errorcheck", ROBUST, NONE, PRIVATE, PTHREAD_MUTEX_ERRORCHECK},
    {"robust_adaptive", ROBUST, NONE, PRIVATE, PTHREAD_MUTEX_ADAPTIVE_NP},
    {"inherit", STALLED, INHERIT, PRIVATE, PTHREAD_MUTEX_DEFAULT},
    {"inherit_recursive", STALLED, INHERIT, PRIVATE, PTHREAD_MUTEX_RECURSIVE},
    {"inherit_errorcheck", STALLED, INHERIT, PRIVATE, PTHREAD_MUTEX_ERRORCHECK},
    {"inherit_robust", ROBUST, INHERIT, PRIVATE, PTHREAD_MUTEX_DEFAULT},
    {"protect", STALLED, PROTECT, PRIVATE, PTHREAD_MUTEX_DEFAULT},
    {"protect_recursive", STALLED, PROTECT, PRIVATE, PTHREAD_MUTEX_RECURSIVE},
    {"protect_errorcheck", STALLED, PROTECT, PRIVATE, PTHREAD_MUTEX_ERRORCHECK},
    {"shared", STALLED, NONE, SHARED, PTHREAD_MUTEX_DEFAULT},
    {"shared_normal", STALLED, NONE, SHARED, PTHREAD_MUTEX_NORMAL},
    {"shared_recursive", STALLED, NONE, SHARED, PTHREAD_MUTEX_RECURSIVE},
    {"shared_errorcheck", STALLED, NONE, SHARED, PTHREAD_MUTEX_ERRORCHECK},
    {"shared_adaptive", STALLED, NONE, SHARED, PTHREAD_MUTEX_ADAPTIVE_NP},
    {"shared_robust", ROBUST, NONE, SHARED, PTHREAD_MUTEX_DEFAULT},
    {"shared_inherit", STALLED, INHERIT, SHARED, PTHREAD_MUTEX_DEFAULT},
    {"shared_robust_recursive", ROBUST, NONE, SHARED, PTHREAD_MUTEX_RECURSIVE},
};

static bool recursive(const struct special* special) {
  return special->type == PTHREAD_MUTEX_RECURSIVE;
}
static bool checks(const struct special* special) {
  return recursive(special) || special->type == PTHREAD_MUTEX_ERRORCHECK;
}

static void make(pthread_mutex_t* mutex, const struct special* special) {
  memset(mutex, 0xa5, sizeof *mutex);
  pthread_mutexattr_t attribute;
  CHECK_OK(pthread_mutexattr_init(&attribute));
  CHECK_OK(pthread_mutexattr_setrobust(&attribute, special->robust));
  CHECK_OK(pthread_mutexattr_setprotocol(&attribute, special->protocol));
  CHECK_OK(pthread_mutexattr_setpshared(&attribute, special->shared));
  CHECK_OK(pthread_mutexattr_settype(&attribute, special->type));
  const int code = pthread_mutex_init(mutex, &attribute);
  if (code == ENOTSUP && special->protocol == INHERIT) skip_case("no priority inheritance in this kernel");
  CHECK_OK(code);
  CHECK_OK(pthread_mutexattr_destroy(&attribute));
  // The holder of a priority-protected mutex runs at the mutex's ceiling, which requires a real-time priority. Threads
  // started later inherit this thread's priority.
  const struct sched_param parameter = {.sched_priority = 1};
  if (special->protocol == PROTECT && pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) != 0)
    skip_case("may not use real-time priorities");
}

CASE_FOR(special_calls, struct special, special, specials) {
  pthread_mutex_t* mutex = shared_page();
  make(mutex, special);
  CHECK_CODE(pthread_mutex_consistent(mutex), EINVAL);  // the mutex is not inconsistent
  CHECK_OK(pthread_mutex_lock(mutex));
  CHECK_CODE(try_elsewhere(mutex), EBUSY);
  // The C library destroys a robust mutex even while the mutex is held.
  if (special->robust != ROBUST) CHECK_CODE(pthread_mutex_destroy(mutex), EBUSY);
  // If the owner of an error-checking mutex of these kinds calls trylock, the C library returns EDEADLK for robust,
  // priority-inheriting and priority-protected mutexes, and EBUSY for all others.
  const bool odd =
      special->type == PTHREAD_MUTEX_ERRORCHECK && (special->robust == ROBUST || special->protocol != NONE);
  CHECK_CODE(pthread_mutex_trylock(mutex), recursive(special) ? 0 : odd ? EDEADLK : EBUSY);
  if (recursive(special)) CHECK_OK(pthread_mutex_unlock(mutex));
  if (checks(special)) CHECK_CODE(pthread_mutex_lock(mutex), recursive(special) ? 0 : EDEADLK);
  if (recursive(special)) CHECK_OK(pthread_mutex_unlock(mutex));
  CHECK_OK(pthread_mutex_unlock(mutex));
  if (checks(special)) CHECK_CODE(pthread_mutex_unlock(mutex), EPERM);
  CHECK_OK(pthread_mutex_trylock(mutex));
  CHECK_CODE(elsewhere(thread_trylock, mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(mutex));
  CHECK_OK(pthread_mutex_destroy(mutex));
}

CASE_FOR(special_timed, struct special, special, specials) {
  pthread_mutex_t* mutex = shared_page();
  make(mutex, special);
  for (int i = 0; i < 3; ++i) {
    note("%s", timed_calls[i].name);
    // Some versions of the C library cannot wait for a PI mutex on the monotonic clock, so this combination is not
    // tested.
    if (special->protocol == INHERIT && timed_calls[i].clock == CLOCK_MONOTONIC) continue;
    const struct timespec past = later(now(timed_calls[i].clock), -1000);
    CHECK_OK(timed_calls[i].call(mutex, &past));
    CHECK_OK(pthread_mutex_unlock(mutex));
    struct holder holder;
    hold(&holder, mutex);
    CHECK_CODE(timed_calls[i].call(mutex, &past), ETIMEDOUT);
    const struct timespec soon = later(now(timed_calls[i].clock), 10);
    CHECK_CODE(timed_calls[i].call(mutex, &soon), ETIMEDOUT);
    CHECK(!before(now(timed_calls[i].clock), soon));
    let_go(&holder);
    hold_for(&holder, mutex, 5);
    const struct timespec far = later(now(timed_calls[i].clock), 10000);
    CHECK_OK(timed_calls[i].call(mutex, &far));
    CHECK_OK(pthread_mutex_unlock(mutex));
    join_thread(holder.thread);
  }
  CHECK_OK(try_elsewhere(mutex));
}

struct shared_count {
  pthread_mutex_t mutex;
  int inside;
  long count;
  int rounds;
  int arrived, parties;
};

static void* count_up(void* argument) {
  struct shared_count* shared = argument;
  // Each process waits here until all have arrived: otherwise the first would finish its rounds before the last has
  // started.
  flag_add(&shared->arrived, 1);
  while (flag_get(&shared->arrived) < shared->parties) sched_yield();
  for (int i = 0; i < shared->rounds; ++i) {
    CHECK_OK(pthread_mutex_lock(&shared->mutex));
    CHECK(__atomic_exchange_n(&shared->inside, 1, __ATOMIC_RELAXED) == 0);
    linger(++shared->count);
    __atomic_store_n(&shared->inside, 0, __ATOMIC_RELAXED);
    CHECK_OK(pthread_mutex_unlock(&shared->mutex));
  }
  return NULL;
}

static void count_up_in_child(void* argument) {
  count_up(argument);
}

CASE_FOR(special_exclusion, struct special, special, specials) {
  struct shared_count* shared = shared_page();
  make(&shared->mutex, special);
  shared->rounds = 300;
  shared->parties = 4;
  run_threads(4, count_up, shared, 0);
  CHECK_NUMBER(shared->count, 4 * 300);
}

CASE_WHERE(exclusion_between_processes, struct special, special, specials, special->shared == SHARED) {
  struct shared_count* shared = shared_page();
  make(&shared->mutex, special);
  shared->rounds = 700;
  shared->parties = 5;
  pid_t children[3];
  for (int i = 0; i < 3; ++i) children[i] = start_child(count_up_in_child, shared);
  run_threads(2, count_up, shared, 0);
  for (int i = 0; i < 3; ++i) CHECK_CHILD(children[i], 0);
  CHECK_NUMBER(shared->count, 5 * 700);
}

static void busy_in_child(void* argument) {
  pthread_mutex_t* mutex = argument;
  CHECK_CODE(pthread_mutex_trylock(mutex), EBUSY);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 5);
  CHECK_CODE(pthread_mutex_timedlock(mutex, &deadline), ETIMEDOUT);
}

CASE_WHERE(held_by_another_process, struct special, special, specials, special->shared == SHARED) {
  pthread_mutex_t* mutex = shared_page();
  make(mutex, special);
  CHECK_OK(pthread_mutex_lock(mutex));
  CHECK_CHILD(start_child(busy_in_child, mutex), 0);
  CHECK_OK(pthread_mutex_unlock(mutex));
}

// -- robust: the owner dies --

static void* lock_and_die(void* argument) {
  CHECK_OK(pthread_mutex_lock(argument));
  return NULL;
}

static int lock_somehow(pthread_mutex_t* mutex, int way) {
  const struct timespec deadline = later(now(CLOCK_REALTIME), 10000);
  return way == 0   ? pthread_mutex_lock(mutex)
         : way == 1 ? pthread_mutex_trylock(mutex)
         : way == 2 ? pthread_mutex_timedlock(mutex, &deadline)
                    : pthread_mutex_clocklock(mutex, CLOCK_REALTIME, &deadline);
}

static void* lock_the_lost(void* mutex) {
  CHECK_CODE(pthread_mutex_lock(mutex), ENOTRECOVERABLE);
  return NULL;
}

CASE_WHERE(owner_dies, struct special, special, specials, special->robust == ROBUST) {
  pthread_mutex_t* mutex = shared_page();
  make(mutex, special);
  for (int way = 0; way < 4; ++way) {
    note("way %d", way);
    in_new_thread(lock_and_die, mutex);
    CHECK_CODE(lock_somehow(mutex, way), EOWNERDEAD);
    CHECK_CODE(try_elsewhere(mutex), EBUSY);
    CHECK_OK(pthread_mutex_consistent(mutex));
    CHECK_OK(pthread_mutex_unlock(mutex));
    CHECK_OK(lock_somehow(mutex, way));
    CHECK_OK(pthread_mutex_unlock(mutex));
  }
  // A mutex that was never made consistent is unusable until it is initialised again.
  for (int way = 0; way < 4; ++way) {
    note("lost, way %d", way);
    in_new_thread(lock_and_die, mutex);
    CHECK_CODE(pthread_mutex_lock(mutex), EOWNERDEAD);
    CHECK_OK(pthread_mutex_unlock(mutex));
    for (int times = 0; times < 3; ++times) CHECK_CODE(pthread_mutex_lock(mutex), ENOTRECOVERABLE);
    in_new_thread(lock_the_lost, mutex);
    CHECK_CODE(lock_somehow(mutex, way), ENOTRECOVERABLE);
    CHECK_OK(pthread_mutex_destroy(mutex));
    make(mutex, special);
    CHECK_OK(try_elsewhere(mutex));
  }
}

struct heir {
  pthread_mutex_t* mutex;
  int thread_id;
};

static void* wait_for_the_dead(void* argument) {
  struct heir* heir = argument;
  flag_set(&heir->thread_id, (int)gettid());
  const int code = pthread_mutex_lock(heir->mutex);
  if (code == EOWNERDEAD) CHECK_OK(pthread_mutex_consistent(heir->mutex));
  CHECK_OK(pthread_mutex_unlock(heir->mutex));
  return (void*)(intptr_t)code;
}

struct dying {
  pthread_mutex_t* mutex;
  int held, may_die;
};

static void* die_when_told(void* argument) {
  struct dying* dying = argument;
  CHECK_OK(pthread_mutex_lock(dying->mutex));
  flag_set(&dying->held, 1);
  await_flag(&dying->may_die, 1);
  return NULL;
}

CASE_WHERE(owner_dies_with_queue, struct special, special, specials, special->robust == ROBUST) {
  pthread_mutex_t* mutex = shared_page();
  make(mutex, special);
  struct dying dying = {mutex, 0, 0};
  pthread_t owner = start_thread(die_when_told, &dying);
  await_flag(&dying.held, 1);
  struct heir heirs[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    heirs[i] = (struct heir){mutex, 0};
    threads[i] = start_thread(wait_for_the_dead, &heirs[i]);
    await_flag(&heirs[i].thread_id, 1);
    await_asleep(heirs[i].thread_id);
  }
  flag_set(&dying.may_die, 1);
  join_thread(owner);
  int told = 0;
  for (int i = 0; i < 3; ++i) {
    const int code = (int)(intptr_t)join_thread(threads[i]);
    CHECK(code == 0 || code == EOWNERDEAD);
    told += code == EOWNERDEAD;
  }
  CHECK_NUMBER(told, 1);
}

static void lock_and_be_killed(void* argument) {
  CHECK_OK(pthread_mutex_lock(argument));
  kill(getpid(), SIGKILL);
}

static void lock_and_leave(void* argument) {
  CHECK_OK(pthread_mutex_lock(argument));
}

CASE_WHERE(owning_process_dies, struct special, special, specials,
           special->robust == ROBUST && special->shared == SHARED) {
  pthread_mutex_t* mutex = shared_page();
  make(mutex, special);
  for (int round = 0; round < 6; ++round) {
    const pid_t child = start_child(round % 2 ? lock_and_be_killed : lock_and_leave, mutex);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_CODE(lock_somehow(mutex, round % 4), EOWNERDEAD);
    CHECK_OK(pthread_mutex_consistent(mutex));
    CHECK_OK(pthread_mutex_unlock(mutex));
  }
}

// A thread dies while it holds mutexes of all kinds. The kernel then walks the thread's list of robust mutexes, which
// must be intact.
struct assortment {
  pthread_mutex_t mutexes[40];
};

static void* lock_assortment_and_die(void* argument) {
  struct assortment* all = argument;
  for (int i = 0; i < 40; ++i) CHECK_OK(pthread_mutex_lock(&all->mutexes[i]));
  // Eight of the 40 mutexes are unlocked, in an order other than that of the lock calls.
  for (int i = 0; i < 40; i += 5) CHECK_OK(pthread_mutex_unlock(&all->mutexes[(i * 7) % 40]));
  return NULL;
}

CASE(robust_among_others) {
  static struct assortment all;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 40; ++i) {
      if (i % 2)
        make(&all.mutexes[i], &specials[i / 2 % 5]);
      else
        make_mutex(&all.mutexes[i], &careless_kinds[i / 2 % 7]);
    }
    in_new_thread(lock_assortment_and_die, &all);
    bool given_back[40] = {false};
    for (int i = 0; i < 40; i += 5) given_back[(i * 7) % 40] = true;
    for (int i = 0; i < 40; ++i) {
      note("mutex %d", i);
      CHECK_CODE(pthread_mutex_trylock(&all.mutexes[i]), given_back[i] ? 0 : i % 2 ? EOWNERDEAD : EBUSY);
    }
  }
}

// -- priorities --

CASE(ceiling_calls) {
  pthread_mutexattr_t attribute;
  pthread_mutex_t mutex;
  int ceiling = -1, old = -1;
  CHECK_OK(pthread_mutexattr_init(&attribute));
  CHECK_OK(pthread_mutexattr_setprotocol(&attribute, PROTECT));
  CHECK_OK(pthread_mutexattr_setprioceiling(&attribute, sched_get_priority_max(SCHED_FIFO)));
  CHECK_OK(pthread_mutex_init(&mutex, &attribute));
  CHECK_OK(pthread_mutex_getprioceiling(&mutex, &ceiling));
  CHECK_NUMBER(ceiling, sched_get_priority_max(SCHED_FIFO));
  const int code = pthread_mutex_setprioceiling(&mutex, sched_get_priority_min(SCHED_FIFO), &old);
  if (code == EPERM) skip_case("may not use real-time priorities");
  CHECK_OK(code);
  CHECK_NUMBER(old, sched_get_priority_max(SCHED_FIFO));
  CHECK_OK(pthread_mutex_getprioceiling(&mutex, &ceiling));
  CHECK_NUMBER(ceiling, sched_get_priority_min(SCHED_FIFO));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

struct boosted {
  pthread_mutex_t mutex;
  int held, let_go, waiter_id, owner_id;
};

static void* low_owner(void* argument) {
  struct boosted* scene = argument;
  scene->owner_id = (int)gettid();
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  flag_set(&scene->held, 1);
  await_flag(&scene->let_go, 1);
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  return NULL;
}

static void* high_waiter(void* argument) {
  struct boosted* scene = argument;
  const struct sched_param parameter = {.sched_priority = 10};
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) != 0) skip_case("may not use real-time priorities");
  flag_set(&scene->waiter_id, (int)gettid());
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  return NULL;
}

// Field 18 of /proc/…/stat is the priority at which the kernel runs the thread. It is negative for real-time
// priorities.
static int kernel_priority(int thread_id) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread_id);
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  CHECK(fgets(line, sizeof line, file) != NULL);
  fclose(file);
  int priority = 0, field = 2;
  for (char* at = strrchr(line, ')') + 1; *at; ++at)
    if (*at == ' ' && ++field == 18) priority = atoi(at + 1);
  return priority;
}

CASE(priority_is_inherited) {
  static struct boosted scene;
  make(&scene.mutex, &specials[5]);
  pthread_t owner = start_thread(low_owner, &scene);
  await_flag(&scene.held, 1);
  const int own = kernel_priority(scene.owner_id);
  pthread_t waiter = start_thread(high_waiter, &scene);
  await_flag(&scene.waiter_id, 1);
  await_asleep(scene.waiter_id);
  int boosted = own;
  const double limit = seconds() + 2;  // for the kernel to raise the priority
  while ((boosted = kernel_priority(scene.owner_id)) == own && seconds() < limit) usleep(100);
  flag_set(&scene.let_go, 1);
  join_thread(owner);
  join_thread(waiter);
  CHECK(own >= 0);
  CHECK_NUMBER(boosted, -11);  // -1 minus the real-time priority
}
