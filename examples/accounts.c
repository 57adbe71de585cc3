/* Threads that move money between two accounts: accounts [LOCK]. The lock is chosen by its name at run time; `usher
 * list` has the names. A semaphore lets at most two threads work at a time. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <usher/usher.h>

enum { threads = 4, transfers = 5000, begin_with = 100000 };

static usher_mutex_t mutex = USHER_MUTEX_INITIALIZER; /* the default lock */
static usher_sem_t workplaces = USHER_SEM_INITIALIZER;
static long here = begin_with, there;

static void* work(void* unused) {
  (void)unused;
  usher_sem_wait(&workplaces);
  for (int i = 0; i < transfers; i++) {
    usher_mutex_lock(&mutex);
    here--;
    there++;
    usher_mutex_unlock(&mutex);
  }
  usher_sem_post(&workplaces);
  return NULL;
}

/* Gives up after 10 ms. The main thread holds the mutex, so the attempt must fail. */
static void* try_for_a_while(void* result) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += 10000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  *(int*)result = usher_mutex_timedlock(&mutex, &until);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t team[threads];
  int result = 0;
  if (argc > 1 && usher_mutex_init(&mutex, argv[1]) != 0) {
    fprintf(stderr, "accounts: there is no lock '%s'; the first one is '%s'\n", argv[1], usher_lock_name(0));
    return 2;
  }
  if (usher_sem_init(&workplaces, 2, 1) != 0) return 2;
  for (int i = 0; i < threads; i++)
    if (pthread_create(&team[i], NULL, work, NULL) != 0) return 2;
  for (int i = 0; i < threads; i++) pthread_join(team[i], NULL);

  usher_mutex_lock(&mutex);
  if (pthread_create(&team[0], NULL, try_for_a_while, &result) != 0) return 2;
  pthread_join(team[0], NULL);
  usher_mutex_unlock(&mutex);
  usher_mutex_destroy(&mutex);
  printf("Usher %s: %ld here, %ld there; the attempt with a deadline: %s\n", usher_version(), here, there,
         strerror(result));
  return here + there == begin_with && there == (long)threads * transfers && result == ETIMEDOUT ? 0 : 1;
}
