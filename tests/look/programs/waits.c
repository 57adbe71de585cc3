/* Hangs and waits, one a run: `waits CASE`. `waits --list` prints the names of the cases.
 *
 * The same source is built against glibc (dynamically, statically, for another version) and musl. A holder sleeps in
 * pause() or in read() of an empty pipe. The functions below are the ones that a viewer must find on the stacks of
 * waiters and holders, so none of them may be inlined or end in a tail call. */
#include "ready.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

#define kept __attribute__((noinline))
#define not_the_last_call() __asm__ volatile("" ::: "memory")

static int ends[2]; /* of a pipe that nobody writes to */

static kept void reads_pipe(void) {
  char byte;
  while (read(ends[0], &byte, 1) < 0 && errno == EINTR) continue;
  not_the_last_call();
}

/* ---- mutexes ---- */
static pthread_mutex_t mutexes[3];
#define mutex (mutexes[0])

static kept void* holds_mutex(void* m) {
  pthread_mutex_lock(m);
  now_holds();
  sleep_for_ever();
  return m;
}

static kept void* holds_mutex_and_reads(void* m) {
  pthread_mutex_lock(m);
  now_holds();
  reads_pipe();
  return m;
}

static kept void* locks_mutex(void* m) {
  if (pthread_mutex_lock(m) != 0) abort();
  not_the_last_call();
  return m;
}

enum { of_normal = 0, of_pi = 1, of_robust = 2, of_shared = 4 };

static void make_mutex(pthread_mutex_t* m, int type, int more) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, type);
  if (more & of_pi && pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT) != 0) abort();
  if (more & of_robust && pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) != 0) abort();
  if (more & of_shared && pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED) != 0) abort();
  if (pthread_mutex_init(m, &a) != 0) abort();
}

static const void* held_mutex(int type, int more, void* (*holder)(void*)) {
  make_mutex(&mutex, type, more);
  if (holder == holds_mutex)
    HOLDER(holds_mutex, &mutex);
  else
    HOLDER(holds_mutex_and_reads, &mutex);
  WAITER(locks_mutex, &mutex);
  WAITER(locks_mutex, &mutex);
  return &mutex;
}

static const void* mutex_normal(void) {
  return held_mutex(PTHREAD_MUTEX_NORMAL, 0, holds_mutex);
}
static const void* mutex_recursive(void) {
  return held_mutex(PTHREAD_MUTEX_RECURSIVE, 0, holds_mutex_and_reads);
}
static const void* mutex_errorcheck(void) {
  return held_mutex(PTHREAD_MUTEX_ERRORCHECK, 0, holds_mutex);
}
static const void* mutex_pi(void) {
  return held_mutex(PTHREAD_MUTEX_NORMAL, of_pi, holds_mutex);
}
static const void* mutex_robust(void) {
  return held_mutex(PTHREAD_MUTEX_NORMAL, of_robust, holds_mutex_and_reads);
}
static const void* mutex_pi_robust(void) {
  return held_mutex(PTHREAD_MUTEX_RECURSIVE, of_pi | of_robust, holds_mutex);
}
#ifdef __GLIBC__
static const void* mutex_adaptive(void) {
  return held_mutex(PTHREAD_MUTEX_ADAPTIVE_NP, 0, holds_mutex_and_reads);
}
#endif

static void* shared_memory(void) {
  void* at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) abort();
  return at;
}

/* A child that runs `hold` and ends with its parent. Returns when the child holds what it holds. */
static void start_holder_process(const char* function, void* (*hold)(void*), void* argument, _Atomic int* is_held) {
  const pid_t parent = getpid(), child = fork();
  if (child < 0) abort();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    hold(argument);
    _exit(1);
  }
  struct part* part = &parts[part_count++];
  part->role = "holder";
  part->function = function;
  part->tid = part->pid = child;
  while (!*is_held) usleep(500);
}

struct shared {
  pthread_mutex_t m;
  _Atomic int is_held;
};

static kept void* holds_from_outside(void* of) {
  struct shared* s = of;
  pthread_mutex_lock(&s->m);
  s->is_held = 1;
  sleep_for_ever();
  return s;
}

