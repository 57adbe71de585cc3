// Tests mutexes with several threads: exclusion, time-outs under load, unlocks by another thread, threads that end,
// memory that is freed.
//
// When there are more threads than CPUs, a FIFO lock that hands over directly needs a context switch for each contended
// acquisition. A context switch takes tens of microseconds. No case therefore makes more than a few thousand
// acquisitions.
#include "kinds.h"

#include <sys/syscall.h>

// Plain variables that the mutex protects. Their values show whether two threads were in the critical section at once.
struct guarded {
  pthread_mutex_t mutex;
  int inside;
  long count;
  long mirror[4];
};

static void critical_section(struct guarded* guarded) {
  CHECK(__atomic_exchange_n(&guarded->inside, 1, __ATOMIC_RELAXED) == 0);
  const long value = guarded->count;
  for (int i = 0; i < 4; ++i) CHECK_NUMBER(guarded->mirror[i], value);
  linger(value);
  for (int i = 0; i < 4; ++i) guarded->mirror[i] = value + 1;
  guarded->count = value + 1;
  CHECK(__atomic_exchange_n(&guarded->inside, 0, __ATOMIC_RELAXED) == 1);
}

struct worker {
  struct guarded* guarded;
  int rounds;
  bool recursive;
  int number;
  int* stop;
  long done, late;
};

// -- exclusion --

static void* lock_often(void* argument) {
  struct worker* worker = argument;
  for (int i = 0; i < worker->rounds; ++i) {
    CHECK_OK(pthread_mutex_lock(&worker->guarded->mutex));
    if (worker->recursive) CHECK_OK(pthread_mutex_lock(&worker->guarded->mutex));
    critical_section(worker->guarded);
    if (worker->recursive) CHECK_OK(pthread_mutex_unlock(&worker->guarded->mutex));
    CHECK_OK(pthread_mutex_unlock(&worker->guarded->mutex));
    if (i % 16 == 0) compute(200);
  }
  return NULL;
}

static void fill_workers(struct worker* workers, int count, struct guarded* guarded, int rounds) {
  memset(workers, 0, (size_t)count * sizeof *workers);
  for (int i = 0; i < count; ++i) {
    workers[i].guarded = guarded;
    workers[i].rounds = rounds;
    workers[i].number = i;
  }
}

static void exclude(const struct mutex_kind* kind, int threads, int rounds, thread_body body) {
  static struct guarded guarded;
  static struct worker workers[64];
  make_mutex(&guarded.mutex, kind);
  fill_workers(workers, threads, &guarded, rounds);
  for (int i = 0; i < threads; ++i) workers[i].recursive = kind->recursive;
  run_threads(threads, body, workers, sizeof *workers);
  CHECK_NUMBER(guarded.count, (long)threads * rounds);
  CHECK_OK(try_elsewhere(&guarded.mutex));
  CHECK_OK(pthread_mutex_destroy(&guarded.mutex));
}

CASE_FOR(exclusion_two_threads, struct mutex_kind, kind, main_kinds) {
  exclude(kind, 2, 2500, lock_often);
}
CASE_FOR(exclusion_four_threads, struct mutex_kind, kind, all_kinds) {
  exclude(kind, 4, 600, lock_often);
}
CASE_FOR(exclusion_eight_threads, struct mutex_kind, kind, main_kinds) {
  exclude(kind, 8, 500, lock_often);
}
CASE_FOR(exclusion_48_threads, struct mutex_kind, kind, main_kinds) {
  exclude(kind, 48, 60, lock_often);
}

static void* try_often(void* argument) {
  struct worker* worker = argument;
  for (int i = 0; i < worker->rounds; ++i) {
    int code;
    while ((code = pthread_mutex_trylock(&worker->guarded->mutex)) != 0) {
      CHECK_CODE(code, EBUSY);
      sched_yield();
    }
    critical_section(worker->guarded);
    CHECK_OK(pthread_mutex_unlock(&worker->guarded->mutex));
  }
  return NULL;
}

CASE_FOR(exclusion_by_trylock, struct mutex_kind, kind, main_kinds) {
  exclude(kind, 3, 1000, try_often);
}

