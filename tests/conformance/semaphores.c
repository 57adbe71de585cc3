// Tests semaphores: results of the calls, wake-ups, deadlines, handlers, destruction, other processes.
#include "semaphore_calls.h"

#include <fcntl.h>
#include <limits.h>

static const int big = SEM_VALUE_MAX;

// The two kinds of semaphore. A shared one may also be used by a single process.
struct semaphore_kind {
  const char* name;
  int shared;
};
static const struct semaphore_kind semaphore_kinds[] = {{"private", 0}, {"shared", 1}};

static void make_kind(sem_t* semaphore, const struct semaphore_kind* kind, unsigned value) {
  memset(semaphore, 0xa5, sizeof *semaphore);
  CHECK_SUCCESS(sem_init(semaphore, kind->shared, value));
}

static void* new_page(void) {
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  return page;
}

static struct timespec microseconds_later(struct timespec from, long microseconds) {
  from.tv_nsec += microseconds * 1000;
  from.tv_sec += from.tv_nsec / 1000000000;
  from.tv_nsec %= 1000000000;
  return from;
}

static void handle(void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

// -- one thread: values and results --

CASE_FOR(init_sets_the_value, struct semaphore_kind, kind, semaphore_kinds) {
  const unsigned values[] = {0, 1, 2, 3, 1000, 65536, (unsigned)big - 1, (unsigned)big};
  for (int i = 0; i < 8; ++i) {
    note("value %u", values[i]);
    sem_t semaphore;
    make_kind(&semaphore, kind, values[i]);
    CHECK_NUMBER(value_of(&semaphore), values[i]);
    if (values[i] > 0) {
      CHECK_SUCCESS(sem_trywait(&semaphore));
      CHECK_NUMBER(value_of(&semaphore), values[i] - 1);
    }
    CHECK_SUCCESS(sem_destroy(&semaphore));
  }
}

CASE_FOR(init_refuses_too_much, struct semaphore_kind, kind, semaphore_kinds) {
  const unsigned values[] = {(unsigned)big + 1u, (unsigned)big + 2u, UINT_MAX - 1, UINT_MAX};
  for (int i = 0; i < 4; ++i) {
    sem_t semaphore;
    CHECK_ERROR(sem_init(&semaphore, kind->shared, values[i]), EINVAL);
  }
}

CASE_FOR(counts_down_and_up, struct semaphore_kind, kind, semaphore_kinds) {
  sem_t semaphore;
  make_kind(&semaphore, kind, 5);
  for (int i = 4; i >= 0; --i) {
    CHECK_SUCCESS(i % 2 ? sem_trywait(&semaphore) : sem_wait(&semaphore));
    CHECK_NUMBER(value_of(&semaphore), i);
  }
  for (int i = 0; i < 3; ++i) {
    CHECK_ERROR(sem_trywait(&semaphore), EAGAIN);
    CHECK_NUMBER(value_of(&semaphore), 0);
  }
  for (int i = 1; i <= 5; ++i) {
    CHECK_SUCCESS(sem_post(&semaphore));
    CHECK_NUMBER(value_of(&semaphore), i);
  }
  CHECK_SUCCESS(sem_destroy(&semaphore));
}

CASE_FOR(post_refuses_too_much, struct semaphore_kind, kind, semaphore_kinds) {
  sem_t semaphore;
  make_kind(&semaphore, kind, (unsigned)big);
  for (int i = 0; i < 3; ++i) {
    CHECK_ERROR(sem_post(&semaphore), EOVERFLOW);
    CHECK_NUMBER(value_of(&semaphore), big);
  }
  CHECK_SUCCESS(sem_trywait(&semaphore));
  CHECK_SUCCESS(sem_wait(&semaphore));
  CHECK_NUMBER(value_of(&semaphore), big - 2);
  CHECK_SUCCESS(sem_post(&semaphore));
  CHECK_SUCCESS(sem_post(&semaphore));
  CHECK_ERROR(sem_post(&semaphore), EOVERFLOW);
  CHECK_NUMBER(value_of(&semaphore), big);
}

CASE_FOR(waits_take_what_is_there, struct semaphore_wait, wait, semaphore_waits) {
  // A deadline in the past does not matter if the semaphore has a unit.
  const struct timespec deadlines[] = {later(now(wait->clock), 60000), later(now(wait->clock), -1000), {0, 0}, {-1, 0}};
  for (int shared = 0; shared < 2; ++shared) {
    sem_t semaphore;
    make_kind(&semaphore, &semaphore_kinds[shared], 4);
    for (int i = 0; i < 4; ++i) {
      CHECK_SUCCESS(wait->call(&semaphore, &deadlines[i]));
      CHECK_NUMBER(value_of(&semaphore), 3 - i);
    }
    CHECK_ERROR(sem_trywait(&semaphore), EAGAIN);
  }
}

CASE(made_again_in_the_same_memory) {
  static sem_t semaphore;
  for (int round = 0; round < 300; ++round) {
    if (round % 3 == 0) memset(&semaphore, round % 2 ? 0xff : 0x5a, sizeof semaphore);
    CHECK_SUCCESS(sem_init(&semaphore, round % 5 == 0, (unsigned)(round % 4)));
    for (int i = 0; i < round % 4; ++i) CHECK_SUCCESS(sem_trywait(&semaphore));
    CHECK_ERROR(sem_trywait(&semaphore), EAGAIN);
    CHECK_SUCCESS(sem_post(&semaphore));
    CHECK_NUMBER(value_of(&semaphore), 1);
    if (round % 2) CHECK_SUCCESS(sem_destroy(&semaphore));
  }
}

CASE(neighbours_do_not_meet) {
  enum { many = 3000 };
  sem_t* semaphores = malloc(many * sizeof *semaphores);
  CHECK(semaphores != NULL);
  for (int i = 0; i < many; ++i) make_kind(&semaphores[i], &semaphore_kinds[i % 2], (unsigned)i % 7);
  for (int i = 0; i < many; i += 3) CHECK_SUCCESS(sem_post(&semaphores[i]));
  for (int i = 0; i < many; ++i) CHECK_NUMBER(value_of(&semaphores[i]), i % 7 + (i % 3 == 0));
  for (int i = 0; i < many; ++i) CHECK_SUCCESS(sem_destroy(&semaphores[i]));
  free(semaphores);
}

// The calls do not write beyond the bytes of the semaphore.
CASE(stays_within_its_bytes) {
  struct {
    unsigned char front[32];
    sem_t semaphore;
    unsigned char back[32];
  } memory;
  memset(&memory, 0x3c, sizeof memory);
  CHECK_SUCCESS(sem_init(&memory.semaphore, 0, 1));
  const struct timespec past = {0, 0};
  for (int i = 0; i < 10; ++i) {
    CHECK_SUCCESS(sem_wait(&memory.semaphore));
    CHECK_ERROR(sem_timedwait(&memory.semaphore, &past), ETIMEDOUT);
    CHECK_SUCCESS(sem_post(&memory.semaphore));
  }
  CHECK_SUCCESS(sem_destroy(&memory.semaphore));
  for (int i = 0; i < 32; ++i) CHECK(memory.front[i] == 0x3c && memory.back[i] == 0x3c);
}

// -- deadlines --

CASE_WHERE(times_out_at_once, struct semaphore_wait, wait, semaphore_waits, wait->timed) {
  for (int shared = 0; shared < 2; ++shared) {
    sem_t semaphore;
    make_kind(&semaphore, &semaphore_kinds[shared], 0);
    const struct timespec past[] = {later(now(wait->clock), -1), {0, 0}, {0, 999999999}, {-1, 0}, {-1, 999999999},
                                    {-1000000000000, 5}};
    for (int i = 0; i < 6; ++i) {
      note("deadline %lld s, %ld ns", (long long)past[i].tv_sec, past[i].tv_nsec);
      CHECK_ERROR(wait->call(&semaphore, &past[i]), ETIMEDOUT);
      CHECK_NUMBER(value_of(&semaphore), 0);
    }
    // The waits have left no waiter behind: a post stays for the next wait.
    CHECK_SUCCESS(sem_post(&semaphore));
    CHECK_NUMBER(value_of(&semaphore), 1);
    CHECK_SUCCESS(sem_trywait(&semaphore));
  }
}

CASE_WHERE(times_out_in_time, struct semaphore_wait, wait, semaphore_waits, wait->timed) {
  sem_t semaphore;
  make_semaphore(&semaphore, 0);
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double start = seconds();
    const struct timespec deadline = later(now(wait->clock), 15);
    CHECK_ERROR(wait->call(&semaphore, &deadline), ETIMEDOUT);
    CHECK(!before(now(wait->clock), deadline));
    CHECK_NUMBER(value_of(&semaphore), 0);
    const double took = seconds() - start;
    if (took < least) least = took;
  }
  // On a busy machine some waits return late, but not all.
  note("the quickest of five took %.3f s", least);
  CHECK(least < 0.1);
}

