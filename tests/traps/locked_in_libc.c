// Trap: the C library's own functions, called directly, have locked a mutex. The mutex's kind does not show this. Then
// functions of libusher.so are called for the mutex. deep_bind.cpp shows how this usually happens.
#include "kinds.h"

#include "library_in_use.h"

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

typedef int mutex_call(pthread_mutex_t*);
static mutex_call *libc_lock, *libc_trylock, *libc_unlock;

static void* c_library;

static mutex_call* find(const char* name) {
  if (!c_library) c_library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* found = c_library ? dlvsym(c_library, name, FIRST_VERSION) : NULL;
  if (!found) skip_case("the C library has no %s@%s", name, FIRST_VERSION);
  CHECK(!lies_in_library(found));
  mutex_call* function;
  memcpy(&function, &found, sizeof function);
  return function;
}
static void find_all(void) {
  libc_lock = find("pthread_mutex_lock");
  libc_trylock = find("pthread_mutex_trylock");
  libc_unlock = find("pthread_mutex_unlock");
}

static void* thread_libc_trylock(void* mutex) {
  const int code = libc_trylock(mutex);
  if (code == 0) CHECK_OK(libc_unlock(mutex));
  return (void*)(intptr_t)code;
}
static void* thread_trylock_unlock(void* mutex) {
  const int code = pthread_mutex_trylock(mutex);
  if (code == 0) CHECK_OK(pthread_mutex_unlock(mutex));
  return (void*)(intptr_t)code;
}
static void* thread_timedlock(void* mutex) {
  const struct timespec past = {0, 0};
  return (void*)(intptr_t)pthread_mutex_timedlock(mutex, &past);
}

static void check_is(pthread_mutex_t* mutex, int code) {
  CHECK_CODE(elsewhere(thread_libc_trylock, mutex), code);
  CHECK_CODE(elsewhere(thread_trylock_unlock, mutex), code);
}

CASE_FOR(is_busy, struct mutex_kind, kind, all_kinds) {
  find_all();
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(libc_lock(&mutex));
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  CHECK_CODE(elsewhere(thread_timedlock, &mutex), ETIMEDOUT);
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  check_is(&mutex, EBUSY);
  CHECK_OK(libc_unlock(&mutex));
  check_is(&mutex, 0);
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

CASE_FOR(is_unlocked_here, struct mutex_kind, kind, all_kinds) {
  find_all();
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(libc_lock(&mutex));
  if (kind->checks) CHECK_CODE(elsewhere(thread_unlock, &mutex), EPERM);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  check_is(&mutex, 0);
}

// A waiter of a mutex that the C library has locked must wait in the C library's way, so that the C library's unlock
// wakes the waiter.
CASE_FOR(is_waited_for, struct mutex_kind, kind, all_kinds) {
  find_all();
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(libc_lock(&mutex));
  pthread_t waiter = start_thread(thread_lock_unlock, &mutex);
  await_sleepers(1);
  CHECK_OK(libc_unlock(&mutex));
  CHECK_OK((int)(intptr_t)join_thread(waiter));
  check_is(&mutex, 0);
}

struct counted {
  pthread_mutex_t mutex;
  int turn;
  long count;
};

static void* count_up(void* argument) {
  struct counted* counted = argument;
  const bool here = flag_add(&counted->turn, 1) % 2;
  for (int i = 0; i < 5000; ++i) {
    CHECK_OK(here ? pthread_mutex_lock(&counted->mutex) : libc_lock(&counted->mutex));
    linger(++counted->count);
    CHECK_OK(i % 2 ? pthread_mutex_unlock(&counted->mutex) : libc_unlock(&counted->mutex));
  }
  return NULL;
}

// When libusher.so has recognised that the C library uses the mutex, the functions of both libraries exclude each
// other, and each can unlock what the other has locked.
CASE_FOR(excludes_in_both, struct mutex_kind, kind, main_kinds) {
  find_all();
  static struct counted counted;
  make_mutex(&counted.mutex, kind);
  CHECK_OK(libc_lock(&counted.mutex));
  CHECK_CODE(elsewhere(thread_trylock, &counted.mutex), EBUSY);
  CHECK_OK(libc_unlock(&counted.mutex));
  run_threads(4, count_up, &counted, 0);
  CHECK_NUMBER(counted.count, 4 * 5000);
}

struct meeting {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int met, way;
};

static void* meet(void* argument) {
  struct meeting* meeting = argument;
  CHECK_OK(libc_lock(&meeting->mutex));
  meeting->met = 1;
  CHECK_OK(meeting->way % 2 ? pthread_cond_signal(&meeting->condition) : pthread_cond_broadcast(&meeting->condition));
  CHECK_OK(libc_unlock(&meeting->mutex));
  return NULL;
}

/// Waits in each way, with a mutex that the C library has locked.
static void check_waits(struct meeting* meeting) {
  for (meeting->way = 0; meeting->way < 6; ++meeting->way) {
    CHECK_OK(libc_lock(&meeting->mutex));
    meeting->met = 0;
    pthread_t other = start_thread(meet, meeting);
    while (!meeting->met) {
      const clockid_t clock = meeting->way / 2 == 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
      const struct timespec deadline = later(now(clock), 3600000);
      CHECK_OK(meeting->way / 2 == 0 ? pthread_cond_wait(&meeting->condition, &meeting->mutex)
               : meeting->way / 2 == 1
                   ? pthread_cond_timedwait(&meeting->condition, &meeting->mutex, &deadline)
                   : pthread_cond_clockwait(&meeting->condition, &meeting->mutex, clock, &deadline));
    }
    check_is(&meeting->mutex, EBUSY);
    const struct timespec past = {0, 0};
    CHECK_CODE(pthread_cond_timedwait(&meeting->condition, &meeting->mutex, &past), ETIMEDOUT);
    check_is(&meeting->mutex, EBUSY);
    CHECK_OK(libc_unlock(&meeting->mutex));
    join_thread(other);
    check_is(&meeting->mutex, 0);
  }
}

CASE_FOR(waits_for_a_condition, struct mutex_kind, kind, all_kinds) {
  find_all();
  static struct meeting meeting;
  make_mutex(&meeting.mutex, kind);
  CHECK_OK(pthread_cond_init(&meeting.condition, NULL));
  check_waits(&meeting);
  CHECK_OK(pthread_cond_destroy(&meeting.condition));
}

// The condition variable is not in its initial state: it was used with a mutex of libusher.so before, or libusher.so
// has initialised it with a clock.
CASE_FOR(waits_for_a_used_condition, struct mutex_kind, kind, main_kinds) {
  find_all();
  static struct meeting meeting;
  for (int with_clock = 0; with_clock < 2; ++with_clock) {
    pthread_condattr_t attribute;
    CHECK_OK(pthread_condattr_init(&attribute));
    if (with_clock) CHECK_OK(pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC));
    CHECK_OK(pthread_cond_init(&meeting.condition, &attribute));
    if (!with_clock) {
      static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
      const struct timespec past = {0, 0};
      CHECK_OK(pthread_mutex_lock(&other));
      CHECK_CODE(pthread_cond_timedwait(&meeting.condition, &other, &past), ETIMEDOUT);
      CHECK_OK(pthread_mutex_unlock(&other));
    }
    make_mutex(&meeting.mutex, kind);
    meeting.met = 0;
    CHECK_OK(libc_lock(&meeting.mutex));
    pthread_t other = start_thread(meet, &meeting);
    while (!meeting.met) CHECK_OK(pthread_cond_wait(&meeting.condition, &meeting.mutex));
    check_is(&meeting.mutex, EBUSY);
    CHECK_OK(libc_unlock(&meeting.mutex));
    join_thread(other);
    CHECK_OK(pthread_cond_destroy(&meeting.condition));
  }
}