// Acquires the mutex by each of the calls in turn. The deadlines are so near that many calls time out.
static void* every_way(void* argument) {
  struct worker* worker = argument;
  for (int i = 0; i < worker->rounds; ++i) {
    pthread_mutex_t* mutex = &worker->guarded->mutex;
    int way = (i + worker->number) % 4;
    for (;;) {
      int code;
      if (way == 0) {
        code = pthread_mutex_lock(mutex);
        CHECK_OK(code);
      } else if (way == 1) {
        code = pthread_mutex_trylock(mutex);
        if (code != 0) CHECK_CODE(code, EBUSY);
      } else {
        const clockid_t clock = way == 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        const struct timespec deadline = later(now(clock), 1);
        code = way == 2 ? pthread_mutex_timedlock(mutex, &deadline) : pthread_mutex_clocklock(mutex, clock, &deadline);
        if (code != 0) {
          CHECK_CODE(code, ETIMEDOUT);
          CHECK(!before(now(clock), deadline));
        }
      }
      if (code == 0) break;
      ++worker->late;
      way = (way + 1) % 4;
    }
    critical_section(worker->guarded);
    // Some sections are so long that the deadlines of waiting threads pass.
    if (i % 50 == 0) sleep_ms(2);
    CHECK_OK(pthread_mutex_unlock(mutex));
  }
  return NULL;
}

CASE_FOR(exclusion_by_every_way, struct mutex_kind, kind, main_kinds) {
  exclude(kind, 6, 150, every_way);
}

// Half of the threads wait for at most a millisecond, the others without a deadline.
static void* impatient(void* argument) {
  struct worker* worker = argument;
  for (int i = 0; i < worker->rounds; ++i) {
    int code;
    do {
      const struct timespec deadline = later(now(CLOCK_REALTIME), 1);
      code = pthread_mutex_timedlock(&worker->guarded->mutex, &deadline);
      if (code != 0) CHECK_CODE(code, ETIMEDOUT);
    } while (code != 0);
    critical_section(worker->guarded);
    CHECK_OK(pthread_mutex_unlock(&worker->guarded->mutex));
  }
  return NULL;
}

static void* patient_or_not(void* argument) {
  struct worker* worker = argument;
  return worker->number % 2 ? impatient(argument) : lock_often(argument);
}

CASE_FOR(exclusion_half_impatient, struct mutex_kind, kind, main_kinds) {
  exclude(kind, 8, 120, patient_or_not);
}

CASE(exclusion_on_one_cpu) {
  // All threads share one CPU: a waiter must let the owner run.
  cpu_set_t allowed, one;
  CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  if (sched_setaffinity(0, sizeof one, &one) != 0) skip_case("may not choose its CPUs");
  exclude(&all_kinds[0], 6, 200, lock_often);
}

static void* lock_some(void* argument) {
  struct worker* worker = argument;
  unsigned seed = (unsigned)worker->number + 1;
  for (int i = 0; i < worker->rounds; ++i) {
    seed = seed * 1664525u + 1013904223u;
    struct guarded* one = &worker->guarded[(seed >> 16) % 50];
    CHECK_OK(pthread_mutex_lock(&one->mutex));
    critical_section(one);
    CHECK_OK(pthread_mutex_unlock(&one->mutex));
  }
  return NULL;
}

CASE(exclusion_on_fifty_mutexes) {
  static struct guarded guarded[50];
  static struct worker workers[6];
  for (int i = 0; i < 50; ++i) make_mutex(&guarded[i].mutex, &all_kinds[i % 11]);
  fill_workers(workers, 6, guarded, 1500);
  run_threads(6, lock_some, workers, sizeof *workers);
  long sum = 0;
  for (int i = 0; i < 50; ++i) sum += guarded[i].count;
  CHECK_NUMBER(sum, 6 * 1500);
}

// -- waiting and waking --

static void* lock_once(void* argument) {
  struct worker* worker = argument;
  CHECK_OK(pthread_mutex_lock(&worker->guarded->mutex));
  critical_section(worker->guarded);
  CHECK_OK(pthread_mutex_unlock(&worker->guarded->mutex));
  return NULL;
}

// A queue builds up while the owner sleeps. After its unlock all queued threads must get the mutex, one after the
// other.
CASE_FOR(nobody_forgotten, struct mutex_kind, kind, main_kinds) {
  static struct guarded guarded;
  static struct worker workers[10];
  make_mutex(&guarded.mutex, kind);
  fill_workers(workers, 10, &guarded, 1);
  for (int round = 1; round <= 10; ++round) {
    pthread_t threads[10];
    CHECK_OK(pthread_mutex_lock(&guarded.mutex));
    for (int i = 0; i < 10; ++i) threads[i] = start_thread(lock_once, &workers[i]);
    if (round % 3 == 0)
      sleep_ms(5);  // a lock may hand over to a thread that has waited for 4 ms
    else
      await_sleepers(10);
    CHECK_NUMBER(guarded.count, (round - 1) * 10);
    CHECK_OK(pthread_mutex_unlock(&guarded.mutex));
    for (int i = 0; i < 10; ++i) join_thread(threads[i]);
    CHECK_NUMBER(guarded.count, round * 10);
  }
}