CASE_WHERE(invalid_nanoseconds, struct semaphore_wait, wait, semaphore_waits, wait->timed) {
  sem_t semaphore;
  make_semaphore(&semaphore, 0);
  const time_t soon = now(wait->clock).tv_sec + 9;
  const struct timespec wrong[] = {{0, -1},  {0, 1000000000},  {soon, -1},       {soon, 1000000000},
                                   {-1, -1}, {-1, 1000000000}, {soon, LONG_MAX}, {soon, LONG_MIN}};
  for (int i = 0; i < 8; ++i) {
    note("deadline %lld s, %ld ns", (long long)wrong[i].tv_sec, wrong[i].tv_nsec);
    CHECK_ERROR(wait->call(&semaphore, &wrong[i]), invalid_or_past(wrong[i]));
    CHECK_NUMBER(value_of(&semaphore), 0);
    // A call that need not wait may accept the invalid deadline or return EINVAL, but it must take a unit only if it
    // succeeds.
    CHECK_SUCCESS(sem_post(&semaphore));
    errno = 0;
    const int result = wait->call(&semaphore, &wrong[i]);
    CHECK(result == 0 || (result == -1 && errno == EINVAL));
    CHECK_NUMBER(value_of(&semaphore), result == 0 ? 0 : 1);
    if (result != 0) CHECK_SUCCESS(sem_trywait(&semaphore));
  }
}

CASE(clockwait_knows_two_clocks) {
  sem_t semaphore;
  make_semaphore(&semaphore, 0);
  const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID,
                              CLOCK_THREAD_CPUTIME_ID,
                              CLOCK_BOOTTIME,
                              CLOCK_MONOTONIC_RAW,
                              CLOCK_REALTIME_COARSE,
                              -1,
                              1000};
  const struct timespec deadline = later(now(CLOCK_REALTIME), 60000);
  for (int i = 0; i < 7; ++i) {
    note("clock %d", (int)clocks[i]);
    CHECK_ERROR(sem_clockwait(&semaphore, clocks[i], &deadline), EINVAL);
    CHECK_NUMBER(value_of(&semaphore), 0);
  }
}

// Each of the two deadlines is wrong by decades on the other clock: a monotonic time is far in the past on the
// real-time clock, a real time far in the future on the monotonic clock. So a wait on the wrong clock ends too early or
// too late.
CASE(clockwait_waits_on_the_right_clock) {
  sem_t semaphore;
  make_semaphore(&semaphore, 0);
  double start = seconds();
  struct timespec deadline = later(now(CLOCK_MONOTONIC), 20);
  CHECK_ERROR(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &deadline), ETIMEDOUT);
  CHECK(seconds() - start > 0.015);
  CHECK_ERROR(sem_clockwait(&semaphore, CLOCK_REALTIME, &deadline), ETIMEDOUT);
  CHECK_ERROR(sem_timedwait(&semaphore, &deadline), ETIMEDOUT);
  start = seconds();
  deadline = later(now(CLOCK_REALTIME), 20);
  CHECK_ERROR(sem_clockwait(&semaphore, CLOCK_REALTIME, &deadline), ETIMEDOUT);
  CHECK(seconds() - start < 5);
}

// -- waiters --

struct place {
  sem_t semaphore;
  const struct semaphore_wait* wait;
  int waiting, through, interrupted, thread_id, stop;
  long tries;
};

static void make_place(struct place* place, const struct semaphore_wait* wait, unsigned value) {
  memset(place, 0, sizeof *place);
  make_semaphore(&place->semaphore, value);
  place->wait = wait;
}

static void* go_through(void* argument) {
  struct place* place = argument;
  flag_set(&place->thread_id, (int)gettid());
  flag_add(&place->waiting, 1);
  CHECK_SUCCESS(wait_long(place->wait, &place->semaphore));
  flag_add(&place->through, 1);
  return NULL;
}

