// Trap: unlock must not access the mutex once the next owner may have it. At full speed a late access has an effect
// once in hundreds of thousands of unlocks, if at all. Here a tracer steps the unlocking thread through its
// instructions, with a pause after each. In this pause the next owner can get the mutex and make its memory
// inaccessible. The first access of unlock after that faults, and the case fails.
//
// A sleeping waiter gets the mutex late. With USHER_SPIN_NS waiters poll, so that they get the mutex at the earliest
// moment.
#include "kinds.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>

// Other processors: a single step between load-linked and store-conditional always makes the store fail.
#if defined(__x86_64__)

struct comers {
  const char* name;
  int lock, timed, trylock;  ///< the number of threads that wait by each call
};
static const struct comers crowds[] = {
    {"one_waits", 1, 0, 0},           {"four_wait", 4, 0, 0},
    {"one_tries", 0, 0, 1},           {"one_waits_with_deadline", 0, 1, 0},
    {"all_sorts_wait", 2, 2, 0},      {"some_wait_one_tries", 2, 0, 1},
    {"one_waits_one_tries", 1, 0, 1},
};

struct stage {
  int waiting, taken, unlocked, gone;
  char* page;  ///< a page that begins with the mutex
};
static struct stage* stage;

static pthread_mutex_t* mutex_on_stage(void) {
  return (pthread_mutex_t*)(void*)stage->page;
}

static void take_it_away(void) {
  int nobody = 0;
  // The first thread that gets the mutex makes the mutex's page inaccessible until the unlock has returned. Later
  // owners do not.
  if (!__atomic_compare_exchange_n(&stage->taken, &nobody, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
  CHECK(mprotect(stage->page, 4096, PROT_NONE) == 0);
  flag_set(&stage->gone, 1);
  await_flag(&stage->unlocked, 1);
  CHECK(mprotect(stage->page, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void* come_by_lock(void* unused) {
  flag_add(&stage->waiting, 1);
  CHECK_OK(pthread_mutex_lock(mutex_on_stage()));
  take_it_away();
  CHECK_OK(pthread_mutex_unlock(mutex_on_stage()));
  return unused;
}

static void* come_by_deadline(void* unused) {
  const struct timespec deadline = later(now(CLOCK_REALTIME), 15000);
  flag_add(&stage->waiting, 1);
  CHECK_OK(pthread_mutex_timedlock(mutex_on_stage(), &deadline));
  take_it_away();
  CHECK_OK(pthread_mutex_unlock(mutex_on_stage()));
  return unused;
}

static void* come_by_trylock(void* unused) {
  flag_add(&stage->waiting, 1);
  int code;
  while ((code = pthread_mutex_trylock(mutex_on_stage())) == EBUSY) sched_yield();
  CHECK_OK(code);
  take_it_away();
  CHECK_OK(pthread_mutex_unlock(mutex_on_stage()));
  return unused;
}

// The fault handler of waiters, which may read the mutex while its page is inaccessible. It returns after a pause, and
// the waiter then repeats its read. Faults of the unlocking thread go to the tracing process instead.
static void look_again(int number, siginfo_t* info, void* context) {
  (void)context;
  const char* address = info->si_addr;
  if (address < stage->page || address >= stage->page + 4096) {
    signal(number, SIG_DFL);
    return;
  }
  const struct timespec moment = {0, 100000};
  nanosleep(&moment, NULL);  // the traced thread continues meanwhile, and makes the page accessible again
}

static void unlock_under_trace(const struct comers* comers, const struct mutex_kind* kind) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = look_again;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) skip_case("may not trace its own child");
  pthread_mutex_t* mutex = mutex_on_stage();
  make_mutex(mutex, kind);
  // The first calls bind symbols and cause page faults, so they are made before the stepping begins.
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(pthread_mutex_lock(mutex));
    CHECK_OK(pthread_mutex_unlock(mutex));
  }
  CHECK_OK(pthread_mutex_lock(mutex));
  pthread_t threads[8];
  int count = 0;
  for (int i = 0; i < comers->lock; ++i) threads[count++] = start_thread(come_by_lock, NULL);
  for (int i = 0; i < comers->timed; ++i) threads[count++] = start_thread(come_by_deadline, NULL);
  for (int i = 0; i < comers->trylock; ++i) threads[count++] = start_thread(come_by_trylock, NULL);
  await_flag(&stage->waiting, count);
  await_sleepers(comers->lock + comers->timed);

  __asm__ __volatile__("int3" ::: "memory");
  const int code = pthread_mutex_unlock(mutex);
  flag_set(&stage->unlocked, 1);

  CHECK_OK(code);
  for (int i = 0; i < count; ++i) join_thread(threads[i]);
  CHECK(stage->gone == 1);
}

static void trace(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));  // the child has reported the reason
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  int steps = 0;
  while (!flag_get(&stage->unlocked)) {
    CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV) {
      siginfo_t info;
      CHECK(ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0);
      const long offset = (long)((char*)info.si_addr - stage->page);
      fail_case(__FILE__, __LINE__,
                "after %d instructions, unlock touched offset %ld of the mutex that another thread had taken", steps,
                offset);
    }
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    ++steps;
    // Pauses, so that a thread that can acquire the mutex at this point does so. If a thread has the mutex already, the
    // pause is longer, until that thread has made the page inaccessible. Once the page is inaccessible, there is no
    // pause.
    if (!flag_get(&stage->gone)) usleep(flag_get(&stage->taken) ? 200 : 20);
  }
  CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
  CHECK_CHILD(child, 0);
}

static void act(const struct comers* comers, const struct mutex_kind* kind) {
  for (int round = 0; round < 3; ++round) {
    stage = shared_page();
    stage->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stage->page != MAP_FAILED);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      be_a_child();
      unlock_under_trace(comers, kind);
      _exit(0);
    }
    trace(child);
  }
}

CASE_FOR(unlock_of_normal, struct comers, comers, crowds) {
  act(comers, &all_kinds[0]);
}
CASE_FOR(unlock_of_recursive, struct comers, comers, crowds) {
  act(comers, &all_kinds[3]);
}

#else
CASE(unlock_in_single_steps) {
  skip_case("not implemented for this machine");
}
#endif
