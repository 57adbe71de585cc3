// Trap: a signal that wakes no thread although threads wait. The condition variables of glibc 2.25 to 2.40 lose a
// signal if a waiter that has consumed its signal is delayed for long before its next few instructions (glibc's bug
// 25847). The waiter then finds that two groups of waiters have come and gone, assumes that it took a signal of the
// present group, and adds another signal to that group. This signal wakes one waiter too many, which is not subtracted
// from the group's count: a later signal goes to a group that has no waiter left.
//
// Three workers take items from a queue and wait while it is empty. A signal follows each item. Worker 0 is stepped
// through its instructions and is held after the n-th, for each n in turn:
//
//     worker 0 waits, and gets item 1's signal
//     worker 0 is held          worker 1 takes item 1 without a wait, then waits for item 2 and gets it
//     worker 0 is held          workers 1 and 2 wait; one gets item 3
//     worker 0 goes on, finds no item, and waits; the other worker waits, too
//     item 4 is put into the queue: one of the two must take it
//
// All threads obey POSIX: they test the predicate under the mutex in a loop, and any waiter can use any item.
#include "kinds.h"

#include <dlfcn.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#if defined(__x86_64__)  // for the single steps

struct schedule {
  const char* name;
  bool awake;   ///< item 1's signal is sent as soon as worker 0 has released the mutex, else when it sleeps
  bool inside;  ///< the signals are sent with the mutex held
};
static const struct schedule schedules[] = {
    {"signalled_asleep", false, false},
    {"signalled_asleep_inside", false, true},
    {"signalled_early", true, false},
    {"signalled_early_inside", true, true},
};

enum { workers = 3, held = 0 };
struct worker {
  pid_t thread;
  int wanted, taken;   ///< items
  int waits, returns;  ///< calls of pthread_cond_wait() that have begun and ended
};
enum order { put_item = 1, signal_only, try_mutex };
struct queue {
  int items;
  bool signal_inside, trap;
  struct worker worker[workers];
  pid_t producer;
  enum order order;
  int ordered, done, result;
};
static struct queue* queue;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // each child has its own
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

// ---- the program ---------------------------------------------------------------------------------------------

static void* work(void* argument) {
  struct worker* self = argument;
  const bool traps = queue->trap && self == &queue->worker[held];
  flag_set(&self->thread, (int)syscall(SYS_gettid));
  for (int i = 1;; ++i) {
    await_flag(&self->wanted, i);
    CHECK_OK(pthread_mutex_lock(&mutex));
    while (flag_get(&queue->items) == 0) {
      flag_add(&self->waits, 1);
      if (traps && self->returns == 0) __asm__ __volatile__("int3" ::: "memory");
      CHECK_OK(pthread_cond_wait(&cond, &mutex));
      flag_add(&self->returns, 1);
    }
    flag_add(&queue->items, -1);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    flag_add(&self->taken, 1);
  }
  return NULL;
}

static void obey(enum order order) {
  if (order == signal_only) CHECK_OK(pthread_cond_signal(&cond));
  if (order == try_mutex) {
    queue->result = pthread_mutex_trylock(&mutex);
    if (queue->result == 0) CHECK_OK(pthread_mutex_unlock(&mutex));
  }
  if (order != put_item) return;
  CHECK_OK(pthread_mutex_lock(&mutex));
  flag_add(&queue->items, 1);
  if (queue->signal_inside) CHECK_OK(pthread_cond_signal(&cond));
  CHECK_OK(pthread_mutex_unlock(&mutex));
  if (!queue->signal_inside) CHECK_OK(pthread_cond_signal(&cond));
}

static void produce(void) {
  for (int i = 0; i < workers; ++i) start_thread(work, &queue->worker[i]);
  for (int i = 0; i < workers; ++i) await_flag(&queue->worker[i].thread, 1);
  flag_set(&queue->producer, (int)syscall(SYS_gettid));
  for (int i = 1;; ++i) {
    await_flag(&queue->ordered, i);
    obey(queue->order);
    flag_set(&queue->done, i);
  }
}

// ---- the tracer ----------------------------------------------------------------------------------------------

static pid_t child;
static bool is_held;  ///< the tracer has stopped worker 0

