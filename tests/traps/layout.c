// Traps of the memory layout of mutexes: which kinds libusher.so must serve itself, and what the C library's own
// functions do with such a mutex if they are called directly. The cases depend on the layout (design.md, Preload). They
// need libusher.so with one of Usher's locks, not with the C library's mutex (`pthread`).
#include "kinds.h"

#include <sys/syscall.h>

#include "library_in_use.h"

// The symbol version of the first release of glibc for this architecture.
#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

#ifndef LM_ID_NEWLM
#define LM_ID_NEWLM -1
#endif

// libusher.so must serve all these kinds of mutex itself. One kind is easily overlooked: if an attribute sets the type
// "normal", the C library stores 0x200.
CASE_FOR(ours, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK(!is_the_c_librarys(&mutex));
  CHECK(mutex.__data.__lock != 0);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK(mutex.__data.__lock == 0);
  CHECK_OK(pthread_mutex_trylock(&mutex));
  CHECK(!is_the_c_librarys(&mutex) && mutex.__data.__lock != 0);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  const struct timespec past = {0, 0};
  CHECK_OK(pthread_mutex_timedlock(&mutex, &past));
  CHECK(!is_the_c_librarys(&mutex) && mutex.__data.__lock != 0);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(pthread_mutex_destroy(&mutex));
  CHECK_NUMBER(mutex.__data.__kind, -1);
}

struct foreign {
  const char* name;
  int robust, protocol, shared;
};
static const struct foreign foreigners[] = {
    {"robust", PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE},
    {"inherit", PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_PRIVATE},
    {"protect", PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_PROTECT, PTHREAD_PROCESS_PRIVATE},
    {"shared", PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED},
};

CASE_FOR(the_c_librarys, struct foreign, foreign, foreigners) {
  static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                              PTHREAD_MUTEX_ADAPTIVE_NP};
  for (int i = 0; i < 4; ++i) {
    pthread_mutexattr_t attribute;
    pthread_mutex_t mutex;
    CHECK_OK(pthread_mutexattr_init(&attribute));
    CHECK_OK(pthread_mutexattr_setrobust(&attribute, foreign->robust));
    CHECK_OK(pthread_mutexattr_setprotocol(&attribute, foreign->protocol));
    CHECK_OK(pthread_mutexattr_setpshared(&attribute, foreign->shared));
    CHECK_OK(pthread_mutexattr_settype(&attribute, types[i]));
    CHECK_OK(pthread_mutex_init(&mutex, &attribute));
    const int kind = mutex.__data.__kind;
    const int code = pthread_mutex_lock(&mutex);
    // A priority ceiling needs a thread with a real-time priority: for other threads the C library returns EINVAL.
    if (foreign->protocol == PTHREAD_PRIO_PROTECT && code != 0) {
      CHECK(code == EINVAL || code == EPERM);
      continue;
    }
    CHECK_OK(code);
    CHECK(is_the_c_librarys(&mutex));
    CHECK_NUMBER(mutex.__data.__kind, kind);
    CHECK_OK(pthread_mutex_unlock(&mutex));
  }
}

// The owner and the lock count must be in the fields where the C library has them, since debuggers read them there.
CASE_WHERE(owner_and_count_in_place, struct mutex_kind, kind, all_kinds, kind->checks) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 2; ++round) {
    CHECK_OK(round ? pthread_mutex_trylock(&mutex) : pthread_mutex_lock(&mutex));
    CHECK_NUMBER(mutex.__data.__owner, gettid());
    if (kind->recursive) {
      CHECK_NUMBER(mutex.__data.__count, 1);
      for (unsigned i = 2; i < 10; ++i) {
        CHECK_OK(pthread_mutex_lock(&mutex));
        CHECK_NUMBER(mutex.__data.__count, i);
      }
      for (unsigned i = 2; i < 10; ++i) CHECK_OK(pthread_mutex_unlock(&mutex));
      CHECK_NUMBER(mutex.__data.__count, 1);
    }
    CHECK_OK(pthread_mutex_unlock(&mutex));
    CHECK_NUMBER(mutex.__data.__owner, 0);
  }
}

// The thread of a child has another id than the thread that forked. A lock call in the child must store the new id as
// the owner.
CASE_WHERE(owner_in_place_after_fork, struct mutex_kind, kind, all_kinds, kind->checks) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(pthread_mutex_lock(&mutex));
  CHECK_NUMBER(mutex.__data.__owner, gettid());
  CHECK_OK(pthread_mutex_unlock(&mutex));
  for (int generation = 0; generation < 3; ++generation) {
    const pid_t child = fork();
    if (child != 0) {
      CHECK_CHILD(child, 0);
      if (generation > 0) _exit(0);
      return;
    }
    be_a_child();
    CHECK_OK(pthread_mutex_lock(&mutex));
    CHECK_NUMBER(mutex.__data.__owner, gettid());
    CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  _exit(0);
}

// The waiters of a condition do not exist in a child, so pthread_cond_destroy need not wait for them there. The C
// library's pthread_cond_destroy waits for ever.
static void* wait_for_ever(void* argument) {
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int waiting;
  }* scene = argument;
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  scene->waiting = 1;
  while (scene->waiting) CHECK_OK(pthread_cond_wait(&scene->condition, &scene->mutex));
  return NULL;
}

CASE(condition_destroyed_among_ghosts) {
  static struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int waiting;
  } scene = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  start_thread(wait_for_ever, &scene);
  for (int waiting = 0; !waiting;) {
    CHECK_OK(pthread_mutex_lock(&scene.mutex));
    waiting = scene.waiting;
    if (!waiting) CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  }
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    CHECK_OK(pthread_mutex_unlock(&scene.mutex));
    CHECK_OK(pthread_cond_destroy(&scene.condition));
    CHECK_OK(pthread_cond_init(&scene.condition, NULL));
    _exit(0);
  }
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  CHECK_CHILD(child, 0);
}

