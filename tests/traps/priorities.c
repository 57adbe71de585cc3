// The order of sleeping waiters with real-time priorities. By POSIX, sem_post unblocks the waiter with the highest
// priority; if several waiters have this priority, the one that has waited longest. For mutexes and condition variables
// the scheduling policy decides.
//
// All threads share one CPU, so that no running thread barges in. Where the machine permits no real-time priorities,
// the cases `…/nice` test the order with USHER_FAKE_PRIORITIES=nice, under which the priority of a thread is 19 minus
// its nice value.
#include "cases.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { waiters = 8, ordinary = 0, above_all = 19 };

static const int priorities[waiters] = {5, 12, ordinary, 8, 12, 5, ordinary, 8};
static const int in_order[waiters] = {1, 4, 3, 7, 0, 5, 2, 6};

struct policy {
  const char* name;
  int number;  ///< nice: SCHED_OTHER
};
static const struct policy policies[] = {{"fifo", SCHED_FIFO}, {"rr", SCHED_RR}, {"nice", SCHED_OTHER}};

static struct scene {
  const struct policy* policy;
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  sem_t semaphore;
  int order[waiters], served;
  int thread_ids[waiters];
} scene;

static bool set_priority(int priority) {
  if (scene.policy->number == SCHED_OTHER) return setpriority(PRIO_PROCESS, 0, 19 - priority) == 0;
  // New threads inherit their creator's policy, so an ordinary thread must set its own.
  const int policy = priority != ordinary ? scene.policy->number : SCHED_OTHER;
  return sched_setscheduler(0, policy, &(struct sched_param){priority}) == 0;
}

static void served(int me) {
  scene.order[scene.served] = me;
  flag_add(&scene.served, 1);
}

static void* wait_for_semaphore(void* number) {
  const int me = (int)(intptr_t)number;
  CHECK(set_priority(priorities[me]));
  flag_set(&scene.thread_ids[me], (int)gettid());
  CHECK_SUCCESS(sem_wait(&scene.semaphore));
  served(me);
  return NULL;
}

static void* wait_for_condition(void* number) {
  const int me = (int)(intptr_t)number;
  CHECK(set_priority(priorities[me]));
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  flag_set(&scene.thread_ids[me], (int)gettid());
  CHECK_OK(pthread_cond_wait(&scene.condition, &scene.mutex));
  served(me);
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  return NULL;
}

static void* wait_for_mutex(void* number) {
  const int me = (int)(intptr_t)number;
  CHECK(set_priority(priorities[me]));
  flag_set(&scene.thread_ids[me], (int)gettid());
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  served(me);
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  return NULL;
}

// Reads the beginning of a thread's file in /proc/self/task. Returns null if there is no such file.
static const char* read_of(int thread_id, const char* file, char* line, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/%s", thread_id, file);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  const ssize_t length = read(fd, line, size - 1);
  close(fd);
  if (length <= 0) return NULL;
  line[length] = 0;
  return line;
}

// Waits until the thread sleeps in a futex call. If the kernel does not show the call, any sleep is accepted.
static void await_futex(int thread_id) {
  char line[512];
  for (const double limit = seconds() + 5;; usleep(300)) {
    const char* state = read_of(thread_id, "stat", line, sizeof line);
    state = state ? strrchr(state, ')') : NULL;
    if (state && state[2] == 'S') {
      const char* call = read_of(thread_id, "syscall", line, sizeof line);
      if (!call || atoi(call) == SYS_futex) return;
    }
    if (seconds() > limit) fail_case(__FILE__, __LINE__, "thread %d does not fall asleep", thread_id);
  }
}

/// Starts the waiters one after the other; each sleeps before the next one starts.
static void assemble(const struct policy* policy, thread_body body, pthread_t* threads) {
  scene.policy = policy;
  const bool fakes = getenv("USHER_FAKE_PRIORITIES") != NULL;
  if (fakes != (policy->number == SCHED_OTHER)) skip_case("priorities are %s here", fakes ? "faked" : "real");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  if (!set_priority(above_all)) skip_case("no real-time priority is available: %s", strerror(errno));
  for (int i = 0; i < waiters; ++i) {
    threads[i] = start_thread(body, (void*)(intptr_t)i);
    await_flag(&scene.thread_ids[i], 1);
    await_futex(scene.thread_ids[i]);
  }
}

static void check_order(pthread_t* threads) {
  for (int i = 0; i < waiters; ++i) join_thread(threads[i]);
  for (int i = 0; i < waiters; ++i) {
    note("served as number %d: the thread that arrived as number %d, of priority %d", i + 1, scene.order[i] + 1,
         priorities[scene.order[i]]);
    CHECK_NUMBER(priorities[scene.order[i]], priorities[in_order[i]]);
    if (priorities[in_order[i]] != ordinary) CHECK_NUMBER(scene.order[i], in_order[i]);
  }
}

CASE_FOR(semaphore, struct policy, policy, policies) {
  pthread_t threads[waiters];
  CHECK_SUCCESS(sem_init(&scene.semaphore, 0, 0));
  assemble(policy, wait_for_semaphore, threads);
  for (int i = 0; i < waiters; ++i) {
    CHECK_SUCCESS(sem_post(&scene.semaphore));
    CHECK(flag_comes(&scene.served, i + 1));
  }
  check_order(threads);
}

static void make_condition(void) {
  CHECK_OK(pthread_mutex_init(&scene.mutex, NULL));
  CHECK_OK(pthread_cond_init(&scene.condition, NULL));
}

CASE_FOR(signal_held, struct policy, policy, policies) {
  pthread_t threads[waiters];
  make_condition();
  assemble(policy, wait_for_condition, threads);
  for (int i = 0; i < waiters; ++i) {
    CHECK_OK(pthread_mutex_lock(&scene.mutex));
    CHECK_OK(pthread_cond_signal(&scene.condition));
    CHECK_OK(pthread_mutex_unlock(&scene.mutex));
    CHECK(flag_comes(&scene.served, i + 1));
  }
  check_order(threads);
}

CASE_FOR(signal_free, struct policy, policy, policies) {
  pthread_t threads[waiters];
  make_condition();
  assemble(policy, wait_for_condition, threads);
  for (int i = 0; i < waiters; ++i) {
    CHECK_OK(pthread_cond_signal(&scene.condition));
    CHECK(flag_comes(&scene.served, i + 1));
  }
  check_order(threads);
}

CASE_FOR(broadcast, struct policy, policy, policies) {
  pthread_t threads[waiters];
  make_condition();
  assemble(policy, wait_for_condition, threads);
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  CHECK_OK(pthread_cond_broadcast(&scene.condition));
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  check_order(threads);
}

// This case runs only for locks that guarantee the order.
CASE_FOR(mutex, struct policy, policy, policies) {
  pthread_t threads[waiters];
  CHECK_OK(pthread_mutex_init(&scene.mutex, NULL));
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  assemble(policy, wait_for_mutex, threads);
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  check_order(threads);
}
