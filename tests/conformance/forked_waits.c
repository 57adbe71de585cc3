// Tests conditions and semaphores in forked processes. The waiters of the parent do not exist in the child: a signal or
// post there must reach threads of the child, whatever the inherited counts of waiters are.
#include "kinds.h"
#include "semaphore_calls.h"

#include <spawn.h>
#include <sys/syscall.h>

extern char** environ;
extern pid_t _Fork(void) __attribute__((weak));

// Forks without the handlers that the C library runs in fork().
static pid_t raw_clone(void) {
  return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

struct fork_way {
  const char* name;
  pid_t (*fork)(void);
  bool threads;  ///< the child may start threads
};
static const struct fork_way fork_ways[] = {{"fork", fork, true}, {"_Fork", _Fork, false}, {"clone", raw_clone, false}};

// -- semaphores --

struct place {
  sem_t semaphore;
  int waiting, through, stop;
};

static void* go_through(void* argument) {
  struct place* place = argument;
  const int number = flag_add(&place->waiting, 1);
  CHECK_SUCCESS(wait_long(&semaphore_waits[number % 4], &place->semaphore));
  flag_add(&place->through, 1);
  return NULL;
}

// Uses the semaphore first in this thread alone. Then makes new threads wait, and posts once for each of them.
static void use_semaphore(struct place* place, bool threads) {
  // In every second use the first call is sem_post, otherwise sem_getvalue. Either call must notice that it runs in a
  // child.
  static int uses;
  if (uses++ % 2 == 0)
    for (int i = 0; i < 2; ++i) CHECK_SUCCESS(sem_post(&place->semaphore));
  const int value = value_of(&place->semaphore);
  for (int i = 0; i < value; ++i) CHECK_SUCCESS(sem_trywait(&place->semaphore));
  CHECK_ERROR(sem_trywait(&place->semaphore), EAGAIN);
  const struct timespec past = {0, 0}, soon = later(now(CLOCK_REALTIME), 2);
  CHECK_ERROR(sem_timedwait(&place->semaphore, &past), ETIMEDOUT);
  CHECK_ERROR(sem_timedwait(&place->semaphore, &soon), ETIMEDOUT);
  // No thread waits, so the posts stay for later callers.
  for (int i = 1; i <= 6; ++i) {
    CHECK_SUCCESS(sem_post(&place->semaphore));
    CHECK_NUMBER(value_of(&place->semaphore), i);
  }
  for (int i = 0; i < 6; ++i)
    CHECK_SUCCESS(i % 2 ? sem_trywait(&place->semaphore) : wait_long(&semaphore_waits[i / 2], &place->semaphore));
  CHECK_ERROR(sem_trywait(&place->semaphore), EAGAIN);
  if (!threads) return;
  place->waiting = place->through = 0;
  pthread_t own[3];
  for (int i = 0; i < 3; ++i) own[i] = start_thread(go_through, place);
  CHECK(flag_comes(&place->waiting, 3));
  await_sleepers(3);
  for (int i = 1; i <= 3; ++i) {
    CHECK_SUCCESS(sem_post(&place->semaphore));
    CHECK(flag_comes(&place->through, i));
  }
  for (int i = 0; i < 3; ++i) join_thread(own[i]);
  CHECK_NUMBER(value_of(&place->semaphore), 0);
}

CASE_FOR(semaphore_without_waiters, struct fork_way, way, fork_ways) {
  if (!way->fork) skip_case("not in this C library");
  for (int value = 0; value < 4; ++value) {
    struct place place;
    memset(&place, 0, sizeof place);
    make_semaphore(&place.semaphore, (unsigned)value);
    const pid_t child = way->fork();
    if (child == 0) {
      be_a_child();
      CHECK_NUMBER(value_of(&place.semaphore), value);
      use_semaphore(&place, way->threads);
      _exit(0);
    }
    CHECK_CHILD(child, 0);
    CHECK_NUMBER(value_of(&place.semaphore), value);
    use_semaphore(&place, true);
  }
}

// Each generation forks the next one while threads of its own wait on the semaphore.
static void semaphore_generations(struct place* place, const struct fork_way* way, int generations) {
  const pid_t child = way->fork();
  CHECK(child >= 0);
  if (child != 0) {
    CHECK_CHILD(child, 0);
    return;
  }
  be_a_child();
  use_semaphore(place, way->threads);
  if (generations > 1) {
    pthread_t own = pthread_self();
    place->waiting = place->through = 0;
    if (way->threads) {
      own = start_thread(go_through, place);
      CHECK(flag_comes(&place->waiting, 1));
      await_sleepers(1);
    }
    semaphore_generations(place, way, generations - 1);
    if (way->threads) {
      CHECK_SUCCESS(sem_post(&place->semaphore));
      CHECK(flag_comes(&place->through, 1));
      join_thread(own);
    }
    use_semaphore(place, way->threads);
  }
  CHECK_SUCCESS(sem_destroy(&place->semaphore));
  _exit(0);
}

CASE_FOR(semaphore_with_ghosts, struct fork_way, way, fork_ways) {
  if (!way->fork) skip_case("not in this C library");
  static struct place place;
  for (int round = 0; round < 6; ++round) {
    memset(&place, 0, sizeof place);
    make_semaphore(&place.semaphore, 0);
    const int count = 1 + round % 4;
    pthread_t threads[4];
    for (int i = 0; i < count; ++i) threads[i] = start_thread(go_through, &place);
    CHECK(flag_comes(&place.waiting, count));
    if (round % 3) await_sleepers(count);  // in the other rounds the waiters may be on their way
    semaphore_generations(&place, way, 1 + round % 3);
    for (int i = 1; i <= count; ++i) {
      CHECK_SUCCESS(sem_post(&place.semaphore));
      CHECK(flag_comes(&place.through, i));
    }
    for (int i = 0; i < count; ++i) join_thread(threads[i]);
    use_semaphore(&place, true);
  }
}

// Waits and posts in a loop, so that the fork may come at any point of either call.
static void* wait_and_post(void* argument) {
  struct place* place = argument;
  for (int i = 0; !flag_get(&place->stop); ++i) {
    CHECK_SUCCESS(wait_long(&semaphore_waits[i % 4], &place->semaphore));
    linger(i);
    CHECK_SUCCESS(sem_post(&place->semaphore));
  }
  return NULL;
}

CASE_FOR(semaphore_under_load, struct fork_way, way, fork_ways) {
  if (!way->fork) skip_case("not in this C library");
  static struct place place;
  make_semaphore(&place.semaphore, 2);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = start_thread(wait_and_post, &place);
  for (int round = 0; round < 12; ++round) {
    const pid_t child = way->fork();
    if (child == 0) {
      be_a_child();
      // The child lacks the units that threads of the parent held at the fork.
      const int value = value_of(&place.semaphore);
      CHECK(value >= 0 && value <= 2);
      use_semaphore(&place, way->threads);
      _exit(0);
    }
    CHECK_CHILD(child, 0);
    usleep(200);  // the threads use the semaphore between two forks
  }
  flag_set(&place.stop, 1);
  for (int i = 0; i < 4; ++i) join_thread(threads[i]);
  CHECK_NUMBER(value_of(&place.semaphore), 2);
}

// Fork handlers use the semaphore as a lock: the prepare handler takes it, and the handlers of parent and child post
// it. In the child the only thread posts.
static struct place* around_fork;
static void take_place(void) {
  CHECK_SUCCESS(sem_wait(&around_fork->semaphore));
}
static void leave_place(void) {
  CHECK_SUCCESS(sem_post(&around_fork->semaphore));
}

CASE(semaphore_in_atfork_handlers) {
  static struct place place;
  make_semaphore(&place.semaphore, 1);
  around_fork = &place;
  CHECK_OK(pthread_atfork(take_place, leave_place, leave_place));
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = start_thread(wait_and_post, &place);
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      CHECK_NUMBER(value_of(&place.semaphore), 1);
      use_semaphore(&place, true);
      CHECK_SUCCESS(sem_post(&place.semaphore));
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        be_a_child();
        CHECK_NUMBER(value_of(&place.semaphore), 1);
        use_semaphore(&place, true);
        _exit(0);
      }
      CHECK_CHILD(grandchild, 0);
      _exit(0);
    }
    CHECK_CHILD(child, 0);
  }
  flag_set(&place.stop, 1);
  for (int i = 0; i < 4; ++i) join_thread(threads[i]);
}

