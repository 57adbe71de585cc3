/* A program for tests of `usher stat -p`: two threads lock a mutex, and main() sometimes locks another one. It prints
 * "ready" when all threads have begun, and ends at the end of its input. For each line of input it prints the longest
 * time, in microseconds, for which a thread that never waits has stood still since the last line.
 *
 *     attached threads N       N further threads that sleep
 *     attached vfork           a thread is in vfork() until the end
 *     attached no-openat       a filter kills the process for openat()
 *     attached no-memory-file  a filter kills the process for memfd_create()
 *     attached strict-thread   a further thread is in strict seccomp mode
 *     attached scribbles       a thread writes random words into all parts of the record
 *     attached forges          the record's capacities become huge, and the file is truncated if it can be
 *     attached idle            no thread calls anything
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t shared_mutex = PTHREAD_MUTEX_INITIALIZER, mains_mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long counter;
static volatile uint64_t longest;
static volatile int ended, begun;
static pthread_barrier_t all_there;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void* locks(void* unused) {
  pthread_barrier_wait(&all_there);
  while (!ended) {
    pthread_mutex_lock(&shared_mutex);
    for (int i = 0; i < 2000; i++) counter++;
    pthread_mutex_unlock(&shared_mutex);
    usleep(100); /* the other thread takes the mutex */
  }
  return unused;
}

static void* never_waits(void* unused) {
  pthread_barrier_wait(&all_there);
  for (uint64_t last = now(); !ended;) {
    const uint64_t then = now();
    if (then - last > longest) longest = then - last;
    last = then;
  }
  return unused;
}

static void* sleeps(void* unused) {
  static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t signalled = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&never);
  begun++;
  pthread_cond_wait(&signalled, &never);
  pthread_mutex_unlock(&never);
  return unused;
}

static void* is_in_vfork(void* unused) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const pid_t child = vfork();
  if (child == 0) {
    char c;
    begun = 1;
    /* Reads until the parent closes its end of the input: then the process ends. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    syscall(SYS_read, ends[0], &c, 1);
    _exit(0);
  }
  return unused;
}

static void kill_for(int number) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    abort();
}

static void* is_strict(void* unused) {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) abort();
  begun = 1;
  for (;;) __asm__ volatile("" ::: "memory");
  return unused;
}

/* Finds the address at which the record is mapped. */
static int find_record(uint64_t** begin, size_t* size) {
  char line[512];
  FILE* maps = fopen("/proc/self/maps", "re");
  int found = 0;
  while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
    uint64_t from, to;
    if (strstr(line, "usher stat") == NULL || sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
    *begin = (uint64_t*)from;
    *size = to - from;
    found = 1;
  }
  if (maps != NULL) fclose(maps);
  return found;
}

static void* scribbles(void* forge) {
  uint64_t *record = NULL, random = 88172645463325252u;
  size_t size = 0;
  while (!ended && !find_record(&record, &size)) usleep(500); /* until the next look */
  while (!ended && forge == NULL) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    /* Most writes are small numbers in the header and in small tables. */
    const size_t words = (random & 3) == 0 ? size / 8 : 4096 + (random >> 2 & 65535);
    const size_t at = (random >> 20) % words;
    if (at != 14) record[at] = random >> 60 < 8 ? random >> (random >> 40 & 63) : ~(uint64_t)0 >> (random & 63);
  }
  if (forge != NULL) {
    for (size_t i = 3; i < 9; i++) record[i] = ~(uint64_t)0;
    for (int fd = 3; fd < 1024; fd++)
      if (ftruncate(fd, 0) != 0) continue;
    for (size_t at = 64; at < size / 8; at += 7) record[at] = ~(uint64_t)0;
  }
  return forge;
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const long sleepers = strcmp(what, "threads") == 0 && argc > 2 ? atol(argv[2]) : 0;
  const int idle = strcmp(what, "idle") == 0;
  pthread_t thread;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 * 1024);
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (long i = 0; i < sleepers; i++)
    if (pthread_create(&thread, &small, sleeps, NULL) != 0) return 1;
  /* These loops poll; the test has a time limit. */
  while (begun < sleepers) usleep(1000);
  if (strcmp(what, "vfork") == 0) {
    pthread_create(&thread, NULL, is_in_vfork, NULL);
    while (begun == 0) usleep(1000); /* polls */
  }
  if (strcmp(what, "scribbles") == 0) pthread_create(&thread, NULL, scribbles, NULL);
  if (strcmp(what, "forges") == 0) pthread_create(&thread, NULL, scribbles, &thread);
  pthread_barrier_init(&all_there, NULL, idle ? 1 : 4);
  for (int i = 0; i < 3 && !idle; i++) pthread_create(&thread, NULL, i < 2 ? locks : never_waits, NULL);
  pthread_barrier_wait(&all_there);
  if (strcmp(what, "strict-thread") == 0) {
    pthread_create(&thread, NULL, is_strict, NULL);
    while (begun == 0) usleep(1000); /* polls */
  }
  puts("ready");
  if (strcmp(what, "no-openat") == 0) kill_for(SYS_openat);
  if (strcmp(what, "no-memory-file") == 0) kill_for(SYS_memfd_create);
  for (char line[64]; fgets(line, sizeof line, stdin) != NULL;) {
    pthread_mutex_lock(&mains_mutex);
    printf("%lu\n", (unsigned long)(longest / 1000));
    longest = 0;
    pthread_mutex_unlock(&mains_mutex);
  }
  ended = 1;
  return 0;
}
