// Trap: as long as a process has one thread, libusher.so locks and unlocks by plain loads and stores. Threads may be
// created at any moment and in any way, and a signal handler may run between two of these instructions. The new thread,
// or the handler, must find the state of every mutex correct.
#include "kinds.h"

#include <threads.h>

// The C library's variable that says whether the process has only one thread; older and other C libraries do not have
// it.
extern char __libc_single_threaded __attribute__((weak));

static bool knows_threads(void) {
  return &__libc_single_threaded != NULL;
}
static void be_alone(void) {
  if (!knows_threads()) skip_case("this C library does not say whether there are threads");
  CHECK(__libc_single_threaded != 0);
}

// -- threads of all kinds ----------------------------------------------------------------------------------------

enum { rounds = 2000, others = 3 };

struct counting {
  pthread_mutex_t mutex;
  long count;  ///< plain: only the holder of the mutex changes it
  int begun, done;
};
static struct counting counting;

static void count_up(void) {
  for (int i = 0; i < rounds; ++i) {
    if (i % 3 != 0) {
      CHECK_OK(pthread_mutex_lock(&counting.mutex));
    } else {
      int code;
      while ((code = pthread_mutex_trylock(&counting.mutex)) == EBUSY) sched_yield();
      CHECK_OK(code);
    }
    ++counting.count;
    CHECK_OK(pthread_mutex_unlock(&counting.mutex));
  }
}

static void* count_in_thread(void* unused) {
  flag_add(&counting.begun, 1);
  count_up();
  flag_add(&counting.done, 1);
  return unused;
}
static int count_in_c_thread(void* unused) {
  count_in_thread(unused);
  return 0;
}
static void count_by_timer(union sigval unused) {
  count_in_thread(unused.sival_ptr);
}

static void make_by_pthread(void) {
  pthread_t thread;
  CHECK_OK(pthread_create(&thread, NULL, count_in_thread, NULL));
  CHECK_OK(pthread_detach(thread));
}
static void make_by_c11(void) {
  thrd_t thread;
  CHECK(thrd_create(&thread, count_in_c_thread, NULL) == thrd_success);
  CHECK(thrd_detach(thread) == thrd_success);
}
static void make_by_timer(void) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_notify_function = count_by_timer;
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const struct itimerspec once = {.it_value = {0, 1}};
  CHECK(timer_settime(timer, 0, &once, NULL) == 0);
}

struct maker {
  const char* name;
  void (*make)(void);
};
static const struct maker makers[] = {
    {"pthread_create", make_by_pthread}, {"thrd_create", make_by_c11}, {"timer", make_by_timer}};

/// A process with one thread creates more threads while the mutex is free, or while it is held.
static void from_one_to_many(void) {
  be_alone();
  const struct maker* maker = &makers[counting.count++ % 3];
  const bool holds = counting.count % 2 != 0;
  counting.count = 0;
  count_up();
  be_alone();
  if (holds) CHECK_OK(pthread_mutex_lock(&counting.mutex));
  for (int i = 0; i < others; ++i) maker->make();
  if (holds) {
    await_flag(&counting.begun, 1);  // the thread finds a mutex that was locked by a store
    const long before = counting.count;
    for (int i = 0; i < 3; ++i) sched_yield();
    CHECK_NUMBER(counting.count, before);
    CHECK_OK(pthread_mutex_unlock(&counting.mutex));
  }
  count_up();
  await_flag(&counting.done, others);
  CHECK_NUMBER(counting.count, (others + 2) * rounds);
}

CASE_FOR(threads_come, struct mutex_kind, kind, main_kinds) {
  be_alone();
  make_mutex(&counting.mutex, kind);
  for (int i = 0; i < 24; ++i) {
    counting.count = i;
    CHECK_CHILD(start_child((void (*)(void*))(void (*)(void))from_one_to_many, NULL), 0);
    // The parent, which still has one thread, uses the mutex again after each child.
    CHECK_OK(pthread_mutex_lock(&counting.mutex));
    CHECK_OK(pthread_mutex_unlock(&counting.mutex));
  }
}