// -- conditions --

struct shop {
  pthread_mutex_t mutex;
  pthread_cond_t bell;
  int waiting, tokens, served, way;
};

static void make_shop(struct shop* shop, const struct mutex_kind* kind) {
  memset(shop, 0, sizeof *shop);
  make_mutex(&shop->mutex, kind);
  CHECK_OK(pthread_cond_init(&shop->bell, NULL));
}

static int wait_for_bell(struct shop* shop, int way) {
  const struct timespec realtime = later(now(CLOCK_REALTIME), 60000), monotonic = later(now(CLOCK_MONOTONIC), 60000);
  if (way % 3 == 0) return pthread_cond_wait(&shop->bell, &shop->mutex);
  if (way % 3 == 1) return pthread_cond_timedwait(&shop->bell, &shop->mutex, &realtime);
  return pthread_cond_clockwait(&shop->bell, &shop->mutex, CLOCK_MONOTONIC, &monotonic);
}

static void* be_served(void* argument) {
  struct shop* shop = argument;
  CHECK_OK(pthread_mutex_lock(&shop->mutex));
  const int number = flag_add(&shop->waiting, 1);
  while (shop->tokens == 0) CHECK_OK(wait_for_bell(shop, number));
  --shop->tokens;
  flag_add(&shop->served, 1);
  CHECK_OK(pthread_mutex_unlock(&shop->mutex));
  return NULL;
}

