/* Uses the C interface, built by a plain C compiler with pkg-config's options. */
#include <pthread.h>
#include <stdio.h>

#include <usher/usher.h>

static usher_mutex_t m = USHER_MUTEX_INITIALIZER;
static long counter;

static void* work(void* unused) {
  (void)unused;
  for (int i = 0; i < 10000; i++) {
    usher_mutex_lock(&m);
    counter++;
    usher_mutex_unlock(&m);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 2;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  printf("%ld, first lock: %s\n", counter, usher_lock_name(0));
  return counter == 40000 ? 0 : 1;
}