static void* hammer(void* argument) {
  struct worker* worker = argument;
  while (!flag_get(worker->stop)) {
    CHECK_OK(pthread_mutex_lock(&worker->guarded->mutex));
    critical_section(worker->guarded);
    CHECK_OK(pthread_mutex_unlock(&worker->guarded->mutex));
    ++worker->done;
  }
  return NULL;
}

// Eight threads use the mutex all the time, so that a waiter may never find it free. A timed call with a deadline of a
// second must nevertheless succeed.
CASE_FOR(timed_lock_gets_through, struct timed_call, timed, timed_calls) {
  static struct guarded guarded;
  static struct worker workers[8];
  static int stop;
  make_mutex(&guarded.mutex, &all_kinds[0]);
  fill_workers(workers, 8, &guarded, 0);
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) {
    workers[i].stop = &stop;
    threads[i] = start_thread(hammer, &workers[i]);
  }
  for (int i = 0; i < 3; ++i) {
    sleep_ms(10);  // between the timed calls the eight threads have the mutex to themselves
    const struct timespec deadline = later(now(timed->clock), 1000);
    CHECK_OK(timed->call(&guarded.mutex, &deadline));
    critical_section(&guarded);
    CHECK_OK(pthread_mutex_unlock(&guarded.mutex));
  }
  flag_set(&stop, 1);
  long done = 3;
  for (int i = 0; i < 8; ++i) {
    join_thread(threads[i]);
    done += workers[i].done;
  }
  CHECK_NUMBER(guarded.count, done);
}

static void* time_out(void* argument) {
  const struct timespec deadline = later(now(CLOCK_MONOTONIC), 5);
  return (void*)(intptr_t)pthread_mutex_clocklock(argument, CLOCK_MONOTONIC, &deadline);
}

// Every third waiter times out in the queue. The waiters before and behind it must still acquire the mutex.
CASE_FOR(given_up_in_the_queue, struct mutex_kind, kind, main_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 5; ++round) {
    pthread_t threads[12];
    CHECK_OK(pthread_mutex_lock(&mutex));
    for (int i = 0; i < 12; ++i) threads[i] = start_thread(i % 3 == 1 ? time_out : thread_lock_unlock, &mutex);
    for (int i = 1; i < 12; i += 3) CHECK_CODE((int)(intptr_t)join_thread(threads[i]), ETIMEDOUT);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    for (int i = 0; i < 12; ++i)
      if (i % 3 != 1) CHECK_OK((int)(intptr_t)join_thread(threads[i]));
    CHECK_OK(try_elsewhere(&mutex));
  }
}

// The mutex is released at about the time of the deadline. The call may succeed or time out; the thread holds the mutex
// only if the call succeeded.
static void* just_in_time(void* argument) {
  const struct timespec deadline = later(now(CLOCK_MONOTONIC), 2);
  const int code = pthread_mutex_clocklock(argument, CLOCK_MONOTONIC, &deadline);
  if (code == 0) CHECK_OK(pthread_mutex_unlock(argument));
  return (void*)(intptr_t)code;
}

CASE(released_at_the_deadline) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int round = 0; round < 100; ++round) {
    CHECK_OK(pthread_mutex_lock(&mutex));
    pthread_t first = start_thread(just_in_time, &mutex), second = start_thread(just_in_time, &mutex);
    // Over the rounds the unlock moves from 0.5 ms before the deadlines to 0.5 ms after them.
    usleep((useconds_t)(1500 + round * 10));
    CHECK_OK(pthread_mutex_unlock(&mutex));
    const int a = (int)(intptr_t)join_thread(first), b = (int)(intptr_t)join_thread(second);
    CHECK((a == 0 || a == ETIMEDOUT) && (b == 0 || b == ETIMEDOUT));
    CHECK_OK(try_elsewhere(&mutex));
  }
}

// -- lists and tables --

enum { list_length = 40 };

struct list_entry {
  pthread_mutex_t mutex;
  long visits;
};

struct walker {
  struct list_entry* list;
  int rounds, number;
};

