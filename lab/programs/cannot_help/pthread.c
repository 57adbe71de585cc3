/* A pthread mutex: what Usher replaces. Linked statically or with musl, out of its reach. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long count, each;

static void* work(void* unused) {
  for (long i = 0; i < each; i++) {
    pthread_mutex_lock(&mutex);
    count++;
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

int main(int argc, char** argv) {
  pthread_t threads[4];
  each = argc > 1 ? atol(argv[1]) : 250000;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  printf("%ld\n", count);
}
