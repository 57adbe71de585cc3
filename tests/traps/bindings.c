// Trap: symbol versions. A program is bound to the version of a function that was the default when the program was
// linked. If a library exported only one version of a name, an old program could get the library's lock and the C
// library's trylock, and exclusion would be lost. This file refers to every version that the C library has of every
// exported name.
#include "library_in_use.h"

#include <semaphore.h>

struct reference {
  char name[48];
  const char* symbol;
  void (*function)(void);
};

#if defined(__x86_64__) && defined(__GLIBC__)
#define FOR_EACH_REFERENCE(X)                   \
  X(pthread_mutex_init, 2_2_5, "2.2.5")         \
  X(pthread_mutex_destroy, 2_2_5, "2.2.5")      \
  X(pthread_mutex_lock, 2_2_5, "2.2.5")         \
  X(pthread_mutex_unlock, 2_2_5, "2.2.5")       \
  X(pthread_mutex_trylock, 2_2_5, "2.2.5")      \
  X(pthread_mutex_trylock, 2_34, "2.34")        \
  X(pthread_mutex_timedlock, 2_2_5, "2.2.5")    \
  X(pthread_mutex_timedlock, 2_34, "2.34")      \
  X(pthread_mutex_clocklock, 2_30, "2.30")      \
  X(pthread_mutex_clocklock, 2_34, "2.34")      \
  X(pthread_cond_init, 2_2_5, "2.2.5")          \
  X(pthread_cond_init, 2_3_2, "2.3.2")          \
  X(pthread_cond_destroy, 2_2_5, "2.2.5")       \
  X(pthread_cond_destroy, 2_3_2, "2.3.2")       \
  X(pthread_cond_wait, 2_2_5, "2.2.5")          \
  X(pthread_cond_wait, 2_3_2, "2.3.2")          \
  X(pthread_cond_timedwait, 2_2_5, "2.2.5")     \
  X(pthread_cond_timedwait, 2_3_2, "2.3.2")     \
  X(pthread_cond_clockwait, 2_30, "2.30")       \
  X(pthread_cond_clockwait, 2_34, "2.34")       \
  X(pthread_cond_signal, 2_2_5, "2.2.5")        \
  X(pthread_cond_signal, 2_3_2, "2.3.2")        \
  X(pthread_cond_broadcast, 2_2_5, "2.2.5")     \
  X(pthread_cond_broadcast, 2_3_2, "2.3.2")     \
  X(sem_init, 2_2_5, "2.2.5")                   \
  X(sem_init, 2_34, "2.34")                     \
  X(sem_destroy, 2_2_5, "2.2.5")                \
  X(sem_destroy, 2_34, "2.34")                  \
  X(sem_wait, 2_2_5, "2.2.5")                   \
  X(sem_wait, 2_34, "2.34")                     \
  X(sem_trywait, 2_2_5, "2.2.5")                \
  X(sem_trywait, 2_34, "2.34")                  \
  X(sem_timedwait, 2_2_5, "2.2.5")              \
  X(sem_timedwait, 2_34, "2.34")                \
  X(sem_clockwait, 2_30, "2.30")                \
  X(sem_clockwait, 2_34, "2.34")                \
  X(sem_post, 2_2_5, "2.2.5")                   \
  X(sem_post, 2_34, "2.34")                     \
  X(sem_getvalue, 2_2_5, "2.2.5")               \
  X(sem_getvalue, 2_34, "2.34")                 \
  X(pthread_rwlock_init, 2_2_5, "2.2.5")        \
  X(pthread_rwlock_init, 2_34, "2.34")          \
  X(pthread_rwlock_destroy, 2_2_5, "2.2.5")     \
  X(pthread_rwlock_destroy, 2_34, "2.34")       \
  X(pthread_rwlock_rdlock, 2_2_5, "2.2.5")      \
  X(pthread_rwlock_rdlock, 2_34, "2.34")        \
  X(pthread_rwlock_tryrdlock, 2_2_5, "2.2.5")   \
  X(pthread_rwlock_tryrdlock, 2_34, "2.34")     \
  X(pthread_rwlock_timedrdlock, 2_2_5, "2.2.5") \
  X(pthread_rwlock_timedrdlock, 2_34, "2.34")   \
  X(pthread_rwlock_wrlock, 2_2_5, "2.2.5")      \
  X(pthread_rwlock_wrlock, 2_34, "2.34")        \
  X(pthread_rwlock_trywrlock, 2_2_5, "2.2.5")   \
  X(pthread_rwlock_trywrlock, 2_34, "2.34")     \
  X(pthread_rwlock_timedwrlock, 2_2_5, "2.2.5") \
  X(pthread_rwlock_timedwrlock, 2_34, "2.34")   \
  X(pthread_rwlock_unlock, 2_2_5, "2.2.5")      \
  X(pthread_rwlock_unlock, 2_34, "2.34")        \
  X(pthread_rwlock_clockrdlock, 2_30, "2.30")   \
  X(pthread_rwlock_clockrdlock, 2_34, "2.34")   \
  X(pthread_rwlock_clockwrlock, 2_30, "2.30")   \
  X(pthread_rwlock_clockwrlock, 2_34, "2.34")   \
  X(__pthread_rwlock_init, 2_2_5, "2.2.5")      \
  X(__pthread_rwlock_destroy, 2_2_5, "2.2.5")   \
  X(__pthread_rwlock_rdlock, 2_2_5, "2.2.5")    \
  X(__pthread_rwlock_tryrdlock, 2_2_5, "2.2.5") \
  X(__pthread_rwlock_wrlock, 2_2_5, "2.2.5")    \
  X(__pthread_rwlock_trywrlock, 2_2_5, "2.2.5") \
  X(__pthread_rwlock_unlock, 2_2_5, "2.2.5")    \
  X(mtx_init, 2_28, "2.28")                     \
  X(mtx_init, 2_34, "2.34")                     \
  X(mtx_destroy, 2_28, "2.28")                  \
  X(mtx_destroy, 2_34, "2.34")                  \
  X(mtx_lock, 2_28, "2.28")                     \
  X(mtx_lock, 2_34, "2.34")                     \
  X(mtx_trylock, 2_28, "2.28")                  \
  X(mtx_trylock, 2_34, "2.34")                  \
  X(mtx_timedlock, 2_28, "2.28")                \
  X(mtx_timedlock, 2_34, "2.34")                \
  X(mtx_unlock, 2_28, "2.28")                   \
  X(mtx_unlock, 2_34, "2.34")                   \
  X(cnd_init, 2_28, "2.28")                     \
  X(cnd_init, 2_34, "2.34")                     \
  X(cnd_destroy, 2_28, "2.28")                  \
  X(cnd_destroy, 2_34, "2.34")                  \
  X(cnd_wait, 2_28, "2.28")                     \
  X(cnd_wait, 2_34, "2.34")                     \
  X(cnd_timedwait, 2_28, "2.28")                \
  X(cnd_timedwait, 2_34, "2.34")                \
  X(cnd_signal, 2_28, "2.28")                   \
  X(cnd_signal, 2_34, "2.34")                   \
  X(cnd_broadcast, 2_28, "2.28")                \
  X(cnd_broadcast, 2_34, "2.34")