// Each thread locks the next mutex before it releases the previous one, so that no thread overtakes another.
static void* walk(void* argument) {
  struct walker* walker = argument;
  for (int round = 0; round < walker->rounds; ++round) {
    CHECK_OK(pthread_mutex_lock(&walker->list[0].mutex));
    for (int i = 0; i < list_length; ++i) {
      linger(++walker->list[i].visits);
      if (i + 1 < list_length) CHECK_OK(pthread_mutex_lock(&walker->list[i + 1].mutex));
      CHECK_OK(pthread_mutex_unlock(&walker->list[i].mutex));
    }
  }
  return NULL;
}

CASE_FOR(hand_over_hand, struct mutex_kind, kind, main_kinds) {
  static struct list_entry list[list_length];
  struct walker walkers[4];
  for (int i = 0; i < list_length; ++i) make_mutex(&list[i].mutex, kind);
  for (int i = 0; i < 4; ++i) walkers[i] = (struct walker){list, 25, i};
  run_threads(4, walk, walkers, sizeof *walkers);
  for (int i = 0; i < list_length; ++i) CHECK_NUMBER(list[i].visits, 4 * 25);
}

struct table {
  pthread_mutex_t forks[5];
  int taken[5];
};

struct philosopher {
  struct table* table;
  int seat, meals;
};

static void* dine(void* argument) {
  struct philosopher* me = argument;
  const int left = me->seat, right = (me->seat + 1) % 5;
  for (int meal = 0; meal < me->meals; ++meal) {
    for (;;) {
      CHECK_OK(pthread_mutex_lock(&me->table->forks[left]));
      if (pthread_mutex_trylock(&me->table->forks[right]) == 0) break;
      CHECK_OK(pthread_mutex_unlock(&me->table->forks[left]));
      usleep(100);  // the neighbour can take its second fork meanwhile
    }
    CHECK_NUMBER(++me->table->taken[left], 1);
    CHECK_NUMBER(++me->table->taken[right], 1);
    compute(20);
    --me->table->taken[left];
    --me->table->taken[right];
    CHECK_OK(pthread_mutex_unlock(&me->table->forks[meal % 2 ? left : right]));
    CHECK_OK(pthread_mutex_unlock(&me->table->forks[meal % 2 ? right : left]));
  }
  return NULL;
}

CASE(dining_philosophers) {
  static struct table table;
  struct philosopher philosophers[5];
  for (int i = 0; i < 5; ++i) {
    make_mutex(&table.forks[i], &all_kinds[i]);
    philosophers[i] = (struct philosopher){&table, i, 100};
  }
  run_threads(5, dine, philosophers, sizeof *philosophers);
}

// -- locked by one thread, unlocked by another --

struct batons {
  pthread_mutex_t to[2];
  long rounds, count;
};

// Two normal mutexes serve as semaphores between two threads: each thread unlocks the mutex that the other thread has
// locked.
static void* pass_baton(void* argument) {
  struct batons* batons = argument;
  for (long i = 0; i < batons->rounds; ++i) {
    CHECK_OK(pthread_mutex_lock(&batons->to[1]));
    CHECK_NUMBER(batons->count, 2 * i + 1);
    ++batons->count;
    CHECK_OK(pthread_mutex_unlock(&batons->to[0]));
  }
  return NULL;
}

CASE_FOR(mutexes_as_batons, struct mutex_kind, kind, careless_kinds) {
  static struct batons batons = {.rounds = 1000};
  for (int i = 0; i < 2; ++i) {
    make_mutex(&batons.to[i], kind);
    CHECK_OK(pthread_mutex_lock(&batons.to[i]));
  }
  pthread_t thread = start_thread(pass_baton, &batons);
  for (long i = 0; i < batons.rounds; ++i) {
    ++batons.count;
    CHECK_OK(pthread_mutex_unlock(&batons.to[1]));
    CHECK_OK(pthread_mutex_lock(&batons.to[0]));
    CHECK_NUMBER(batons.count, 2 * i + 2);
  }
  join_thread(thread);
}

CASE_FOR(foreign_unlock_with_queue, struct mutex_kind, kind, careless_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 10; ++round) {
    CHECK_OK(pthread_mutex_lock(&mutex));
    pthread_t waiters[4];
    for (int i = 0; i < 4; ++i) waiters[i] = start_thread(thread_lock_unlock, &mutex);
    if (round % 2) await_sleepers(4);
    CHECK_OK(elsewhere(thread_unlock, &mutex));
    for (int i = 0; i < 4; ++i) CHECK_OK((int)(intptr_t)join_thread(waiters[i]));
    CHECK_OK(try_elsewhere(&mutex));
  }
}

