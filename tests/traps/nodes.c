// Traps of queue nodes: a thread has a limited number of them at hand, yet may hold any number of locks; what it took others
// may give back; it may end while it holds some; a signal handler may lock while it is about to take one; and a child
// of a fork has none of the threads that hold them.
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

// -- the time that it takes: compared within the case, the best of some rounds --

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

static double hand_over_hand(pthread_mutex_t* ring, int length) {
  double best = 1e9;
  for (int round = 0; round < 10; ++round) {
    const double begin = seconds();
    CHECK_OK(pthread_mutex_lock(&ring[0]));
    for (int i = 1; i <= 1000; ++i) {
      CHECK_OK(pthread_mutex_lock(&ring[i % length]));
      CHECK_OK(pthread_mutex_unlock(&ring[(i - 1) % length]));
    }
    CHECK_OK(pthread_mutex_unlock(&ring[1000 % length]));
    best = least(best, seconds() - begin);
  }
  return best;
}

CASE(hand_over_hand_while_a_thousand_are_held) {
  enum { held = 1000, length = 50 };
  pthread_mutex_t* others = new_mutexes(held);
  pthread_mutex_t* ring = new_mutexes(length);
  const double alone = hand_over_hand(ring, length);
  lock_all(others, held);
  const double with_others = hand_over_hand(ring, length);
  unlock_all(others, held);
  if (with_others > 5 * alone)
    fail_case(__FILE__, __LINE__, "%.0f ns a step, %.0f with %d held", alone * 1e6, with_others * 1e6, held);
}

static void* lock_and_end(void* mutex) {
  CHECK_OK(pthread_mutex_lock(mutex));
  return NULL;
}

static double end_some(pthread_mutex_t* all, int count) {
  const double begin = seconds();
  for (int i = 0; i < count; ++i) in_new_thread(lock_and_end, &all[i]);
  return seconds() - begin;
}

CASE(threads_that_end_with_a_lock_held) {
  enum { part = 500, parts = 12 };
  pthread_mutex_t* all = new_mutexes(part * parts);
  double first = 1e9, last = 1e9;
  for (int i = 0; i < parts; ++i) {
    const double time = end_some(all + (ptrdiff_t)i * part, part);
    if (i < 3) first = least(first, time);
    if (i >= parts - 3) last = least(last, time);
    if (time > 2) fail_case(__FILE__, __LINE__, "%d threads took %.1f s", part, time);
  }
  if (last > 3 * first)
    fail_case(__FILE__, __LINE__, "%d threads: %.0f ms, after %d others: %.0f ms", part, first * 1e3,
              (parts - 3) * part, last * 1e3);
}

// -- where nodes go --

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

// More rounds than there are nodes.
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

// The node that a mutex is held with, where it lies in the open: 0 elsewhere.
static uint32_t node_of(const pthread_mutex_t* mutex) {
  static const char* const in_first_word[] = {"mcs", "clh", "clh-tls", "mcsg"};
  const char* lock = getenv("LD_PRELOAD") ? getenv("USHER_LOCK") : NULL;
  uint32_t word = 0;
  for (size_t i = 0; lock && i < sizeof in_first_word / sizeof in_first_word[0]; ++i)
    if (strcmp(lock, in_first_word[i]) == 0) memcpy(&word, (const char*)mutex + 24, sizeof word);
  return word;
}

// All are held.
static void check_nodes(pthread_mutex_t* const* all, int count) {
  for (int i = 0; i < count; ++i) {
    CHECK_CODE(pthread_mutex_trylock(all[i]), EBUSY);
    for (int j = 0; j < i; ++j)
      if (node_of(all[i]) != 0 && node_of(all[i]) == node_of(all[j]))
        fail_case(__FILE__, __LINE__, "two mutexes are held with node %u", node_of(all[i]));
  }
}

// Deep enough that the nodes which are held at all these forks together are more than there are.
CASE(generations_that_fork_with_locks_held) {
  enum { deep = 180, many = 6000 };
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

enum { most_handlers = 2000 };
static pthread_mutex_t in_handlers[most_handlers];
static int handlers;

struct handler_stage {
  int ended;
};
static struct handler_stage* handler_stage;

static void lock_in_handler(int number) {
  (void)number;
  if (handlers < most_handlers) CHECK_OK(pthread_mutex_lock(&in_handlers[handlers++]));
  __asm__ __volatile__("int3" ::: "memory");
}

struct interrupted_call {
  const char* name;
  bool unlock;
};
static const struct interrupted_call interrupted_calls[] = {{"lock", false}, {"unlock", true}};

static void call_under_trace(const struct interrupted_call* call) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) skip_case("may not trace its own child");
  signal(SIGUSR1, lock_in_handler);
  CHECK_OK(pthread_mutex_lock(&mutex));
  if (!call->unlock) CHECK_OK(pthread_mutex_unlock(&mutex));
  __asm__ __volatile__("int3" ::: "memory");
  const int code = call->unlock ? pthread_mutex_unlock(&mutex) : pthread_mutex_lock(&mutex);
  flag_set(&handler_stage->ended, 1);
  CHECK_OK(code);
  static pthread_mutex_t* all[most_handlers + 1];
  if (call->unlock) CHECK_OK(pthread_mutex_lock(&mutex));
  for (int i = 0; i < handlers; ++i) all[i] = &in_handlers[i];
  all[handlers] = &mutex;
  CHECK(handlers > 10);
  check_nodes(all, handlers + 1);
  for (int i = 0; i <= handlers; ++i) CHECK_OK(pthread_mutex_unlock(all[i]));
  for (int i = 0; i <= handlers; ++i) CHECK_OK(pthread_mutex_lock(all[i]));
  check_nodes(all, handlers + 1);
}

static unsigned long place_of(pid_t child) {
  return (unsigned long)ptrace(PTRACE_PEEKUSER, child, offsetof(struct user, regs.rip), NULL);
}

static void go_to_stop(pid_t child, bool one_step, long number) {
  int status;
  CHECK(ptrace(one_step ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (void*)number) == 0);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
}

// One comes before each instruction of the call, locks a mutex, and returns while it holds it.
CASE_FOR(handlers_that_return_holding, struct interrupted_call, call, interrupted_calls) {
  handler_stage = shared_page();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    be_a_child();
    call_under_trace(call);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));  // it has said why
  while (!flag_get(&handler_stage->ended)) {
    const unsigned long place = place_of(child);
    go_to_stop(child, false, SIGUSR1);  // to the handler's end
    while (place_of(child) != place) go_to_stop(child, true, 0);
    go_to_stop(child, true, 0);
  }
  CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
  CHECK_CHILD(child, 0);
}

#endif
