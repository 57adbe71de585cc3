// Traps of sandboxes: threads that may make no system call, or for which some calls fail. An uncontended lock of the C
// library makes no system call. run_traps.py runs these cases directly, and with system calls that fail (refuse.c).
#include "kinds.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;

// Installs a filter: from now on the kernel permits this thread only read, write, exit and the return from signal
// handlers.
static void allow_nothing(void) {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(77);
}
static void end_thread(long status) {
  for (;;) syscall(SYS_exit, status);  // exit_group is not permitted
}

static void lock_some(void) {
  pthread_mutex_t* const all[] = {&recursive, &checking, &normal};
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 3; ++i) {
      if (pthread_mutex_lock(all[i]) != 0) end_thread(1);
      if (i == 0 && (pthread_mutex_lock(all[i]) != 0 || pthread_mutex_unlock(all[i]) != 0)) end_thread(2);
      if (i == 1 && pthread_mutex_lock(all[i]) != EDEADLK) end_thread(3);
      if (pthread_mutex_unlock(all[i]) != 0) end_thread(4);
      if (pthread_mutex_trylock(all[i]) != 0 || pthread_mutex_unlock(all[i]) != 0) end_thread(5);
    }
}

static void lock_in_sandbox(void* unused) {
  (void)unused;
  allow_nothing();
  lock_some();
  end_thread(0);
}

static void check_sandboxed(pid_t child) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) fail_case(__FILE__, __LINE__, "killed by signal %d", WTERMSIG(status));
  if (WEXITSTATUS(status) == 77) skip_case("no strict mode of seccomp");
  CHECK_NUMBER(WEXITSTATUS(status), 0);
}

CASE(first_locks_without_system_calls_in_a_child) {
  check_sandboxed(start_child(lock_in_sandbox, NULL));
}

// This case leaves its process in the sandbox, so the case that needs it executes it in a new process.
CASE(lock_in_this_process) {
  if (getenv("USHER_IN_SANDBOX") == NULL) skip_case("a part of another case");
  lock_in_sandbox(NULL);
}
CASE(first_locks_without_system_calls) {
  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    char self[] = "sandboxes", here[] = "--here", name[] = "lock_in_this_process";
    char* arguments[] = {self, here, name, NULL};
    setenv("USHER_IN_SANDBOX", "1", 1);
    execv("/proc/self/exe", arguments);
    _exit(127);
  }
  check_sandboxed(child);
}

static pthread_rwlock_t read_often = PTHREAD_RWLOCK_INITIALIZER;

static void* read_in_sandboxed_thread(void* unused) {
  (void)unused;
  allow_nothing();
  for (int i = 0; i < 100; ++i) {
    if (pthread_rwlock_rdlock(&read_often) != 0 || pthread_rwlock_unlock(&read_often) != 0) end_thread(1);
    if (pthread_rwlock_tryrdlock(&read_often) != 0 || pthread_rwlock_unlock(&read_often) != 0) end_thread(2);
  }
  end_thread(0);
  return NULL;
}
static void read_in_threads(void* unused) {
  for (int i = 0; i < 3; ++i) join_thread(start_thread(read_in_sandboxed_thread, NULL));
  read_in_sandboxed_thread(unused);
}
CASE(reads_without_system_calls) {
  check_sandboxed(start_child(read_in_threads, NULL));
}

static int locked_in_threads;

static void* lock_in_sandboxed_thread(void* unused) {
  (void)unused;
  allow_nothing();
  lock_some();
  flag_add(&locked_in_threads, 1);
  end_thread(0);
  return NULL;
}

// The threads run one after the other. Each needs new resources, because those of an ended thread are not reused. The
// queue nodes for the first 34 threads exist already.
static void lock_in_threads(void* unused) {
  (void)unused;
  for (int i = 0; i < 30; ++i) join_thread(start_thread(lock_in_sandboxed_thread, NULL));
  if (locked_in_threads != 30) _exit(1);
}
CASE(first_locks_of_threads_without_system_calls) {
  check_sandboxed(start_child(lock_in_threads, NULL));
}

// The child of vfork() uses its parent's memory, and must not be mistaken for the parent. Lock calls in such a child
// are undefined, but work with the C library.
static void vfork_before_locking(void* unused) {
  (void)unused;
  const pid_t child = vfork();
  if (child == 0) {
    if (pthread_mutex_lock(&recursive) != 0 || pthread_mutex_unlock(&recursive) != 0) _exit(1);
    _exit(0);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(2);
  join_thread(start_thread(lock_in_sandboxed_thread, NULL));
  if (locked_in_threads != 1) _exit(3);
  lock_in_sandbox(NULL);
}
CASE(child_of_vfork_locks_first) {
  check_sandboxed(start_child(vfork_before_locking, NULL));
}

// -- with system calls that fail --

static void* hold_while(void* argument) {
  pthread_mutex_t* mutex = argument;
  CHECK_CODE(pthread_mutex_trylock(mutex), EBUSY);
  CHECK_CODE(pthread_mutex_unlock(mutex), EPERM);
  return NULL;
}

CASE(threads_are_told_apart) {
  pthread_mutex_t* const all[] = {&recursive, &checking};
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(pthread_mutex_lock(all[i]));
    for (int j = 0; j < 5; ++j) in_new_thread(hold_while, all[i]);
    CHECK_OK(pthread_mutex_unlock(all[i]));
  }
}

struct counted {
  pthread_mutex_t* mutex;
  int inside;
  long count;
};

static void* count_inside(void* argument) {
  struct counted* counted = *(struct counted**)argument;
  for (int i = 0; i < 20000; ++i) {
    CHECK_OK(pthread_mutex_lock(counted->mutex));
    CHECK(__atomic_exchange_n(&counted->inside, 1, __ATOMIC_RELAXED) == 0);
    ++counted->count;
    __atomic_store_n(&counted->inside, 0, __ATOMIC_RELAXED);
    CHECK_OK(pthread_mutex_unlock(counted->mutex));
  }
  return NULL;
}

CASE(threads_exclude_each_other) {
  pthread_mutex_t* const all[] = {&recursive, &checking, &normal};
  for (int i = 0; i < 3; ++i) {
    struct counted counted = {all[i], 0, 0};
    struct counted* same[4] = {&counted, &counted, &counted, &counted};
    run_threads(4, count_inside, same, sizeof same[0]);
    CHECK_NUMBER(counted.count, 80000);
  }
}