/// When all other threads have ended, the C library may set __libc_single_threaded again. Then threads are created once
/// more.
CASE_FOR(threads_come_again, struct mutex_kind, kind, main_kinds) {
  be_alone();
  make_mutex(&counting.mutex, kind);
  for (int i = 0; i < 6; ++i) {
    counting.count = 0;
    for (int j = 0; j < 2; ++j) {
      pthread_t threads[others];
      for (int t = 0; t < others; ++t) threads[t] = start_thread(count_in_thread, NULL);
      for (int t = 0; t < others; ++t) join_thread(threads[t]);
      __libc_single_threaded = 1;
      count_up();
      CHECK_NUMBER(counting.count, (j + 1) * (others + 1) * rounds);
    }
  }
}

// -- mutexes that a thread leaves locked for others --------------------------------------------------------------

CASE_FOR(locked_alone, struct mutex_kind, kind, main_kinds) {
  be_alone();
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(pthread_mutex_trylock(&mutex));
    CHECK_CODE(pthread_mutex_trylock(&mutex), kind->recursive ? 0 : EBUSY);
    if (kind->recursive) CHECK_OK(pthread_mutex_unlock(&mutex));
    if (kind->checks && !kind->recursive) CHECK_CODE(pthread_mutex_lock(&mutex), EDEADLK);
    if (!kind->recursive) {
      const struct timespec soon = later(now(CLOCK_REALTIME), 1);
      CHECK_CODE(pthread_mutex_timedlock(&mutex, &soon), kind->checks ? EDEADLK : ETIMEDOUT);
    }
    CHECK_OK(pthread_mutex_unlock(&mutex));
    if (kind->checks) CHECK_CODE(pthread_mutex_unlock(&mutex), EPERM);
  }
  CHECK_OK(pthread_mutex_lock(&mutex));
  if (kind->recursive) CHECK_OK(pthread_mutex_lock(&mutex));
  be_alone();
  CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
  if (kind->checks) CHECK_CODE(elsewhere(thread_unlock, &mutex), EPERM);
  CHECK_CODE(pthread_mutex_destroy(&mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  if (kind->recursive) {
    CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  CHECK_OK(try_elsewhere(&mutex));
  CHECK_OK(pthread_mutex_destroy(&mutex));
}

static void* leave_it_locked(void* mutex) {
  CHECK_OK(pthread_mutex_lock(mutex));
  return NULL;
}

/// A thread locks the mutex and ends; any thread may unlock it. Here the unlocking thread is again the only thread of
/// the process.
CASE(unlocked_alone) {
  be_alone();
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < 3; ++i) {
    in_new_thread(leave_it_locked, &mutex);
    __libc_single_threaded = 1;
    CHECK_CODE(pthread_mutex_trylock(&mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    CHECK_OK(pthread_mutex_lock(&mutex));
    CHECK_OK(pthread_mutex_unlock(&mutex));
    CHECK_OK(try_elsewhere(&mutex));
  }
}

// -- forks -------------------------------------------------------------------------------------------------------

static pthread_mutex_t held_in_parent, free_in_parent;
static const struct mutex_kind* kind_in_parent;

static void be_child_of_one(void* unused) {
  (void)unused;
  // In a child, the owner in a mutex that the parent held is a thread of the parent. So kinds that check the owner
  // refuse the unlock.
  CHECK_CODE(pthread_mutex_trylock(&held_in_parent), EBUSY);
  CHECK_CODE(pthread_mutex_unlock(&held_in_parent), kind_in_parent->checks ? EPERM : 0);
  if (!kind_in_parent->checks) CHECK_OK(try_elsewhere(&held_in_parent));
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(pthread_mutex_lock(&free_in_parent));
    CHECK_CODE(elsewhere(thread_trylock, &free_in_parent), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&free_in_parent));
  }
}
static void be_child_and_fork(void* unused) {
  CHECK_OK(pthread_mutex_lock(&free_in_parent));
  CHECK_OK(pthread_mutex_unlock(&free_in_parent));
  CHECK_CHILD(start_child(be_child_of_one, unused), 0);
  be_child_of_one(unused);
}

static void have_children(void) {
  for (int i = 0; i < 2; ++i) {
    CHECK_CHILD(start_child(be_child_of_one, NULL), 0);
    CHECK_CHILD(start_child(be_child_and_fork, NULL), 0);
    CHECK_OK(pthread_mutex_lock(&free_in_parent));
    CHECK_OK(pthread_mutex_unlock(&free_in_parent));
  }
}

CASE_FOR(forks, struct mutex_kind, kind, main_kinds) {
  be_alone();
  kind_in_parent = kind;
  make_mutex(&held_in_parent, kind);
  make_mutex(&free_in_parent, kind);
  CHECK_OK(pthread_mutex_lock(&held_in_parent));
  have_children();
  be_alone();
  CHECK_CODE(elsewhere(thread_trylock, &held_in_parent), EBUSY);
  have_children();  // children of a process that has had another thread
  CHECK_OK(pthread_mutex_unlock(&held_in_parent));
  CHECK_OK(try_elsewhere(&held_in_parent));
}

// -- between two instructions ------------------------------------------------------------------------------------

#if defined(__x86_64__)

#include <ucontext.h>

static pthread_mutex_t stepped;
static pthread_rwlock_t stepped_rwlock;
static volatile bool stepping, handler_locks, handler_reads;
static volatile int steps, locked_steps, got;

/// Returns whether the instruction has a lock prefix, or another form that costs as much as an atomic operation.
static bool is_locked(const unsigned char* code) {
  bool rex = true;
  while (rex) {  // prefixes
    if (*code == 0xf0) return true;
    rex = *code == 0x66 || *code == 0xf2 || *code == 0xf3 || *code == 0x2e || *code == 0x36 || *code == 0x3e ||
          *code == 0x26 || (*code >= 0x64 && *code <= 0x67) || (*code >= 0x40 && *code <= 0x4f);
    if (rex) ++code;
  }
  if (code[0] == 0x86 || code[0] == 0x87) return (code[1] & 0xc0) != 0xc0;  // exchange with memory
  return code[0] == 0x0f && code[1] == 0xae && (code[2] & 0xf8) == 0xf0;    // mfence
}

static void step(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ucontext_t* const at = context;
  if (!stepping) {
    at->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
    return;
  }
  ++steps;
  if (is_locked((const unsigned char*)at->uc_mcontext.gregs[REG_RIP])) ++locked_steps;
  if (handler_reads) {
    const int result = pthread_rwlock_tryrdlock(&stepped_rwlock);
    if (result != 0) {
      CHECK_CODE(result, EBUSY);
    } else {
      ++got;
      CHECK_OK(pthread_rwlock_unlock(&stepped_rwlock));
    }
  }
  if (!handler_locks) return;
  const int code = pthread_mutex_trylock(&stepped);
  if (code == 0) {
    ++got;
    CHECK_OK(pthread_mutex_unlock(&stepped));
  } else {
    CHECK_CODE(code, EBUSY);
  }
}

static void begin_steps(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = step;
  action.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
  steps = locked_steps = got = 0;
}

/// Evaluates `call` and raises a signal before each of its instructions.
#define IN_STEPS(call)                                                                                             \
  __extension__({                                                                                                  \
    stepping = true;                                                                                               \
    __asm__ __volatile__("sub $128, %%rsp; pushf; orl $0x100, (%%rsp); popf; add $128, %%rsp" ::: "memory", "cc"); \
    const int result_of_call = (call);                                                                             \
    stepping = false;                                                                                              \
    __asm__ __volatile__("nop; nop" ::: "memory");                                                                 \
    result_of_call;                                                                                                \
  })

static int in_steps(int (*operation)(pthread_mutex_t*)) {
  return IN_STEPS(operation(&stepped));
}

static void step_through(const struct mutex_kind* kind, bool locks) {
  make_mutex(&stepped, kind);
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(pthread_mutex_lock(&stepped));
    CHECK_OK(pthread_mutex_unlock(&stepped));
    CHECK_OK(pthread_mutex_trylock(&stepped));
    CHECK_OK(pthread_mutex_unlock(&stepped));
  }
  begin_steps();
  handler_locks = locks;
  CHECK_OK(in_steps(pthread_mutex_lock));
  CHECK_OK(in_steps(pthread_mutex_unlock));
  CHECK_OK(in_steps(pthread_mutex_trylock));
  if (kind->recursive) {
    CHECK_OK(in_steps(pthread_mutex_lock));
    CHECK_OK(in_steps(pthread_mutex_unlock));
  }
  CHECK_OK(in_steps(pthread_mutex_unlock));
  note("%d instructions, %d of them locked; the handler got it %d times", steps, locked_steps, got);
  CHECK(steps > 60);
  if (locks) CHECK(got > 8);
  CHECK_OK(try_elsewhere(&stepped));
}