static const void* mutex_shared(void) {
  struct shared* s = shared_memory();
  make_mutex(&s->m, PTHREAD_MUTEX_NORMAL, of_shared);
  start_holder_process("holds_from_outside", holds_from_outside, s, &s->is_held);
  WAITER(locks_mutex, &s->m);
  return &s->m;
}

static void* only_sleeps(void* nothing) {
  sleep_for_ever();
  return nothing;
}

/* The same among 2,000 threads that sleep. */
static const void* crowd(void) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int i = 0; i < 2000; i++) {
    pthread_t thread;
    if (pthread_create(&thread, &small, only_sleeps, NULL) != 0) abort();
  }
  return held_mutex(PTHREAD_MUTEX_NORMAL, 0, holds_mutex);
}

/* ---- circles, and what looks like one ---- */
static pthread_barrier_t all_hold;
static int circle;
#ifdef __GLIBC__
enum { of_circle = PTHREAD_MUTEX_NORMAL };
#else
enum { of_circle = PTHREAD_MUTEX_RECURSIVE }; /* the word of musl's normal mutex names no holder */
#endif

static kept void* locks_next_mutex(void* of) {
  const long i = (long)of;
  pthread_mutex_lock(&mutexes[i]);
  pthread_barrier_wait(&all_hold);
  now_holds();
  pthread_mutex_lock(&mutexes[(i + 1) % circle]);
  not_the_last_call();
  return of;
}

static const void* deadlock(int threads) {
  circle = threads;
  pthread_barrier_init(&all_hold, NULL, (unsigned)threads);
  for (int i = 0; i < threads; i++) make_mutex(&mutexes[i], of_circle, 0);
  for (long i = 0; i < threads; i++) WAITER(locks_next_mutex, (void*)i);
  await_holders(threads);
  return &mutex;
}

static const void* deadlock_2(void) {
  return deadlock(2);
}
static const void* deadlock_3(void) {
  return deadlock(3);
}

static kept void* holds_second_and_locks_first(void* of) {
  pthread_mutex_lock(&mutexes[1]);
  now_holds();
  pthread_mutex_lock(&mutexes[0]);
  not_the_last_call();
  return of;
}

/* A waits for B, B waits for C, and C reads a pipe: a chain without a circle. */
static const void* chain(void) {
  for (int i = 0; i < 2; i++) make_mutex(&mutexes[i], of_circle, 0);
  HOLDER(holds_mutex_and_reads, &mutexes[0]);
  start("waiter", "holds_second_and_locks_first", holds_second_and_locks_first, NULL);
  await_holders(1);
  WAITER(locks_mutex, &mutexes[1]);
  return &mutex;
}

#ifdef __GLIBC__
static kept void* locks_mutex_again(void* m) {
  pthread_mutex_lock(m);
  pthread_mutex_lock(m);
  not_the_last_call();
  return m;
}

static const void* deadlock_self(void) {
  make_mutex(&mutex, PTHREAD_MUTEX_NORMAL, 0);
  WAITER(locks_mutex_again, &mutex);
  return &mutex;
}

/* The word of a mutex with sleepers is set to free, and nobody is woken: as after a lost wake-up. */
static const void* lost_wakeup(void) {
  make_mutex(&mutex, PTHREAD_MUTEX_NORMAL, 0);
  pthread_mutex_lock(&mutex);
  WAITER(locks_mutex, &mutex);
  await_waiters();
  mutex.__data.__owner = 0;
  mutex.__data.__nusers = 0;
  __atomic_store_n(&mutex.__data.__lock, 0, __ATOMIC_SEQ_CST);
  return &mutex;
}
#endif

static _Atomic uint32_t event_word;
enum { futex_wait_private = 128 }; /* <linux/futex.h> is missing beside musl */

static kept void* awaits_event(void* word) {
  while (*(_Atomic uint32_t*)word == 0) syscall(SYS_futex, word, futex_wait_private, 0, NULL, NULL, 0);
  return word;
}

/* A futex that is no lock: its word is 0 for ever, as that of a free lock would be. */
static const void* hand_made_event(void) {
  WAITER(awaits_event, &event_word);
  return &event_word;
}