#define DECLARE(symbol, id, version) \
  extern void symbol##_##id(void);   \
  __asm__(".symver " #symbol "_" #id ", " #symbol "@GLIBC_" version);
FOR_EACH_REFERENCE(DECLARE)

#define ENTRY(symbol, id, version) {#symbol "@" version, #symbol, symbol##_##id},
static const struct reference references[] = {FOR_EACH_REFERENCE(ENTRY)};

CASE_FOR(bound_to_library, struct reference, reference, references) {
  void* address = address_of(reference->function);
  if (!lies_in_library(address))
    fail_case(__FILE__, __LINE__, "%s is bound to %s", reference->name, object_of(address));
  // All versions of a name must be bound to one function, and so must calls without a version. Two families are left
  // out: condition-variable functions, which the library exports partly twice, with and without a version, and C11's
  // functions, which it exports only with versions.
  const bool is_c11 = strncmp(reference->symbol, "mtx_", 4) == 0 || strncmp(reference->symbol, "cnd_", 4) == 0;
  if (!is_c11 && strncmp(reference->symbol, "pthread_cond_", 13) != 0)
    CHECK(address == dlsym(RTLD_DEFAULT, reference->symbol));
}

// If one version of lock has acquired a mutex, another version of trylock must find the mutex busy.
struct pair {
  const char* name;
  void (*lock)(void);
  void (*trylock)(void);
};
static const struct pair pairs[] = {
    {"old_trylock", pthread_mutex_lock_2_2_5, pthread_mutex_trylock_2_2_5},
    {"new_trylock", pthread_mutex_lock_2_2_5, pthread_mutex_trylock_2_34},
};

CASE_FOR(versions_exclude_each_other, struct pair, pair, pairs) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  CHECK_OK(call_mutex_function(address_of(pair->lock), &mutex));
  CHECK_CODE(call_mutex_function(address_of(pair->trylock), &mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(call_mutex_function(address_of(pair->trylock), &mutex));
  CHECK_CODE(pthread_mutex_trylock(&mutex), EBUSY);
  const struct timespec past = {0, 0};
  CHECK_CODE(pthread_mutex_timedlock(&mutex, &past), ETIMEDOUT);
  CHECK_CODE(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past), ETIMEDOUT);
}

// A post by one version must end a wait by another version.
struct semaphore_calls {
  const char* name;
  void (*post)(void);
  void (*wait)(void);
  void (*trywait)(void);
};
static const struct semaphore_calls semaphore_calls[] = {
    {"old_post_new_wait", sem_post_2_2_5, sem_wait_2_34, sem_trywait_2_34},
    {"new_post_old_wait", sem_post_2_34, sem_wait_2_2_5, sem_trywait_2_2_5},
};

static int call_semaphore_function(void (*function)(void), sem_t* semaphore) {
  void* address = address_of(function);
  int (*call)(sem_t*);
  memcpy(&call, &address, sizeof call);
  return call(semaphore);
}

struct awaited {
  sem_t semaphore;
  void (*wait)(void);
  int through;
};

static void* wait_there(void* argument) {
  struct awaited* awaited = argument;
  CHECK_SUCCESS(call_semaphore_function(awaited->wait, &awaited->semaphore));
  flag_set(&awaited->through, 1);
  return NULL;
}

CASE_FOR(versions_share_semaphores, struct semaphore_calls, calls, semaphore_calls) {
  struct awaited awaited = {.wait = calls->wait};
  CHECK_SUCCESS(sem_init(&awaited.semaphore, 0, 0));
  pthread_t thread = start_thread(wait_there, &awaited);
  await_sleepers(1);
  CHECK_SUCCESS(call_semaphore_function(calls->post, &awaited.semaphore));
  CHECK(flag_comes(&awaited.through, 1));
  join_thread(thread);
  CHECK_SUCCESS(call_semaphore_function(calls->post, &awaited.semaphore));
  CHECK_SUCCESS(call_semaphore_function(calls->trywait, &awaited.semaphore));
  CHECK_ERROR(call_semaphore_function(calls->trywait, &awaited.semaphore), EAGAIN);
}

// Two names of one function must use the same lock.
static int call_rwlock_function(void (*function)(void), pthread_rwlock_t* lock) {
  void* address = address_of(function);
  int (*call)(pthread_rwlock_t*);
  memcpy(&call, &address, sizeof call);
  return call(lock);
}

struct second_name {
  const char* name;
  void (*function)(void);
  int (*first)(pthread_rwlock_t*);
  void (*try_function)(void);
  bool writes;
};
static const struct second_name second_names[] = {
    {"rdlock", __pthread_rwlock_rdlock_2_2_5, pthread_rwlock_rdlock, __pthread_rwlock_tryrdlock_2_2_5, false},
    {"wrlock", __pthread_rwlock_wrlock_2_2_5, pthread_rwlock_wrlock, __pthread_rwlock_trywrlock_2_2_5, true},
};

CASE_FOR(second_names_share_locks, struct second_name, call, second_names) {
  pthread_rwlock_t lock;
  memset(&lock, 0x5a, sizeof lock);
  int (*init)(pthread_rwlock_t*, const pthread_rwlockattr_t*);
  void* address = address_of(__pthread_rwlock_init_2_2_5);
  memcpy(&init, &address, sizeof init);
  CHECK_OK(init(&lock, NULL));
  for (int first_locks = 0; first_locks < 2; ++first_locks) {
    CHECK_OK(first_locks ? call->first(&lock) : call_rwlock_function(call->function, &lock));
    CHECK_CODE(pthread_rwlock_trywrlock(&lock), EBUSY);
    CHECK_CODE(call_rwlock_function(__pthread_rwlock_trywrlock_2_2_5, &lock), EBUSY);
    CHECK_CODE(pthread_rwlock_tryrdlock(&lock), call->writes ? EBUSY : 0);
    CHECK_CODE(call_rwlock_function(__pthread_rwlock_tryrdlock_2_2_5, &lock), call->writes ? EBUSY : 0);
    for (int held = call->writes ? 1 : 3; held > 0; --held)
      CHECK_OK(held % 2 == first_locks ? pthread_rwlock_unlock(&lock)
                                       : call_rwlock_function(__pthread_rwlock_unlock_2_2_5, &lock));
    CHECK_OK(call_rwlock_function(call->try_function, &lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
  }
  CHECK_OK(call_rwlock_function(__pthread_rwlock_destroy_2_2_5, &lock));
}
#endif

// Functions that must stay bound to the C library: those that libusher.so does not replace, and C11's functions for
// callers without a version.
struct left_alone {
  const char* name;
};
static const struct left_alone left_alone[] = {
    {"pthread_mutex_consistent"},
    {"pthread_mutex_getprioceiling"},
    {"pthread_mutex_setprioceiling"},
    {"pthread_mutexattr_init"},
    {"pthread_condattr_init"},
    {"pthread_spin_lock"},
    {"pthread_create"},
    {"mtx_lock"},
    {"cnd_wait"},
    {"sem_open"},
    {"sem_close"},
    {"sem_unlink"},
    {"malloc"},
};

CASE_FOR(left_to_the_c_library, struct left_alone, symbol, left_alone) {
  const void* address = dlsym(RTLD_DEFAULT, symbol->name);
  CHECK(address != NULL);
  CHECK(!lies_in_library(address));
}