struct exchange {
  pthread_mutex_t* mutexes;
  int count, released;
};

static void* unlock_all(void* argument) {
  struct exchange* exchange = argument;
  for (int i = 0; i < exchange->count; ++i) CHECK_OK(pthread_mutex_unlock(&exchange->mutexes[i]));
  return NULL;
}

// One thread locks mutexes repeatedly, and other threads release them.
CASE(all_released_by_another) {
  pthread_mutex_t mutexes[200];
  for (int i = 0; i < 200; ++i) make_mutex(&mutexes[i], &careless_kinds[i % 7]);
  struct exchange exchange = {mutexes, 200, 0};
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 200; ++i) CHECK_OK(pthread_mutex_lock(&mutexes[i]));
    in_new_thread(unlock_all, &exchange);
  }
  for (int i = 0; i < 200; ++i) CHECK_OK(try_elsewhere(&mutexes[i]));
}

// -- threads that end --

CASE_FOR(thread_exits_holding, struct mutex_kind, kind, careless_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 50; ++round) {
    CHECK_OK(elsewhere(thread_lock, &mutex));
    CHECK_CODE(pthread_mutex_trylock(&mutex), EBUSY);
    // The thread that locked the mutex has ended. A library may have given its record of that thread to the thread that
    // hold() starts.
    pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
    struct holder holder;
    hold(&holder, &other);
    CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
    if (round % 2)
      CHECK_OK(pthread_mutex_unlock(&mutex));
    else
      CHECK_OK(elsewhere(thread_unlock, &mutex));
    CHECK_OK(try_elsewhere(&mutex));
    let_go(&holder);
    CHECK_OK(try_elsewhere(&other));
  }
}

