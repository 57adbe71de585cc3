// The kinds of mutex that need no special service of the C library, unlike those of c_library_kinds.c. A preloaded
// library may replace their locks.
#ifndef USHER_TESTS_KINDS_H
#define USHER_TESTS_KINDS_H

#include "cases.h"

struct mutex_kind {
  const char* name;
  int type;  ///< the attribute's type, or one of the three values below
  bool recursive;
  bool checks;  ///< knows its owner: the recursive and error-checking kinds
  const pthread_mutex_t* initialiser;
};

enum { without_attribute = -1, untouched_attribute = -2, by_initialiser = -3 };

extern const struct mutex_kind all_kinds[11];      ///< every way to make a mutex
extern const struct mutex_kind main_kinds[4];      ///< normal, recursive, errorcheck, adaptive: for slow cases
extern const struct mutex_kind careless_kinds[7];  ///< those that do not check the owner

/// Initialises a mutex of this kind; the memory may have any content.
void make_mutex(pthread_mutex_t* mutex, const struct mutex_kind* kind);

// The three timed lock calls, wrapped in functions of one signature.
struct timed_call {
  const char* name;
  clockid_t clock;
  int (*call)(pthread_mutex_t* mutex, const struct timespec* deadline);
};
extern const struct timed_call timed_calls[3];

/// Returns true if calls of this function reach the C library: they may be bound to it directly, or USHER_LOCK may name
/// the C library's own mutexes. Cases about guarantees that only Usher gives are skipped then.
bool answered_by_the_c_library(const char* function);
#define SKIP_ON_THE_C_LIBRARY(function) \
  if (answered_by_the_c_library(function)) skip_case("the C library does not promise this of %s", function)

// Mutex calls as the bodies of threads. The argument is the mutex, the result is the error number.
void* thread_lock(void* mutex);
void* thread_trylock(void* mutex);
void* thread_unlock(void* mutex);
void* thread_lock_unlock(void* mutex);

/// Returns the result of such a call in a new thread.
int elsewhere(thread_body body, pthread_mutex_t* mutex);
/// Returns 0 if the mutex was free, and leaves it free. A new thread makes the attempt, because an owner's own attempt
/// has other results for some kinds.
int try_elsewhere(pthread_mutex_t* mutex);

/// A thread that holds a mutex until let_go().
struct holder {
  pthread_mutex_t* mutex;
  pthread_t thread;
  int held, let_go;
  long milliseconds;  ///< if positive, the mutex is released after this time instead
};
void hold(struct holder* holder, pthread_mutex_t* mutex);
void hold_for(struct holder* holder, pthread_mutex_t* mutex, long milliseconds);
void let_go(struct holder* holder);

#endif