static bool is_asleep(pid_t thread) {
  char name[64], line[512] = "";
  snprintf(name, sizeof name, "/proc/%d/task/%d/stat", (int)child, (int)thread);
  FILE* file = fopen(name, "re");
  if (file == NULL) return false;
  const bool read = fgets(line, sizeof line, file) != NULL;
  fclose(file);
  const char* state = read ? strrchr(line, ')') : NULL;
  return state != NULL && state[1] == ' ' && state[2] == 'S';
}

/// Waits until the flag, which `thread` sets, is at least `at_least`. Returns false after 5 s. While worker 0 is
/// stopped, it may block `thread`; in this case the function already returns false after 0.15 s, or when `thread` has
/// slept for 20 ms.
static bool comes(const int* flag, int at_least, pid_t thread) {
  const double limit = seconds() + (is_held ? 0.15 : 5);
  double awake = seconds();
  while (flag_get(flag) < at_least) {
    usleep(50);  // polls
    if (!is_held || !is_asleep(thread)) awake = seconds();
    if (seconds() > limit || seconds() > awake + 0.02) return false;
  }
  return true;
}

/// Returns whether all workers that want an item sleep, not counting worker 0 while it is stopped.
static bool all_asleep(void) {
  for (int i = 0; i < workers; ++i) {
    const struct worker* const w = &queue->worker[i];
    if (is_held && i == held) continue;
    if (flag_get(&w->wanted) > flag_get(&w->taken) && !is_asleep(w->thread)) return false;
  }
  return true;
}
/// Waits until all_asleep() is true five times in a row, for at most 1 s: workers may also poll.
static void settle(void) {
  const double limit = seconds() + 1;
  for (int quiet = 0; quiet < 5 && seconds() < limit; usleep(50)) quiet = all_asleep() ? quiet + 1 : 0;
}
/// Waits until the queue is empty. Returns false when all workers that want an item have slept for 1 s, or after 10 s.
static bool is_emptied(void) {
  const double limit = seconds() + 10;
  double awake = seconds();
  while (flag_get(&queue->items) > 0) {
    usleep(50);  // polls
    if (!all_asleep()) awake = seconds();
    if (seconds() > limit || seconds() > awake + 1) return false;
  }
  return true;
}

static int post(enum order what) {
  queue->order = what;
  return flag_add(&queue->ordered, 1);
}
static bool order(enum order what) {
  return comes(&queue->done, post(what), queue->producer);
}

static bool take_next(int i) {
  const int wanted = flag_add(&queue->worker[i].wanted, 1);
  return comes(&queue->worker[i].taken, wanted, queue->worker[i].thread);
}
static bool wait_for_next(int i) {
  const int waits = flag_get(&queue->worker[i].waits);
  flag_add(&queue->worker[i].wanted, 1);
  if (!comes(&queue->worker[i].waits, waits + 1, queue->worker[i].thread)) return false;
  settle();
  return true;
}

static bool stops(double within) {
  int status = 0;
  const double limit = seconds() + within;
  for (unsigned looks = 0;; ++looks) {
    const pid_t pid = waitpid(queue->worker[held].thread, &status, __WALL | WNOHANG);
    if (pid > 0) {
      CHECK(WIFSTOPPED(status));
      return true;
    }
    CHECK(pid == 0);
    if (seconds() > limit) return false;
    if (looks > 100) usleep(20);  // polls
  }
}

static void trace(void) {
  if (ptrace(PTRACE_SEIZE, queue->worker[held].thread, NULL, NULL) != 0) skip_case("may not trace its own child");
}
static void interrupt(void) {
  CHECK(ptrace(PTRACE_INTERRUPT, queue->worker[held].thread, NULL, NULL) == 0);
  CHECK(stops(5));
  is_held = true;
}
static void let_go_on(void) {
  if (!is_held) return;
  CHECK(ptrace(PTRACE_DETACH, queue->worker[held].thread, NULL, NULL) == 0);
  is_held = false;
}
/// Executes one instruction of worker 0. Returns false if the thread went to sleep in a system call.
static bool step(void) {
  CHECK(ptrace(PTRACE_SINGLESTEP, queue->worker[held].thread, NULL, NULL) == 0);
  if (stops(1)) return true;
  interrupt();
  return false;
}

enum outcome {
  woken,      ///< the required outcome
  lost,       ///< no worker took item 4 until one more signal was sent
  dead,       ///< the additional signal did not help either
  blocks,     ///< the other threads cannot go on while worker 0 is held
  has_mutex,  ///< as above, because worker 0 holds the mutex
  over,       ///< worker 0 executes fewer instructions
};

