/* Programs whose threads wait for each other before `usher stat -p` attaches.
 * They print "ready" when all threads sleep.
 *
 *     stuck two|three|recursive|checked      a circle of two or three threads; of two, with mutexes of these kinds
 *     stuck self                             a thread locks a normal mutex again
 *     stuck inheriting|robust                two threads, mutexes of the C library under every lock
 *     stuck fresh                            like two, but no thread has waited before: it has no tag
 *     stuck until-freed                      two threads, until a line of input comes: then main() unlocks a mutex
 *     stuck timed                            two threads that wait for each other with a deadline
 *     stuck row                              five threads wait for a mutex whose holder sleeps: no deadlock
 *     stuck forged                           two threads in futex calls, on words like mutexes that name each other
 *     stuck almost FIELD                     the same, but the word FIELD (0-5) is not that of a waited-for mutex
 *     stuck futex                            two threads in futex calls on plain words
 *     stuck restless                         the threads of `forged` are woken 20 times a second, and sleep again
 *     stuck unmapped                         the words lie in memory that is unmapped while the threads sleep
 *     stuck blocked                          the words lie in memory whose readers block (userfaultfd)
 *     stuck crowd                            like two, behind 5,000 threads that sleep
 *     stuck many                             1,000 threads like those of `forged`, in circles of all lengths
 *
 * In the circles that Usher's own locks can be in, a thread has waited before: so it has an owner tag. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { most = 1000 };

static pthread_mutex_t locks[3], row = PTHREAD_MUTEX_INITIALIZER;
static const char* which;
static int count = 2, is_timed, is_prepared;
static volatile int begun, held, woken;
static volatile pid_t ids[most];
static uint32_t (*words)[6]; /* as in a pthread_mutex_t: lock, count, owner, users, kind, spins */

static void pause_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* Waits until the thread sleeps in a futex call. */
static void await_futex(pid_t id) {
  char path[64], text[64];
  for (int seen = 0; seen < (count > 10 ? 1 : 3);) {
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", id);
    FILE* const file = fopen(path, "r");
    text[0] = '\0';
    if (file != NULL) {
      if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
      fclose(file);
    }
    seen = atol(text) == SYS_futex ? seen + 1 : 0;
    if (count <= 10 || seen == 0) pause_ms(5);
  }
}

static void* contends(void* mutex) {
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}

/* Locks `own` and lets another thread wait for it, then waits for it itself: afterwards this thread has a tag. */
static void prepare(pthread_mutex_t* own) {
  pthread_t other;
  for (int i = 0; i < 2; i++) {
    pthread_mutex_lock(own);
    pthread_create(&other, NULL, contends, own);
    pause_ms(20);
    pthread_mutex_unlock(own);
    pthread_mutex_lock(own);
    pthread_mutex_unlock(own);
    pthread_join(other, NULL);
  }
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  static pthread_mutex_t beside = PTHREAD_MUTEX_INITIALIZER;
  struct timespec past = {0, 0};
  pthread_mutex_lock(&beside);
  pthread_cond_timedwait(&never, &beside, &past);
  pthread_mutex_unlock(&beside);
}

static void* in_circle(void* number) {
  const int self = (int)(intptr_t)number;
  pthread_mutex_t *own = &locks[self], *next = &locks[(self + 1) % count];
  if (is_prepared) prepare(own);
  pthread_mutex_lock(own);
  ids[self] = gettid();
  __atomic_add_fetch(&held, 1, __ATOMIC_SEQ_CST);
  while (held < count) pause_ms(1);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 600;
  if (is_timed)
    pthread_mutex_timedlock(next, &until);
  else
    pthread_mutex_lock(next);
  pthread_mutex_unlock(next); /* after a wait that another thread has ended */
  pause();
  return NULL;
}

static void* waits_in_row(void* number) {
  ids[(int)(intptr_t)number] = gettid();
  pthread_mutex_lock(&row);
  pthread_mutex_unlock(&row);
  return NULL;
}

static void* on_words(void* number) {
  const int self = (int)(intptr_t)number;
  ids[self] = gettid();
  __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
  while (!woken) pause_ms(1);
  const uint32_t expected = words[self][0];
  while (syscall(SYS_futex, &words[self][0], FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0) == 0) {
  }
  pause(); /* the memory is gone */
  return NULL;
}

static void* sleeps(void* unused) {
  pause();
  return unused;
}

