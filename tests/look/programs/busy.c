/* Threads that lock, wait and compute, with a counter of what they do: `busy THREADS FILE`. The counters are in FILE, which
 * cost.py reads: operations; the longest time, in ns, that a thread needed for a piece of computing, since
 * the last time that somebody wrote 0 there. Ends after ten minutes, or with its parent. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { lock_count = 8, computing_threads = 4, line = 8 };

struct counters {
  _Atomic uint64_t operations, longest_gap;
};

static struct counters* counters;
static pthread_mutex_t locks[lock_count];
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static uint64_t queued;
static struct timespec some_time; /* longer with more threads: at all numbers some ten threads are ready to run */

static void compute(unsigned rounds) {
  for (unsigned i = 0; i < rounds; i++) __asm__ volatile("");
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void* locking(void* of) {
  const uintptr_t me = (uintptr_t)of;
  for (uint64_t n = 0;; n++) {
    pthread_mutex_t* m = &locks[(me + n) % lock_count];
    pthread_mutex_lock(m);
    compute(2000);
    pthread_mutex_unlock(m);
    compute(2000);
    counters->operations++;
    if (n % 16 == 0) nanosleep(&some_time, NULL);
  }
  return NULL;
}

static void* producing(void* nothing) {
  for (;;) {
    pthread_mutex_lock(&queue_lock);
    queued++;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&queue_lock);
    compute(200000);
    counters->operations++;
  }
  return nothing;
}

static void* consuming(void* nothing) {
  for (;;) {
    pthread_mutex_lock(&queue_lock);
    while (queued == 0) pthread_cond_wait(&filled, &queue_lock);
    queued--;
    pthread_mutex_unlock(&queue_lock);
    compute(4000);
    counters->operations++;
  }
  return nothing;
}

static void* computing(void* nothing) {
  for (;;) {
    const uint64_t begin = now();
    compute(4000);
    counters->operations++;
    const uint64_t gap = now() - begin;
    uint64_t longest = counters->longest_gap;
    while (gap > longest && !atomic_compare_exchange_weak(&counters->longest_gap, &longest, gap)) continue;
  }
  return nothing;
}

static void* sleeping(void* nothing) {
  for (;;) nanosleep(&some_time, NULL);
  return nothing;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(600);
  const int threads = atoi(argv[1]), file = open(argv[2], O_RDWR);
  if (file < 0 || ftruncate(file, sizeof *counters) != 0) return 2;
  counters = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counters == MAP_FAILED) return 2;
  for (int i = 0; i < lock_count; i++) pthread_mutex_init(&locks[i], NULL);
  some_time.tv_sec = threads * 250000L / 1000000000;
  some_time.tv_nsec = threads * 250000L % 1000000000;
  /* Of eight threads three lock, two take from a queue, and the others sleep; four of all compute, and one fills the queue. */
  static void* (*const does[])(void*) = {locking,   consuming, sleeping, locking,
                                         computing, consuming, sleeping, locking};
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (intptr_t i = 0; i < threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, &small,
                       i == 0                   ? producing
                       : i <= computing_threads ? computing
                                                : does[i % line],
                       (void*)i) != 0)
      abort();
  }
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