// Called with the mutex free. Threads that exist only in a parent may be queued on the condition.
static void use_shop(struct shop* shop, bool threads, bool by_signals) {
  CHECK_OK(pthread_mutex_lock(&shop->mutex));
  CHECK_OK(by_signals ? pthread_cond_signal(&shop->bell) : pthread_cond_broadcast(&shop->bell));
  const struct timespec soon = later(now(CLOCK_REALTIME), 2);
  int code = 0;
  while (code == 0) code = pthread_cond_timedwait(&shop->bell, &shop->mutex, &soon);
  CHECK_CODE(code, ETIMEDOUT);
  shop->waiting = shop->served = shop->tokens = 0;
  CHECK_OK(pthread_mutex_unlock(&shop->mutex));
  if (!threads) return;
  pthread_t own[4];
  for (int i = 0; i < 4; ++i) own[i] = start_thread(be_served, shop);
  CHECK(flag_comes(&shop->waiting, 4));
  for (int i = 1; i <= 4; ++i) {
    CHECK_OK(pthread_mutex_lock(&shop->mutex));
    ++shop->tokens;
    CHECK_OK(by_signals ? pthread_cond_signal(&shop->bell) : pthread_cond_broadcast(&shop->bell));
    CHECK_OK(pthread_mutex_unlock(&shop->mutex));
    CHECK(flag_comes(&shop->served, i));
  }
  for (int i = 0; i < 4; ++i) join_thread(own[i]);
}

// In a child the C library's pthread_cond_destroy waits for waiters that exist only in the parent. So a program must
// initialise the condition again without destroying it. Under Usher (`ours`) the child may use the condition as it is.
static void condition_generations(struct shop* shop, const struct fork_way* way, int generations, bool ours) {
  // The caller forks with the mutex held, so that no other thread is in its critical section at the fork.
  CHECK_OK(pthread_mutex_lock(&shop->mutex));
  const pid_t child = way->fork();
  CHECK(child >= 0);
  if (child != 0) {
    CHECK_OK(pthread_mutex_unlock(&shop->mutex));
    CHECK_CHILD(child, 0);
    return;
  }
  be_a_child();
  CHECK_OK(pthread_mutex_unlock(&shop->mutex));
  if (!ours) CHECK_OK(pthread_cond_init(&shop->bell, NULL));
  use_shop(shop, way->threads, true);
  if (generations > 1) {
    pthread_t own = pthread_self();
    if (way->threads) {
      own = start_thread(be_served, shop);
      CHECK(flag_comes(&shop->waiting, 5));
    }
    condition_generations(shop, way, generations - 1, ours);
    if (way->threads) {
      CHECK_OK(pthread_mutex_lock(&shop->mutex));
      ++shop->tokens;
      CHECK_OK(pthread_cond_broadcast(&shop->bell));
      CHECK_OK(pthread_mutex_unlock(&shop->mutex));
      CHECK(flag_comes(&shop->served, 5));
      join_thread(own);
    }
    use_shop(shop, way->threads, true);
  }
  if (ours) {
    CHECK_OK(pthread_cond_destroy(&shop->bell));
    CHECK_OK(pthread_cond_init(&shop->bell, NULL));
    use_shop(shop, way->threads, true);
  }
  _exit(0);
}