// The mutex is locked by the functions of a second C library, in another namespace of the loader.
CASE_FOR(is_locked_in_another_namespace, struct mutex_kind, kind, main_kinds) {
  c_library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
  if (!c_library) skip_case("no second C library: %s", dlerror());
  find_all();
  static struct meeting meeting;
  make_mutex(&meeting.mutex, kind);
  CHECK_OK(libc_lock(&meeting.mutex));
  check_is(&meeting.mutex, EBUSY);
  CHECK_OK(pthread_mutex_unlock(&meeting.mutex));
  make_mutex(&meeting.mutex, kind);
  CHECK_OK(pthread_cond_init(&meeting.condition, NULL));
  check_waits(&meeting);
}

// In an adaptive mutex the C library stores its count of polls in the field in which libusher.so stores its fork epoch.
CASE(has_polled) {
  find_all();
  static struct meeting meeting;
  for (int polls = 1; polls < 100; polls += 7) {
    make_mutex(&meeting.mutex, &main_kinds[3]);
    CHECK_NUMBER(meeting.mutex.__data.__kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    meeting.mutex.__data.__spins = (short)polls;
    CHECK_OK(pthread_cond_init(&meeting.condition, NULL));
    check_waits(&meeting);
  }
}

static void body_of_child(void* argument) {
  pthread_mutex_t* mutex = argument;
  CHECK_CODE(elsewhere(thread_trylock, mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(mutex));
  check_is(mutex, 0);
}

CASE_FOR(is_inherited, struct mutex_kind, kind, careless_kinds) {
  find_all();
  static pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(libc_lock(&mutex));
  CHECK_CHILD(start_child(body_of_child, &mutex), 0);
  check_is(&mutex, EBUSY);
  CHECK_CHILD(start_child(body_of_child, &mutex), 0);
  CHECK_OK(libc_unlock(&mutex));
}

typedef int rwlock_call(pthread_rwlock_t*);

static rwlock_call* find_for_rwlock(const char* name) {
  rwlock_call* function;
  mutex_call* found = find(name);
  memcpy(&function, &found, sizeof function);
  return function;
}

struct in_another_thread {
  rwlock_call *call, *unlock;
  pthread_rwlock_t* lock;
};
static void* call_and_unlock(void* argument) {
  const struct in_another_thread* todo = argument;
  const int code = todo->call(todo->lock);
  if (code == 0) CHECK_OK(todo->unlock(todo->lock));
  return (void*)(intptr_t)code;
}
static int try_rwlock(rwlock_call* call, pthread_rwlock_t* lock) {
  struct in_another_thread todo = {call, pthread_rwlock_unlock, lock};
  return (int)(intptr_t)in_new_thread(call_and_unlock, &todo);
}

// Read-write locks: this case runs with the C library's locks and with each of libusher.so's.
CASE(rwlock_is_read) {
  find_all();
  rwlock_call* const rdlock = find_for_rwlock("pthread_rwlock_rdlock");
  rwlock_call* const unlock = find_for_rwlock("pthread_rwlock_unlock");
  for (int here = 0; here < 2; ++here) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    CHECK_OK(rdlock(&lock));
    CHECK_CODE(try_rwlock(pthread_rwlock_trywrlock, &lock), EBUSY);
    CHECK_OK(try_rwlock(pthread_rwlock_tryrdlock, &lock));
    CHECK_OK(here ? pthread_rwlock_unlock(&lock) : unlock(&lock));
    CHECK_OK(try_rwlock(pthread_rwlock_trywrlock, &lock));
    CHECK_OK(try_rwlock(find_for_rwlock("pthread_rwlock_trywrlock"), &lock));
  }
}

CASE(rwlock_is_written) {
  find_all();
  rwlock_call* const wrlock = find_for_rwlock("pthread_rwlock_wrlock");
  rwlock_call* const unlock = find_for_rwlock("pthread_rwlock_unlock");
  for (int here = 0; here < 2; ++here) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    CHECK_OK(wrlock(&lock));
    struct in_another_thread reader = {pthread_rwlock_rdlock, pthread_rwlock_unlock, &lock};
    pthread_t waiter = start_thread(call_and_unlock, &reader);
    await_sleepers(1);
    CHECK_CODE(try_rwlock(pthread_rwlock_tryrdlock, &lock), EBUSY);
    CHECK_OK(here ? pthread_rwlock_unlock(&lock) : unlock(&lock));
    CHECK_OK((int)(intptr_t)join_thread(waiter));
    CHECK_OK(try_rwlock(pthread_rwlock_trywrlock, &lock));
    CHECK_OK(try_rwlock(find_for_rwlock("pthread_rwlock_trywrlock"), &lock));
  }
}

