// A library to be preloaded beside libusher.so. Its constructor locks, contends and waits. Constructors of preloaded
// libraries run last, so the constructor of libusher.so may not have run before.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t early_mutex = PTHREAD_MUTEX_INITIALIZER;
int early_result(void);

static int wrong;
int early_result(void) {
  return wrong;
}

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static int count, gate;

static void* contend(void* unused) {
  (void)unused;
  // All threads make the first lock calls of the process at the same moment.
  while (!__atomic_load_n(&gate, __ATOMIC_ACQUIRE)) {
  }
  for (int i = 0; i < 300; ++i) {
    if (pthread_mutex_lock(&contended) != 0) wrong = 1;
    ++count;
    if (pthread_mutex_unlock(&contended) != 0) wrong = 2;
  }
  return NULL;
}

static void* try_mutex(void* mutex) {
  return (void*)(intptr_t)pthread_mutex_trylock(mutex);
}

__attribute__((constructor)) static void lock_early(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i)
    if (pthread_create(&threads[i], NULL, contend, NULL) != 0) abort();
  __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  if (count != 900) wrong = 3;
  if (pthread_mutex_lock(&early_mutex) != 0) wrong = 4;
  void* code;
  if (pthread_create(&threads[0], NULL, try_mutex, &early_mutex) != 0) abort();
  pthread_join(threads[0], &code);
  if ((intptr_t)code != EBUSY) wrong = 5;
}
