// Tests mutexes and new processes. A child has only a copy of the thread that forked. The other threads, including
// those queued on a mutex, do not exist in the child, so an unlock in the child must not hand the lock to them.
#include "kinds.h"

#include <spawn.h>
#include <sys/syscall.h>

extern char** environ;

struct arena {
  pthread_mutex_t mutex;
  int inside;
  long count;
  int* stop;
  pid_t (*fork)(void);
  const struct mutex_kind* kind;
};

static void work_once(struct arena* arena) {
  CHECK_OK(pthread_mutex_lock(&arena->mutex));
  CHECK(__atomic_exchange_n(&arena->inside, 1, __ATOMIC_RELAXED) == 0);
  linger(++arena->count);
  __atomic_store_n(&arena->inside, 0, __ATOMIC_RELAXED);
  CHECK_OK(pthread_mutex_unlock(&arena->mutex));
}

static void* hammer(void* argument) {
  struct arena* arena = argument;
  while (!flag_get(arena->stop)) work_once(arena);
  return NULL;
}

static void* work_fifty_times(void* argument) {
  for (int i = 0; i < 50; ++i) work_once(argument);
  return NULL;
}

struct crowd {
  pthread_t threads[8];
  int count, stop;
};

static void start_crowd(struct crowd* crowd, int count, struct arena* arena) {
  crowd->count = count;
  crowd->stop = 0;
  arena->stop = &crowd->stop;
  for (int i = 0; i < count; ++i) crowd->threads[i] = start_thread(hammer, arena);
}

static void stop_crowd(struct crowd* crowd) {
  flag_set(&crowd->stop, 1);
  for (int i = 0; i < crowd->count; ++i) join_thread(crowd->threads[i]);
}

// Called in a child in which the mutex is free: uses it in one thread first, then in several.
static void use_in_child(struct arena* arena) {
  arena->inside = 0;
  for (int i = 0; i < 20; ++i) work_once(arena);
  CHECK_OK(pthread_mutex_trylock(&arena->mutex));
  CHECK_CODE(elsewhere(thread_trylock, &arena->mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&arena->mutex));
  const long count = arena->count;
  run_threads(3, work_fifty_times, arena, 0);
  CHECK_NUMBER(arena->count, count + 150);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 10000);
  CHECK_OK(pthread_mutex_timedlock(&arena->mutex, &deadline));
  CHECK_OK(pthread_mutex_unlock(&arena->mutex));
}

// -- the ways to fork --

// Forks without the handlers that the C library runs in fork().
static pid_t raw_clone(void) {
  return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

extern pid_t _Fork(void) __attribute__((weak));

struct fork_way {
  const char* name;
  pid_t (*fork)(void);
};

static const struct fork_way fork_ways[] = {{"fork", fork}, {"_Fork", _Fork}, {"clone", raw_clone}};

// -- alone --

CASE_FOR(fork_while_free, struct mutex_kind, kind, all_kinds) {
  struct arena arena = {.count = 0};
  make_mutex(&arena.mutex, kind);
  for (int used = 0; used < 2; ++used) {
    if (used) work_once(&arena);
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      use_in_child(&arena);
      CHECK_OK(pthread_mutex_destroy(&arena.mutex));
      _exit(0);
    }
    CHECK_CHILD(child, 0);
    work_once(&arena);
  }
}

// The forking thread holds the mutex. In the child the mutex is held, too, and the child may release it. If the kind
// checks its owner, the child cannot release the mutex, because the child's thread has another id than the owner. The
// child can then only initialise the mutex again.
CASE_FOR(fork_while_held, struct mutex_kind, kind, all_kinds) {
  struct arena arena = {.count = 0};
  make_mutex(&arena.mutex, kind);
  CHECK_OK(pthread_mutex_lock(&arena.mutex));
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    CHECK_CODE(elsewhere(thread_trylock, &arena.mutex), EBUSY);
    const int code = pthread_mutex_unlock(&arena.mutex);
    CHECK_CODE(code, kind->checks ? EPERM : 0);
    if (kind->checks) {
      CHECK_CODE(pthread_mutex_trylock(&arena.mutex), EBUSY);
      make_mutex(&arena.mutex, kind);
    }
    use_in_child(&arena);
    _exit(0);
  }
  CHECK_CHILD(child, 0);
  CHECK_CODE(elsewhere(thread_trylock, &arena.mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&arena.mutex));
  CHECK_OK(try_elsewhere(&arena.mutex));
}