CASE_FOR(post_wakes_the_waiter, struct semaphore_wait, wait, semaphore_waits) {
  struct place place;
  make_place(&place, wait, 0);
  for (int round = 1; round <= 60; ++round) {
    flag_set(&place.waiting, 0);
    pthread_t thread = start_thread(go_through, &place);
    if (round % 3) await_flag(&place.waiting, 1);
    if (round % 3 == 1) await_asleep(place.thread_id);
    CHECK_SUCCESS(sem_post(&place.semaphore));
    CHECK(flag_comes(&place.through, round));
    join_thread(thread);
    CHECK_NUMBER(value_of(&place.semaphore), 0);
  }
  CHECK_SUCCESS(sem_destroy(&place.semaphore));
}

static const struct timespec far_off[] = {
    {INT32_MAX, 999999999}, {(time_t)INT32_MAX + 1000, 0}, {INT64_MAX / 1000000000, 0}, {INT64_MAX, 999999999}};

static void* wait_for_ages(void* argument) {
  struct place* place = argument;
  for (int i = 0; i < 4; ++i) {
    note("deadline %lld s", (long long)far_off[i].tv_sec);
    flag_add(&place->waiting, 1);
    CHECK_SUCCESS(place->wait->call(&place->semaphore, &far_off[i]));
    flag_add(&place->through, 1);
  }
  return NULL;
}

CASE_FOR(far_deadlines, struct semaphore_wait, wait, semaphore_waits) {
  struct place place;
  make_place(&place, wait, 0);
  pthread_t thread = start_thread(wait_for_ages, &place);
  for (int i = 1; i <= 4; ++i) {
    await_flag(&place.waiting, i);
    sleep_ms(2);  // a wait that takes the far deadline for a past one would return within this time
    CHECK_NUMBER(flag_get(&place.through), i - 1);
    CHECK_SUCCESS(sem_post(&place.semaphore));
    CHECK(flag_comes(&place.through, i));
  }
  join_thread(thread);
}

// Exactly as many threads return as there are posts.
CASE_FOR(each_post_wakes_one, struct semaphore_wait, wait, semaphore_waits) {
  struct place place;
  make_place(&place, wait, 0);
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) threads[i] = start_thread(go_through, &place);
  await_flag(&place.waiting, 8);
  await_asleep(flag_get(&place.thread_id));
  CHECK_NUMBER(value_of(&place.semaphore), 0);  // the value is never below 0, however many threads wait
  for (int i = 1; i <= 8; ++i) {
    CHECK_SUCCESS(sem_post(&place.semaphore));
    CHECK(flag_comes(&place.through, i));
    if (i % 4 == 1) sleep_ms(2);  // a second thread that the post woke would be through within this time
    CHECK_NUMBER(flag_get(&place.through), i);
    CHECK_NUMBER(value_of(&place.semaphore), 0);
  }
  for (int i = 0; i < 8; ++i) join_thread(threads[i]);
}

CASE(sixty_four_at_once) {
  struct place place;
  for (int round = 0; round < 3; ++round) {
    make_place(&place, &semaphore_waits[round], 0);
    pthread_t threads[64];
    for (int i = 0; i < 64; ++i) threads[i] = start_thread(go_through, &place);
    if (round > 0) await_flag(&place.waiting, 64);
    for (int i = 0; i < 64; ++i) CHECK_SUCCESS(sem_post(&place.semaphore));
    CHECK(flag_comes(&place.through, 64));
    for (int i = 0; i < 64; ++i) join_thread(threads[i]);
    CHECK_NUMBER(value_of(&place.semaphore), 0);
    CHECK_SUCCESS(sem_destroy(&place.semaphore));
  }
}

// Posts beyond the number of waiters are kept in the value, for later waits.
CASE(surplus_stays) {
  struct place place;
  make_place(&place, &semaphore_waits[0], 0);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) threads[i] = start_thread(go_through, &place);
  await_flag(&place.waiting, 3);
  await_asleep(flag_get(&place.thread_id));
  for (int i = 0; i < 8; ++i) CHECK_SUCCESS(sem_post(&place.semaphore));
  for (int i = 0; i < 3; ++i) join_thread(threads[i]);
  CHECK_NUMBER(value_of(&place.semaphore), 5);
  for (int i = 0; i < 5; ++i) CHECK_SUCCESS(sem_trywait(&place.semaphore));
  CHECK_ERROR(sem_trywait(&place.semaphore), EAGAIN);
}

// -- no post is lost, and no post wakes more than one thread --

// Several threads post at once to threads that all sleep. No further call follows, so the test hangs if each poster
// relies on another poster to wake a thread.
struct volley {
  sem_t semaphore;
  int rounds, asleep, round, through, posted;
};

static void* sleep_each_round(void* argument) {
  struct volley* volley = argument;
  for (int round = 1; round <= volley->rounds; ++round) {
    flag_add(&volley->asleep, 1);
    CHECK_SUCCESS(wait_long(&semaphore_waits[round % 4], &volley->semaphore));
    flag_add(&volley->through, 1);
    CHECK(flag_comes(&volley->through, 4 * round));
  }
  return NULL;
}

static void* post_each_round(void* argument) {
  struct volley* volley = argument;
  for (int round = 1; round <= volley->rounds; ++round) {
    CHECK(flag_comes(&volley->round, round));
    for (int i = 0; i < 2; ++i) {
      if (sem_post(&volley->semaphore) != 0) fail_case(__FILE__, __LINE__, "a post failed");
    }
  }
  return NULL;
}

CASE(posts_at_the_same_moment) {
  static struct volley volley = {.rounds = 1000};
  make_semaphore(&volley.semaphore, 0);
  pthread_t threads[6];
  for (int i = 0; i < 6; ++i) threads[i] = start_thread(i < 4 ? sleep_each_round : post_each_round, &volley);
  for (int round = 1; round <= volley.rounds; ++round) {
    CHECK(flag_comes(&volley.asleep, 4 * round));
    usleep(round % 4 == 0 ? 60 : 10);  // in some rounds the four sleep, in others they are about to
    flag_set(&volley.round, round);
    CHECK(flag_comes(&volley.through, 4 * round));
  }
  for (int i = 0; i < 6; ++i) join_thread(threads[i]);
  CHECK_NUMBER(value_of(&volley.semaphore), 0);
}

struct hall {
  sem_t semaphore;
  int inside, most, room;
  long count;
};

static void* enter_hall(void* argument) {
  struct hall* hall = argument;
  for (int i = 0; i < 400; ++i) {
    CHECK_SUCCESS(wait_long(&semaphore_waits[i % 4], &hall->semaphore));
    const int inside = flag_add(&hall->inside, 1);
    CHECK(inside <= hall->room);
    if (hall->room == 1) ++hall->count;
    linger(i);
    flag_add(&hall->inside, -1);
    CHECK_SUCCESS(sem_post(&hall->semaphore));
  }
  return NULL;
}