static void fork_condition(const struct fork_way* way, bool ours) {
  static struct shop shop;
  for (int round = 0; round < 6; ++round) {
    // Only kinds that do not check their owner are tested: the thread of the child has another id than the owner, so
    // the other kinds would refuse its unlock.
    make_shop(&shop, &careless_kinds[round]);
    const int count = 1 + round % 4;
    pthread_t threads[4];
    for (int i = 0; i < count; ++i) threads[i] = start_thread(be_served, &shop);
    CHECK(flag_comes(&shop.waiting, count));
    if (round % 3) await_sleepers(count);
    condition_generations(&shop, way, 1 + round % 3, ours);
    CHECK_OK(pthread_mutex_lock(&shop.mutex));
    shop.tokens = count;
    for (int i = 0; i < count; ++i) CHECK_OK(pthread_cond_signal(&shop.bell));
    CHECK_OK(pthread_mutex_unlock(&shop.mutex));
    CHECK(flag_comes(&shop.served, count));
    for (int i = 0; i < count; ++i) join_thread(threads[i]);
    CHECK_OK(pthread_cond_destroy(&shop.bell));
  }
}

CASE_FOR(condition_made_anew_among_ghosts, struct fork_way, way, fork_ways) {
  if (!way->fork) skip_case("not in this C library");
  fork_condition(way, false);
}

CASE_FOR(condition_with_ghosts, struct fork_way, way, fork_ways) {
  SKIP_ON_THE_C_LIBRARY("pthread_cond_signal");
  if (!way->fork) skip_case("not in this C library");
  fork_condition(way, true);
}

// The fork happens while other threads wait, are woken and time out.
struct market {
  struct shop shop;
  int stop, goods;
};

static void* trade(void* argument) {
  struct market* market = argument;
  for (int i = 0; !flag_get(&market->stop); ++i) {
    CHECK_OK(pthread_mutex_lock(&market->shop.mutex));
    const struct timespec soon = later(now(CLOCK_REALTIME), 1);
    if (market->goods > 0) {
      --market->goods;
    } else if (i % 3 == 0) {
      (void)pthread_cond_timedwait(&market->shop.bell, &market->shop.mutex, &soon);
    }
    if (i % 2) {
      ++market->goods;
      CHECK_OK(i % 8 == 1 ? pthread_cond_broadcast(&market->shop.bell) : pthread_cond_signal(&market->shop.bell));
    }
    CHECK_OK(pthread_mutex_unlock(&market->shop.mutex));
  }
  return NULL;
}

CASE_FOR(condition_under_load, struct fork_way, way, fork_ways) {
  if (!way->fork) skip_case("not in this C library");
  static struct market market;
  make_shop(&market.shop, &all_kinds[0]);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = start_thread(trade, &market);
  for (int round = 0; round < 10; ++round) {
    CHECK_OK(pthread_mutex_lock(&market.shop.mutex));
    const pid_t child = way->fork();
    if (child == 0) {
      be_a_child();
      CHECK_OK(pthread_mutex_unlock(&market.shop.mutex));
      if (answered_by_the_c_library("pthread_cond_wait")) CHECK_OK(pthread_cond_init(&market.shop.bell, NULL));
      use_shop(&market.shop, way->threads, true);
      _exit(0);
    }
    CHECK_OK(pthread_mutex_unlock(&market.shop.mutex));
    CHECK_CHILD(child, 0);
    usleep(200);  // the threads use the condition between two forks
  }
  flag_set(&market.stop, 1);
  for (int i = 0; i < 4; ++i) join_thread(threads[i]);
}