// Another thread holds the mutex at the fork: in the child it stays held, and its data may be in any state. The child
// can only initialise the mutex again.
CASE_FOR(fork_while_held_by_another, struct mutex_kind, kind, all_kinds) {
  struct arena arena = {.count = 0};
  make_mutex(&arena.mutex, kind);
  struct holder holder;
  hold(&holder, &arena.mutex);
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    CHECK_CODE(pthread_mutex_trylock(&arena.mutex), EBUSY);
    const struct timespec deadline = later(now(CLOCK_REALTIME), 5);
    CHECK_CODE(pthread_mutex_timedlock(&arena.mutex, &deadline), ETIMEDOUT);
    make_mutex(&arena.mutex, kind);
    use_in_child(&arena);
    _exit(0);
  }
  CHECK_CHILD(child, 0);
  let_go(&holder);
  CHECK_OK(try_elsewhere(&arena.mutex));
}

CASE(fork_with_many_held) {
  pthread_mutex_t* mutexes = malloc(300 * sizeof *mutexes);
  for (int i = 0; i < 300; ++i) {
    make_mutex(&mutexes[i], &careless_kinds[i % 7]);
    CHECK_OK(pthread_mutex_lock(&mutexes[i]));
  }
  const pid_t child = fork();
  for (int i = 0; i < 300; ++i) {
    const int j = i * 7 % 300;
    CHECK_CODE(pthread_mutex_trylock(&mutexes[j]), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&mutexes[j]));
  }
  for (int i = 0; i < 300; ++i) CHECK_OK(pthread_mutex_lock(&mutexes[i]));
  for (int i = 0; i < 300; ++i) CHECK_OK(pthread_mutex_unlock(&mutexes[i]));
  if (child == 0) _exit(0);
  CHECK_CHILD(child, 0);
  free(mutexes);
}

// -- with queued threads that do not exist in the child --

static const struct mutex_kind* const ghost_kinds = careless_kinds;

// The forking thread holds the mutex and other threads are queued on it: the child's unlock must not hand it to one of
// them.
static void fork_with_queue(struct arena* arena, int rounds, int generations) {
  for (int round = 0; round < rounds; ++round) {
    pthread_t waiters[4];
    const int count = 1 + round % 4;
    CHECK_OK(pthread_mutex_lock(&arena->mutex));
    for (int i = 0; i < count; ++i) waiters[i] = start_thread(thread_lock_unlock, &arena->mutex);
    if (round % 3) await_sleepers(count);  // in the other rounds the waiters may be on their way
    const pid_t child = arena->fork();
    CHECK(child >= 0);
    if (child == 0) {
      be_a_child();
      for (int generation = 1; generation < generations; ++generation) {
        // The child forks a grandchild while the mutex is still held.
        const pid_t grandchild = arena->fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
          be_a_child();
          continue;
        }
        CHECK_CHILD(grandchild, 0);
        break;
      }
      CHECK_CODE(pthread_mutex_trylock(&arena->mutex), EBUSY);
      CHECK_OK(pthread_mutex_unlock(&arena->mutex));
      // Threads may be started only after the C library's own fork().
      if (arena->fork == fork) {
        use_in_child(arena);
      } else {
        for (int i = 0; i < 20; ++i) work_once(arena);
      }
      _exit(0);
    }
    CHECK_OK(pthread_mutex_unlock(&arena->mutex));
    CHECK_CHILD(child, 0);
    for (int i = 0; i < count; ++i) CHECK_OK((int)(intptr_t)join_thread(waiters[i]));
  }
}

CASE_FOR(fork_with_queue_of_ghosts, struct fork_way, way, fork_ways) {
  if (!way->fork) skip_case("not in this C library");
  for (int i = 0; i < 7; ++i) {
    note("mutex %s", ghost_kinds[i].name);
    struct arena arena = {.fork = way->fork};
    make_mutex(&arena.mutex, &ghost_kinds[i]);
    fork_with_queue(&arena, 5, 1);
  }
}