CASE_FOR(as_a_mutex, struct semaphore_kind, kind, semaphore_kinds) {
  static struct hall hall = {.room = 1};
  make_kind(&hall.semaphore, kind, 1);
  run_threads(4, enter_hall, &hall, 0);
  CHECK_NUMBER(hall.count, 4 * 400);
  CHECK_NUMBER(value_of(&hall.semaphore), 1);
}

CASE(room_for_three) {
  static struct hall hall = {.room = 3};
  make_semaphore(&hall.semaphore, 3);
  run_threads(6, enter_hall, &hall, 0);
  CHECK_NUMBER(hall.inside, 0);
  CHECK_NUMBER(value_of(&hall.semaphore), 3);
}

struct rally {
  sem_t turns[2];
  int ball;
};
struct player {
  struct rally* rally;
  int side;
};

static void* play(void* argument) {
  const struct player* player = argument;
  struct rally* rally = player->rally;
  for (int i = 0; i < 4000; ++i) {
    CHECK_SUCCESS(wait_long(&semaphore_waits[i / 500 % 4], &rally->turns[player->side]));
    CHECK(rally->ball == player->side);
    rally->ball = 1 - player->side;
    CHECK_SUCCESS(sem_post(&rally->turns[1 - player->side]));
  }
  return NULL;
}

CASE(ping_pong) {
  static struct rally rally;
  make_semaphore(&rally.turns[0], 1);
  make_semaphore(&rally.turns[1], 0);
  struct player players[2] = {{&rally, 0}, {&rally, 1}};
  run_threads(2, play, players, sizeof *players);
  CHECK_NUMBER(value_of(&rally.turns[0]), 1);
  CHECK_NUMBER(value_of(&rally.turns[1]), 0);
}

struct store {
  sem_t empty, full;
  long items[8];
  int put, taken;
  long long sum;
};
enum { goods = 600 };

static void* bring_or_fetch(void* argument) {
  struct {
    struct store* store;
    int number;
  }* me = argument;
  struct store* store = me->store;
  for (int i = 0; i < goods; ++i) {
    if (me->number % 2) {
      CHECK_SUCCESS(wait_long(&semaphore_waits[i % 4], &store->empty));
      const int slot = (flag_add(&store->put, 1) - 1) % 8;
      // Up to eight items are on their way, each in its own slot. A producer waits until its slot is empty, a consumer
      // until its slot is filled.
      long none = 0;
      while (
          !__atomic_compare_exchange_n(&store->items[slot], &none, i + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        none = 0;
        sched_yield();
      }
      CHECK_SUCCESS(sem_post(&store->full));
    } else {
      CHECK_SUCCESS(wait_long(&semaphore_waits[i % 4], &store->full));
      const int slot = (flag_add(&store->taken, 1) - 1) % 8;
      long item;
      while ((item = __atomic_exchange_n(&store->items[slot], 0, __ATOMIC_SEQ_CST)) == 0) sched_yield();
      __atomic_add_fetch(&store->sum, item, __ATOMIC_SEQ_CST);
      CHECK_SUCCESS(sem_post(&store->empty));
    }
  }
  return NULL;
}

CASE(bounded_buffer) {
  static struct store store;
  make_semaphore(&store.empty, 8);
  make_semaphore(&store.full, 0);
  struct {
    struct store* store;
    int number;
  } workers[6];
  for (int i = 0; i < 6; ++i) {
    workers[i].store = &store;
    workers[i].number = i;
  }
  run_threads(6, bring_or_fetch, workers, sizeof *workers);
  CHECK_NUMBER(store.sum, 3LL * goods * (goods + 1) / 2);
  CHECK_NUMBER(value_of(&store.empty), 8);
  CHECK_NUMBER(value_of(&store.full), 0);
}

// A post happens at the moment when a waiter times out: either the waiter has consumed the unit, or it is still
// available.
struct near_miss {
  sem_t semaphore;
  int rounds, started, posted, finished;
  int taken;
};

static void* give_up_soon(void* argument) {
  struct near_miss* scene = argument;
  for (int i = 0; i < scene->rounds; ++i) {
    const struct semaphore_wait* wait = &semaphore_waits[1 + i % 3];
    const struct timespec deadline = microseconds_later(now(wait->clock), 150 + i % 40 * 4);
    flag_set(&scene->started, i + 1);
    errno = 0;
    const int result = wait->call(&scene->semaphore, &deadline);
    CHECK(result == 0 || errno == ETIMEDOUT);
    scene->taken += result == 0;
    CHECK(flag_comes(&scene->posted, i + 1));
    // A waiter that has timed out has not consumed the unit, so the semaphore must have it.
    if (result != 0) CHECK_SUCCESS(sem_trywait(&scene->semaphore));
    CHECK_NUMBER(value_of(&scene->semaphore), 0);
    flag_set(&scene->finished, i + 1);
  }
  return NULL;
}

CASE(post_at_the_deadline) {
  static struct near_miss scene = {.rounds = 800};
  make_semaphore(&scene.semaphore, 0);
  pthread_t thread = start_thread(give_up_soon, &scene);
  for (int i = 0; i < scene.rounds; ++i) {
    CHECK(flag_comes(&scene.started, i + 1));
    const double until = seconds() + (180 + i % 61 * 2) * 1e-6;
    while (seconds() < until) {
    }
    CHECK_SUCCESS(sem_post(&scene.semaphore));
    flag_set(&scene.posted, i + 1);
    CHECK(flag_comes(&scene.finished, i + 1));
  }
  join_thread(thread);
}

// A post is made near the deadlines of some waiters, while another thread waits without a deadline. A waiter that times
// out must not consume the wake-up of the thread without a deadline.
struct rivals {
  sem_t semaphore;
  int through, stop;
};

static void* keep_giving_up(void* argument) {
  struct rivals* rivals = argument;
  for (int i = 0; !flag_get(&rivals->stop); ++i) {
    const struct semaphore_wait* wait = &semaphore_waits[1 + i % 3];
    const struct timespec deadline = microseconds_later(now(wait->clock), 20 + i % 50);
    errno = 0;
    if (wait->call(&rivals->semaphore, &deadline) == 0)
      CHECK_SUCCESS(sem_post(&rivals->semaphore));
    else
      CHECK_CODE(errno, ETIMEDOUT);
  }
  return NULL;
}

static void* keep_waiting(void* argument) {
  struct rivals* rivals = argument;
  while (!flag_get(&rivals->stop)) {
    CHECK_SUCCESS(sem_wait(&rivals->semaphore));
    flag_add(&rivals->through, 1);
  }
  return NULL;
}

CASE(timed_and_untimed_together) {
  static struct rivals rivals;
  make_semaphore(&rivals.semaphore, 0);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = start_thread(i < 2 ? keep_waiting : keep_giving_up, &rivals);
  for (int i = 1; i <= 1000; ++i) {
    CHECK_SUCCESS(sem_post(&rivals.semaphore));
    if (i % 3 == 0) CHECK(flag_comes(&rivals.through, i));
  }
  CHECK(flag_comes(&rivals.through, 1000));
  CHECK_NUMBER(value_of(&rivals.semaphore), 0);
  flag_set(&rivals.stop, 1);
  for (int i = 0; i < 2; ++i) CHECK_SUCCESS(sem_post(&rivals.semaphore));
  for (int i = 0; i < 4; ++i) join_thread(threads[i]);
}

// One thread waits without a deadline. The other waiters time out at the same moment, and at that moment the only post
// is made.
struct exodus {
  sem_t semaphore;
  int rounds, waiting, taken, given_up, ready;
  struct timespec deadline;
};

static void* give_up_with_others(void* argument) {
  struct exodus* exodus = argument;
  for (int round = 1; round <= exodus->rounds; ++round) {
    CHECK(flag_comes(&exodus->ready, round));
    errno = 0;
    if (sem_clockwait(&exodus->semaphore, CLOCK_MONOTONIC, &exodus->deadline) == 0)
      flag_add(&exodus->taken, 1);
    else
      CHECK_CODE(errno, ETIMEDOUT);
    flag_add(&exodus->given_up, 1);
  }
  return NULL;
}

static void* stay_alone(void* argument) {
  struct exodus* exodus = argument;
  for (;;) {
    flag_add(&exodus->waiting, 1);
    CHECK_SUCCESS(sem_wait(&exodus->semaphore));
    flag_add(&exodus->taken, 1);
  }
  return NULL;
}

CASE(post_while_others_give_up) {
  static struct exodus exodus = {.rounds = 700};
  make_semaphore(&exodus.semaphore, 0);
  start_thread(stay_alone, &exodus);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) threads[i] = start_thread(give_up_with_others, &exodus);
  CHECK(flag_comes(&exodus.waiting, 1));
  for (int round = 1; round <= exodus.rounds; ++round) {
    exodus.deadline = microseconds_later(now(CLOCK_MONOTONIC), 120);
    const double until = seconds() + (120 + round % 67) * 1e-6;
    flag_set(&exodus.ready, round);
    while (seconds() < until) {
    }
    CHECK_SUCCESS(sem_post(&exodus.semaphore));
    if (!flag_comes(&exodus.taken, round)) fail_case(__FILE__, __LINE__, "no waiter has the post of round %d", round);
    CHECK(flag_comes(&exodus.given_up, 3 * round));
    CHECK_NUMBER(value_of(&exodus.semaphore), 0);
  }
  for (int i = 0; i < 3; ++i) join_thread(threads[i]);
}

