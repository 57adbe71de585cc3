// Tests the result of each mutex call, for every kind of mutex and every way to make one.
#include "kinds.h"

#include <limits.h>
#include <threads.h>

// -- the plain calls --

CASE_FOR(lock_unlock, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(pthread_mutex_lock(&mutex));
    CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  CHECK_OK(try_elsewhere(&mutex));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

CASE_FOR(init_destroy, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  for (int i = 0; i < 10; ++i) {
    make_mutex(&mutex, kind);
    CHECK_OK(pthread_mutex_destroy(&mutex));
  }
}

CASE_FOR(trylock_free, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(pthread_mutex_trylock(&mutex));
    CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  CHECK_OK(pthread_mutex_trylock(&mutex));
  CHECK_CODE(try_elsewhere(&mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(try_elsewhere(&mutex));
}

CASE_FOR(trylock_held, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  struct holder holder;
  hold(&holder, &mutex);
  const double start = seconds();
  for (int i = 0; i < 1000; ++i) CHECK_CODE(pthread_mutex_trylock(&mutex), EBUSY);
  CHECK(seconds() - start < 5);  // trylock does not block, however busy the machine is
  let_go(&holder);
  CHECK_OK(pthread_mutex_trylock(&mutex));
  CHECK_OK(pthread_mutex_unlock(&mutex));
}

CASE_FOR(trylock_with_waiters, struct mutex_kind, kind, main_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  pthread_t waiters[4];
  for (int i = 0; i < 4; ++i) waiters[i] = start_thread(thread_lock_unlock, &mutex);
  await_sleepers(4);
  CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  for (int i = 0; i < 4; ++i) CHECK_OK((int)(intptr_t)join_thread(waiters[i]));
  CHECK_OK(try_elsewhere(&mutex));
}

// -- the owner locks again --

CASE_FOR(relock_by_owner, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  const int again = kind->recursive ? 0 : EBUSY;
  CHECK_CODE(pthread_mutex_trylock(&mutex), again);
  if (again == 0) CHECK_OK(pthread_mutex_unlock(&mutex));
  // A normal mutex would block its own owner for ever; self_deadlock below tests this with the help of another thread.
  if (kind->checks) CHECK_CODE(pthread_mutex_lock(&mutex), kind->recursive ? 0 : EDEADLK);
  if (kind->recursive) CHECK_OK(pthread_mutex_unlock(&mutex));
  const int timed = kind->recursive ? 0 : kind->checks ? EDEADLK : ETIMEDOUT;
  for (int i = 0; i < 3; ++i) {
    note("%s", timed_calls[i].name);
    const struct timespec deadline = later(now(timed_calls[i].clock), 10);
    CHECK_CODE(timed_calls[i].call(&mutex, &deadline), timed);
    if (timed == 0) CHECK_OK(pthread_mutex_unlock(&mutex));
    const struct timespec past = later(now(timed_calls[i].clock), -1000);
    CHECK_CODE(timed_calls[i].call(&mutex, &past), timed);
    if (timed == 0) CHECK_OK(pthread_mutex_unlock(&mutex));
    const struct timespec wrong = {past.tv_sec, 1000000000};
    CHECK_CODE(timed_calls[i].call(&mutex, &wrong), timed == ETIMEDOUT ? invalid_or_past(wrong) : timed);
    if (timed == 0) CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  CHECK_CODE(try_elsewhere(&mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(try_elsewhere(&mutex));
}

struct relocker {
  pthread_mutex_t mutex;
  int thread_id, second;
};

static void* relock(void* argument) {
  struct relocker* relocker = argument;
  CHECK_OK(pthread_mutex_lock(&relocker->mutex));
  flag_set(&relocker->thread_id, (int)gettid());
  CHECK_OK(pthread_mutex_lock(&relocker->mutex));
  flag_set(&relocker->second, 1);
  CHECK_OK(pthread_mutex_unlock(&relocker->mutex));
  return NULL;
}

// A thread that locks a normal mutex twice waits in the second call until another thread unlocks.
CASE_WHERE(self_deadlock, struct mutex_kind, kind, all_kinds, !kind->checks) {
  struct relocker relocker = {.thread_id = 0};
  make_mutex(&relocker.mutex, kind);
  pthread_t thread = start_thread(relock, &relocker);
  await_flag(&relocker.thread_id, 1);
  await_asleep(relocker.thread_id);
  sleep_ms(5);  // a thread that has not deadlocked would set the flag within this time
  CHECK(flag_get(&relocker.second) == 0);
  CHECK_OK(pthread_mutex_unlock(&relocker.mutex));
  join_thread(thread);
  CHECK(relocker.second == 1);
  CHECK_OK(try_elsewhere(&relocker.mutex));
}

CASE_WHERE(recursion_depth, struct mutex_kind, kind, all_kinds, kind->recursive) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int i = 0; i < 3000; ++i) {
    if (i % 3 == 0) CHECK_OK(pthread_mutex_lock(&mutex));
    if (i % 3 == 1) CHECK_OK(pthread_mutex_trylock(&mutex));
    if (i % 3 == 2) {
      const struct timespec past = {0, 0};
      CHECK_OK(pthread_mutex_timedlock(&mutex, &past));
    }
  }
  for (int i = 0; i < 3000; ++i) {
    if (i % 300 == 0) CHECK_CODE(try_elsewhere(&mutex), EBUSY);
    if (i == 2999) CHECK_CODE(try_elsewhere(&mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  CHECK_OK(try_elsewhere(&mutex));
  CHECK_CODE(pthread_mutex_unlock(&mutex), EPERM);
}

CASE_WHERE(recursion_limit, struct mutex_kind, kind, all_kinds, kind->recursive) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  // 2^32 lock calls would take too long. So the test writes the largest count into the field of the C library, in which
  // debuggers read the count.
  const unsigned count = mutex.__data.__count;
  mutex.__data.__count = UINT_MAX;
  CHECK_CODE(pthread_mutex_lock(&mutex), EAGAIN);
  CHECK_CODE(pthread_mutex_trylock(&mutex), EAGAIN);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 1000);
  CHECK_CODE(pthread_mutex_timedlock(&mutex, &deadline), EAGAIN);
  mutex.__data.__count = count;
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(try_elsewhere(&mutex));
}

// -- unlocks that a program should not make --

CASE_FOR(unlock_free, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  const int expected = kind->checks ? EPERM : 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < round; ++i) CHECK_CODE(pthread_mutex_unlock(&mutex), expected);
    // The mutex still works after the wrong unlocks: a thread acquires it, and others wait until it is released.
    CHECK_OK(pthread_mutex_lock(&mutex));
    CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
    pthread_t waiter = start_thread(thread_lock_unlock, &mutex);
    await_sleepers(1);
    CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    CHECK_OK((int)(intptr_t)join_thread(waiter));
    CHECK_OK(try_elsewhere(&mutex));
  }
}

CASE_FOR(unlock_by_another, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 10; ++round) {
    CHECK_OK(pthread_mutex_lock(&mutex));
    CHECK_CODE(elsewhere(thread_unlock, &mutex), kind->checks ? EPERM : 0);
    CHECK_CODE(try_elsewhere(&mutex), kind->checks ? EBUSY : 0);
    if (kind->checks) CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  CHECK_OK(try_elsewhere(&mutex));
}

// -- destruction, and initialisation again --

CASE_FOR(destroy_locked, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(pthread_mutex_trylock(&mutex));
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  struct holder holder;
  hold(&holder, &mutex);
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  let_go(&holder);
  CHECK_OK(try_elsewhere(&mutex));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

CASE_WHERE(destroy_recursively_locked, struct mutex_kind, kind, all_kinds, kind->recursive) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

CASE_FOR(use_after_destroy, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(pthread_mutex_destroy(&mutex));
  CHECK_CODE(pthread_mutex_lock(&mutex), EINVAL);
  CHECK_CODE(pthread_mutex_trylock(&mutex), EINVAL);
  for (int i = 0; i < 3; ++i) {
    note("%s", timed_calls[i].name);
    const struct timespec deadline = later(now(timed_calls[i].clock), 1000);
    CHECK_CODE(timed_calls[i].call(&mutex, &deadline), EINVAL);
  }
  CHECK_CODE(pthread_mutex_unlock(&mutex), EINVAL);
}

CASE(init_again_as_other_kinds) {
  pthread_mutex_t mutex;
  for (int from = 0; from < 11; ++from) {
    for (int to = 0; to < 11; ++to) {
      note("%s, then %s", all_kinds[from].name, all_kinds[to].name);
      make_mutex(&mutex, &all_kinds[from]);
      CHECK_OK(pthread_mutex_lock(&mutex));
      CHECK_OK(pthread_mutex_unlock(&mutex));
      CHECK_OK(pthread_mutex_destroy(&mutex));
      make_mutex(&mutex, &all_kinds[to]);
      CHECK_OK(pthread_mutex_lock(&mutex));
      CHECK_CODE(pthread_mutex_trylock(&mutex), all_kinds[to].recursive ? 0 : EBUSY);
      if (all_kinds[to].recursive) CHECK_OK(pthread_mutex_unlock(&mutex));
      CHECK_OK(pthread_mutex_unlock(&mutex));
      CHECK_CODE(pthread_mutex_unlock(&mutex), all_kinds[to].checks ? EPERM : 0);
    }
  }
}

// POSIX permits a program to free the memory of a mutex without destroying the mutex.
CASE(forgotten_without_destroy) {
  pthread_mutex_t* mutex = malloc(sizeof *mutex);
  for (int round = 0; round < 200; ++round) {
    make_mutex(mutex, &all_kinds[round % 11]);
    CHECK_OK(pthread_mutex_lock(mutex));
    if (round % 2 == 0) CHECK_OK(pthread_mutex_unlock(mutex));
  }
  free(mutex);
}

CASE(the_initialisers_themselves) {
  static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
  static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
  static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
  static pthread_mutex_t nothing;
  pthread_mutex_t* mutexes[] = {&plain, &recursive, &errorcheck, &adaptive, &nothing};
  for (int i = 0; i < 5; ++i) {
    note("initialiser %d", i);
    CHECK_OK(pthread_mutex_lock(mutexes[i]));
    CHECK_CODE(pthread_mutex_trylock(mutexes[i]), i == 1 ? 0 : EBUSY);
    if (i == 1) CHECK_OK(pthread_mutex_unlock(mutexes[i]));
    CHECK_CODE(try_elsewhere(mutexes[i]), EBUSY);
    CHECK_OK(pthread_mutex_unlock(mutexes[i]));
    CHECK_CODE(pthread_mutex_unlock(mutexes[i]), i == 1 || i == 2 ? EPERM : 0);
    CHECK_OK(try_elsewhere(mutexes[i]));
  }
  CHECK_OK(pthread_mutex_destroy(&recursive));
  CHECK_OK(pthread_mutex_destroy(&errorcheck));
}

// -- timed calls --

CASE_FOR(timed_on_free, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int i = 0; i < 3; ++i) {
    const struct timespec time = now(timed_calls[i].clock);
    // A call that need not wait succeeds with any deadline, even an invalid one.
    const struct timespec deadlines[] = {later(time, 60000),     later(time, -1000), {0, 0}, {-1, 0},
                                         {time.tv_sec + 60, -1}, {0, 1000000000},    {0, -1}};
    for (size_t j = 0; j < sizeof deadlines / sizeof deadlines[0]; ++j) {
      note("%s, deadline %zu", timed_calls[i].name, j);
      CHECK_OK(timed_calls[i].call(&mutex, &deadlines[j]));
      CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
      CHECK_OK(pthread_mutex_unlock(&mutex));
    }
  }
  CHECK_OK(try_elsewhere(&mutex));
}

CASE_FOR(timed_on_held, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  struct holder holder;
  hold(&holder, &mutex);
  for (int i = 0; i < 3; ++i) {
    note("%s", timed_calls[i].name);
    const clockid_t clock = timed_calls[i].clock;
    const double start = seconds();
    const struct timespec past = later(now(clock), -1000), epoch = {0, 0}, ancient = {-1, 500};
    CHECK_CODE(timed_calls[i].call(&mutex, &past), ETIMEDOUT);
    CHECK_CODE(timed_calls[i].call(&mutex, &epoch), ETIMEDOUT);
    CHECK_CODE(timed_calls[i].call(&mutex, &ancient), ETIMEDOUT);
    // `passed` is half of the clock's value: a time in the past, but after the clock's epoch, also in the first minute
    // after boot.
    const time_t passed = now(clock).tv_sec / 2, to_come = now(clock).tv_sec + 60;
    const struct timespec wrong[] = {{to_come, 1000000000}, {to_come, -1},     {passed, 1000000000},
                                     {passed, -1},          {-60, 1000000000}, {-60, -1}};
    for (int j = 0; j < (under_usher() ? 6 : 4); ++j)
      CHECK_CODE(timed_calls[i].call(&mutex, &wrong[j]), invalid_or_past(wrong[j]));
    CHECK(seconds() - start < 10);
    const struct timespec deadline = later(now(clock), 20);
    CHECK_CODE(timed_calls[i].call(&mutex, &deadline), ETIMEDOUT);
    CHECK(!before(now(clock), deadline));
  }
  CHECK_CODE(pthread_mutex_trylock(&mutex), EBUSY);
  let_go(&holder);
  // The timed-out calls have left no waiter in the queue.
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_CODE(try_elsewhere(&mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(try_elsewhere(&mutex));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

CASE_FOR(timed_gets_it_in_time, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int i = 0; i < 3; ++i) {
    note("%s", timed_calls[i].name);
    struct holder holder;
    hold_for(&holder, &mutex, 15);
    const struct timespec deadline = later(now(timed_calls[i].clock), 10000);
    CHECK_OK(timed_calls[i].call(&mutex, &deadline));
    CHECK(before(now(timed_calls[i].clock), deadline));
    CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    join_thread(holder.thread);
  }
  CHECK_OK(try_elsewhere(&mutex));
}

CASE_FOR(clocklock_bad_clock, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID,
                              CLOCK_THREAD_CPUTIME_ID,
                              CLOCK_MONOTONIC_RAW,
                              CLOCK_BOOTTIME,
                              CLOCK_REALTIME_COARSE,
                              CLOCK_TAI,
                              -1,
                              1000};
  const struct timespec deadline = {0, 0};
  for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; ++i) {
    note("clock %d", (int)clocks[i]);
    CHECK_CODE(pthread_mutex_clocklock(&mutex, clocks[i], &deadline), EINVAL);
    CHECK_OK(try_elsewhere(&mutex));
    struct holder holder;
    hold(&holder, &mutex);
    CHECK_CODE(pthread_mutex_clocklock(&mutex, clocks[i], &deadline), EINVAL);
    let_go(&holder);
  }
}

// -- no call changes errno --

enum { marker = 4711 };

#define CHECK_QUIET(call, expected)           \
  do {                                        \
    errno = marker;                           \
    const int code_of_call = (call);          \
    const int errno_of_call = errno;          \
    CHECK_CODE((code_of_call), expected);     \
    CHECK_NUMBER(errno_of_call, (int)marker); \
  } while (0)

CASE_FOR(errno_untouched, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 2; ++round) {
    CHECK_QUIET(pthread_mutex_lock(&mutex), 0);
    CHECK_QUIET(pthread_mutex_unlock(&mutex), 0);
    CHECK_QUIET(pthread_mutex_trylock(&mutex), 0);
    CHECK_QUIET(pthread_mutex_destroy(&mutex), EBUSY);
    CHECK_QUIET(pthread_mutex_unlock(&mutex), 0);
    CHECK_QUIET(pthread_mutex_unlock(&mutex), kind->checks ? EPERM : 0);
    struct holder holder;
    hold(&holder, &mutex);
    CHECK_QUIET(pthread_mutex_trylock(&mutex), EBUSY);
    const struct timespec past = {0, 0}, wrong = {0, -1};
    for (int i = 0; i < 3; ++i) {
      const struct timespec soon = later(now(timed_calls[i].clock), 3);
      CHECK_QUIET(timed_calls[i].call(&mutex, &past), ETIMEDOUT);
      CHECK_QUIET(timed_calls[i].call(&mutex, &wrong), EINVAL);
      CHECK_QUIET(timed_calls[i].call(&mutex, &soon), ETIMEDOUT);
    }
    CHECK_QUIET(pthread_mutex_clocklock(&mutex, 1000, &past), EINVAL);
    let_go(&holder);
    // Calls that wait, and calls that wake a waiter, also leave errno unchanged.
    hold_for(&holder, &mutex, 10);
    CHECK_QUIET(pthread_mutex_lock(&mutex), 0);
    join_thread(holder.thread);
    pthread_t waiter = start_thread(thread_lock_unlock, &mutex);
    await_sleepers(1);
    CHECK_QUIET(pthread_mutex_unlock(&mutex), 0);
    join_thread(waiter);
    for (int i = 0; i < 3; ++i) {
      hold_for(&holder, &mutex, 5);
      const struct timespec deadline = later(now(timed_calls[i].clock), 10000);
      CHECK_QUIET(timed_calls[i].call(&mutex, &deadline), 0);
      CHECK_QUIET(pthread_mutex_unlock(&mutex), 0);
      join_thread(holder.thread);
    }
    make_mutex(&mutex, kind);  // the unlock of a free mutex may have upset the C library's count of users
    CHECK_QUIET(pthread_mutex_destroy(&mutex), 0);
    CHECK_QUIET(pthread_mutex_lock(&mutex), EINVAL);
    CHECK_QUIET(pthread_mutex_init(&mutex, NULL), 0);
    make_mutex(&mutex, kind);
  }
}

// -- several mutexes at once --

CASE_FOR(nested_in_every_order, struct mutex_kind, kind, all_kinds) {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  pthread_mutex_t mutexes[3];
  for (int i = 0; i < 3; ++i) make_mutex(&mutexes[i], kind);
  for (int order = 0; order < 6; ++order) {
    for (int i = 0; i < 3; ++i) CHECK_OK(pthread_mutex_lock(&mutexes[i]));
    for (int i = 0; i < 3; ++i) {
      CHECK_CODE(try_elsewhere(&mutexes[orders[order][i]]), EBUSY);
      CHECK_OK(pthread_mutex_unlock(&mutexes[orders[order][i]]));
      CHECK_OK(try_elsewhere(&mutexes[orders[order][i]]));
    }
  }
}

enum { many = 5000 };

static void shuffle(int* order, int count, unsigned seed) {
  for (int i = 0; i < count; ++i) order[i] = i;
  for (int i = count - 1; i > 0; --i) {
    seed = seed * 1664525u + 1013904223u;
    const int j = (int)(seed % (unsigned)(i + 1));
    const int other = order[i];
    order[i] = order[j];
    order[j] = other;
  }
}

static void* try_all(void* argument) {
  pthread_mutex_t* mutexes = argument;
  int busy = 0;
  for (int i = 0; i < many; ++i) {
    const int code = pthread_mutex_trylock(&mutexes[i]);
    if (code == EBUSY) ++busy;
    if (code == 0) CHECK_OK(pthread_mutex_unlock(&mutexes[i]));
  }
  return (void*)(intptr_t)busy;
}

// A program may hold thousands of mutexes at once and release them in any order.
CASE_FOR(five_thousand_at_once, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t* mutexes = malloc(many * sizeof *mutexes);
  int* order = malloc(many * sizeof *order);
  for (int i = 0; i < many; ++i) make_mutex(&mutexes[i], kind);
  for (unsigned round = 0; round < 3; ++round) {
    shuffle(order, many, round + 1);
    for (int i = 0; i < many; ++i) CHECK_OK(pthread_mutex_lock(&mutexes[order[i]]));
    CHECK_NUMBER((intptr_t)in_new_thread(try_all, mutexes), many);
    shuffle(order, many, round + 100);
    for (int i = 0; i < many; ++i) CHECK_OK(pthread_mutex_unlock(&mutexes[order[i]]));
    CHECK_NUMBER((intptr_t)in_new_thread(try_all, mutexes), 0);
  }
  free(order);
  free(mutexes);
}

// Other mutexes and other data lie next to each mutex: no call writes beyond its forty bytes.
CASE_FOR(neighbours_untouched, struct mutex_kind, kind, all_kinds) {
  struct {
    unsigned char front[64];
    pthread_mutex_t mutex;
    unsigned char back[64];
  } all;
  memset(&all, 0x5a, sizeof all);
  make_mutex(&all.mutex, kind);
  pthread_t waiter;
  for (int round = 0; round < 3; ++round) {
    CHECK_OK(pthread_mutex_lock(&all.mutex));
    waiter = start_thread(thread_lock_unlock, &all.mutex);
    await_sleepers(1);
    CHECK_OK(pthread_mutex_unlock(&all.mutex));
    join_thread(waiter);
  }
  for (int i = 0; i < 64; ++i) {
    CHECK_NUMBER(all.front[i], 0x5a);
    CHECK_NUMBER(all.back[i], 0x5a);
  }
}

// -- calls that are only for robust and priority-protected mutexes --

CASE_FOR(not_robust_nor_protected, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  int ceiling = 0;
  for (int round = 0; round < 2; ++round) {
    CHECK_CODE(pthread_mutex_consistent(&mutex), EINVAL);
    CHECK_CODE(pthread_mutex_getprioceiling(&mutex, &ceiling), EINVAL);
    CHECK_CODE(pthread_mutex_setprioceiling(&mutex, 1, &ceiling), EINVAL);
    if (round == 0) CHECK_OK(pthread_mutex_lock(&mutex));
  }
  CHECK_OK(pthread_mutex_unlock(&mutex));
}

CASE(attributes) {
  pthread_mutexattr_t attribute;
  int value = -1;
  CHECK_OK(pthread_mutexattr_init(&attribute));
  CHECK_OK(pthread_mutexattr_gettype(&attribute, &value));
  CHECK_NUMBER(value, PTHREAD_MUTEX_DEFAULT);
  CHECK_OK(pthread_mutexattr_getpshared(&attribute, &value));
  CHECK_NUMBER(value, PTHREAD_PROCESS_PRIVATE);
  CHECK_OK(pthread_mutexattr_getrobust(&attribute, &value));
  CHECK_NUMBER(value, PTHREAD_MUTEX_STALLED);
  CHECK_OK(pthread_mutexattr_getprotocol(&attribute, &value));
  CHECK_NUMBER(value, PTHREAD_PRIO_NONE);
  const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                       PTHREAD_MUTEX_ADAPTIVE_NP};
  for (int i = 0; i < 4; ++i) {
    CHECK_OK(pthread_mutexattr_settype(&attribute, types[i]));
    CHECK_OK(pthread_mutexattr_gettype(&attribute, &value));
    CHECK_NUMBER(value, types[i]);
  }
  CHECK_CODE(pthread_mutexattr_settype(&attribute, 17), EINVAL);
  CHECK_CODE(pthread_mutexattr_setpshared(&attribute, 17), EINVAL);
  CHECK_CODE(pthread_mutexattr_setrobust(&attribute, 17), EINVAL);
  CHECK_CODE(pthread_mutexattr_setprotocol(&attribute, 17), EINVAL);
  CHECK_OK(pthread_mutexattr_destroy(&attribute));
}

// One attribute object makes many mutexes, and may be changed or destroyed afterwards.
CASE(attribute_used_again) {
  pthread_mutexattr_t attribute;
  CHECK_OK(pthread_mutexattr_init(&attribute));
  pthread_mutex_t recursive[3], errorcheck;
  CHECK_OK(pthread_mutexattr_settype(&attribute, PTHREAD_MUTEX_RECURSIVE));
  for (int i = 0; i < 3; ++i) CHECK_OK(pthread_mutex_init(&recursive[i], &attribute));
  CHECK_OK(pthread_mutexattr_settype(&attribute, PTHREAD_MUTEX_ERRORCHECK));
  CHECK_OK(pthread_mutex_init(&errorcheck, &attribute));
  CHECK_OK(pthread_mutexattr_destroy(&attribute));
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(pthread_mutex_lock(&recursive[i]));
    CHECK_OK(pthread_mutex_lock(&recursive[i]));
    CHECK_OK(pthread_mutex_unlock(&recursive[i]));
    CHECK_OK(pthread_mutex_unlock(&recursive[i]));
  }
  CHECK_OK(pthread_mutex_lock(&errorcheck));
  CHECK_CODE(pthread_mutex_lock(&errorcheck), EDEADLK);
  CHECK_OK(pthread_mutex_unlock(&errorcheck));
}

// -- other parts of the C library, which use mutexes of their own --

CASE(c11_threads) {
  mtx_t mutex;
  cnd_t condition;
  CHECK(mtx_init(&mutex, mtx_timed | mtx_recursive) == thrd_success);
  CHECK(cnd_init(&condition) == thrd_success);
  CHECK(mtx_lock(&mutex) == thrd_success);
  CHECK(mtx_trylock(&mutex) == thrd_success);
  CHECK(mtx_unlock(&mutex) == thrd_success);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 5);
  CHECK(cnd_timedwait(&condition, &mutex, &deadline) == thrd_timedout);
  CHECK(cnd_signal(&condition) == thrd_success);
  CHECK(mtx_unlock(&mutex) == thrd_success);
  cnd_destroy(&condition);
  mtx_destroy(&mutex);
}