CASE_FOR(thread_exits_holding_with_queue, struct mutex_kind, kind, careless_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 10; ++round) {
    CHECK_OK(elsewhere(thread_lock, &mutex));
    pthread_t waiters[4];
    for (int i = 0; i < 4; ++i) waiters[i] = start_thread(thread_lock_unlock, &mutex);
    await_sleepers(4);
    CHECK_CODE(pthread_mutex_trylock(&mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    for (int i = 0; i < 4; ++i) CHECK_OK((int)(intptr_t)join_thread(waiters[i]));
  }
  CHECK_OK(try_elsewhere(&mutex));
}

// The owner has ended without an unlock. A mutex of a kind that checks its owner stays held for ever: no later thread
// may be taken for the dead owner.
CASE_FOR(exited_owner, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  CHECK_OK(elsewhere(thread_lock, &mutex));
  for (int i = 0; i < 20; ++i) CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
  CHECK_CODE(pthread_mutex_unlock(&mutex), kind->checks ? EPERM : 0);
  CHECK_CODE(pthread_mutex_trylock(&mutex), kind->checks ? EBUSY : 0);
}

static void* lock_two_hundred(void* argument) {
  pthread_mutex_t* mutexes = argument;
  for (int i = 0; i < 200; ++i) CHECK_OK(pthread_mutex_lock(&mutexes[i]));
  return NULL;
}

CASE(threads_exit_holding_many) {
  pthread_mutex_t* mutexes = malloc(3 * 200 * sizeof *mutexes);
  for (int i = 0; i < 600; ++i) make_mutex(&mutexes[i], &careless_kinds[i % 7]);
  for (int round = 0; round < 5; ++round) {
    for (int thread = 0; thread < 3; ++thread) in_new_thread(lock_two_hundred, mutexes + thread * 200);
    for (int i = 0; i < 600; ++i) CHECK_CODE(pthread_mutex_trylock(&mutexes[i]), EBUSY);
    for (int i = 599; i >= 0; --i) CHECK_OK(pthread_mutex_unlock(&mutexes[i]));
  }
  free(mutexes);
}

CASE(threads_come_and_go) {
  static struct guarded guarded;
  static struct worker workers[4];
  make_mutex(&guarded.mutex, &all_kinds[0]);
  fill_workers(workers, 4, &guarded, 3);
  for (int round = 0; round < 150; ++round) run_threads(4, lock_often, workers, sizeof *workers);
  CHECK_NUMBER(guarded.count, 150 * 4 * 3);
}

struct last_words {
  struct guarded* guarded;
  pthread_key_t key;
  int rounds_left;
  int* runs;
};

// A destructor of thread-specific data may lock, and may set its key again, up to PTHREAD_DESTRUCTOR_ITERATIONS times.
static void lock_at_the_end(void* argument) {
  struct last_words* words = argument;
  for (int i = 0; i < 5; ++i) {
    CHECK_OK(pthread_mutex_lock(&words->guarded->mutex));
    critical_section(words->guarded);
    CHECK_OK(pthread_mutex_unlock(&words->guarded->mutex));
  }
  flag_add(words->runs, 1);
  if (--words->rounds_left > 0) CHECK_OK(pthread_setspecific(words->key, words));
}

static void* lives_briefly(void* argument) {
  struct last_words* words = argument;
  // Every second thread locks for the first time in its destructors.
  if (words->rounds_left % 2 == 0) {
    CHECK_OK(pthread_mutex_lock(&words->guarded->mutex));
    critical_section(words->guarded);
    CHECK_OK(pthread_mutex_unlock(&words->guarded->mutex));
  }
  CHECK_OK(pthread_setspecific(words->key, words));
  return NULL;
}

CASE_FOR(key_destructors_that_lock, struct mutex_kind, kind, main_kinds) {
  static struct guarded guarded;
  int runs = 0, expected = 0, early = 0;
  make_mutex(&guarded.mutex, kind);
  pthread_key_t first, keys[20], last;
  CHECK_OK(pthread_key_create(&first, lock_at_the_end));
  for (int i = 0; i < 20; ++i) CHECK_OK(pthread_key_create(&keys[i], NULL));
  CHECK_OK(pthread_key_create(&last, lock_at_the_end));
  for (int round = 0; round < 15; ++round) {
    struct last_words words[6];
    for (int i = 0; i < 6; ++i) {
      const int rounds = 1 + (round + i) % 4;
      words[i] = (struct last_words){&guarded, i % 2 ? first : last, rounds, &runs};
      expected += rounds;
      early += rounds % 2 == 0;
    }
    run_threads(6, lives_briefly, words, sizeof *words);
  }
  CHECK_NUMBER(runs, expected);
  CHECK_NUMBER(guarded.count, 5 * expected + early);
}

static void unlock_at_the_end(void* argument) {
  CHECK_OK(pthread_mutex_unlock(argument));
}

struct unlocker {
  pthread_mutex_t* mutex;
  pthread_key_t key;
};

static void* leave_it_to_the_destructor(void* argument) {
  struct unlocker* unlocker = argument;
  CHECK_OK(pthread_mutex_lock(unlocker->mutex));
  CHECK_OK(pthread_setspecific(unlocker->key, unlocker->mutex));
  return NULL;
}

CASE_FOR(key_destructor_unlocks, struct mutex_kind, kind, all_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  struct unlocker unlocker = {.mutex = &mutex};
  CHECK_OK(pthread_key_create(&unlocker.key, unlock_at_the_end));
  for (int round = 0; round < 5; ++round) {
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) threads[i] = start_thread(leave_it_to_the_destructor, &unlocker);
    for (int i = 0; i < 4; ++i) join_thread(threads[i]);
    CHECK_OK(try_elsewhere(&mutex));
  }
}

static void* lock_detached(void* argument) {
  struct guarded* guarded = argument;
  CHECK_OK(pthread_mutex_lock(&guarded->mutex));
  critical_section(guarded);
  CHECK_OK(pthread_mutex_unlock(&guarded->mutex));
  return NULL;
}

CASE(detached_threads) {
  static struct guarded guarded;
  make_mutex(&guarded.mutex, &all_kinds[0]);
  pthread_attr_t attribute;
  CHECK_OK(pthread_attr_init(&attribute));
  CHECK_OK(pthread_attr_setdetachstate(&attribute, PTHREAD_CREATE_DETACHED));
  for (int i = 0; i < 200; ++i) {
    pthread_t thread;
    CHECK_OK(pthread_create(&thread, &attribute, lock_detached, &guarded));
    if (i % 10 == 0) usleep(500);  // the threads end meanwhile, and the next ones reuse their stacks
  }
  for (;;) {
    CHECK_OK(pthread_mutex_lock(&guarded.mutex));
    const long count = guarded.count;
    CHECK_OK(pthread_mutex_unlock(&guarded.mutex));
    if (count == 200) break;
    usleep(1000);  // polls; the case has a time limit
  }
}

static void leave_by_exit(void* argument) {
  CHECK_OK(pthread_mutex_lock(argument));
  CHECK_OK(pthread_mutex_unlock(argument));
  pthread_exit((void*)(intptr_t)17);
}

