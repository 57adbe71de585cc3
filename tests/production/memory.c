/* For lab/costs/production_cost.py: locks and unlocks MUTEXES mutexes once, then has THREADS threads wait for one that
   is held. Prints "ready" when they sleep, and ends at the end of its input. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static atomic_int arrived;

static void* work(void* unused) {
  atomic_fetch_add(&arrived, 1);
  pthread_mutex_lock(&held);
  pthread_mutex_unlock(&held);
  return unused;
}

int main(int argc, char** argv) {
  const int mutexes = argc > 1 ? atoi(argv[1]) : 0, threads = argc > 2 ? atoi(argv[2]) : 0;
  pthread_mutex_t* all = calloc((size_t)mutexes + 1, sizeof *all);
  for (int i = 0; i < mutexes; i++) {
    pthread_mutex_init(&all[i], NULL);
    pthread_mutex_lock(&all[i]);
    pthread_mutex_unlock(&all[i]);
  }
  pthread_mutex_lock(&held);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  pthread_t thread;
  for (int i = 0; i < threads; i++)
    if (pthread_create(&thread, &attributes, work, NULL) != 0) return 1;
  /* Polls every ms; the script that runs this program has a time limit. */
  while (atomic_load(&arrived) < threads) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  puts("ready");
  fflush(stdout);
  getchar();
  _Exit(0); /* the mutex stays held */
}
