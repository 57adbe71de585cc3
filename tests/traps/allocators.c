// Trap: heap memory. Allocators lock through libusher.so, so a lock call that allocates would enter itself again. This
// program runs with one of two preloaded allocators. counting_allocator.c counts a thread's allocations during a given
// period. locking_allocator.c protects its heap by a pthread mutex, and ends the process when a thread enters it again.
#include "kinds.h"

#include "library_in_use.h"

extern void count_allocations(int on) __attribute__((weak));
extern long allocations_counted(void) __attribute__((weak));
extern long lock_rounds_of_allocator(void) __attribute__((weak));

struct scene {
  pthread_mutex_t mutexes[11];
  pthread_cond_t condition;
  int waiting;
};

static void* lock_in_every_way(void* argument) {
  struct scene* scene = argument;
  count_allocations(1);  // counts from before the thread's first lock call
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 11; ++i) {
      pthread_mutex_t* mutex = &scene->mutexes[i];
      CHECK_OK(pthread_mutex_lock(mutex));
      compute(50);
      CHECK_OK(pthread_mutex_unlock(mutex));
      if (pthread_mutex_trylock(mutex) == 0) CHECK_OK(pthread_mutex_unlock(mutex));
      const struct timespec soon = later(now(CLOCK_REALTIME), 1);
      if (pthread_mutex_timedlock(mutex, &soon) == 0) CHECK_OK(pthread_mutex_unlock(mutex));
    }
    // Holds 11 mutexes at once, more than the queue nodes in a thread's record.
    for (int i = 0; i < 11; ++i) CHECK_OK(pthread_mutex_lock(&scene->mutexes[i]));
    for (int i = 0; i < 11; ++i) CHECK_OK(pthread_mutex_unlock(&scene->mutexes[i]));
    CHECK_OK(pthread_mutex_lock(&scene->mutexes[0]));
    const struct timespec soon = later(now(CLOCK_REALTIME), 1);
    const int code = pthread_cond_timedwait(&scene->condition, &scene->mutexes[0], &soon);
    CHECK(code == 0 || code == ETIMEDOUT);
    CHECK_OK(pthread_cond_broadcast(&scene->condition));
    CHECK_OK(pthread_mutex_unlock(&scene->mutexes[0]));
  }
  count_allocations(0);
  return NULL;
}

CASE(no_allocation_in_any_call) {
  if (!count_allocations) skip_case("needs the counting allocator preloaded");
  // Shows that the counter of allocations works.
  count_allocations(1);
  free(malloc(100));
  count_allocations(0);
  CHECK(allocations_counted() >= 2);
  const long before = allocations_counted();
  static struct scene scene = {.condition = PTHREAD_COND_INITIALIZER};
  count_allocations(1);
  for (int i = 0; i < 11; ++i) make_mutex(&scene.mutexes[i], &all_kinds[i]);
  count_allocations(0);
  run_threads(4, lock_in_every_way, &scene, 0);
  count_allocations(1);
  for (int i = 0; i < 11; ++i) CHECK_OK(pthread_mutex_destroy(&scene.mutexes[i]));
  CHECK_OK(pthread_cond_destroy(&scene.condition));
  count_allocations(0);
  CHECK_NUMBER(allocations_counted() - before, 0);
}

static void* allocate_often(void* argument) {
  unsigned seed = (unsigned)(uintptr_t)argument | 1;
  void* kept[50] = {NULL};
  for (int i = 0; i < 1500; ++i) {
    seed = seed * 1664525u + 1013904223u;
    void** one = &kept[seed >> 16 & 31];
    if (seed >> 24 & 1) {
      free(*one);
      *one = malloc(seed >> 20 & 255);
    } else {
      *one = realloc(*one, 1 + (seed >> 20 & 511));
    }
    CHECK(*one != NULL);
  }
  for (int i = 0; i < 50; ++i) free(kept[i]);
  return NULL;
}

CASE(heap_under_one_of_our_locks) {
  if (!lock_rounds_of_allocator) skip_case("needs the locking allocator preloaded");
  const long before = lock_rounds_of_allocator();
  int numbers[4];
  run_threads(4, allocate_often, numbers, sizeof *numbers);
  CHECK(lock_rounds_of_allocator() - before > 4 * 1500);
}

CASE(heap_across_fork) {
  if (!lock_rounds_of_allocator) skip_case("needs the locking allocator preloaded");
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      int numbers[3];
      run_threads(3, allocate_often, numbers, sizeof *numbers);
      _exit(0);
    }
    allocate_often(NULL);
    CHECK_CHILD(child, 0);
  }
}