// Runs only with USHER_PLAIN_ALONE, which run_traps.py sets for locks whose uncontended state is one word. The C
// library's trylock has an atomic instruction even with one thread.
CASE_FOR(nothing_is_locked, struct mutex_kind, kind, all_kinds) {
  be_alone();
  if (getenv("USHER_STREAM") != NULL)
    skip_case("in a window of usher record a thread takes its chunks by locked instructions");
  if (getenv("USHER_PLAIN_ALONE") == NULL) skip_case("this lock has no plain way");
  step_through(kind, false);
  CHECK_NUMBER(locked_steps, 0);
  // With several threads, lock and trylock must have at least one atomic instruction each; unlock may be a plain store.
  step_through(kind, false);
  CHECK(locked_steps >= 2);
}

CASE_FOR(handler_at_each_instruction, struct mutex_kind, kind, all_kinds) {
  be_alone();
  if (getenv("USHER_PLAIN_ALONE") == NULL) skip_case("this lock has no plain way");
  step_through(kind, true);
  step_through(kind, true);  // with several threads
}

// The words of a read-write lock are counters: a handler that locks and unlocks between two instructions leaves other
// values behind than it found.
CASE(reading_handler_at_each_instruction) {
  be_alone();
  CHECK_OK(pthread_rwlock_init(&stepped_rwlock, NULL));
  CHECK_OK(pthread_rwlock_rdlock(&stepped_rwlock));
  CHECK_OK(pthread_rwlock_unlock(&stepped_rwlock));
  begin_steps();
  handler_locks = false;
  handler_reads = true;
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(IN_STEPS(pthread_rwlock_rdlock(&stepped_rwlock)));
    CHECK_OK(IN_STEPS(pthread_rwlock_unlock(&stepped_rwlock)));
    CHECK_OK(IN_STEPS(pthread_rwlock_wrlock(&stepped_rwlock)));
    CHECK_OK(IN_STEPS(pthread_rwlock_unlock(&stepped_rwlock)));
  }
  handler_reads = false;
  CHECK(got > 20);
  CHECK_OK(pthread_rwlock_trywrlock(&stepped_rwlock));  // no arrival or exit was lost
  CHECK_CODE(pthread_rwlock_tryrdlock(&stepped_rwlock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&stepped_rwlock));
  CHECK_OK(pthread_rwlock_rdlock(&stepped_rwlock));
  CHECK_CODE(pthread_rwlock_trywrlock(&stepped_rwlock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&stepped_rwlock));
}

// Beyond its limit of readers a lock returns an error. Then, too, no writer may get the lock beside a reader.
CASE(too_many_readers) {
  be_alone();
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  long readers = 0;
  int code = 0;
  while (readers < 1L << 23 && (code = pthread_rwlock_rdlock(&lock)) == 0) ++readers;
  if (code != 0) CHECK_CODE(code, EAGAIN);
  CHECK_CODE(pthread_rwlock_trywrlock(&lock), EBUSY);
  while (readers-- > 0) CHECK_OK(pthread_rwlock_unlock(&lock));
  CHECK_OK(pthread_rwlock_trywrlock(&lock));
  CHECK_OK(pthread_rwlock_unlock(&lock));
}

#else
CASE(nothing_is_locked) {
  skip_case("not implemented for this machine");
}
#endif
