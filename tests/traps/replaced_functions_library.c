// A library to be preloaded beside libusher.so. It replaces functions of the C library by which a lock could ask the
// kernel. The function that USHER_TEST_REPLACED names guards the library's state by a mutex, as libfaketime does. If a
// lock call of libusher.so called this function, the function would lock that mutex, whose lock call would call the
// function again. Here the second call ends the program with a message.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "usher/platform/native/system_call.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t settings;
static unsigned long calls;
static __thread int is_inside;

static const char* wanted(void) {
  static const char name[] = "USHER_TEST_REPLACED=";
  for (char** e = environ; e != NULL && *e != NULL; ++e)
    if (strncmp(*e, name, sizeof name - 1) == 0) return *e + sizeof name - 1;
  return "";
}

static void end(const char* function) {
  static const char why[] = ": called by a lock call\n";
  system_call_of_longs(SYS_write, STDERR_FILENO, (long)function, (long)strlen(function), 0, 0, 0);
  system_call_of_longs(SYS_write, STDERR_FILENO, (long)why, sizeof why - 1, 0, 0, 0);
  system_call_of_longs(SYS_exit_group, 99, 0, 0, 0, 0, 0);
}

static void note(const char* function) {
  if (strcmp(function, wanted()) != 0) return;
  if (is_inside) end(function);
  is_inside = 1;
  const struct timespec a_while = {0, 20000};  // other threads contend for the mutex
  pthread_mutex_lock(&guard);
  if (++calls % 16 == 0) system_call_of_longs(SYS_nanosleep, (long)&a_while, 0, 0, 0, 0, 0);
  pthread_mutex_unlock(&guard);
  is_inside = 0;
}

// The constructor of libusher.so may not have run yet.
__attribute__((constructor)) static void begin(void) {
  pthread_rwlock_init(&settings, NULL);
  pthread_rwlock_rdlock(&settings);
  pthread_rwlock_unlock(&settings);
  note(wanted());
}

static long answer(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}

#define ASK(number, a, b, c, d, e, f) \
  answer(system_call_of_longs(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)))

pid_t getpid(void) {
  note("getpid");
  return (pid_t)ASK(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

int madvise(void* at, size_t size, int advice) {
  note("madvise");
  return (int)ASK(SYS_madvise, at, size, advice, 0, 0, 0);
}

void* mmap(void* at, size_t size, int access, int flags, int file, off_t offset) {
  note("mmap");
  return (void*)ASK(SYS_mmap, at, size, access, flags, file, offset);
}

int munmap(void* at, size_t size) {
  note("munmap");
  return (int)ASK(SYS_munmap, at, size, 0, 0, 0, 0);
}

int sched_getaffinity(pid_t thread, size_t size, cpu_set_t* set) {
  note("sched_getaffinity");
  return ASK(SYS_sched_getaffinity, thread, size, set, 0, 0, 0) < 0 ? -1 : 0;
}

int sched_yield(void) {
  note("sched_yield");
  return (int)ASK(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

int sched_getcpu(void) {
  unsigned cpu = 0;
  note("sched_getcpu");
  return ASK(SYS_getcpu, &cpu, 0, 0, 0, 0, 0) == 0 ? (int)cpu : -1;
}

int clock_gettime(clockid_t clock, struct timespec* t) {
  note("clock_gettime");
  return (int)ASK(SYS_clock_gettime, clock, t, 0, 0, 0, 0);
}

int sigprocmask(int how, const sigset_t* set, sigset_t* old) {
  note("sigprocmask");
  return (int)ASK(SYS_rt_sigprocmask, how, set, old, 8, 0, 0);
}

long sysconf(int name) {
  note("sysconf");
  return name == _SC_PAGESIZE ? 4096 : name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF ? 2 : -1;
}

char* getenv(const char* name) {
  note("getenv");
  const size_t length = strlen(name);
  for (char** e = environ; e != NULL && *e != NULL; ++e)
    if (strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
  return NULL;
}

long syscall(long number, ...) {
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  note("syscall");
  return ASK(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
