// Trap: limits at which a preloaded library may fail. The cases have little address space, small stacks, many threads
// or many held locks.
#include "kinds.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "library_in_use.h"

struct scene {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int inside, arrived, begin;
  long count;
  int rounds, parties, waiting, generation;
};

static void work_once(struct scene* scene) {
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  CHECK(__atomic_exchange_n(&scene->inside, 1, __ATOMIC_RELAXED) == 0);
  linger(++scene->count);
  __atomic_store_n(&scene->inside, 0, __ATOMIC_RELAXED);
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
}

// Makes calls of every kind. The threads wait for each other at the condition variable, so that they stay in step.
static void work(struct scene* scene) {
  for (int i = 0; i < scene->rounds; ++i) {
    work_once(scene);
    const struct timespec soon = later(now(CLOCK_MONOTONIC), 1);
    const int code = pthread_mutex_clocklock(&scene->mutex, CLOCK_MONOTONIC, &soon);
    if (code == 0) {
      CHECK_OK(pthread_mutex_unlock(&scene->mutex));
    } else {
      CHECK_CODE(code, ETIMEDOUT);
    }
    if (i % 10 != 0) continue;
    CHECK_OK(pthread_mutex_lock(&scene->mutex));
    const int generation = scene->generation;
    if (++scene->waiting == scene->parties) {
      scene->waiting = 0;
      ++scene->generation;
      CHECK_OK(pthread_cond_broadcast(&scene->condition));
    }
    while (generation == scene->generation) CHECK_OK(pthread_cond_wait(&scene->condition, &scene->mutex));
    CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  }
}

static void* work_when_told(void* argument) {
  struct scene* scene = argument;
  flag_add(&scene->arrived, 1);
  await_flag(&scene->begin, 1);
  work(scene);
  return NULL;
}

static pthread_t start_small_thread(thread_body body, void* argument, size_t stack) {
  pthread_attr_t attribute;
  pthread_t thread;
  CHECK_OK(pthread_attr_init(&attribute));
  const size_t least = (size_t)PTHREAD_STACK_MIN;  // 128 KiB on AArch64
  CHECK_OK(pthread_attr_setstacksize(&attribute, stack < least ? least : stack));
  CHECK_OK(pthread_create(&thread, &attribute, body, argument));
  CHECK_OK(pthread_attr_destroy(&attribute));
  return thread;
}

// Runs work() in threads with stacks of this size. `before_work`, if not null, is called when all threads exist and
// none has locked yet.
static void work_in_threads(int threads, size_t stack, int rounds, void (*before_work)(void)) {
  static struct scene scene = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};
  pthread_t all[64];
  scene.rounds = rounds;
  scene.parties = threads;
  for (int i = 0; i < threads; ++i) all[i] = start_small_thread(work_when_told, &scene, stack);
  await_flag(&scene.arrived, threads);
  if (before_work) before_work();
  flag_set(&scene.begin, 1);
  for (int i = 0; i < threads; ++i) join_thread(all[i]);
  CHECK_NUMBER(scene.count, threads * rounds);
}

// -- address space --

CASE(ordinary_work) {
  work_in_threads(6, 256 << 10, 50, NULL);
}

struct address_space {
  const char* name;
  rlim_t bytes;
};
static const struct address_space address_spaces[] = {{"200_MiB", 200 << 20}, {"32_MiB", 32 << 20}};

// The process starts with a limited address space, as by `ulimit -v`. The library's reservations count against the
// limit.
CASE_FOR(started_with_little_address_space, struct address_space, space, address_spaces) {
  const bool with_library = getenv("USHER_LIB") && getenv("LD_PRELOAD");
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    const struct rlimit limit = {space->bytes, space->bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(3);
    char self[] = "limits", here[] = "--here", name[] = "ordinary_work", bound[] = "still_preloaded";
    char* arguments[] = {self, here, name, NULL};
    char* check[] = {self, here, bound, NULL};
    const pid_t grandchild = with_library ? vfork() : -1;
    if (grandchild == 0) {
      execv("/proc/self/exe", check);
      _exit(127);
    }
    if (grandchild > 0) CHECK_CHILD(grandchild, 0);
    execv("/proc/self/exe", arguments);
    _exit(127);
  }
  CHECK_CHILD(child, 0);
}

// Checks that the library is really preloaded: a loader that fails to preload it only prints a warning.
CASE(still_preloaded) {
  if (!getenv("LD_PRELOAD")) skip_case("nothing is preloaded");
  CHECK(lies_in_library(dlsym(RTLD_DEFAULT, "pthread_mutex_lock")));
}

static void no_more_memory(void) {
  const struct rlimit limit = {1, 1};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
}

// A program that has no free memory must be able to lock for the first time. The C library's mutexes permit this,
// because they need no memory of their own.
CASE(first_lock_without_memory) {
  work_in_threads(6, 256 << 10, 50, no_more_memory);
}