CASE_FOR(fork_of_a_fork_with_ghosts, struct fork_way, way, fork_ways) {
  if (!way->fork) skip_case("not in this C library");
  struct arena arena = {.fork = way->fork};
  make_mutex(&arena.mutex, &all_kinds[0]);
  fork_with_queue(&arena, 10, 3);
}

// Each generation starts threads that queue, and forks while it holds the mutex.
static void descend(struct arena* arena, int generations) {
  pthread_t waiters[3];
  CHECK_OK(pthread_mutex_lock(&arena->mutex));
  for (int i = 0; i < 3; ++i) waiters[i] = start_thread(thread_lock_unlock, &arena->mutex);
  await_sleepers(3);
  const pid_t child = generations > 0 ? fork() : -1;
  if (child == 0) {
    be_a_child();
    CHECK_OK(pthread_mutex_unlock(&arena->mutex));
    use_in_child(arena);
    descend(arena, generations - 1);
    _exit(0);
  }
  CHECK_OK(pthread_mutex_unlock(&arena->mutex));
  for (int i = 0; i < 3; ++i) CHECK_OK((int)(intptr_t)join_thread(waiters[i]));
  if (child > 0) CHECK_CHILD(child, 0);
}

CASE_FOR(generations_with_ghosts, struct mutex_kind, kind, careless_kinds) {
  struct arena arena = {.count = 0};
  make_mutex(&arena.mutex, kind);
  descend(&arena, 4);
}

// At the fork, threads of the parent may hold the mutex. If the child can acquire the mutex nevertheless, the mutex
// must work.
CASE_FOR(fork_under_load, struct mutex_kind, kind, main_kinds) {
  static struct arena arena;
  make_mutex(&arena.mutex, kind);
  struct crowd crowd;
  start_crowd(&crowd, 4, &arena);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      if (pthread_mutex_trylock(&arena.mutex) == 0) {
        CHECK_OK(pthread_mutex_unlock(&arena.mutex));
      } else {
        make_mutex(&arena.mutex, kind);
      }
      use_in_child(&arena);
      _exit(0);
    }
    CHECK_CHILD(child, 0);
  }
  stop_crowd(&crowd);
}

// -- handlers --

static struct arena* handled;
static void prepare(void) {
  CHECK_OK(pthread_mutex_lock(&handled->mutex));
}
static void release(void) {
  const int code = pthread_mutex_unlock(&handled->mutex);
  // In a child, the kinds that check their owner regard the calling thread as a thread other than the owner.
  if (code == EPERM && handled->kind->checks)
    make_mutex(&handled->mutex, handled->kind);
  else
    CHECK_OK(code);
}

// Fork handlers as programs have them: the prepare handler locks, and the handlers of parent and child unlock. All
// other threads try to get the mutex meanwhile.
CASE_FOR(atfork_handlers_under_load, struct mutex_kind, kind, all_kinds) {
  static struct arena arena;
  make_mutex(&arena.mutex, kind);
  arena.kind = kind;
  handled = &arena;
  CHECK_OK(pthread_atfork(prepare, release, release));
  struct crowd crowd;
  start_crowd(&crowd, 5, &arena);
  for (int round = 0; round < 8; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      use_in_child(&arena);
      if (round % 2) {
        // The handlers run again while a second group of threads uses the mutex.
        struct crowd second;
        start_crowd(&second, 3, &arena);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
          be_a_child();
          use_in_child(&arena);
          _exit(0);
        }
        CHECK_CHILD(grandchild, 0);
        stop_crowd(&second);
      }
      _exit(0);
    }
    CHECK_CHILD(child, 0);
  }
  stop_crowd(&crowd);
}

static void* fork_here(void* argument) {
  struct arena* arena = argument;
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // this thread is the parent here: its end does not end the process
      use_in_child(arena);
      _exit(0);
    }
    CHECK_CHILD(child, 0);
  }
  return NULL;
}

// The forking thread is not the parent's first thread, but becomes the first and only thread of the child.
CASE(forks_from_several_threads) {
  static struct arena arena;
  make_mutex(&arena.mutex, &all_kinds[0]);
  arena.kind = &all_kinds[0];
  handled = &arena;
  CHECK_OK(pthread_atfork(prepare, release, release));
  struct crowd crowd;
  start_crowd(&crowd, 3, &arena);
  run_threads(3, fork_here, &arena, 0);
  stop_crowd(&crowd);
}