CASE_FOR(kind_stays, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  const int before = mutex.__data.__kind;
  for (int round = 0; round < 3; ++round) {
    CHECK_OK(pthread_mutex_lock(&mutex));
    pthread_t waiter = start_thread(thread_lock_unlock, &mutex);
    await_sleepers(1);
    CHECK_NUMBER(mutex.__data.__kind, before);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    join_thread(waiter);
    CHECK_NUMBER(mutex.__data.__kind, before);
  }
}

// -- the C library's own trylock on a mutex of libusher.so --

static void* c_library_trylock;

static void* trylock_behind_our_back(void* mutex) {
  return (void*)(intptr_t)call_mutex_function(c_library_trylock, mutex);
}

static void* sneak_in(void* mutex) {
  CHECK_CODE(call_mutex_function(c_library_trylock, mutex), EBUSY);
  return NULL;
}

struct back_door {
  const char* name;
  const char* symbol;
  const char* version;
  bool other_namespace;
};
static const struct back_door back_doors[] = {
    {"dlvsym", "pthread_mutex_trylock", FIRST_VERSION, false},
    {"inner_name", "__pthread_mutex_trylock", FIRST_VERSION, false},
    {"dlmopen", "pthread_mutex_trylock", NULL, true},
};

CASE_FOR(found_busy_by_the_c_library, struct back_door, door, back_doors) {
  if (door->other_namespace) {
    void* other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    if (!other) skip_case("no second C library: %s", dlerror());
    c_library_trylock = dlsym(other, door->symbol);
  } else {
    void* c_library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(c_library != NULL);
    c_library_trylock = dlvsym(c_library, door->symbol, door->version);
  }
  if (!c_library_trylock) skip_case("the C library has no %s@%s", door->symbol, door->version);
  CHECK(!lies_in_library(c_library_trylock));
  for (int i = 0; i < 11; ++i) {
    note("mutex %s", all_kinds[i].name);
    pthread_mutex_t mutex;
    make_mutex(&mutex, &all_kinds[i]);
    for (int way = 0; way < 3; ++way) {
      const struct timespec past = {0, 0};
      CHECK_OK(way == 0   ? pthread_mutex_lock(&mutex)
               : way == 1 ? pthread_mutex_trylock(&mutex)
                          : pthread_mutex_timedlock(&mutex, &past));
      CHECK_CODE(elsewhere(trylock_behind_our_back, &mutex), EBUSY);
      // The C library's trylock must also find the mutex held while other threads are queued on the mutex.
      pthread_t waiters[3];
      for (int j = 0; j < 3; ++j) waiters[j] = start_thread(thread_lock_unlock, &mutex);
      await_sleepers(3);
      CHECK_CODE(elsewhere(trylock_behind_our_back, &mutex), EBUSY);
      CHECK_OK(pthread_mutex_unlock(&mutex));
      for (int j = 0; j < 3; ++j) join_thread(waiters[j]);
      CHECK_OK(try_elsewhere(&mutex));
    }
  }
}

struct shared_mutex {
  pthread_mutex_t mutex;
  long count;
};

static void* check_held_word(void* argument) {
  struct shared_mutex* shared = argument;
  for (int i = 0; i < 1000; ++i) {
    int code;
    if (i % 3 == 0) {
      code = pthread_mutex_lock(&shared->mutex);
    } else if (i % 3 == 1) {
      const struct timespec deadline = later(now(CLOCK_REALTIME), 60000);
      code = pthread_mutex_timedlock(&shared->mutex, &deadline);
    } else {
      while ((code = pthread_mutex_trylock(&shared->mutex)) == EBUSY) sched_yield();
    }
    CHECK_OK(code);
    CHECK(__atomic_load_n(&shared->mutex.__data.__lock, __ATOMIC_RELAXED) != 0);
    linger(++shared->count);
    CHECK(__atomic_load_n(&shared->mutex.__data.__lock, __ATOMIC_RELAXED) != 0);
    if (i % 100 == 0) sneak_in(&shared->mutex);
    CHECK_OK(pthread_mutex_unlock(&shared->mutex));
  }
  return NULL;
}

// While the mutex is held, its first word must not be zero, in whichever way the owner acquired it.
CASE(first_word_set_through_hand_over) {
  static struct shared_mutex shared;
  make_mutex(&shared.mutex, &all_kinds[0]);
  void* c_library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  c_library_trylock = dlvsym(c_library, "pthread_mutex_trylock", FIRST_VERSION);
  if (!c_library_trylock) skip_case("no such version");
  run_threads(4, check_held_word, &shared, 0);
  CHECK_NUMBER(shared.count, 4 * 1000);
}

// -- a preloaded object whose constructor locks before the constructor of libusher.so may have run --

extern int early_result(void) __attribute__((weak));
extern pthread_mutex_t early_mutex __attribute__((weak));

CASE(locked_before_our_constructor) {
  if (!early_result) skip_case("needs the preloaded object that locks");
  CHECK_NUMBER(early_result(), 0);
  CHECK(!is_the_c_librarys(&early_mutex));
  CHECK_CODE(elsewhere(thread_trylock, &early_mutex), EBUSY);
  pthread_t waiter = start_thread(thread_lock_unlock, &early_mutex);
  await_sleepers(1);
  CHECK_OK(pthread_mutex_unlock(&early_mutex));
  CHECK_OK((int)(intptr_t)join_thread(waiter));
  CHECK_OK(try_elsewhere(&early_mutex));
}
