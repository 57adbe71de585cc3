// Traps of queue nodes. A thread has a limited number of nodes in reserve, but may hold any number of locks. Other
// threads may give back nodes that the thread took. A thread may end while it holds nodes. A signal handler may lock
// while the thread takes a node. The child of a fork has nodes in use, but not the threads that took them.
#include "kinds.h"

#include <sys/ptrace.h>
#include <sys/user.h>

static pthread_mutex_t* new_mutexes(int count) {
  pthread_mutex_t* all = malloc((size_t)count * sizeof *all);
  for (int i = 0; i < count; ++i) CHECK_OK(pthread_mutex_init(&all[i], NULL));
  return all;
}

static void lock_all(pthread_mutex_t* all, int count) {
  for (int i = 0; i < count; ++i) CHECK_OK(pthread_mutex_lock(&all[i]));
}
static void unlock_all(pthread_mutex_t* all, int count) {
  for (int i = 0; i < count; ++i) CHECK_OK(pthread_mutex_unlock(&all[i]));
}

// -- costs in time: each case compares two parts of its own run, and takes the best of several rounds --

static double least(double a, double b) {
  return a < b ? a : b;
}

CASE(fifty_thousand_cost_ten_times_what_five_thousand_cost) {
  enum { many = 50000, few = 5000 };
  pthread_mutex_t* all = new_mutexes(many);
  double for_few = 1e9, for_many = 1e9;
  for (int round = 0; round < 3; ++round) {
    double begin = seconds();
    lock_all(all, few);
    for_few = least(for_few, seconds() - begin);
    unlock_all(all, few);
    begin = seconds();
    for (int i = 0; i < many; i += few) {
      lock_all(all + i, few);
      if (seconds() - begin > 2) fail_case(__FILE__, __LINE__, "%d locks took two seconds", i + few);
    }
    for_many = least(for_many, seconds() - begin);
    unlock_all(all, many);
  }
  if (for_many > 40 * for_few + 0.005)
    fail_case(__FILE__, __LINE__, "%d: %.2f ms, %d: %.2f ms", few, for_few * 1e3, many, for_many * 1e3);
  free(all);
}

static double two_at_a_time(pthread_mutex_t* ring, int length) {
  double best = 1e9;
  for (int round = 0; round < 10; ++round) {
    const double begin = seconds();
    for (int i = 0; i < 1000; ++i) {
      CHECK_OK(pthread_mutex_lock(&ring[i % length]));
      CHECK_OK(pthread_mutex_lock(&ring[(i + 1) % length]));
      CHECK_OK(pthread_mutex_unlock(&ring[i % length]));
      CHECK_OK(pthread_mutex_unlock(&ring[(i + 1) % length]));
    }
    best = least(best, seconds() - begin);
  }
  return best;
}

CASE(two_at_a_time_while_a_thousand_are_held) {
  enum { held = 1000, length = 50 };
  pthread_mutex_t* others = new_mutexes(held);
  pthread_mutex_t* ring = new_mutexes(length);
  double alone = 0, with_others = 0;
  // Other programs may slow down some of the measurements, but not all.
  for (int attempt = 0; attempt < 20 && with_others >= 5 * alone; ++attempt) {
    alone = two_at_a_time(ring, length);
    lock_all(others, held);
    with_others = two_at_a_time(ring, length);
    unlock_all(others, held);
  }
  if (with_others >= 5 * alone)
    fail_case(__FILE__, __LINE__, "%.0f ns, %.0f with %d held", alone * 1e6, with_others * 1e6, held);
}

static void* lock_and_end(void* mutex) {
  CHECK_OK(pthread_mutex_lock(mutex));
  return NULL;
}