// -- forks by waiters, signallers and handlers --

// While the first thread of the process waits, a second thread forks. The child has no copy of the first thread.
struct everything {
  struct shop shop;
  struct place place;
  int ready;
};

static void child_uses_everything(void* argument) {
  struct everything* all = argument;
  CHECK_OK(pthread_mutex_unlock(&all->shop.mutex));
  if (answered_by_the_c_library("pthread_cond_wait")) CHECK_OK(pthread_cond_init(&all->shop.bell, NULL));
  use_shop(&all->shop, true, true);
  use_semaphore(&all->place, true);
}

static void* fork_with_everything(void* argument) {
  struct everything* all = argument;
  await_flag(&all->ready, 1);
  CHECK_OK(pthread_mutex_lock(&all->shop.mutex));  // this shows that the first thread is in its wait
  await_sleepers(1);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // this thread is the parent here: its end does not end the process
    child_uses_everything(all);
    _exit(0);
  }
  CHECK_OK(pthread_mutex_unlock(&all->shop.mutex));
  CHECK_CHILD(child, 0);
  CHECK_OK(pthread_mutex_lock(&all->shop.mutex));
  all->shop.tokens = 1;
  CHECK_OK(pthread_cond_signal(&all->shop.bell));
  CHECK_OK(pthread_mutex_unlock(&all->shop.mutex));
  CHECK_SUCCESS(sem_post(&all->place.semaphore));
  return NULL;
}

CASE(forked_while_the_first_thread_waits) {
  static struct everything all;
  for (int round = 0; round < 10; ++round) {
    make_shop(&all.shop, &all_kinds[0]);
    memset(&all.place, 0, sizeof all.place);
    make_semaphore(&all.place.semaphore, 0);
    all.ready = 0;
    pthread_t thread = start_thread(fork_with_everything, &all);
    if (round % 2) {
      CHECK_OK(pthread_mutex_lock(&all.shop.mutex));
      flag_set(&all.ready, 1);
      while (all.shop.tokens == 0) CHECK_OK(wait_for_bell(&all.shop, round / 2));
      CHECK_OK(pthread_mutex_unlock(&all.shop.mutex));
    } else {
      flag_set(&all.ready, 1);
      CHECK_SUCCESS(wait_long(&semaphore_waits[round / 2 % 4], &all.place.semaphore));
    }
    join_thread(thread);
  }
}

// A signal handler forks while its thread waits for a semaphore: parent and child continue the same wait.
static sem_t handlers_semaphore;
static pid_t forked_child;
static int fork_handled;
static void fork_in_handler(int number) {
  (void)number;
  const int saved = errno;
  const pid_t child = fork();
  if (child == 0) {
    alarm(4);
    flag_set(&fork_handled, 2);
    if (sem_post(&handlers_semaphore) != 0) _exit(3);
  } else {
    forked_child = child;
    flag_set(&fork_handled, 1);
  }
  errno = saved;
}

struct interrupted {
  const struct semaphore_wait* wait;
  int waiting, thread_id, done;
};

static void* wait_with_forking_handler(void* argument) {
  struct interrupted* scene = argument;
  scene->thread_id = (int)gettid();
  flag_set(&scene->waiting, 1);
  int result;
  errno = 0;
  while ((result = wait_long(scene->wait, &handlers_semaphore)) != 0) CHECK_CODE(errno, EINTR);
  // In the child the handler's post has ended the wait, in the parent another thread's post.
  CHECK_NUMBER(value_of(&handlers_semaphore), 0);
  if (flag_get(&fork_handled) == 2) {
    struct place place;
    memset(&place, 0, sizeof place);
    make_semaphore(&place.semaphore, 0);
    use_semaphore(&place, true);
    memset(&place, 0, sizeof place);
    CHECK_SUCCESS(sem_post(&handlers_semaphore));
    CHECK_SUCCESS(sem_wait(&handlers_semaphore));
    _exit(23);
  }
  flag_set(&scene->done, 1);
  return NULL;
}