// -- locked memory: all mapped memory becomes resident at once, and counts against RLIMIT_MEMLOCK --

static long locked_kib(void) {
  static char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);  // stdio would allocate
  CHECK(file >= 0);
  const ssize_t bytes = read(file, text, sizeof text - 1);
  CHECK(bytes > 0);
  close(file);
  const char* line = strstr(text, "VmLck:");
  CHECK(line != NULL);
  return atol(line + strlen("VmLck:"));
}

struct crew {
  const char* name;
  int threads;
};
static const struct crew crews[] = {{"1", 1}, {"64", 64}};

struct locked_work {
  pthread_mutex_t contended, recursive;
  int arrived, go, waiting;
};

static void* lock_twice(void* argument) {
  struct locked_work* work = argument;
  flag_add(&work->arrived, 1);
  await_flag(&work->go, 1);
  CHECK_OK(pthread_mutex_lock(&work->recursive));
  CHECK_OK(pthread_mutex_unlock(&work->recursive));
  flag_add(&work->waiting, 1);
  CHECK_OK(pthread_mutex_lock(&work->contended));
  CHECK_OK(pthread_mutex_unlock(&work->contended));
  return NULL;
}

// The C library's mutexes take no memory. Those of libusher.so may take some for waiting threads, a little at a time.
CASE_FOR(locked_memory_is_taken_little_by_little, struct crew, crew, crews) {
  static struct locked_work work = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, 0, 0, 0};
  pthread_t all[64];
  if (mlockall(MCL_FUTURE) != 0) skip_case("may not lock memory: %s", strerror(errno));
  for (int i = 0; i < crew->threads; ++i) all[i] = start_small_thread(lock_twice, &work, 64 << 10);
  await_flag(&work.arrived, crew->threads);
  const long before = locked_kib();
  CHECK_OK(pthread_mutex_lock(&work.contended));
  flag_set(&work.go, 1);
  await_flag(&work.waiting, crew->threads);
  await_sleepers(crew->threads);
  const long growth = locked_kib() - before;
  CHECK_OK(pthread_mutex_unlock(&work.contended));
  for (int i = 0; i < crew->threads; ++i) join_thread(all[i]);
  if (growth > 256) fail_case(__FILE__, __LINE__, "%d threads: %ld KiB of locked memory", crew->threads, growth);
}

// -- stacks --

CASE(smallest_stacks) {
  work_in_threads(8, (size_t)PTHREAD_STACK_MIN, 50, NULL);
}

