/* C11's mutex: in glibc it calls the C library's own lock, not through the dynamic linker. */
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

static mtx_t mutex;
static long count, each;

static int work(void* unused) {
  (void)unused;
  for (long i = 0; i < each; i++) {
    mtx_lock(&mutex);
    count++;
    mtx_unlock(&mutex);
  }
  return 0;
}

int main(int argc, char** argv) {
  thrd_t threads[4];
  each = argc > 1 ? atol(argv[1]) : 250000;
  mtx_init(&mutex, mtx_plain);
  for (int i = 0; i < 4; i++) thrd_create(&threads[i], work, NULL);
  for (int i = 0; i < 4; i++) thrd_join(threads[i], NULL);
  printf("%ld\n", count);
}