static void fork_in_wait(const struct semaphore_wait* wait, int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = fork_in_handler;
  action.sa_flags = flags;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int round = 0; round < 3; ++round) {
    make_semaphore(&handlers_semaphore, 0);
    struct interrupted scene = {.wait = wait};
    flag_set(&fork_handled, 0);
    pthread_t thread = start_thread(wait_with_forking_handler, &scene);
    await_flag(&scene.waiting, 1);
    if (round % 3) await_asleep(scene.thread_id);
    CHECK_OK(pthread_kill(thread, SIGUSR1));
    CHECK(flag_comes(&fork_handled, 1));
    usleep(500);  // a wait that the handler's fork had ended would return within this time
    CHECK_NUMBER(flag_get(&scene.done), 0);
    CHECK_SUCCESS(sem_post(&handlers_semaphore));
    CHECK(flag_comes(&scene.done, 1));
    join_thread(thread);
    CHECK_CHILD(forked_child, 23);
  }
}

CASE_FOR(handler_forks_in_semaphore_wait, struct semaphore_wait, wait, semaphore_waits) {
  fork_in_wait(wait, 0);
}
// With SA_RESTART the kernel continues the interrupted wait, so in the child the code that waits does not learn that a
// fork happened.
CASE_FOR(restarting_handler_forks_in_semaphore_wait, struct semaphore_wait, wait, semaphore_waits) {
  fork_in_wait(wait, SA_RESTART);
}

// A handler forks while its thread waits on a condition. The wait goes on in both processes; in the child it times out,
// and the thread then holds the mutex.
static void fork_in_condition_handler(int number) {
  (void)number;
  const int saved = errno;
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    flag_set(&fork_handled, 2);
  } else {
    forked_child = child;
    flag_set(&fork_handled, 1);
  }
  errno = saved;
}

static void* wait_for_bell_with_forking_handler(void* argument) {
  struct shop* shop = argument;
  CHECK_OK(pthread_mutex_lock(&shop->mutex));
  flag_set(&shop->waiting, (int)gettid());
  for (;;) {
    const struct timespec realtime = later(now(CLOCK_REALTIME), 100), monotonic = later(now(CLOCK_MONOTONIC), 100);
    const int code = shop->way ? pthread_cond_clockwait(&shop->bell, &shop->mutex, CLOCK_MONOTONIC, &monotonic)
                               : pthread_cond_timedwait(&shop->bell, &shop->mutex, &realtime);
    if (code != 0) CHECK_CODE(code, ETIMEDOUT);
    const int who = flag_get(&fork_handled);
    if (who == 2 && code == ETIMEDOUT) break;
    if (who != 1 || shop->tokens == 0) continue;
    CHECK_OK(pthread_mutex_unlock(&shop->mutex));
    return NULL;
  }
  // Only the child gets here.
  CHECK_CODE(elsewhere(thread_trylock, &shop->mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&shop->mutex));
  CHECK_OK(try_elsewhere(&shop->mutex));
  use_shop(shop, true, false);
  _exit(29);
}

CASE(handler_forks_in_condition_wait) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = fork_in_condition_handler;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  for (int round = 0; round < 4; ++round) {
    static struct shop shop;
    make_shop(&shop, &careless_kinds[round]);
    shop.way = round % 2;
    flag_set(&fork_handled, 0);
    pthread_t thread = start_thread(wait_for_bell_with_forking_handler, &shop);
    await_flag(&shop.waiting, 1);
    CHECK_OK(pthread_mutex_lock(&shop.mutex));
    CHECK_OK(pthread_mutex_unlock(&shop.mutex));
    await_asleep(shop.waiting);
    CHECK_OK(pthread_kill(thread, SIGUSR1));
    CHECK(flag_comes(&fork_handled, 1));
    CHECK_OK(pthread_mutex_lock(&shop.mutex));
    shop.tokens = 1;
    CHECK_OK(pthread_cond_signal(&shop.bell));
    CHECK_OK(pthread_mutex_unlock(&shop.mutex));
    join_thread(thread);
    CHECK_CHILD(forked_child, 29);
  }
}

// A signal handler interrupts a wait and forks. In one case the thread has been signalled meanwhile and may already own
// the mutex. In the other case the condition is process-shared and the mutex private.
struct signalled {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  bool shared;
  int waiting, may_fork, in_handler;  // flags
};
static struct signalled* the_signalled;

