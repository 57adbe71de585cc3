#include "kinds.h"

#include <dlfcn.h>

static const pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static const pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static const pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static const pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static const pthread_mutex_t zeroes;

const struct mutex_kind all_kinds[11] = {
    {"default", without_attribute, false, false, NULL},
    {"plain_attribute", untouched_attribute, false, false, NULL},
    {"normal", PTHREAD_MUTEX_NORMAL, false, false, NULL},
    {"recursive", PTHREAD_MUTEX_RECURSIVE, true, true, NULL},
    {"errorcheck", PTHREAD_MUTEX_ERRORCHECK, false, true, NULL},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, false, false, NULL},
    {"static", by_initialiser, false, false, &plain},
    {"static_recursive", by_initialiser, true, true, &recursive},
    {"static_errorcheck", by_initialiser, false, true, &errorcheck},
    {"static_adaptive", by_initialiser, false, false, &adaptive},
    {"zeroed", by_initialiser, false, false, &zeroes},
};

const struct mutex_kind main_kinds[4] = {
    {"normal", PTHREAD_MUTEX_NORMAL, false, false, NULL},
    {"static_recursive", by_initialiser, true, true, &recursive},
    {"errorcheck", PTHREAD_MUTEX_ERRORCHECK, false, true, NULL},
    {"static_adaptive", by_initialiser, false, false, &adaptive},
};

const struct mutex_kind careless_kinds[7] = {
    {"default", without_attribute, false, false, NULL},   {"plain_attribute", untouched_attribute, false, false, NULL},
    {"normal", PTHREAD_MUTEX_NORMAL, false, false, NULL}, {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, false, false, NULL},
    {"static", by_initialiser, false, false, &plain},     {"static_adaptive", by_initialiser, false, false, &adaptive},
    {"zeroed", by_initialiser, false, false, &zeroes},
};

void make_mutex(pthread_mutex_t* mutex, const struct mutex_kind* kind) {
  memset(mutex, 0xa5, sizeof *mutex);
  if (kind->type == by_initialiser) {
    // The mutex is a copy of the initialiser, as after static initialisation or a struct assignment.
    memcpy(mutex, kind->initialiser, sizeof *mutex);
  } else if (kind->type == without_attribute) {
    CHECK_OK(pthread_mutex_init(mutex, NULL));
  } else {
    pthread_mutexattr_t attribute;
    CHECK_OK(pthread_mutexattr_init(&attribute));
    if (kind->type != untouched_attribute) CHECK_OK(pthread_mutexattr_settype(&attribute, kind->type));
    CHECK_OK(pthread_mutex_init(mutex, &attribute));
    CHECK_OK(pthread_mutexattr_destroy(&attribute));
  }
}

static int clocklock_realtime(pthread_mutex_t* mutex, const struct timespec* deadline) {
  return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, deadline);
}

static int clocklock_monotonic(pthread_mutex_t* mutex, const struct timespec* deadline) {
  return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, deadline);
}

const struct timed_call timed_calls[3] = {
    {"timedlock", CLOCK_REALTIME, pthread_mutex_timedlock},
    {"clocklock, realtime", CLOCK_REALTIME, clocklock_realtime},
    {"clocklock, monotonic", CLOCK_MONOTONIC, clocklock_monotonic},
};

bool answered_by_the_c_library(const char* function) {
  const char* lock = getenv("USHER_LOCK");
  if (lock && strncmp(lock, "pthread", 7) == 0) return true;
  // Returns whether `function` is the C library's. No library replaces pthread_condattr_init, so the shared object that
  // defines it is the C library.
  Dl_info here, there;
  void* address = dlsym(RTLD_DEFAULT, function);
  CHECK(address != NULL && dladdr(address, &here) != 0);
  CHECK(dladdr(dlsym(RTLD_DEFAULT, "pthread_condattr_init"), &there) != 0);
  return here.dli_fbase == there.dli_fbase;
}

void* thread_lock(void* mutex) {
  return (void*)(intptr_t)pthread_mutex_lock(mutex);
}
void* thread_trylock(void* mutex) {
  return (void*)(intptr_t)pthread_mutex_trylock(mutex);
}
void* thread_unlock(void* mutex) {
  return (void*)(intptr_t)pthread_mutex_unlock(mutex);
}

void* thread_lock_unlock(void* mutex) {
  int code = pthread_mutex_lock(mutex);
  if (code == 0) code = pthread_mutex_unlock(mutex);
  return (void*)(intptr_t)code;
}

static void* try_and_release(void* mutex) {
  int code = pthread_mutex_trylock(mutex);
  if (code == 0) CHECK_OK(pthread_mutex_unlock(mutex));
  return (void*)(intptr_t)code;
}

int elsewhere(thread_body body, pthread_mutex_t* mutex) {
  return (int)(intptr_t)in_new_thread(body, mutex);
}

int try_elsewhere(pthread_mutex_t* mutex) {
  return elsewhere(try_and_release, mutex);
}

static void* holder_body(void* argument) {
  struct holder* holder = argument;
  CHECK_OK(pthread_mutex_lock(holder->mutex));
  flag_set(&holder->held, 1);
  if (holder->milliseconds > 0)
    sleep_ms(holder->milliseconds);  // the length of the hold is what hold_for() promises
  else
    await_flag(&holder->let_go, 1);
  CHECK_OK(pthread_mutex_unlock(holder->mutex));
  return NULL;
}

void hold_for(struct holder* holder, pthread_mutex_t* mutex, long milliseconds) {
  memset(holder, 0, sizeof *holder);
  holder->mutex = mutex;
  holder->milliseconds = milliseconds;
  holder->thread = start_thread(holder_body, holder);
  await_flag(&holder->held, 1);
}

void hold(struct holder* holder, pthread_mutex_t* mutex) {
  hold_for(holder, mutex, 0);
}

void let_go(struct holder* holder) {
  flag_set(&holder->let_go, 1);
  join_thread(holder->thread);
}