CASE(many_children_at_once) {
  static struct arena arena;
  make_mutex(&arena.mutex, &all_kinds[0]);
  pid_t children[20];
  CHECK_OK(pthread_mutex_lock(&arena.mutex));
  for (int i = 0; i < 20; ++i) {
    children[i] = fork();
    if (children[i] == 0) {
      be_a_child();
      CHECK_OK(pthread_mutex_unlock(&arena.mutex));
      use_in_child(&arena);
      _exit(0);
    }
  }
  CHECK_OK(pthread_mutex_unlock(&arena.mutex));
  for (int i = 0; i < 20; ++i) CHECK_CHILD(children[i], 0);
}

// Runs in a child. The library may have cached data of the parent's thread, such as its id; they are wrong for the
// child's thread.
static void child_of_used_thread(void* argument) {
  struct arena* arena = argument;
  CHECK_OK(pthread_mutex_lock(&arena->mutex));
  CHECK_CODE(pthread_mutex_lock(&arena->mutex), EDEADLK);
  CHECK_CODE(elsewhere(thread_unlock, &arena->mutex), EPERM);
  CHECK_OK(pthread_mutex_unlock(&arena->mutex));
  CHECK_CODE(pthread_mutex_unlock(&arena->mutex), EPERM);
}

CASE(owner_is_known_by_its_new_number) {
  static struct arena arena, recursive;
  make_mutex(&arena.mutex, &all_kinds[4]);
  make_mutex(&recursive.mutex, &all_kinds[3]);
  work_once(&arena);
  work_once(&recursive);
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    child_of_used_thread(&arena);
    CHECK_OK(pthread_mutex_lock(&recursive.mutex));
    CHECK_OK(pthread_mutex_lock(&recursive.mutex));
    CHECK_CODE(try_elsewhere(&recursive.mutex), EBUSY);
    const pid_t grandchild = start_child(child_of_used_thread, &arena);
    CHECK_CHILD(grandchild, 0);
    CHECK_OK(pthread_mutex_unlock(&recursive.mutex));
    CHECK_OK(pthread_mutex_unlock(&recursive.mutex));
    use_in_child(&recursive);
    _exit(0);
  }
  CHECK_CHILD(child, 0);
}

// -- conditions --

struct shop {
  pthread_mutex_t mutex;
  pthread_cond_t bell;
  int waiting, open, served;
};

static void* wait_for_bell(void* argument) {
  struct shop* shop = argument;
  CHECK_OK(pthread_mutex_lock(&shop->mutex));
  ++shop->waiting;
  while (!shop->open) CHECK_OK(pthread_cond_wait(&shop->bell, &shop->mutex));
  ++shop->served;
  CHECK_OK(pthread_mutex_unlock(&shop->mutex));
  return NULL;
}

// Locks the mutex, and returns when this number of threads waits on the condition.
static void lock_when_waiting(struct shop* shop, int waiting) {
  for (;;) {
    CHECK_OK(pthread_mutex_lock(&shop->mutex));
    if (shop->waiting == waiting) return;
    CHECK_OK(pthread_mutex_unlock(&shop->mutex));
    usleep(200);  // polls; the case has a time limit
  }
}

static void ring(struct shop* shop, int waiting) {
  lock_when_waiting(shop, waiting);
  shop->open = 1;
  CHECK_OK(pthread_cond_broadcast(&shop->bell));
  CHECK_OK(pthread_mutex_unlock(&shop->mutex));
}

// Threads of the parent wait on the condition; a broadcast in the child reaches the threads of the child.
CASE(condition_after_fork) {
  static struct shop shop = {.mutex = PTHREAD_MUTEX_INITIALIZER, .bell = PTHREAD_COND_INITIALIZER};
  pthread_t ghosts[3], threads[3];
  for (int i = 0; i < 3; ++i) ghosts[i] = start_thread(wait_for_bell, &shop);
  lock_when_waiting(&shop, 3);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();  // the mutex is held, so that no waiter is in its critical section at the fork
    if (child == 0) {
      be_a_child();
      CHECK_OK(pthread_mutex_unlock(&shop.mutex));
      for (int i = 0; i < 3; ++i) threads[i] = start_thread(wait_for_bell, &shop);
      ring(&shop, 6);
      for (int i = 0; i < 3; ++i) join_thread(threads[i]);
      CHECK_NUMBER(shop.served, 3);
      _exit(0);
    }
    CHECK_CHILD(child, 0);
  }
  CHECK_OK(pthread_mutex_unlock(&shop.mutex));
  ring(&shop, 3);
  for (int i = 0; i < 3; ++i) join_thread(ghosts[i]);
  CHECK_NUMBER(shop.served, 3);
}