/* Threads that come before those of the circle in the list of threads. */
static void crowd(int threads) {
  pthread_attr_t a;
  pthread_attr_init(&a);
  pthread_attr_setstacksize(&a, 1 << 16);
  pthread_t thread;
  while (threads-- > 0)
    if (pthread_create(&thread, &a, sleeps, NULL) != 0) exit(77);
}

static void circle(void) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  if (!strcmp(which, "recursive")) pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
  if (!strcmp(which, "checked")) pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
  if (!strcmp(which, "inheriting")) pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
  if (!strcmp(which, "robust")) pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  if (!strcmp(which, "three")) count = 3;
  if (!strcmp(which, "self")) count = 1;
  is_timed = !strcmp(which, "timed");
  is_prepared = strcmp(which, "inheriting") && strcmp(which, "robust") && strcmp(which, "fresh");
  pthread_t thread;
  for (intptr_t i = 0; i < count; i++) {
    pthread_mutex_init(&locks[i], &a);
    pthread_create(&thread, NULL, in_circle, (void*)i);
  }
  while (held < count) pause_ms(1);
}

/* Threads in futex calls on words that look like mutexes; `lengths`: of the circles that they make. */
static void forge(int threads, int (*next)(int)) {
  count = threads;
  pthread_attr_t a;
  pthread_attr_init(&a);
  pthread_attr_setstacksize(&a, 1 << 16);
  words = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t thread;
  for (intptr_t i = 0; i < count; i++) pthread_create(&thread, &a, on_words, (void*)i);
  while (begun < count) pause_ms(1);
  for (int i = 0; i < count; i++) {
    const uint32_t mutex[6] = {2, 0, (uint32_t)ids[next(i)], 1, 0, 0};
    memcpy(words[i], mutex, sizeof mutex);
  }
}

/* Has each reader of the words block for ever. Returns whether that is permitted. */
static int block_words(void) {
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.range = {(uintptr_t)words, 1 << 16}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  const int fd = (int)syscall(SYS_userfaultfd, 0);
  return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0 &&
         madvise(words, 1 << 16, MADV_DONTNEED) == 0;
}

static int other(int i) {
  return 1 - i;
}
static int in_circles(int i) { /* 0; 1, 2; 3, 4, 5; ... */
  int first = 0, length = 1;
  while (i >= first + length && first + 2 * length + 1 <= most) first += length++;
  return i + 1 < first + length ? i + 1 : i < first + length ? first : i;
}

int main(int words_count, char** arguments) {
  which = arguments[1];
  const int field = words_count > 2 ? atoi(arguments[2]) : -1;
  if (!strcmp(which, "row")) {
    count = 5;
    pthread_mutex_lock(&row);
    pthread_t thread;
    for (intptr_t i = 0; i < count; i++) pthread_create(&thread, NULL, waits_in_row, (void*)i);
    for (int i = 0; i < count; i++)
      while (ids[i] == 0) pause_ms(1);
  } else if (!strcmp(which, "many")) {
    forge(most, in_circles);
  } else if (!strcmp(which, "forged") || !strcmp(which, "almost") || !strcmp(which, "futex") ||
             !strcmp(which, "restless") || !strcmp(which, "unmapped") || !strcmp(which, "blocked")) {
    forge(2, other);
    if (!strcmp(which, "futex")) memset(words, 0, sizeof words[0] * 2);
    if (field >= 0) words[0][field] = field == 0 || field == 3 ? 0 : 0x40; /* a kind that has ceilings */
  } else {
    if (!strcmp(which, "crowd")) crowd(5000);
    circle();
  }
  woken = 1;
  for (int i = 0; i < count; i++) await_futex(ids[i]);
  if (!strcmp(which, "unmapped")) munmap(words, 1 << 16);
  puts(strcmp(which, "blocked") || block_words() ? "ready" : "not permitted");
  fflush(stdout);
  if (!strcmp(which, "restless"))
    for (;; pause_ms(50))
      for (int i = 0; i < count; i++) syscall(SYS_futex, &words[i][0], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  while (getchar() != '\n' && !feof(stdin)) {
  }
  if (!strcmp(which, "until-freed") && !feof(stdin)) {
    pthread_mutex_unlock(&locks[0]);
    puts("freed");
    fflush(stdout);
    while (getchar() != EOF) {
    }
  }
  return 0;
}