/* ---- the other kinds ---- */
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static kept void* holds_as_reader(void* l) {
  pthread_rwlock_rdlock(l);
  now_holds();
  sleep_for_ever();
  return l;
}

static kept void* holds_as_writer(void* l) {
  pthread_rwlock_wrlock(l);
  now_holds();
  reads_pipe();
  return l;
}

static kept void* locks_as_reader(void* l) {
  pthread_rwlock_rdlock(l);
  not_the_last_call();
  return l;
}

static kept void* locks_as_writer(void* l) {
  pthread_rwlock_wrlock(l);
  not_the_last_call();
  return l;
}

static const void* rwlock_writer_waits(void) {
  HOLDER(holds_as_reader, &rwlock);
  WAITER(locks_as_writer, &rwlock);
  return &rwlock;
}

static const void* rwlock_reader_waits(void) {
  HOLDER(holds_as_writer, &rwlock);
  WAITER(locks_as_reader, &rwlock);
  WAITER(locks_as_reader, &rwlock);
  return &rwlock;
}

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static kept void* awaits_condition(void* c) {
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_wait(c, &mutex);
  return c;
}

static kept void* awaits_condition_until(void* c) {
  struct timespec limit;
  clock_gettime(CLOCK_REALTIME, &limit);
  limit.tv_sec += 3600;
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_timedwait(c, &mutex, &limit);
  return c;
}

static const void* condition_wait(void) {
  WAITER(awaits_condition, &condition);
  WAITER(awaits_condition, &condition);
  return &condition;
}

static const void* condition_timedwait(void) {
  WAITER(awaits_condition_until, &condition);
  return &condition;
}

#ifdef __GLIBC__
static kept void* signals_and_keeps_mutex(void* nothing) {
  pthread_mutex_lock(&mutex);
  pthread_cond_signal(&condition);
  now_holds();
  sleep_for_ever();
  return nothing;
}

/* A waiter that was signalled waits for the mutex, inside of pthread_cond_wait. */
static const void* condition_relock(void) {
  WAITER(awaits_condition, &condition);
  await_waiters();
  HOLDER(signals_and_keeps_mutex, NULL);
  while (*(volatile int*)&mutex.__data.__lock != 2) usleep(500);
  return &mutex;
}
#endif

static sem_t semaphore;

static kept void* awaits_semaphore(void* s) {
  while (sem_wait(s) != 0) continue;
  not_the_last_call();
  return s;
}

static const void* semaphore_at_0(void) {
  sem_init(&semaphore, 0, 0);
  WAITER(awaits_semaphore, &semaphore);
  return &semaphore;
}

static kept void* never_ends(void* nothing) {
  now_holds();
  sleep_for_ever();
  return nothing;
}

static kept void* joins_thread(void* part) {
  void* result;
  pthread_join(((struct part*)part)->thread, &result);
  not_the_last_call();
  return part;
}

static const void* join(void) {
  HOLDER(never_ends, NULL);
  WAITER(joins_thread, &parts[0]);
  return NULL;
}

static pthread_barrier_t barrier;

static kept void* arrives_at_barrier(void* b) {
  pthread_barrier_wait(b);
  not_the_last_call();
  return b;
}

static const void* barrier_without_third(void) {
  pthread_barrier_init(&barrier, NULL, 3);
  WAITER(arrives_at_barrier, &barrier);
  WAITER(arrives_at_barrier, &barrier);
  return &barrier;
}

static pthread_once_t once_only = PTHREAD_ONCE_INIT;

static kept void initializes_slowly(void) {
  now_holds();
  sleep_for_ever();
}

static kept void* calls_once_first(void* o) {
  pthread_once(o, initializes_slowly);
  not_the_last_call();
  return o;
}

static kept void* calls_once_second(void* o) {
  pthread_once(o, initializes_slowly);
  not_the_last_call();
  return o;
}

static const void* once(void) {
  HOLDER(calls_once_first, &once_only);
  WAITER(calls_once_second, &once_only);
  return &once_only;
}

static kept void awaits_event_in_once(void) {
  awaits_event(&event_word);
}