// -- many threads, one after the other: the resources of one must serve the next --

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  CHECK(fscanf(file, "%ld %ld", &pages, &resident) == 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

struct parade {
  pthread_mutex_t mutexes[3];
  pthread_mutex_t* forgotten;
  pthread_key_t key;
  int rounds_left;
};
static struct parade parade;

static void* march_lock(void* argument) {
  struct parade* all = argument;
  for (int i = 0; i < 3; ++i) CHECK_OK(pthread_mutex_lock(&all->mutexes[i]));
  for (int i = 0; i < 3; ++i) CHECK_OK(pthread_mutex_unlock(&all->mutexes[i]));
  return NULL;
}

static void* march_and_leave_locked(void* argument) {
  struct parade* all = argument;
  for (int i = 0; i < 3; ++i) CHECK_OK(pthread_mutex_lock(&all->mutexes[i]));
  return NULL;
}

static void* march_and_forget(void* argument) {
  struct parade* all = argument;
  CHECK_OK(pthread_mutex_lock(all->forgotten));
  return NULL;
}

static void march_late(void* argument) {
  struct parade* all = argument;
  if (--all->rounds_left > 0)
    // makes the destructor run again, in the last round, after all other destructors
    CHECK_OK(pthread_setspecific(all->key, all));
  else
    march_lock(all);
}

static void* march_with_key(void* argument) {
  struct parade* all = argument;
  all->rounds_left = PTHREAD_DESTRUCTOR_ITERATIONS;
  CHECK_OK(pthread_setspecific(all->key, all));
  return NULL;
}

static void after_lock(void) {}
static void after_leave_locked(void) {
  for (int i = 0; i < 3; ++i) CHECK_OK(pthread_mutex_unlock(&parade.mutexes[i]));
}
static void after_forget(void) {
  memset(parade.forgotten, 0, sizeof *parade.forgotten);
}

struct march {
  const char* name;
  thread_body body;
  void (*after)(void);
};
static const struct march marches[] = {
    {"that_lock", march_lock, after_lock},
    {"that_leave_it_locked", march_and_leave_locked, after_leave_locked},
    {"that_never_unlock", march_and_forget, after_forget},
    {"that_lock_in_destructors", march_with_key, after_lock},
};

CASE_FOR(ten_thousand_threads, struct march, march, marches) {
  for (int i = 0; i < 3; ++i) make_mutex(&parade.mutexes[i], &careless_kinds[i]);
  parade.forgotten = calloc(1, sizeof *parade.forgotten);
  CHECK_OK(pthread_key_create(&parade.key, march_late));
  long after_two_thousand = 0;
  for (int i = 0; i < 10000; ++i) {
    if (i == 2000) after_two_thousand = resident_kib();
    join_thread(start_small_thread(march->body, &parade, 64 << 10));
    march->after();
  }
  const long growth = resident_kib() - after_two_thousand;
  // For each lock that is never released the process may grow by a queue node (64 bytes), but not by a whole thread
  // record. With `usher stat` it may also grow by the recording's 4096 slots of 128 bytes, with `usher record` by the
  // pages of two windows of 915 chunks each.
  const long recorded = getenv("USHER_STREAM") != NULL ? 2L * 915 * 4 : getenv("USHER_STAT") != NULL ? 600 : 0;
  const long allowed = (march->body == march_and_forget ? 1500 : 300) + recorded;
  if (growth > allowed) fail_case(__FILE__, __LINE__, "grew by %ld KiB from 2000 to 10000 threads", growth);
  for (int i = 0; i < 3; ++i) CHECK_OK(try_elsewhere(&parade.mutexes[i]));
}

struct mass {
  pthread_mutex_t mutex;
  int waiting;
  long count;
};

static void* join_the_queue(void* argument) {
  struct mass* mass = argument;
  flag_add(&mass->waiting, 1);
  CHECK_OK(pthread_mutex_lock(&mass->mutex));
  ++mass->count;
  CHECK_OK(pthread_mutex_unlock(&mass->mutex));
  return NULL;
}

// A thousand waiters are more than any lock has bits or slots for waiters, and more than a block has nodes.
CASE(a_thousand_threads_in_one_queue) {
  static struct mass mass = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  static pthread_t threads[1000];
  for (int round = 0; round < 2; ++round) {
    mass.waiting = 0;
    mass.count = 0;
    CHECK_OK(pthread_mutex_lock(&mass.mutex));
    for (int i = 0; i < 1000; ++i) threads[i] = start_small_thread(join_the_queue, &mass, 64 << 10);
    await_flag(&mass.waiting, 1000);
    await_sleepers(1000);
    CHECK_OK(pthread_mutex_unlock(&mass.mutex));
    for (int i = 0; i < 1000; ++i) join_thread(threads[i]);
    CHECK_NUMBER(mass.count, 1000);
  }
}

// -- many locks --

enum { a_lot = 20000 };

struct hoard {
  pthread_mutex_t* mutexes;
  int from, to;
};

static void* lock_hoard(void* argument) {
  const struct hoard* hoard = argument;
  for (int i = hoard->from; i < hoard->to; ++i) CHECK_OK(pthread_mutex_lock(&hoard->mutexes[i]));
  return NULL;
}

static void* unlock_hoard(void* argument) {
  const struct hoard* hoard = argument;
  const int count = hoard->to - hoard->from;
  // 7919 is a prime that divides none of the counts, so this visits each mutex once, in a scattered order.
  for (int i = 0; i < count; ++i)
    CHECK_OK(pthread_mutex_unlock(&hoard->mutexes[hoard->from + (int)((long)i * 7919 % count)]));
  return NULL;
}

CASE(twenty_thousand_locks_held) {
  pthread_mutex_t* mutexes = calloc(a_lot, sizeof *mutexes);
  struct hoard all = {mutexes, 0, a_lot};
  for (int round = 0; round < 3; ++round) {
    lock_hoard(&all);
    for (int i = 0; i < a_lot; i += 100) CHECK_CODE(pthread_mutex_trylock(&mutexes[i]), EBUSY);
    unlock_hoard(&all);
  }
  for (int i = 0; i < a_lot; ++i) CHECK_OK(pthread_mutex_trylock(&mutexes[i]));
  free(mutexes);
}

// Each thread locks many mutexes, and other threads unlock them.
CASE(hoards_change_hands) {
  pthread_mutex_t* mutexes = calloc(a_lot, sizeof *mutexes);
  for (int round = 0; round < 4; ++round) {
    struct hoard parts[4];
    for (int i = 0; i < 4; ++i) parts[i] = (struct hoard){mutexes, i * 5000, (i + 1) * 5000};
    run_threads(4, lock_hoard, parts, sizeof *parts);
    for (int i = 0; i < a_lot; i += 100) CHECK_CODE(pthread_mutex_trylock(&mutexes[i]), EBUSY);
    run_threads(4, unlock_hoard, parts, sizeof *parts);
  }
  for (int i = 0; i < a_lot; ++i) CHECK_OK(pthread_mutex_trylock(&mutexes[i]));
  free(mutexes);
}