static void* deep_exit(void* argument) {
  leave_by_exit(argument);
  return NULL;
}

CASE(pthread_exit_after_locking) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < 50; ++i) CHECK_NUMBER(elsewhere(deep_exit, &mutex), 17);
}

// -- cancellation: locking is not a cancellation point --

struct cancelled {
  pthread_mutex_t* mutex;
  int thread_id, got_it;
};

static void unlock_handler(void* argument) {
  CHECK_OK(pthread_mutex_unlock(argument));
}

static void* lock_while_cancelled(void* argument) {
  struct cancelled* me = argument;
  flag_set(&me->thread_id, (int)gettid());
  CHECK_OK(pthread_mutex_lock(me->mutex));
  pthread_cleanup_push(unlock_handler, me->mutex);
  flag_set(&me->got_it, 1);
  for (;;) pthread_testcancel();
  pthread_cleanup_pop(0);
  return NULL;
}

CASE_FOR(lock_is_no_cancellation_point, struct mutex_kind, kind, main_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  for (int round = 0; round < 5; ++round) {
    struct cancelled cancelled = {&mutex, 0, 0};
    CHECK_OK(pthread_mutex_lock(&mutex));
    pthread_t thread = start_thread(lock_while_cancelled, &cancelled);
    await_flag(&cancelled.thread_id, 1);
    if (round > 0) await_asleep(cancelled.thread_id);
    CHECK_OK(pthread_cancel(thread));
    sleep_ms(2);  // a thread that the request ended would end within this time
    CHECK(flag_get(&cancelled.got_it) == 0);
    CHECK_OK(pthread_mutex_unlock(&mutex));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK(cancelled.got_it == 1);
    CHECK_OK(try_elsewhere(&mutex));
  }
}

// -- signals --

static int handled;
static void count_signal(int number) {
  (void)number;
  flag_add(&handled, 1);
}

static void catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = count_signal;  // no SA_RESTART: system calls are interrupted
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

struct interrupted {
  pthread_mutex_t* mutex;
  const struct timed_call* timed;
  long milliseconds;
  int thread_id, expected;
};

static void* wait_interrupted(void* argument) {
  struct interrupted* me = argument;
  flag_set(&me->thread_id, (int)gettid());
  if (me->timed) {
    const struct timespec deadline = later(now(me->timed->clock), me->milliseconds);
    CHECK_CODE(me->timed->call(me->mutex, &deadline), me->expected);
    if (me->expected == ETIMEDOUT) CHECK(!before(now(me->timed->clock), deadline));
  } else {
    CHECK_CODE(pthread_mutex_lock(me->mutex), me->expected);
  }
  if (me->expected == 0) CHECK_OK(pthread_mutex_unlock(me->mutex));
  return NULL;
}