static kept void* calls_once(void* o) {
  pthread_once(o, awaits_event_in_once);
  not_the_last_call();
  return o;
}

/* The function that pthread_once calls waits for something else. */
static const void* event_in_once(void) {
  WAITER(calls_once, &once_only);
  return &event_word;
}

/* ---- waits in the kernel ---- */
static char file_name[] = "/tmp/usher-look-XXXXXX";

static int open_file(void) {
  const int file = open(file_name, O_RDWR | O_CLOEXEC);
  if (file < 0) abort();
  return file;
}

static kept void* holds_flock(void* nothing) {
  if (flock(open_file(), LOCK_EX) != 0) abort();
  now_holds();
  sleep_for_ever();
  return nothing;
}

static kept void* locks_by_flock(void* file) {
  while (flock((int)(long)file, LOCK_EX) != 0 && errno == EINTR) continue;
  not_the_last_call();
  return file;
}

static const void* flock_wait(void) {
  close(mkstemp(file_name));
  HOLDER(holds_flock, NULL);
  WAITER(locks_by_flock, (void*)(long)open_file());
  await_waiters();
  unlink(file_name);
  return NULL;
}

static kept void* holds_record_lock(void* is_held) {
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(open_file(), F_SETLKW, &range) != 0) abort();
  *(_Atomic int*)is_held = 1;
  sleep_for_ever();
  return is_held;
}

static kept void* locks_by_fcntl(void* file) {
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  while (fcntl((int)(long)file, F_SETLKW, &range) != 0 && errno == EINTR) continue;
  not_the_last_call();
  return file;
}

static const void* fcntl_wait(void) {
  _Atomic int* is_held = shared_memory();
  close(mkstemp(file_name));
  start_holder_process("holds_record_lock", holds_record_lock, is_held, is_held);
  WAITER(locks_by_fcntl, (void*)(long)open_file());
  await_waiters();
  unlink(file_name);
  return NULL;
}

static kept void* awaits_pipe(void* nothing) {
  reads_pipe();
  not_the_last_call();
  return nothing;
}

static const void* pipe_read(void) {
  WAITER(awaits_pipe, NULL);
  return NULL;
}

static const struct {
  const char* name;
  const void* (*prepare)(void);
} cases[] = {
    {"mutex-normal", mutex_normal},
    {"mutex-recursive", mutex_recursive},
    {"mutex-errorcheck", mutex_errorcheck},
#ifdef __GLIBC__
    {"mutex-adaptive", mutex_adaptive},
    {"lost-wakeup", lost_wakeup},
    {"deadlock-self", deadlock_self},
    {"condition-relock", condition_relock},
#endif
    {"mutex-pi", mutex_pi},
    {"mutex-robust", mutex_robust},
    {"mutex-pi-robust", mutex_pi_robust},
    {"mutex-shared", mutex_shared},
    {"crowd", crowd},
    {"deadlock-2", deadlock_2},
    {"deadlock-3", deadlock_3},
    {"chain", chain},
    {"event", hand_made_event},
    {"rwlock-writer", rwlock_writer_waits},
    {"rwlock-reader", rwlock_reader_waits},
    {"condition-wait", condition_wait},
    {"condition-timedwait", condition_timedwait},
    {"semaphore", semaphore_at_0},
    {"join", join},
    {"barrier", barrier_without_third},
    {"once", once},
    {"event-in-once", event_in_once},
    {"flock", flock_wait},
    {"fcntl", fcntl_wait},
    {"pipe", pipe_read},
};
enum { case_count = sizeof cases / sizeof *cases };

int main(int argc, char** argv) {
  if (argc == 2) {
    alarm(600);
    if (pipe(ends) != 0) abort();
    for (int i = 0; i < case_count; i++) {
      if (strcmp(argv[1], cases[i].name) == 0) is_ready(argv[1], cases[i].prepare());
      if (strcmp(argv[1], "--list") == 0) puts(cases[i].name);
    }
    if (strcmp(argv[1], "--list") == 0) return 0;
  }
  fputs("usage: waits CASE | --list\n", stderr);
  return 2;
}
