// environment [--threads N] [--forks N]
// Prints one line on standard output: whether the program's mutexes are those of the C library or of libusher.so.
// run_traps.py checks this line.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int gate_open;

static void* lock_first(void* mutex) {
  while (!__atomic_load_n(&gate_open, __ATOMIC_ACQUIRE)) {
  }
  if (pthread_mutex_lock(mutex) != 0) abort();
  if (pthread_mutex_unlock(mutex) != 0) abort();
  return NULL;
}

static void* try_it(void* mutex) {
  return pthread_mutex_trylock(mutex) == 0 ? mutex : NULL;
}

int main(int argc, char** argv) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  int threads = 0, forks = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--forks") == 0) forks = atoi(argv[i + 1]);
  }
  // Several threads lock for the first time at the same moment.
  pthread_t all[64];
  for (int i = 0; i < threads && i < 64; ++i)
    if (pthread_create(&all[i], NULL, lock_first, &mutex) != 0) abort();
  __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < threads && i < 64; ++i) pthread_join(all[i], NULL);

  if (pthread_mutex_lock(&mutex) != 0) abort();
  // In this field the C library counts the users of a mutex. libusher.so leaves it 0 in this program.
  const int is_the_c_librarys = mutex.__data.__nusers != 0;
  void* got;
  if (pthread_create(&all[0], NULL, try_it, &mutex) != 0) abort();
  pthread_join(all[0], &got);
  if (got) abort();
  if (pthread_mutex_unlock(&mutex) != 0) abort();
  for (int i = 0; i < forks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (pthread_mutex_lock(&mutex) != 0) abort();
      if (pthread_mutex_unlock(&mutex) != 0) abort();
      _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) abort();
  }
  puts(is_the_c_librarys ? "the C library's" : "ours");
  return 0;
}