CASE_FOR(signals_while_waiting, struct mutex_kind, kind, main_kinds) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, kind);
  catch_signals();
  CHECK_OK(pthread_mutex_lock(&mutex));
  struct interrupted waiters[7];
  pthread_t threads[7];
  for (int i = 0; i < 7; ++i) {
    // Of seven threads one waits without a deadline, three get the mutex before their deadlines, and three time out.
    waiters[i] = (struct interrupted){&mutex, i == 0 ? NULL : &timed_calls[(i - 1) % 3], i < 4 ? 10000 : 15, 0,
                                      i < 4 ? 0 : ETIMEDOUT};
    threads[i] = start_thread(wait_interrupted, &waiters[i]);
    await_flag(&waiters[i].thread_id, 1);
  }
  const int before_the_storm = flag_get(&handled);
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < (round < 10 ? 7 : 4); ++i) pthread_kill(threads[i], SIGUSR1);
    usleep(500);  // the threads wait again when the next signals arrive
  }
  for (int i = 4; i < 7; ++i) join_thread(threads[i]);
  CHECK(flag_get(&handled) > before_the_storm);
  CHECK_CODE(elsewhere(thread_trylock, &mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  for (int i = 0; i < 4; ++i) join_thread(threads[i]);
  CHECK_OK(try_elsewhere(&mutex));
}

struct storm {
  pthread_t* threads;
  int count;
  int* stop;
};

static void* send_signals(void* argument) {
  struct storm* storm = argument;
  while (!flag_get(storm->stop)) {
    for (int i = 0; i < storm->count; ++i) pthread_kill(storm->threads[i], SIGUSR1);
    usleep(300);  // the period of the signals; the threads use the mutex in between
  }
  return NULL;
}

CASE_FOR(exclusion_under_signals, struct mutex_kind, kind, main_kinds) {
  static struct guarded guarded;
  static struct worker workers[4];
  static int stop;
  pthread_t threads[4];
  make_mutex(&guarded.mutex, kind);
  catch_signals();
  fill_workers(workers, 4, &guarded, 300);
  for (int i = 0; i < 4; ++i) {
    workers[i].recursive = kind->recursive;
    threads[i] = start_thread(patient_or_not, &workers[i]);
  }
  struct storm storm = {threads, 4, &stop};
  pthread_t sender = start_thread(send_signals, &storm);
  // The threads must exist as long as signals are sent to them, and are therefore joined afterwards.
  for (;;) {
    CHECK_OK(pthread_mutex_lock(&guarded.mutex));
    const long count = guarded.count;
    CHECK_OK(pthread_mutex_unlock(&guarded.mutex));
    if (count == 4 * 300) break;
    sleep_ms(1);  // polls; the case has a time limit
  }
  flag_set(&stop, 1);
  join_thread(sender);
  for (int i = 0; i < 4; ++i) join_thread(threads[i]);
}

// -- memory that is freed or reused --

struct counted {
  pthread_mutex_t mutex;
  int references;
  int value;
};

struct sharer {
  struct counted* object;
  int* unmapped;
};

// A usual reference count: the thread that decrements it to zero unlocks, destroys and unmaps the object. An earlier
// unlock by another thread may not have returned by then, and must not access the mutex any more.
static void* drop_reference(void* argument) {
  struct sharer* sharer = argument;
  struct counted* object = sharer->object;
  CHECK_OK(pthread_mutex_lock(&object->mutex));
  object->value += 1;
  const bool last = --object->references == 0;
  CHECK_OK(pthread_mutex_unlock(&object->mutex));
  if (last) {
    CHECK_OK(pthread_mutex_destroy(&object->mutex));
    CHECK(munmap(object, 4096) == 0);
    flag_add(sharer->unmapped, 1);
  }
  return NULL;
}

CASE_FOR(unmapped_by_the_last_owner, struct mutex_kind, kind, main_kinds) {
  int unmapped = 0;
  for (int round = 0; round < 200; ++round) {
    struct counted* object = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(object != MAP_FAILED);
    make_mutex(&object->mutex, kind);
    const int threads = 2 + round % 3;
    object->references = threads;
    object->value = 0;
    struct sharer sharer = {object, &unmapped};
    run_threads(threads, drop_reference, &sharer, 0);
    CHECK_NUMBER(unmapped, round + 1);
  }
}

// The memory is freed and reused immediately: a late write would change the new content.
static void* drop_and_poison(void* argument) {
  struct counted* object = argument;
  CHECK_OK(pthread_mutex_lock(&object->mutex));
  const bool last = --object->references == 0;
  CHECK_OK(pthread_mutex_unlock(&object->mutex));
  if (last) {
    CHECK_OK(pthread_mutex_destroy(&object->mutex));
    memset(object, 0x77, sizeof *object);
  }
  return NULL;
}

CASE_FOR(reused_by_the_last_owner, struct mutex_kind, kind, main_kinds) {
  struct counted* object = malloc(sizeof *object);
  for (int round = 0; round < 200; ++round) {
    make_mutex(&object->mutex, kind);
    object->references = 3;
    run_threads(3, drop_and_poison, object, 0);
    for (size_t i = 0; i < sizeof *object; ++i) CHECK_NUMBER(((unsigned char*)object)[i], 0x77);
  }
  free(object);
}

// The mutex is in a stack frame, as in a rendezvous. The frame is gone as soon as the second lock call has returned.
struct rendezvous {
  pthread_mutex_t done;
};

static void* announce(void* argument) {
  struct rendezvous* rendezvous = argument;
  CHECK_OK(pthread_mutex_unlock(&rendezvous->done));
  return NULL;
}

static pthread_t meet(const struct mutex_kind* kind) {
  struct rendezvous rendezvous;
  make_mutex(&rendezvous.done, kind);
  CHECK_OK(pthread_mutex_lock(&rendezvous.done));
  pthread_t thread = start_thread(announce, &rendezvous);
  CHECK_OK(pthread_mutex_lock(&rendezvous.done));
  memset(&rendezvous, 0x77, sizeof rendezvous);
  return thread;
}

CASE_FOR(rendezvous_on_the_stack, struct mutex_kind, kind, careless_kinds) {
  for (int round = 0; round < 100; ++round) join_thread(meet(kind));
}