// -- destruction: a thread that has returned from the wait may destroy the semaphore --

// The thread that destroys the semaphore does not wait for the return of sem_post in the poster. If the page is
// unmapped, a late access by the poster crashes; if the memory is reused, a late write changes a byte.
struct farewell {
  const char* name;
  int waiters;      ///< the last of these waiters destroys the semaphore
  bool by_trywait;  ///< sem_trywait sees the post at the earliest moment
  bool keep;        ///< the memory is reused instead of unmapped
  int shared;
};
static const struct farewell farewells[] = {
    {"asleep_unmapped", 1, false, false, 0},        {"asleep_reused", 1, false, true, 0},
    {"trying_unmapped", 1, true, false, 0},         {"trying_reused", 1, true, true, 0},
    {"three_unmapped", 3, false, false, 0},         {"three_trying_reused", 3, true, true, 0},
    {"shared_asleep_unmapped", 1, false, false, 1},
};

struct visit {
  sem_t semaphore;
  int left;
};
struct house {
  const struct farewell* way;
  struct visit* visit;
  int rounds, ready, gone, checked;
};

static void* leave_and_destroy(void* argument) {
  struct house* house = argument;
  const struct farewell* way = house->way;
  for (int round = 1; round <= house->rounds; ++round) {
    CHECK(flag_comes(&house->ready, round));
    struct visit* visit = house->visit;
    if (way->by_trywait) {
      for (int spins = 0; sem_trywait(&visit->semaphore) != 0; ++spins)
        if (spins > 2000) sched_yield();
    } else {
      CHECK_SUCCESS(wait_long(&semaphore_waits[round % 4], &visit->semaphore));
    }
    if (flag_add(&visit->left, -1) == 0) {
      CHECK_SUCCESS(sem_destroy(&visit->semaphore));
      if (way->keep)
        memset(&visit->semaphore, 0x77, sizeof visit->semaphore);
      else
        munmap(visit, 4096);
      flag_set(&house->gone, round);
    }
    CHECK(flag_comes(&house->checked, round));
  }
  return NULL;
}

CASE_FOR(destroyed_by_the_woken, struct farewell, way, farewells) {
  static struct house house;
  house.way = way;
  house.rounds = way->waiters == 1 ? 1500 : 700;
  pthread_t threads[3];
  for (int i = 0; i < way->waiters; ++i) threads[i] = start_thread(leave_and_destroy, &house);
  struct visit* kept = way->keep ? new_page() : NULL;
  for (int round = 1; round <= house.rounds; ++round) {
    struct visit* visit = kept ? kept : new_page();
    CHECK_SUCCESS(sem_init(&visit->semaphore, way->shared, 0));
    visit->left = way->waiters;
    house.visit = visit;
    flag_set(&house.ready, round);
    // The waiters are asleep in some rounds, and on their way to their waits in others.
    if (round % 8 == 0)
      usleep(50);
    else
      compute((unsigned)round % 97 * 20);
    for (int i = 0; i < way->waiters; ++i) {
      if (sem_post(&visit->semaphore) != 0) fail_case(__FILE__, __LINE__, "a post failed");
    }
    CHECK(flag_comes(&house.gone, round));
    if (kept)
      for (size_t i = 0; i < sizeof(sem_t); ++i) CHECK_NUMBER(((unsigned char*)&kept->semaphore)[i], 0x77);
    flag_set(&house.checked, round);
  }
  for (int i = 0; i < way->waiters; ++i) join_thread(threads[i]);
}

