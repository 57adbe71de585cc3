// Uses locks while another preloaded library (replaced_functions_library.c) replaces a function of the C library.
#include "kinds.h"

#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { threads = 4, rounds = 200, many = 600 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t held[many];
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static long count, turn;

/// Calls the functions that the other library replaces, so that threads contend for its mutex.
static void call_functions(void) {
  struct timespec t;
  cpu_set_t set;
  sigset_t signals;
  void* const page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) {
    madvise(page, 4096, MADV_DONTNEED);
    munmap(page, 4096);
  }
  clock_gettime(CLOCK_MONOTONIC, &t);
  sched_getaffinity(0, sizeof set, &set);
  sched_yield();
  sched_getcpu();
  sigprocmask(SIG_SETMASK, NULL, &signals);
  syscall(SYS_gettid);
  CHECK(getpid() > 0 && sysconf(_SC_NPROCESSORS_ONLN) > 0 && getenv("USHER_TEST_NOT_SET") == NULL);
}

static struct timespec soon(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_sec += 100;
  return t;
}

static void* work(void* argument) {
  const long me = (long)argument;
  for (int i = 0; i < rounds; ++i) {
    call_functions();
    const struct timespec end = soon();
    CHECK_OK(pthread_mutex_lock(&mutex));
    if (++count % 16 == 0) sleep_ms(1);  // the other threads fall asleep
    CHECK_OK(pthread_mutex_unlock(&mutex));
    CHECK_OK(pthread_mutex_timedlock(&mutex, &end));
    CHECK_OK(pthread_mutex_lock(&recursive));
    ++count;
    CHECK_OK(pthread_mutex_unlock(&recursive));
    CHECK_OK(pthread_mutex_unlock(&mutex));
    while (sem_timedwait(&semaphore, &end) != 0) {
    }
    CHECK_OK(sem_post(&semaphore));
    if (i % 10 != 0) continue;
    CHECK_OK(pthread_mutex_lock(&mutex));
    while (turn != me) CHECK_OK(pthread_cond_timedwait(&condition, &mutex, &end));
    turn = (me + 1) % threads;
    CHECK_OK(pthread_cond_broadcast(&condition));
    CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  return NULL;
}

CASE(locks_under_a_replaced_function) {
  pthread_t thread[threads];
  CHECK_OK(sem_init(&semaphore, 0, 1));
  for (long i = 0; i < threads; ++i) CHECK_OK(pthread_create(&thread[i], NULL, work, (void*)i));
  for (int i = 0; i < threads; ++i) CHECK_OK(pthread_join(thread[i], NULL));
  CHECK(count == 2L * threads * rounds);
  // Takes more queue nodes than a process has at first.
  for (int i = 0; i < many; ++i) CHECK_OK(pthread_mutex_lock(&held[i]));
  for (int i = 0; i < many; ++i) CHECK_OK(pthread_mutex_unlock(&held[i]));
  const pid_t child = fork();
  if (child == 0) {
    call_functions();
    CHECK_OK(pthread_mutex_lock(&recursive));
    CHECK_OK(pthread_mutex_unlock(&recursive));
    CHECK_OK(pthread_mutex_lock(&mutex));
    CHECK_OK(pthread_mutex_unlock(&mutex));
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