// Measures CPU time, since the elapsed time of thread creation depends on other load.
static double end_some(pthread_mutex_t* all, int count) {
  const struct timespec begin = now(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < count; ++i) in_new_thread(lock_and_end, &all[i]);
  const struct timespec end = now(CLOCK_PROCESS_CPUTIME_ID);
  return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

CASE(threads_that_end_with_a_lock_held) {
  enum { part = 500, parts = 20 };
  pthread_mutex_t* all = new_mutexes(part * parts);
  double first = 1e9, last = 1e9;
  for (int i = 0; i < parts; ++i) {
    const double time = end_some(all + (ptrdiff_t)i * part, part);
    if (i < 4) first = least(first, time);
    if (i >= parts - 4) last = least(last, time);
  }
  if (last > 4 * first)
    fail_case(__FILE__, __LINE__, "%d threads: %.0f ms, after %d others: %.0f ms", part, first * 1e3,
              (parts - 4) * part, last * 1e3);
}

// -- nodes that another thread gives back than the one that took them --

struct belt {
  pthread_mutex_t* mutexes;
  int locked, unlocked;
};
enum { belt_length = 500, belt_rounds = 2400 };

static void* unlock_on_belt(void* argument) {
  struct belt* belt = argument;
  for (int round = 1; round <= belt_rounds; ++round) {
    while (flag_get(&belt->locked) < round) sched_yield();
    unlock_all(belt->mutexes, belt_length);
    flag_set(&belt->unlocked, round);
  }
  return NULL;
}

// One thread locks and another unlocks. There are more rounds than nodes, so this works only if nodes are given back.
CASE(locked_here_unlocked_there) {
  struct belt belt = {.mutexes = new_mutexes(belt_length)};
  const pthread_t thread = start_thread(unlock_on_belt, &belt);
  for (int round = 1; round <= belt_rounds; ++round) {
    lock_all(belt.mutexes, belt_length);
    flag_set(&belt.locked, round);
    while (flag_get(&belt.unlocked) < round) sched_yield();
  }
  join_thread(thread);
}

// Returns the number of the node with which a mutex is held, for locks that store it in their first word; otherwise 0.
static uint32_t node_of(const pthread_mutex_t* mutex) {
  static const char* const in_first_word[] = {"mcs", "clh", "clh-tls", "mcsg"};
  const char* lock = getenv("LD_PRELOAD") ? getenv("USHER_LOCK") : NULL;
  uint32_t word = 0;
  for (size_t i = 0; lock && i < sizeof in_first_word / sizeof in_first_word[0]; ++i)
    if (strcmp(lock, in_first_word[i]) == 0) memcpy(&word, (const char*)mutex + 24, sizeof word);
  return word;
}

// Checks that all mutexes are held, each with a node of its own.
static void check_nodes(pthread_mutex_t* const* all, int count) {
  for (int i = 0; i < count; ++i) {
    CHECK_CODE(pthread_mutex_trylock(all[i]), EBUSY);
    for (int j = 0; j < i; ++j)
      if (node_of(all[i]) != 0 && node_of(all[i]) == node_of(all[j]))
        fail_case(__FILE__, __LINE__, "two mutexes are held with node %u", node_of(all[i]));
  }
}

// A process forks while it holds locks, its child does the same, and so on. All generations together hold more nodes
// than one process has.
CASE(generations_that_fork_with_locks_held) {
  enum { deep = 56, many = 20000 };
  pthread_mutex_t* all = new_mutexes(many);
  pthread_mutex_t* of_others = new_mutexes(2);
  for (int generation = 0; generation < deep; ++generation) {
    in_new_thread(lock_and_end, &of_others[0]);
    lock_all(all, many);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) {
      CHECK_CHILD(child, 0);
      _exit(0);
    }
    be_a_child();
    pthread_mutex_t* held[100];
    for (int i = 0; i < 100; ++i) {
      held[i] = &all[i];
      if (i >= 50) CHECK_OK(pthread_mutex_unlock(held[i]));
      if (i >= 50) CHECK_OK(pthread_mutex_lock(held[i]));
    }
    for (int i = 50; i < 100; i += 7) CHECK_OK(pthread_mutex_unlock(held[i]));
    for (int i = 50; i < 100; i += 7) CHECK_OK(pthread_mutex_lock(held[i]));
    check_nodes(held + 50, 50);
    CHECK_CODE(pthread_mutex_trylock(&of_others[0]), EBUSY);
    unlock_all(all, many);
    CHECK_OK(pthread_mutex_init(&of_others[0], NULL));
  }
}

// -- handlers --