// A thread destroys the semaphore immediately after the last wait, and initialises it again with another value.
CASE(destroyed_and_made_again) {
  static struct place place;
  make_place(&place, &semaphore_waits[0], 0);
  for (int round = 0; round < 100; ++round) {
    pthread_t thread = start_thread(go_through, &place);
    CHECK_SUCCESS(sem_post(&place.semaphore));
    join_thread(thread);
    CHECK_SUCCESS(sem_destroy(&place.semaphore));
    CHECK_SUCCESS(sem_init(&place.semaphore, 0, (unsigned)round % 3));
    CHECK_NUMBER(value_of(&place.semaphore), round % 3);
    for (int i = 0; i < round % 3; ++i) CHECK_SUCCESS(sem_trywait(&place.semaphore));
  }
}

// -- signals --

static int handled;
static void count_signal(int number) {
  (void)number;
  flag_add(&handled, 1);
}

static void* wait_until_interrupted(void* argument) {
  struct place* place = argument;
  flag_set(&place->thread_id, (int)gettid());
  flag_set(&place->waiting, 1);
  CHECK_ERROR(wait_long(place->wait, &place->semaphore), EINTR);
  CHECK_NUMBER(value_of(&place->semaphore), 0);
  flag_set(&place->interrupted, 1);
  // Another signal of the test may interrupt this second wait, too.
  errno = 0;
  while (wait_long(place->wait, &place->semaphore) != 0) CHECK_CODE(errno, EINTR);
  flag_set(&place->through, 1);
  return NULL;
}

CASE_FOR(handler_interrupts, struct semaphore_wait, wait, semaphore_waits) {
  handle(count_signal, 0);
  for (int round = 0; round < 20; ++round) {
    struct place place;
    make_place(&place, wait, 0);
    pthread_t thread = start_thread(wait_until_interrupted, &place);
    await_flag(&place.waiting, 1);
    await_asleep(place.thread_id);
    // The signal is sent repeatedly, because a signal that arrives before the thread sleeps does not interrupt the
    // wait.
    for (int i = 0; i < 2000 && !flag_get(&place.interrupted); ++i) {
      pthread_kill(thread, SIGUSR1);
      usleep(i < 5 ? 100 : 1000);  // until the next attempt; the limit is 2 s
    }
    CHECK_NUMBER(flag_get(&place.interrupted), 1);
    // Interrupted waits leave no waiter behind that could consume a post.
    CHECK_NUMBER(value_of(&place.semaphore), 0);
    CHECK_SUCCESS(sem_post(&place.semaphore));
    CHECK(flag_comes(&place.through, 1));
    join_thread(thread);
    CHECK_NUMBER(value_of(&place.semaphore), 0);
  }
}

static void* wait_through_signals(void* argument) {
  struct place* place = argument;
  flag_set(&place->thread_id, (int)gettid());
  flag_set(&place->waiting, 1);
  errno = 0;
  while (wait_long(place->wait, &place->semaphore) != 0) {
    // After a handler some kernels cannot continue a timed wait: the wait returns EINTR even with SA_RESTART.
    CHECK_CODE(errno, EINTR);
    CHECK(place->wait->timed);
  }
  flag_set(&place->through, 1);
  return NULL;
}

CASE_FOR(handler_with_restart, struct semaphore_wait, wait, semaphore_waits) {
  handle(count_signal, SA_RESTART);
  for (int round = 0; round < 5; ++round) {
    struct place place;
    make_place(&place, wait, 0);
    pthread_t thread = start_thread(wait_through_signals, &place);
    await_flag(&place.waiting, 1);
    await_asleep(place.thread_id);
    for (int i = 1; i <= 5; ++i) {
      flag_set(&handled, 0);
      pthread_kill(thread, SIGUSR1);
      CHECK(flag_comes(&handled, 1));
    }
    CHECK_NUMBER(flag_get(&place.through), 0);
    CHECK_SUCCESS(sem_post(&place.semaphore));
    CHECK(flag_comes(&place.through, 1));
    join_thread(thread);
  }
}

// Handlers that interrupt a timed wait do not move its deadline.
static void* time_out_among_signals(void* argument) {
  struct place* place = argument;
  const struct timespec deadline = later(now(place->wait->clock), 25);
  flag_set(&place->waiting, 1);
  errno = 0;
  while (place->wait->call(&place->semaphore, &deadline) != 0 && errno == EINTR) ++place->interrupted;
  CHECK_CODE(errno, ETIMEDOUT);
  CHECK(!before(now(place->wait->clock), deadline));
  flag_set(&place->through, 1);
  return NULL;
}

CASE_WHERE(times_out_among_signals, struct semaphore_wait, wait, semaphore_waits, wait->timed) {
  for (int round = 0; round < 2; ++round) {
    handle(count_signal, round ? SA_RESTART : 0);
    struct place place;
    make_place(&place, wait, 0);
    pthread_t thread = start_thread(time_out_among_signals, &place);
    await_flag(&place.waiting, 1);
    while (!flag_get(&place.through)) {
      pthread_kill(thread, SIGUSR1);
      usleep(1000);  // the thread waits again when the next signal arrives
    }
    join_thread(thread);
  }
}

static sem_t* posted_by_handler;
static int handler_errors;
static void post_in_handler(int number) {
  (void)number;
  const int before_post = errno;
  errno = USHER_TESTS_ERRNO;
  if (sem_post(posted_by_handler) != 0 || errno != USHER_TESTS_ERRNO) flag_add(&handler_errors, 1);
  errno = before_post;
  flag_add(&handled, 1);
}

// The handler posts the semaphore on which its own thread waits. The wait either fails with EINTR or takes the unit.
static void* wait_for_own_handler(void* argument) {
  struct place* place = argument;
  flag_set(&place->thread_id, (int)gettid());
  for (int round = 1; round <= 150; ++round) {
    flag_set(&place->waiting, round);
    errno = 0;
    while (wait_long(place->wait, &place->semaphore) != 0) CHECK_CODE(errno, EINTR);
    flag_set(&place->through, round);
  }
  return NULL;
}