CASE(condition_made_in_child) {
  static struct arena arena;
  make_mutex(&arena.mutex, &all_kinds[0]);
  struct crowd crowd;
  start_crowd(&crowd, 3, &arena);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      struct shop shop = {.mutex = PTHREAD_MUTEX_INITIALIZER, .bell = PTHREAD_COND_INITIALIZER};
      pthread_t threads[4];
      for (int i = 0; i < 4; ++i) threads[i] = start_thread(wait_for_bell, &shop);
      ring(&shop, 4);
      for (int i = 0; i < 4; ++i) join_thread(threads[i]);
      CHECK_OK(pthread_cond_destroy(&shop.bell));
      _exit(0);
    }
    CHECK_CHILD(child, 0);
  }
  stop_crowd(&crowd);
}

// -- other programs --

static char true_program[] = "/bin/true";
static char* true_arguments[] = {true_program, NULL};

// The child of vfork runs in the parent's memory until it executes another program.
CASE(vfork_and_exec_under_load) {
  static struct arena arena;
  make_mutex(&arena.mutex, &all_kinds[0]);
  struct crowd crowd;
  start_crowd(&crowd, 3, &arena);
  for (int round = 0; round < 10; ++round) {
    if (round % 2) CHECK_OK(pthread_mutex_lock(&arena.mutex));
    const pid_t child = vfork();
    if (child == 0) {
      execv(true_program, true_arguments);
      _exit(127);
    }
    CHECK(child > 0);
    if (round % 2) {
      CHECK_CODE(elsewhere(thread_trylock, &arena.mutex), EBUSY);
      CHECK_OK(pthread_mutex_unlock(&arena.mutex));
    }
    CHECK_CHILD(child, 0);
    for (int i = 0; i < 10; ++i) work_once(&arena);
  }
  stop_crowd(&crowd);
}

CASE(posix_spawn_under_load) {
  static struct arena arena;
  make_mutex(&arena.mutex, &all_kinds[0]);
  struct crowd crowd;
  start_crowd(&crowd, 3, &arena);
  for (int round = 0; round < 10; ++round) {
    pid_t child;
    if (round % 2) CHECK_OK(pthread_mutex_lock(&arena.mutex));
    CHECK_OK(posix_spawn(&child, true_program, NULL, NULL, true_arguments, environ));
    if (round % 2) {
      CHECK_CODE(elsewhere(thread_trylock, &arena.mutex), EBUSY);
      CHECK_OK(pthread_mutex_unlock(&arena.mutex));
    }
    CHECK_CHILD(child, 0);
    for (int i = 0; i < 10; ++i) work_once(&arena);
  }
  stop_crowd(&crowd);
}

CASE(system_and_popen_under_load) {
  static struct arena arena;
  make_mutex(&arena.mutex, &all_kinds[0]);
  struct crowd crowd;
  start_crowd(&crowd, 3, &arena);
  for (int round = 0; round < 3; ++round) {
    CHECK_NUMBER(system("exit 0"), 0);
    FILE* pipe = popen("echo one line", "r");
    CHECK(pipe != NULL);
    char line[64];
    CHECK(fgets(line, sizeof line, pipe) != NULL);
    CHECK(strcmp(line, "one line\n") == 0);  // and no output of this process precedes it
    CHECK(fgets(line, sizeof line, pipe) == NULL);
    CHECK_NUMBER(pclose(pipe), 0);
  }
  stop_crowd(&crowd);
}

CASE(exec_under_load) {
  static struct arena arena;
  make_mutex(&arena.mutex, &all_kinds[0]);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      struct crowd crowd;
      start_crowd(&crowd, 3, &arena);
      sleep_ms(2);  // the crowd is in the middle of its work when the new program starts
      execv(true_program, true_arguments);
      _exit(127);
    }
    CHECK_CHILD(child, 0);
  }
}