#if defined(__x86_64__)

static pthread_mutex_t in_handler = PTHREAD_MUTEX_INITIALIZER;
static int handlers;

struct handler_stage {
  int ended, finished;
};
static struct handler_stage* handler_stage;

static void lock_in_handler(int number) {
  (void)number;
  CHECK_OK(pthread_mutex_lock(&in_handler));
  ++handlers;
}

struct interrupted_call {
  const char* name;
  bool unlock;
};
static const struct interrupted_call interrupted_calls[] = {{"lock", false}, {"unlock", true}};

static void call_under_trace(const struct interrupted_call* call) {
  pthread_mutex_t* some = new_mutexes(4);
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) skip_case("may not trace its own child");
  signal(SIGUSR1, lock_in_handler);
  lock_all(some, 4);
  unlock_all(some, 4);
  while (!flag_get(&handler_stage->finished)) {
    handlers = 0;
    if (call->unlock) CHECK_OK(pthread_mutex_lock(&some[0]));
    flag_set(&handler_stage->ended, 0);
    __asm__ __volatile__("int3" ::: "memory");
    const int code = call->unlock ? pthread_mutex_unlock(&some[0]) : pthread_mutex_lock(&some[0]);
    flag_set(&handler_stage->ended, 1);
    CHECK_OK(code);
    if (call->unlock) CHECK_OK(pthread_mutex_lock(&some[0]));
    lock_all(some + 1, 3);
    pthread_mutex_t* const all[] = {&some[0], &some[1], &some[2], &some[3], &in_handler};
    check_nodes(all, 4 + handlers);
    unlock_all(some, 4);
    if (handlers > 0) CHECK_OK(pthread_mutex_unlock(&in_handler));
  }
}

enum { instruction_pointer = offsetof(struct user, regs.rip) };

static long place_of(pid_t child) {
  return ptrace(PTRACE_PEEKUSER, child, (void*)instruction_pointer, NULL);
}

// Returns false if the child has ended.
static bool go_to_trap(pid_t child, bool one_step, long number) {
  int status;
  CHECK(ptrace(one_step ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (void*)number) == 0);
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) _exit(WEXITSTATUS(status));  // the child has reported the reason
  CHECK(WIFEXITED(status) || (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP));
  return WIFSTOPPED(status);
}

// The handler runs once before each instruction of the call. An instruction that a loop repeats is tested once.
CASE_FOR(handler_that_returns_holding, struct interrupted_call, call, interrupted_calls) {
  enum { most_places = 2000 };
  static long places[most_places];
  handler_stage = shared_page();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    be_a_child();
    call_under_trace(call);
    _exit(0);
  }
  int status, count = 0, hit = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));  // the child has reported the reason
  // The first pass steps through the call to find the addresses on its path. Then the call is repeated for each address
  // with a breakpoint at it.
  while (!flag_get(&handler_stage->ended)) {
    const long place = place_of(child);
    int i = 0;
    while (i < count && places[i] != place) ++i;
    CHECK(i < most_places);
    places[i] = place;
    if (i == count) ++count;
    CHECK(go_to_trap(child, true, 0));
  }
  CHECK(go_to_trap(child, false, 0));
  for (int i = 0; i < count; ++i) {
    void* const place = (void*)places[i];
    const long code = ptrace(PTRACE_PEEKTEXT, child, place, NULL);
    CHECK(ptrace(PTRACE_POKETEXT, child, place, (void*)((code & ~0xffL) | 0xcc)) == 0);
    CHECK(go_to_trap(child, false, 0));
    CHECK(ptrace(PTRACE_POKETEXT, child, place, (void*)code) == 0);
    // the call took another path; the child has stopped before the next call
    if (place_of(child) != places[i] + 1) continue;
    CHECK(ptrace(PTRACE_POKEUSER, child, (void*)instruction_pointer, place) == 0);
    CHECK(go_to_trap(child, false, SIGUSR1));
    ++hit;
  }
  CHECK(hit > 20 && hit > count * 9 / 10);
  flag_set(&handler_stage->finished, 1);
  CHECK(!go_to_trap(child, false, 0));
}

#endif