CASE_FOR(handler_posts_for_its_thread, struct semaphore_wait, wait, semaphore_waits) {
  for (int restart = 0; restart < 2; ++restart) {
    handle(post_in_handler, restart ? SA_RESTART : 0);
    struct place place;
    make_place(&place, wait, 0);
    posted_by_handler = &place.semaphore;
    pthread_t thread = start_thread(wait_for_own_handler, &place);
    for (int round = 1; round <= 150; ++round) {
      await_flag(&place.waiting, round);
      if (round % 10 == 0)
        await_asleep(place.thread_id);
      else
        compute((unsigned)round * 10);
      CHECK_OK(pthread_kill(thread, SIGUSR1));
      CHECK(flag_comes(&place.through, round));
    }
    join_thread(thread);
    CHECK_NUMBER(handler_errors, 0);
    CHECK_NUMBER(value_of(&place.semaphore), 0);
  }
}

// A signal handler posts. The thread that it interrupts may be in sem_post, in sem_trywait or in one of the waiting
// calls.
struct storm {
  sem_t semaphore;
  const struct semaphore_wait* wait;
  int stop;
  long posts, waits;
};

static void* wait_and_post_in_storm(void* argument) {
  struct storm* storm = argument;
  long posts = 0, waits = 0;
  for (int i = 0; !flag_get(&storm->stop); ++i) {
    // This thread waits more often than it posts; the signal handlers make the posts that are missing.
    errno = 0;
    const struct semaphore_wait* wait = &semaphore_waits[i % 4];
    const struct timespec deadline = microseconds_later(now(wait->clock), 300);
    if (wait->call(&storm->semaphore, &deadline) == 0)
      ++waits;
    else
      CHECK(errno == EINTR || (wait->timed && errno == ETIMEDOUT));
    if (i % 2) {
      CHECK_SUCCESS(sem_post(&storm->semaphore));
      ++posts;
    } else if (i % 4 == 0 && sem_trywait(&storm->semaphore) == 0) {
      ++waits;
    }
  }
  __atomic_add_fetch(&storm->posts, posts, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&storm->waits, waits, __ATOMIC_SEQ_CST);
  return NULL;
}

struct storm_way {
  const char* name;
  int flags, threads;
};
static const struct storm_way storm_ways[] = {{"one_thread", 0, 1},
                                              {"one_thread_restart", SA_RESTART, 1},
                                              {"three_threads", 0, 3},
                                              {"three_restart", SA_RESTART, 3}};

CASE_FOR(storm_of_posting_handlers, struct storm_way, way, storm_ways) {
  static struct storm storm;
  make_semaphore(&storm.semaphore, 2);
  posted_by_handler = &storm.semaphore;
  handle(post_in_handler, way->flags);
  pthread_t threads[3];
  for (int i = 0; i < way->threads; ++i) threads[i] = start_thread(wait_and_post_in_storm, &storm);
  const double until = seconds() + 0.12;
  for (unsigned i = 0; seconds() < until; ++i) {
    CHECK_OK(pthread_kill(threads[i % (unsigned)way->threads], SIGUSR1));
    compute(i % 61 * 30);
    if (i % 64 == 0) usleep(500);  // the threads go to sleep between two bursts of signals
  }
  flag_set(&storm.stop, 1);
  for (int i = 0; i < way->threads; ++i) CHECK_SUCCESS(sem_post(&storm.semaphore));
  for (int i = 0; i < way->threads; ++i) join_thread(threads[i]);
  CHECK_NUMBER(handler_errors, 0);
  const long given = 2 + way->threads + storm.posts + flag_get(&handled);
  CHECK_NUMBER(value_of(&storm.semaphore), given - storm.waits);
}

// Signals of a timer interrupt a thread in any of the calls; the thread counts the semaphore's units.
CASE(storm_of_a_timer) {
  static struct place place;
  make_place(&place, &semaphore_waits[0], 0);
  posted_by_handler = &place.semaphore;
  handle(post_in_handler, 0);
  timer_t timer;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  // Under a tracer a signal may take longer than 70 µs. With so short a period only the handler would run.
  const long period = getenv("USHER_TEST_IS_TRACED") != NULL ? 5000000 : 70000;
  const struct itimerspec often = {{0, period}, {0, period}}, never = {{0, 0}, {0, 0}};
  CHECK(timer_settime(timer, 0, &often, NULL) == 0);
  long waits = 0, posts = 0;
  const double until = seconds() + 0.15;
  for (int i = 0; seconds() < until || flag_get(&handled) <= 10; ++i) {
    errno = 0;
    if (wait_long(&semaphore_waits[i % 4], &place.semaphore) == 0)
      ++waits;
    else
      CHECK_CODE(errno, EINTR);
    if (i % 3 == 0) {
      CHECK_SUCCESS(sem_post(&place.semaphore));
      ++posts;
    }
  }
  CHECK(timer_settime(timer, 0, &never, NULL) == 0);
  usleep(1000);  // the handler of a signal that is still on its way runs within this time
  CHECK_NUMBER(handler_errors, 0);
  CHECK_NUMBER(value_of(&place.semaphore), flag_get(&handled) + posts - waits);
}

// The handler runs in a thread that neither waits nor posts, and wakes another thread: the usual way to notify a main
// loop.
CASE(handler_wakes_another_thread) {
  handle(post_in_handler, SA_RESTART);
  static struct place place;
  make_place(&place, &semaphore_waits[0], 0);
  posted_by_handler = &place.semaphore;
  for (int round = 1; round <= 100; ++round) {
    flag_set(&place.waiting, 0);
    pthread_t thread = start_thread(go_through, &place);
    if (round % 2) await_flag(&place.waiting, 1);
    CHECK(raise(SIGUSR1) == 0);
    CHECK(flag_comes(&place.through, round));
    join_thread(thread);
  }
  CHECK_NUMBER(handler_errors, 0);
}

// -- between processes --

static void child_goes_through(void* argument) {
  go_through(argument);
}

CASE_FOR(shared_between_processes, struct semaphore_wait, wait, semaphore_waits) {
  struct place* place = shared_page();
  CHECK_SUCCESS(sem_init(&place->semaphore, 1, 0));
  place->wait = wait;
  pid_t children[3];
  for (int i = 0; i < 3; ++i) children[i] = start_child(child_goes_through, place);
  pthread_t thread = start_thread(go_through, place);
  await_flag(&place->waiting, 4);
  sleep_ms(3);  // the waiters fall asleep; a wait without a unit would return within this time
  CHECK_NUMBER(flag_get(&place->through), 0);
  for (int i = 1; i <= 4; ++i) {
    CHECK_SUCCESS(sem_post(&place->semaphore));
    CHECK(flag_comes(&place->through, i));
  }
  join_thread(thread);
  for (int i = 0; i < 3; ++i) CHECK_CHILD(children[i], 0);
  CHECK_NUMBER(value_of(&place->semaphore), 0);
  const struct timespec soon = later(now(wait->clock), 5);
  if (wait->timed) CHECK_ERROR(wait->call(&place->semaphore, &soon), ETIMEDOUT);
  CHECK_SUCCESS(sem_destroy(&place->semaphore));
}

