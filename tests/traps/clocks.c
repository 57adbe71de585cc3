// Traps of clocks: CLOCK_REALTIME may be set while a thread waits until a time of this clock. As in the C library, the
// kernel must sleep until this absolute time on this clock. It would be wrong to compute the remaining time at the
// beginning and to sleep for that long on another clock.
#include "kinds.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/syscall.h>

static pthread_mutex_t mutex;
static pthread_cond_t condition;
static sem_t semaphore;
static struct timespec deadline;

static int wait_timedlock(void) {
  return pthread_mutex_timedlock(&mutex, &deadline);
}
static int wait_clocklock_realtime(void) {
  return pthread_mutex_clocklock(&mutex, CLOCK_REALTIME, &deadline);
}
static int wait_clocklock_monotonic(void) {
  return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline);
}
static pthread_mutex_t of_condition = PTHREAD_MUTEX_INITIALIZER;
static int wait_cond_timedwait(void) {
  pthread_mutex_lock(&of_condition);
  return pthread_cond_timedwait(&condition, &of_condition, &deadline);
}
static int wait_cond_clockwait(void) {
  pthread_mutex_lock(&of_condition);
  return pthread_cond_clockwait(&condition, &of_condition, CLOCK_REALTIME, &deadline);
}
static int wait_sem_timedwait(void) {
  return sem_timedwait(&semaphore, &deadline) == 0 ? 0 : errno;
}

struct wait {
  const char* name;
  clockid_t clock;
  int (*call)(void);
};
static const struct wait waits[] = {
    {"mutex_timedlock", CLOCK_REALTIME, wait_timedlock},
    {"mutex_clocklock_realtime", CLOCK_REALTIME, wait_clocklock_realtime},
    {"mutex_clocklock_monotonic", CLOCK_MONOTONIC, wait_clocklock_monotonic},
    {"cond_timedwait", CLOCK_REALTIME, wait_cond_timedwait},
    {"cond_clockwait", CLOCK_REALTIME, wait_cond_clockwait},
    {"sem_timedwait", CLOCK_REALTIME, wait_sem_timedwait},
};

static int waiter_id, outcome = -1;

static void* wait_until_deadline(void* argument) {
  const struct wait* wait = argument;
  flag_set(&waiter_id, (int)syscall(SYS_gettid));
  flag_set(&outcome, wait->call());
  return NULL;
}

static pthread_t begin_to_wait(const struct wait* wait, long milliseconds) {
  deadline = later(now(wait->clock), milliseconds);
  CHECK_OK(pthread_mutex_lock(&mutex));
  const pthread_t thread = start_thread(wait_until_deadline, (void*)wait);
  await_flag(&waiter_id, 1);
  return thread;
}

// Reads, from /proc, the number and the arguments of the system call in which the thread sleeps. Returns false if the
// thread does not sleep.
static bool sleeps_in(pid_t thread, unsigned long call[7]) {
  char name[64], text[256] = "";
  snprintf(name, sizeof name, "/proc/self/task/%d/syscall", (int)thread);
  const int file = open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) skip_case("no %s", name);
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  return length > 0 && sscanf(text, "%lu %lx %lx %lx %lx %lx %lx", &call[0], &call[1], &call[2], &call[3], &call[4],
                              &call[5], &call[6]) == 7;
}

// The waiter must at last sleep until the deadline, on the right clock. Its first sleeps may be short, so the test
// examines the waiter's system call every 2 ms, for at most 4 s.
CASE_FOR(sleeps_until_the_time_of_its_clock, struct wait, wait, waits) {
  begin_to_wait(wait, 60000);
  unsigned long call[7] = {0};
  for (int i = 0; i < 2000; ++i, sleep_ms(2)) {
    if (!sleeps_in(waiter_id, call) || call[0] != SYS_futex || call[4] == 0) continue;
    const struct timespec until = *(const struct timespec*)call[4];
    const int operation = (int)call[2] & ~FUTEX_PRIVATE_FLAG;
    const int expected = FUTEX_WAIT_BITSET | (wait->clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
    if (operation == expected && until.tv_sec == deadline.tv_sec && until.tv_nsec == deadline.tv_nsec) return;
  }
  fail_case(__FILE__, __LINE__, "call %lu, operation %#lx", call[0], call[2]);
}

// This case runs only if USHER_SET_CLOCK is set: it sets the machine's clock and sets it back.
CASE_WHERE(a_step_of_the_clock_ends_the_wait, struct wait, wait, waits, wait->clock == CLOCK_REALTIME) {
  if (getenv("USHER_SET_CLOCK") == NULL) skip_case("would set the machine's clock");
  const pthread_t thread = begin_to_wait(wait, 6000);
  sleep_ms(1000);  // until the short sleeps of the waiter are over
  const struct timespec begin = now(CLOCK_MONOTONIC), an_hour_later = later(now(CLOCK_REALTIME), 3600000);
  if (clock_settime(CLOCK_REALTIME, &an_hour_later) != 0) skip_case("may not set the clock: %s", strerror(errno));
  for (int i = 0; i < 200 && flag_get(&outcome) < 0; ++i) sleep_ms(10);  // the limit is 2 s
  const int then = flag_get(&outcome);
  const struct timespec end = now(CLOCK_MONOTONIC);
  struct timespec back = later(now(CLOCK_REALTIME), -3600000);
  CHECK(clock_settime(CLOCK_REALTIME, &back) == 0);
  CHECK(before(end, later(begin, 2500)));
  CHECK_CODE(then, ETIMEDOUT);
  join_thread(thread);
}
