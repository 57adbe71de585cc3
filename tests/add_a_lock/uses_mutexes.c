/* A program that does not use Usher itself. Under a lock of Usher it tests exclusion, and that the locks are not the C
 * library's. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { threads = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long counter;
static long rounds;

static void* count(void* unused) {
  (void)unused;
  for (long i = 0; i < rounds; i++) {
    pthread_mutex_lock(&mutex);
    counter++;
    if (i % 100 == 0) usleep(50); /* long enough that other threads go to sleep */
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void* try_it(void* unused) {
  (void)unused;
  struct timespec soon;
  if (pthread_mutex_trylock(&mutex) != EBUSY) return "trylock took a lock that was held";
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += soon.tv_nsec >= 900000000;
  soon.tv_nsec = (soon.tv_nsec + 100000000) % 1000000000;
  return pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT ? NULL : "timedlock did not time out";
}

int main(int argc, char** argv) {
  pthread_t team[threads];
  void* complaint;
  rounds = argc > 1 ? atol(argv[1]) : 5000;
  for (int i = 0; i < threads; i++)
    if (pthread_create(&team[i], NULL, count, NULL) != 0) return 2;
  for (int i = 0; i < threads; i++) pthread_join(team[i], NULL);
  if (counter != threads * rounds) return printf("%ld instead of %ld\n", counter, threads * rounds), 1;

  pthread_mutex_lock(&mutex);
  pthread_create(&team[0], NULL, try_it, NULL);
  pthread_join(team[0], &complaint);
  pthread_mutex_unlock(&mutex);
  if (complaint != NULL) return puts(complaint), 1;

  /* Usher stamps a mutex at its first use; to the C library these bytes are spins and elision, which it
   * leaves 0. */
  uint32_t stamp;
  memcpy(&stamp, (const char*)&mutex + 20, sizeof stamp);
  if (stamp == 0) return puts("these are the C library's locks"), 1;
  return 0;
}