static bool others_come_and_go(void) {
  return take_next(1) && wait_for_next(1) && order(put_item) &&
         comes(&queue->worker[1].taken, 2, queue->worker[1].thread) && wait_for_next(1) && wait_for_next(2) &&
         order(put_item);
}

/// Called if worker 0, while it was stopped, blocked the other threads. Lets worker 0 run, and checks that all items
/// are taken.
static enum outcome finish_freely(void) {
  let_go_on();
  for (int i = 0; i < workers; ++i) flag_add(&queue->worker[i].wanted, 10);
  if (!comes(&queue->done, queue->ordered, queue->producer)) return dead;
  for (int i = 0; i < 3; ++i)
    if (!order(put_item)) return dead;
  if (is_emptied()) return blocks;
  return order(signal_only) && is_emptied() ? lost : dead;
}

static enum outcome play(const struct schedule* schedule, int instructions, char* where, size_t size) {
  struct worker* const slow = &queue->worker[held];
  trace();
  if (schedule->awake) {
    flag_add(&slow->wanted, 1);
    CHECK(stops(5));
    is_held = true;
    const int put = post(put_item);
    while (flag_get(&queue->done) < put) {
      step();
      usleep(20);  // the producer and the other workers run between two steps
    }
  } else {
    CHECK(wait_for_next(held));
    interrupt();
    await_flag(&queue->done, post(put_item));
  }
  for (int i = 0; i < instructions; ++i)
    if (!step() || flag_get(&slow->returns) > 0) return over;
  struct user_regs_struct registers;
  CHECK(ptrace(PTRACE_GETREGS, slow->thread, NULL, &registers) == 0);
  // Symbols are looked up in this process. The traced child is a fork of this process, so its functions have the same
  // addresses.
  Dl_info info = {0};
  void* const address = (void*)(uintptr_t)registers.rip;
  if (dladdr(address, &info) != 0 && info.dli_fname != NULL) {
    const char* const slash = strrchr(info.dli_fname, '/');
    snprintf(where, size, "%s+0x%lx", slash != NULL ? slash + 1 : info.dli_fname,
             (unsigned long)((char*)address - (char*)info.dli_fbase));
  } else {
    snprintf(where, size, "0x%lx", (unsigned long)registers.rip);
  }
  if (!order(try_mutex)) return finish_freely();
  if (queue->result == EBUSY) return has_mutex;
  if (!others_come_and_go() || !is_emptied()) return finish_freely();
  let_go_on();
  if (!comes(&slow->waits, 2, slow->thread)) return dead;
  settle();
  if (!order(put_item)) return dead;
  if (is_emptied()) return woken;
  return order(signal_only) && is_emptied() ? lost : dead;
}

static enum outcome play_in_child(const struct schedule* schedule, int instructions, char* where, size_t size) {
  memset(queue, 0, sizeof *queue);
  queue->signal_inside = schedule->inside;
  queue->trap = schedule->awake;
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    be_a_child();
    produce();
  }
  await_flag(&queue->producer, 1);
  const enum outcome outcome = play(schedule, instructions, where, size);
  let_go_on();
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, NULL, 0) == child);
  return outcome;
}

CASE_FOR(a_signal_wakes_a_waiter, struct schedule, schedule, schedules) {
  queue = shared_page();
  int tally[over + 1] = {0};
  char where[128], first[128] = "";
  int first_instruction = 0;
  for (int n = 0; tally[over] == 0; ++n) {
    const enum outcome outcome = play_in_child(schedule, n, where, sizeof where);
    ++tally[outcome];
    if ((outcome == lost || outcome == dead) && first[0] == '\0') {
      first_instruction = n;
      memcpy(first, where, sizeof first);
    }
    if (outcome == has_mutex) break;  // and holds it until the wait has ended
  }
  if (tally[lost] + tally[dead] > 0)
    fail_case(__FILE__, __LINE__,
              "item 4's signal woke neither of two waiters in %d of %d schedules, first with a waiter held after %d "
              "instructions, at %s; one more signal %s",
              tally[lost] + tally[dead], tally[woken] + tally[lost] + tally[dead] + tally[blocks], first_instruction,
              first, tally[dead] == 0 ? "woke one" : "did not either");
  CHECK(tally[woken] > 20);
}

#else
CASE(a_signal_wakes_a_waiter) {
  skip_case("not implemented for this machine");
}
#endif