static void fork_when_told(int number) {
  (void)number;
  const int saved = errno;
  flag_set(&the_signalled->in_handler, 1);
  await_flag(&the_signalled->may_fork, 1);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    flag_set(&fork_handled, 2);
  } else {
    forked_child = child;
    flag_set(&fork_handled, 1);
  }
  errno = saved;
}

static void* wait_until_signalled(void* argument) {
  struct signalled* s = argument;
  CHECK_OK(pthread_mutex_lock(&s->mutex));
  flag_set(&s->waiting, (int)gettid());
  const struct timespec deadline = later(now(CLOCK_REALTIME), s->shared ? 1000 : 60000);
  const int code = pthread_cond_timedwait(&s->condition, &s->mutex, &deadline);
  CHECK(code == 0 || code == ETIMEDOUT);
  CHECK_CODE(elsewhere(thread_trylock, &s->mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&s->mutex));
  CHECK_OK(try_elsewhere(&s->mutex));
  CHECK_OK(pthread_mutex_destroy(&s->mutex));
  if (flag_get(&fork_handled) == 2) _exit(31);
  return NULL;
}

static void fork_when_signalled(bool shared) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = fork_when_told;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  static struct signalled s;
  s.shared = shared;
  the_signalled = &s;
  pthread_condattr_t attribute;
  CHECK_OK(pthread_condattr_init(&attribute));
  if (shared) CHECK_OK(pthread_condattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED));
  CHECK_OK(pthread_cond_init(&s.condition, &attribute));
  pthread_t thread = start_thread(wait_until_signalled, &s);
  await_flag(&s.waiting, 1);
  CHECK_OK(pthread_mutex_lock(&s.mutex));
  await_asleep(s.waiting);
  CHECK_OK(pthread_kill(thread, SIGUSR1));
  CHECK(flag_comes(&s.in_handler, 1));
  if (!shared) CHECK_OK(pthread_cond_signal(&s.condition));
  sleep_ms(5);  // long enough that the unlock may hand the mutex over
  CHECK_OK(pthread_mutex_unlock(&s.mutex));
  flag_set(&s.may_fork, 1);
  join_thread(thread);
  CHECK_CHILD(forked_child, 31);
}

CASE(handler_forks_when_signalled) {
  fork_when_signalled(false);
}
CASE(handler_forks_in_shared_condition_wait) {
  fork_when_signalled(true);
}

// -- other programs --

static char true_program[] = "/bin/true";
static char* true_arguments[] = {true_program, NULL};

CASE(other_programs_among_waiters) {
  static struct everything all;
  make_shop(&all.shop, &all_kinds[0]);
  make_semaphore(&all.place.semaphore, 0);
  pthread_t threads[6];
  for (int i = 0; i < 6; ++i)
    threads[i] = start_thread(i % 2 ? be_served : go_through, i % 2 ? (void*)&all.shop : &all.place);
  CHECK(flag_comes(&all.shop.waiting, 3) && flag_comes(&all.place.waiting, 3));
  for (int round = 0; round < 9; ++round) {
    pid_t child;
    if (round % 3 == 0) {
      child = vfork();
      if (child == 0) {
        execv(true_program, true_arguments);
        _exit(127);
      }
      CHECK(child > 0);
    } else if (round % 3 == 1) {
      CHECK_OK(posix_spawn(&child, true_program, NULL, NULL, true_arguments, environ));
    } else {
      child = fork();
      if (child == 0) {
        execv(true_program, true_arguments);
        _exit(127);
      }
    }
    CHECK_CHILD(child, 0);
    if (round % 3 == 2) {
      const int done = round / 3 + 1;
      CHECK_SUCCESS(sem_post(&all.place.semaphore));
      CHECK_OK(pthread_mutex_lock(&all.shop.mutex));
      ++all.shop.tokens;
      CHECK_OK(pthread_cond_signal(&all.shop.bell));
      CHECK_OK(pthread_mutex_unlock(&all.shop.mutex));
      CHECK(flag_comes(&all.place.through, done) && flag_comes(&all.shop.served, done));
    }
  }
  CHECK_NUMBER(system("exit 0"), 0);
  for (int i = 0; i < 6; ++i) join_thread(threads[i]);
}