static void child_plays(void* argument) {
  play(argument);
}

CASE(shared_ping_pong) {
  struct rally* rally = shared_page();
  CHECK_SUCCESS(sem_init(&rally->turns[0], 1, 1));
  CHECK_SUCCESS(sem_init(&rally->turns[1], 7, 0));  // any value except 0 means that it is shared
  struct player here = {rally, 0}, there = {rally, 1};
  const pid_t child = start_child(child_plays, &there);
  play(&here);
  CHECK_CHILD(child, 0);
  CHECK_NUMBER(value_of(&rally->turns[0]), 1);
}

// The kernel identifies a shared semaphore by its page, not by its address: the other process maps it at another
// address.
static void child_at_another_address(void* argument) {
  struct place* place = argument;
  struct place* moved = mremap(place, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, new_page());
  CHECK(moved != MAP_FAILED && moved != place);
  flag_set(&moved->waiting, 1);
  CHECK_SUCCESS(wait_long(moved->wait, &moved->semaphore));
  CHECK_SUCCESS(sem_post(&moved->semaphore));
  flag_set(&moved->through, 1);
}

CASE(shared_at_two_addresses) {
  struct place* place = shared_page();
  CHECK_SUCCESS(sem_init(&place->semaphore, 1, 0));
  place->wait = &semaphore_waits[0];
  const pid_t child = start_child(child_at_another_address, place);
  CHECK(flag_comes(&place->waiting, 1));
  await_asleep(child);
  CHECK_SUCCESS(sem_post(&place->semaphore));
  CHECK(flag_comes(&place->through, 1));
  CHECK_CHILD(child, 0);
  CHECK_SUCCESS(sem_wait(&place->semaphore));
}

// -- named semaphores: the C library handles them itself, and all calls must work on them --

static sem_t* open_named(const char* name, int flags, unsigned value) {
  sem_t* semaphore = sem_open(name, flags, 0600, value);
  if (semaphore == SEM_FAILED && (errno == ENOSYS || errno == EACCES || errno == EROFS))
    skip_case("no named semaphores here");
  return semaphore;
}

static void* go_through_named(void* argument) {
  for (int i = 0; i < 4; ++i) CHECK_SUCCESS(wait_long(&semaphore_waits[i], argument));
  return NULL;
}

CASE(named) {
  char name[64];
  snprintf(name, sizeof name, "/usher-conformance-%d", (int)getpid());
  sem_unlink(name);
  sem_t* semaphore = open_named(name, O_CREAT | O_EXCL, 2);
  CHECK(semaphore != SEM_FAILED);
  CHECK_NUMBER(value_of(semaphore), 2);
  CHECK(sem_open(name, O_CREAT | O_EXCL, 0600, 0) == SEM_FAILED && errno == EEXIST);
  sem_t* again = sem_open(name, 0);
  CHECK(again == semaphore);
  CHECK_SUCCESS(sem_trywait(again));
  CHECK_SUCCESS(sem_wait(semaphore));
  CHECK_ERROR(sem_trywait(semaphore), EAGAIN);
  const struct timespec past = {0, 0}, wrong = {0, -1};
  CHECK_ERROR(sem_timedwait(semaphore, &past), ETIMEDOUT);
  CHECK_ERROR(sem_clockwait(semaphore, CLOCK_MONOTONIC, &past), ETIMEDOUT);
  CHECK_ERROR(sem_timedwait(semaphore, &wrong), EINVAL);

  pthread_t thread = start_thread(go_through_named, semaphore);
  for (int i = 0; i < 4; ++i) {
    usleep(500);  // the thread has returned from its last wait and usually sleeps in the next one
    CHECK_SUCCESS(sem_post(again));
  }
  join_thread(thread);

  const pid_t child = fork();
  if (child == 0) {
    be_a_child();
    go_through_named(semaphore);
    // This process opens the semaphore by its name, too, and must be able to use it.
    sem_t* own = sem_open(name, 0);
    CHECK(own != SEM_FAILED);
    CHECK_SUCCESS(sem_wait(own));
    CHECK(sem_close(own) == 0);
    _exit(0);
  }
  for (int i = 0; i < 5; ++i) {
    usleep(500);  // as above, in the child
    CHECK_SUCCESS(sem_post(semaphore));
  }
  CHECK_CHILD(child, 0);
  CHECK_NUMBER(value_of(semaphore), 0);
  CHECK(sem_close(again) == 0);
  CHECK(sem_unlink(name) == 0);
  CHECK(sem_open(name, 0) == SEM_FAILED && errno == ENOENT);
  CHECK_ERROR(sem_unlink(name), ENOENT);
  CHECK_SUCCESS(sem_post(semaphore));  // usable until it is closed
  CHECK_SUCCESS(sem_wait(semaphore));
  CHECK(sem_close(semaphore) == 0);
}

CASE(named_value_too_big) {
  char name[64];
  snprintf(name, sizeof name, "/usher-conformance-%d", (int)getpid());
  CHECK(open_named(name, O_CREAT | O_EXCL, (unsigned)big + 1u) == SEM_FAILED && errno == EINVAL);
  sem_t* semaphore = open_named(name, O_CREAT | O_EXCL, (unsigned)big);
  CHECK(semaphore != SEM_FAILED);
  CHECK(sem_unlink(name) == 0);
  CHECK_ERROR(sem_post(semaphore), EOVERFLOW);
  CHECK_SUCCESS(sem_wait(semaphore));
  CHECK_NUMBER(value_of(semaphore), big - 1);
  CHECK(sem_close(semaphore) == 0);
}

CASE(named_wait_is_interrupted) {
  char name[64];
  snprintf(name, sizeof name, "/usher-conformance-%d", (int)getpid());
  sem_t* semaphore = open_named(name, O_CREAT | O_EXCL, 0);
  CHECK(semaphore != SEM_FAILED);
  CHECK(sem_unlink(name) == 0);
  handle(count_signal, 0);
  timer_t timer;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const struct itimerspec often = {{0, 3000000}, {0, 3000000}};
  CHECK(timer_settime(timer, 0, &often, NULL) == 0);
  CHECK_ERROR(sem_wait(semaphore), EINTR);
  CHECK(sem_close(semaphore) == 0);
}
