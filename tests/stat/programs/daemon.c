/* A program that goes into the background as daemons do: it forks twice, and both parents end at once.
 *
 *     daemon works ROUNDS      its threads contend for a mutex, ROUNDS times each, and it ends
 *     daemon executes ROUNDS   the same after it has executed itself
 *     daemon stays ROUNDS      then it waits until it is killed
 *
 * It prints its own figures as a line of JSON. It contends only after the launcher has awaited the first parent, whose exit status is 3. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { threads = 4 };

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static long rounds;

static void pause_ms(long ms) {
  const struct timespec t = {0, ms * 1000000};
  nanosleep(&t, NULL);
}

static void* contend(void* unused) {
  for (long i = 0; i < rounds; i++) {
    const struct timespec t = {0, 100000};
    pthread_mutex_lock(&contended);
    if (i % 8 == 0) nanosleep(&t, NULL);
    pthread_mutex_unlock(&contended);
  }
  return unused;
}

static void work(void) {
  pthread_t all[threads];
  for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, contend, NULL);
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  printf("{\"contended\": {\"acquisitions\": %ld, \"pid\": %d}}\n", threads * rounds, (int)getpid());
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  rounds = atol(argv[2]);
  if (strcmp(argv[1], "executed") == 0) {
    work();
    return 0;
  }
  const pid_t first = getpid();
  if (fork() != 0) _exit(3);
  setsid();
  if (fork() != 0) _exit(0);
  while (kill(first, 0) == 0 || errno != ESRCH) pause_ms(5);
  if (strcmp(argv[1], "executes") == 0) execl(argv[0], argv[0], "executed", argv[2], (char*)NULL);
  work();
  if (strcmp(argv[1], "stays") != 0) return 0;
  for (int i = 0; i < 3; i++) close(i);
  for (;;) pause();
}