static void* thread_libc_lock_unlock(void* mutex) {
  CHECK_OK(libc_lock(mutex));
  CHECK_OK(libc_unlock(mutex));
  return NULL;
}

// A thread holds the mutex through libusher.so. One thread waits for it in the C library, and up to two more threads in
// libusher.so. Only the lock `steady` recognises this state.
CASE_FOR(is_held_here_before, struct mutex_kind, kind, main_kinds) {
  if (!getenv("USHER_TEST_STATES")) skip_case("needs USHER_TEST_STATES");
  find_all();
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int ours = 0; ours < 3; ++ours) {
    CHECK_OK(pthread_mutex_lock(&mutex));
    pthread_t there = start_thread(thread_libc_lock_unlock, &mutex), here[2];
    await_sleepers(1);
    for (int i = 0; i < ours; ++i) {
      here[i] = start_thread(thread_lock_unlock, &mutex);
      await_sleepers(2 + i);
    }
    CHECK_OK(pthread_mutex_unlock(&mutex));
    join_thread(there);
    for (int i = 0; i < ours; ++i) CHECK_OK((int)(intptr_t)join_thread(here[i]));
    check_is(&mutex, 0);
  }
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

// The mutex was used through libusher.so before the C library locked it. No other thread is in a call meanwhile, so
// libusher.so recognises this in time; a line on standard error says that this is not certain in general. The case
// needs a variable, because run_traps.py examines standard error.
CASE(was_used_here_before) {
  if (!getenv("USHER_TEST_BOTH")) skip_case("needs USHER_TEST_BOTH");
  find_all();
  static struct meeting meeting;
  for (int i = 0; i < 7; ++i) {
    note("mutex %s", careless_kinds[i].name);
    make_mutex(&meeting.mutex, &careless_kinds[i]);
    CHECK_OK(pthread_cond_init(&meeting.condition, NULL));
    CHECK_OK(pthread_mutex_lock(&meeting.mutex));
    CHECK_OK(pthread_mutex_unlock(&meeting.mutex));
    CHECK_OK(libc_lock(&meeting.mutex));
    CHECK_OK(pthread_mutex_unlock(&meeting.mutex));
    check_is(&meeting.mutex, 0);
    make_mutex(&meeting.mutex, &careless_kinds[i]);
    CHECK_OK(elsewhere(thread_trylock_unlock, &meeting.mutex));
    check_waits(&meeting);
  }
}
