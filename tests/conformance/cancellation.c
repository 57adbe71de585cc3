// Tests the cancellation of threads that wait for a condition or a semaphore: when it takes effect, the state that
// clean-up handlers find, and that no wake-up is lost with a cancelled thread.
#include "kinds.h"
#include "semaphore_calls.h"

struct scene {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  sem_t semaphore;
  const struct waiting* wait;
  int type;
  bool disabled, pending;
  int waiting, thread_id, may_enter, handlers, woken, tokens, done;
};

// The waiting calls, wrapped in functions of one signature. The calls for a condition are made with the mutex held.
struct waiting {
  const char* name;
  clockid_t clock;
  bool on_semaphore;
  int (*call)(struct scene* scene, const struct timespec* deadline);
};

static int condition_untimed(struct scene* scene, const struct timespec* deadline) {
  (void)deadline;
  return pthread_cond_wait(&scene->condition, &scene->mutex);
}
static int condition_timed(struct scene* scene, const struct timespec* deadline) {
  return pthread_cond_timedwait(&scene->condition, &scene->mutex, deadline);
}
static int condition_realtime(struct scene* scene, const struct timespec* deadline) {
  return pthread_cond_clockwait(&scene->condition, &scene->mutex, CLOCK_REALTIME, deadline);
}
static int condition_monotonic(struct scene* scene, const struct timespec* deadline) {
  return pthread_cond_clockwait(&scene->condition, &scene->mutex, CLOCK_MONOTONIC, deadline);
}
static int semaphore_untimed(struct scene* scene, const struct timespec* deadline) {
  return semaphore_wait_untimed(&scene->semaphore, deadline);
}
static int semaphore_timed(struct scene* scene, const struct timespec* deadline) {
  return sem_timedwait(&scene->semaphore, deadline);
}
static int semaphore_realtime(struct scene* scene, const struct timespec* deadline) {
  return semaphore_wait_realtime(&scene->semaphore, deadline);
}
static int semaphore_monotonic(struct scene* scene, const struct timespec* deadline) {
  return semaphore_wait_monotonic(&scene->semaphore, deadline);
}

static const struct waiting waits[] = {
    {"cond_wait", CLOCK_REALTIME, false, condition_untimed},
    {"cond_timedwait", CLOCK_REALTIME, false, condition_timed},
    {"cond_clockwait_realtime", CLOCK_REALTIME, false, condition_realtime},
    {"cond_clockwait_monotonic", CLOCK_MONOTONIC, false, condition_monotonic},
    {"sem_wait", CLOCK_REALTIME, true, semaphore_untimed},
    {"sem_timedwait", CLOCK_REALTIME, true, semaphore_timed},
    {"sem_clockwait_realtime", CLOCK_REALTIME, true, semaphore_realtime},
    {"sem_clockwait_monotonic", CLOCK_MONOTONIC, true, semaphore_monotonic},
};

static void make_scene(struct scene* scene, const struct waiting* wait, const struct mutex_kind* kind) {
  memset(scene, 0, sizeof *scene);
  make_mutex(&scene->mutex, kind);
  CHECK_OK(pthread_cond_init(&scene->condition, NULL));
  make_semaphore(&scene->semaphore, 0);
  scene->wait = wait;
  scene->type = PTHREAD_CANCEL_DEFERRED;
}

static int call_once(struct scene* scene) {
  const struct timespec deadline = later(now(scene->wait->clock), 60000);
  return scene->wait->call(scene, &deadline);
}

static void unlock_mutex(void* mutex) {
  CHECK_OK(pthread_mutex_unlock(mutex));
}

// -- the moment at which a cancellation takes effect, and the state in handlers --

static void outer_handler(void* argument) {
  struct scene* scene = argument;
  CHECK_NUMBER(scene->handlers, 1);
  if (!scene->wait->on_semaphore) CHECK_OK(try_elsewhere(&scene->mutex));
  scene->handlers = 2;
}

static void inner_handler(void* argument) {
  struct scene* scene = argument;
  CHECK_NUMBER(scene->handlers, 0);
  if (!scene->wait->on_semaphore) {
    // The cancelled wait has acquired the mutex again: no other thread can acquire it, and this thread may release it.
    CHECK_CODE(elsewhere(thread_trylock, &scene->mutex), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  }
  scene->handlers = 1;
}

static void* wait_with_handlers(void* argument) {
  struct scene* scene = argument;
  int old;
  if (scene->disabled) CHECK_OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
  CHECK_OK(pthread_setcanceltype(scene->type, &old));
  pthread_cleanup_push(outer_handler, scene);
  if (!scene->wait->on_semaphore) CHECK_OK(pthread_mutex_lock(&scene->mutex));
  pthread_cleanup_push(inner_handler, scene);
  scene->thread_id = (int)gettid();
  flag_set(&scene->waiting, 1);
  // This loop makes no call, because sleep is itself a cancellation point.
  while (scene->pending && !flag_get(&scene->may_enter)) {
  }
  if (scene->wait->on_semaphore) {
    CHECK_OK(call_once(scene));
  } else {
    while (scene->tokens == 0) CHECK_OK(call_once(scene));
  }
  flag_set(&scene->woken, 1);
  pthread_cleanup_pop(0);
  if (!scene->wait->on_semaphore) CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  pthread_cleanup_pop(0);
  if (scene->disabled) {
    CHECK_OK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old));
    pthread_testcancel();
    fail_case(__FILE__, __LINE__, "the cancellation request was lost");
  }
  return NULL;
}

// Returns when the thread has announced its wait. If it waits on the condition, its wait has also released the mutex.
static void await_entered(struct scene* scene) {
  await_flag(&scene->waiting, 1);
  if (scene->wait->on_semaphore) return;
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
}

// Checks that a cancelled wait has left no waiter in the queue: the next signal or post goes to another thread.
static void check_left(struct scene* scene) {
  CHECK_NUMBER(scene->handlers, 2);
  CHECK_NUMBER(scene->woken, 0);
  CHECK_OK(try_elsewhere(&scene->mutex));
  CHECK_NUMBER(value_of(&scene->semaphore), 0);
  CHECK_SUCCESS(sem_post(&scene->semaphore));
  CHECK_NUMBER(value_of(&scene->semaphore), 1);
  CHECK_SUCCESS(sem_trywait(&scene->semaphore));
  scene->handlers = 0;
  scene->waiting = 0;
  scene->type = PTHREAD_CANCEL_DEFERRED;
  scene->pending = false;
  pthread_t next = start_thread(wait_with_handlers, scene);
  await_entered(scene);
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  scene->tokens = 1;
  CHECK_OK(pthread_cond_signal(&scene->condition));
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  CHECK_SUCCESS(sem_post(&scene->semaphore));
  CHECK(flag_comes(&scene->woken, 1));
  CHECK(join_thread(next) == NULL);
  CHECK_OK(pthread_cond_destroy(&scene->condition));
  CHECK_SUCCESS(sem_destroy(&scene->semaphore));
  CHECK_OK(pthread_mutex_destroy(&scene->mutex));
}

static void cancel_blocked(const struct waiting* wait, int type) {
  for (int round = 0; round < 11; ++round) {
    note("mutex %s", all_kinds[round].name);
    struct scene scene;
    make_scene(&scene, wait, &all_kinds[round]);
    scene.type = type;
    pthread_t thread = start_thread(wait_with_handlers, &scene);
    await_entered(&scene);
    // An asynchronous cancellation request is made only when the thread is asleep, because at other moments the C
    // library guarantees nothing.
    if (type == PTHREAD_CANCEL_ASYNCHRONOUS) {
      while (!await_asleep(scene.thread_id)) {
      }
    } else if (round % 2) {
      await_asleep(scene.thread_id);
    }
    CHECK_OK(pthread_cancel(thread));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    check_left(&scene);
  }
}

CASE_FOR(cancelled_while_it_waits, struct waiting, wait, waits) {
  cancel_blocked(wait, PTHREAD_CANCEL_DEFERRED);
}
CASE_FOR(cancelled_asynchronously, struct waiting, wait, waits) {
  cancel_blocked(wait, PTHREAD_CANCEL_ASYNCHRONOUS);
}

// A cancellation request that is made before the call takes effect in the call, even if the call would not have to
// wait.
CASE_FOR(cancelled_before_it_waits, struct waiting, wait, waits) {
  const bool clockwait = wait->call == semaphore_realtime || wait->call == semaphore_monotonic;
  for (int value = 0; value < 3; ++value) {
    // in some C libraries sem_clockwait() checks for a request only if it has to wait
    if (value > 0 && clockwait && answered_by_the_c_library("sem_clockwait")) break;
    struct scene scene;
    make_scene(&scene, wait, &main_kinds[value]);
    for (int i = 0; i < value; ++i) CHECK_SUCCESS(sem_post(&scene.semaphore));
    scene.pending = true;
    pthread_t thread = start_thread(wait_with_handlers, &scene);
    await_flag(&scene.waiting, 1);
    CHECK_OK(pthread_cancel(thread));
    flag_set(&scene.may_enter, 1);
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK_NUMBER(value_of(&scene.semaphore), value);
    for (int i = 0; i < value; ++i) CHECK_SUCCESS(sem_trywait(&scene.semaphore));
    check_left(&scene);
  }
}

// A cancellation request must also take effect in a wait whose deadline has already passed.
static void* wait_in_the_past(void* argument) {
  struct scene* scene = argument;
  const struct timespec past = {0, 0};
  if (!scene->wait->on_semaphore) CHECK_OK(pthread_mutex_lock(&scene->mutex));
  flag_set(&scene->waiting, 1);
  while (!flag_get(&scene->may_enter)) {
  }
  pthread_cleanup_push(inner_handler, scene);
  (void)scene->wait->call(scene, &past);
  fail_case(__FILE__, __LINE__, "came back");
  pthread_cleanup_pop(0);
  return NULL;
}

CASE_WHERE(cancelled_though_the_time_is_over, struct waiting, wait, waits,
           wait->call != condition_untimed && wait->call != semaphore_untimed) {
  struct scene scene;
  make_scene(&scene, wait, &all_kinds[0]);
  pthread_t thread = start_thread(wait_in_the_past, &scene);
  await_flag(&scene.waiting, 1);
  CHECK_OK(pthread_cancel(thread));
  flag_set(&scene.may_enter, 1);
  CHECK(join_thread(thread) == PTHREAD_CANCELED);
  CHECK_NUMBER(scene.handlers, 1);
  CHECK_OK(try_elsewhere(&scene.mutex));
}

CASE_FOR(disabled, struct waiting, wait, waits) {
  for (int round = 0; round < 4; ++round) {
    struct scene scene;
    make_scene(&scene, wait, &main_kinds[round]);
    scene.disabled = true;
    scene.type = round % 2 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
    scene.pending = round / 2;
    pthread_t thread = start_thread(wait_with_handlers, &scene);
    if (scene.pending) {
      await_flag(&scene.waiting, 1);
      CHECK_OK(pthread_cancel(thread));
      flag_set(&scene.may_enter, 1);
    } else {
      await_entered(&scene);
      await_asleep(scene.thread_id);
      CHECK_OK(pthread_cancel(thread));
    }
    sleep_ms(2);  // a wait that the request had ended would return within this time
    CHECK_NUMBER(flag_get(&scene.woken), 0);
    CHECK_OK(pthread_mutex_lock(&scene.mutex));
    scene.tokens = 1;
    CHECK_OK(pthread_cond_signal(&scene.condition));
    CHECK_OK(pthread_mutex_unlock(&scene.mutex));
    CHECK_SUCCESS(sem_post(&scene.semaphore));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK_NUMBER(scene.woken, 1);
    CHECK_NUMBER(scene.handlers, 0);
  }
}

// A call that need not wait is no cancellation point. A call that locks a mutex never is.
static void* call_those_that_do_not_wait(void* argument) {
  struct scene* scene = argument;
  const struct timespec past = {0, 0};
  flag_set(&scene->waiting, 1);
  while (!flag_get(&scene->may_enter)) {
  }
  for (int round = 0; round < 100; ++round) {
    CHECK_SUCCESS(sem_post(&scene->semaphore));
    CHECK_NUMBER(value_of(&scene->semaphore), 1);
    CHECK_SUCCESS(sem_trywait(&scene->semaphore));
    CHECK_ERROR(sem_trywait(&scene->semaphore), EAGAIN);
    CHECK_SUCCESS(sem_destroy(&scene->semaphore));
    CHECK_SUCCESS(sem_init(&scene->semaphore, 0, 0));
    CHECK_OK(pthread_cond_signal(&scene->condition));
    CHECK_OK(pthread_cond_broadcast(&scene->condition));
    CHECK_OK(pthread_cond_destroy(&scene->condition));
    CHECK_OK(pthread_cond_init(&scene->condition, NULL));
    CHECK_OK(pthread_mutex_lock(&scene->mutex));
    CHECK_OK(pthread_mutex_unlock(&scene->mutex));
    CHECK_OK(pthread_mutex_trylock(&scene->mutex));
    CHECK_OK(pthread_mutex_unlock(&scene->mutex));
    CHECK_OK(pthread_mutex_timedlock(&scene->mutex, &past));
    CHECK_OK(pthread_mutex_unlock(&scene->mutex));
    CHECK_OK(pthread_mutex_clocklock(&scene->mutex, CLOCK_MONOTONIC, &past));
    CHECK_OK(pthread_mutex_unlock(&scene->mutex));
    CHECK_OK(pthread_mutex_destroy(&scene->mutex));
    CHECK_OK(pthread_mutex_init(&scene->mutex, NULL));
  }
  flag_set(&scene->woken, 1);
  pthread_testcancel();
  fail_case(__FILE__, __LINE__, "the cancellation request was lost");
}

CASE_FOR(no_cancellation_points, struct mutex_kind, kind, main_kinds) {
  struct scene scene;
  make_scene(&scene, &waits[0], kind);
  pthread_t thread = start_thread(call_those_that_do_not_wait, &scene);
  await_flag(&scene.waiting, 1);
  CHECK_OK(pthread_cancel(thread));
  flag_set(&scene.may_enter, 1);
  CHECK(join_thread(thread) == PTHREAD_CANCELED);
  CHECK_NUMBER(scene.woken, 1);
}

// Neither a post nor a signal is a cancellation point, even if threads sleep and must be woken.
static void* wake_while_cancelled(void* argument) {
  struct scene* scene = argument;
  flag_set(&scene->done, 1);
  while (!flag_get(&scene->may_enter)) {
  }
  CHECK_SUCCESS(sem_post(&scene->semaphore));
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  scene->tokens = 1;
  CHECK_OK(pthread_cond_signal(&scene->condition));
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  flag_set(&scene->done, 2);
  for (;;) pthread_testcancel();
  return NULL;
}

CASE_FOR(waking_is_no_cancellation_point, struct waiting, wait, waits) {
  for (int round = 0; round < 10; ++round) {
    struct scene scene;
    make_scene(&scene, wait, &all_kinds[0]);
    pthread_t waiter = start_thread(wait_with_handlers, &scene);
    await_entered(&scene);
    if (round % 2) await_asleep(scene.thread_id);
    pthread_t waker = start_thread(wake_while_cancelled, &scene);
    await_flag(&scene.done, 1);
    CHECK_OK(pthread_cancel(waker));
    flag_set(&scene.may_enter, 1);
    CHECK(join_thread(waker) == PTHREAD_CANCELED);
    CHECK_NUMBER(scene.done, 2);
    CHECK(join_thread(waiter) == NULL);
  }
}

// The handlers of a cancelled thread may wait again, because the cancellation request has already taken effect.
static void wait_again(void* argument) {
  struct scene* scene = argument;
  if (!scene->wait->on_semaphore) CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  flag_set(&scene->handlers, 1);
  CHECK_SUCCESS(sem_wait(&scene->semaphore));
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  while (scene->tokens == 0) CHECK_OK(pthread_cond_wait(&scene->condition, &scene->mutex));
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  flag_set(&scene->handlers, 2);
}

static void* wait_and_wait_again(void* argument) {
  struct scene* scene = argument;
  pthread_cleanup_push(wait_again, scene);
  if (!scene->wait->on_semaphore) CHECK_OK(pthread_mutex_lock(&scene->mutex));
  flag_set(&scene->waiting, 1);
  for (;;) CHECK_OK(call_once(scene));
  pthread_cleanup_pop(0);
  return NULL;
}

CASE_FOR(handlers_that_wait, struct waiting, wait, waits) {
  struct scene scene;
  make_scene(&scene, wait, &all_kinds[0]);
  pthread_t thread = start_thread(wait_and_wait_again, &scene);
  await_entered(&scene);
  CHECK_OK(pthread_cancel(thread));
  CHECK(flag_comes(&scene.handlers, 1));
  await_asleep(scene.thread_id);
  CHECK_SUCCESS(sem_post(&scene.semaphore));
  sleep_ms(2);  // a second wait that the request had ended would return within this time
  CHECK_NUMBER(flag_get(&scene.handlers), 1);
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  scene.tokens = 1;
  CHECK_OK(pthread_cond_signal(&scene.condition));
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  CHECK(flag_comes(&scene.handlers, 2));
  CHECK(join_thread(thread) == PTHREAD_CANCELED);
}

// -- no wake-up is lost --

// Several threads wait; all but one of them are woken, and one is cancelled at the same moment. As many threads return
// as there are tokens: the cancelled thread has either consumed a token or left it to another thread.
enum { most_waiters = 3 };
struct lottery {
  struct scene scene;
  int waiting, woken[most_waiters], total, cancelled;
};
struct ticket_holder {
  struct lottery* lottery;
  int number;
};

// Keeps a woken thread alive until the cancellation request has been made. The request must not take effect after the
// wake-up. If the thread ended at the moment of the request, the C library might report it as cancelled.
static void await_request(struct lottery* lottery) {
  while (!flag_get(&lottery->cancelled)) sched_yield();
}

static void* draw(void* argument) {
  struct ticket_holder* me = argument;
  struct lottery* lottery = me->lottery;
  struct scene* scene = &lottery->scene;
  if (scene->wait->on_semaphore) {
    flag_add(&lottery->waiting, 1);
    CHECK_OK(call_once(scene));
    flag_set(&lottery->woken[me->number], 1);
    flag_add(&lottery->total, 1);
    await_request(lottery);
    return NULL;
  }
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  pthread_cleanup_push(unlock_mutex, &scene->mutex);
  flag_add(&lottery->waiting, 1);
  while (scene->tokens == 0) CHECK_OK(call_once(scene));
  --scene->tokens;
  flag_set(&lottery->woken[me->number], 1);
  flag_add(&lottery->total, 1);
  pthread_cleanup_pop(1);
  await_request(lottery);
  return NULL;
}

static void hand_out(struct scene* scene, int count, bool with_mutex) {
  if (scene->wait->on_semaphore) {
    for (int i = 0; i < count; ++i) {
      if (sem_post(&scene->semaphore) != 0) fail_case(__FILE__, __LINE__, "sem_post failed");
    }
    return;
  }
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  scene->tokens += count;
  if (!with_mutex) CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  for (int i = 0; i < count; ++i) CHECK_OK(pthread_cond_signal(&scene->condition));
  if (with_mutex) CHECK_OK(pthread_mutex_unlock(&scene->mutex));
}

CASE_FOR(wake_survives_cancellation, struct waiting, wait, waits) {
  // The C library's semaphore loses one wake-up in a few hundred: a waiter that is cancelled between its wake-up and
  // its return leaves the semaphore's unit to other waiters, but wakes none of them.
  if (wait->on_semaphore) SKIP_ON_THE_C_LIBRARY("sem_wait");
  int cancelled = 0;
  for (int round = 0; round < 700; ++round) {
    note("round %d", round);
    struct lottery lottery;
    memset(&lottery, 0, sizeof lottery);
    make_scene(&lottery.scene, wait, &main_kinds[round / 2 % 4]);
    const int count = round % 5 == 0 ? 3 : 2, victim = round / 3 % count;
    struct ticket_holder holders[most_waiters];
    pthread_t threads[most_waiters];
    for (int i = 0; i < count; ++i) {
      holders[i] = (struct ticket_holder){&lottery, i};
      threads[i] = start_thread(draw, &holders[i]);
      // The threads begin to wait in the order of their numbers. The victim's number changes with the round, so the
      // victim is first in the queue in some rounds and not in others.
      CHECK(flag_comes(&lottery.waiting, i + 1));
    }
    // In every second round the waiters get some time, so that some are asleep and others are still on their way to the
    // wait.
    if (round % 2) usleep((useconds_t)(20 + round % 7 * 10));
    const unsigned pause = (unsigned)(round * 37 % 400 * (round % 4 == 3 ? 20 : 2));
    if (round / 7 % 2) {
      CHECK_OK(pthread_cancel(threads[victim]));
      compute(pause);
      hand_out(&lottery.scene, count - 1, round % 3 == 0);
    } else {
      hand_out(&lottery.scene, count - 1, round % 3 == 0);
      compute(pause);
      CHECK_OK(pthread_cancel(threads[victim]));
    }
    flag_set(&lottery.cancelled, 1);
    const bool gone = join_thread(threads[victim]) == PTHREAD_CANCELED;
    CHECK_NUMBER(lottery.woken[victim], !gone);
    cancelled += gone;
    if (!flag_comes(&lottery.total, count - 1))
      fail_case(__FILE__, __LINE__, "a wake-up was lost: %d of %d woken, the victim %s", flag_get(&lottery.total),
                count - 1, gone ? "cancelled" : "woken");
    if (!gone) hand_out(&lottery.scene, 1, false);
    for (int i = 0; i < count; ++i)
      if (i != victim) CHECK(join_thread(threads[i]) == NULL);
    CHECK_NUMBER(lottery.scene.tokens, 0);
    CHECK_NUMBER(value_of(&lottery.scene.semaphore), 0);
    CHECK_OK(pthread_cond_destroy(&lottery.scene.condition));
    CHECK_SUCCESS(sem_destroy(&lottery.scene.semaphore));
  }
  note("%d of 700 cancelled", cancelled);
  CHECK(cancelled > 10);
}

// Many threads are cancelled while tokens are handed out. In the end each token has been consumed or is still
// available.
static void* draw_in_crowd(void* argument) {
  struct ticket_holder me = {argument, 0};
  return draw(&me);
}

CASE_FOR(crowd_is_cancelled, struct waiting, wait, waits) {
  if (wait->on_semaphore) SKIP_ON_THE_C_LIBRARY("sem_wait");
  for (int round = 0; round < 15; ++round) {
    struct lottery lottery;
    memset(&lottery, 0, sizeof lottery);
    make_scene(&lottery.scene, wait, &main_kinds[round % 4]);
    pthread_t threads[16];
    for (int i = 0; i < 16; ++i) threads[i] = start_thread(draw_in_crowd, &lottery);
    if (round % 3) CHECK(flag_comes(&lottery.waiting, 16));
    if (round % 3 == 2) await_sleepers(16);
    for (int i = 0; i < 16; i += 2) {
      CHECK_OK(pthread_cancel(threads[i]));
      hand_out(&lottery.scene, 1, i % 4 == 0);
    }
    flag_set(&lottery.cancelled, 1);
    int gone = 0;
    for (int i = 0; i < 16; i += 2) gone += join_thread(threads[i]) == PTHREAD_CANCELED;
    // There are eight tokens, and at least eight of the waiting threads were not cancelled.
    if (!flag_comes(&lottery.total, 8))
      fail_case(__FILE__, __LINE__, "a wake-up was lost: %d of 8 woken, %d cancelled", flag_get(&lottery.total), gone);
    hand_out(&lottery.scene, 8 - gone, false);
    for (int i = 1; i < 16; i += 2) CHECK(join_thread(threads[i]) == NULL);
    CHECK_NUMBER(lottery.total, 16 - gone);
    CHECK_NUMBER(value_of(&lottery.scene.semaphore), 0);
    CHECK_OK(pthread_cond_destroy(&lottery.scene.condition));
  }
}

// -- destruction --

// When all waiters have been woken or cancelled, or have timed out, the condition may be destroyed although the waiters
// have not returned: they cannot return while the mutex is held.
struct doomed {
  pthread_mutex_t mutex;
  pthread_cond_t* condition;
  int waiting, open, out;
};
struct doomed_waiter {
  struct doomed* doomed;
  int microseconds;  ///< 0: no deadline
};

static void leave_doomed(void* argument) {
  struct doomed* doomed = argument;
  ++doomed->out;
  CHECK_OK(pthread_mutex_unlock(&doomed->mutex));
}

static void* wait_on_doomed(void* argument) {
  const struct doomed_waiter* me = argument;
  struct doomed* doomed = me->doomed;
  CHECK_OK(pthread_mutex_lock(&doomed->mutex));
  pthread_cleanup_push(leave_doomed, doomed);
  ++doomed->waiting;
  int code = 0;
  struct timespec deadline = now(CLOCK_MONOTONIC);
  deadline.tv_nsec += me->microseconds * 1000;
  deadline.tv_sec += deadline.tv_nsec / 1000000000;
  deadline.tv_nsec %= 1000000000;
  while (!doomed->open && code == 0) {
    code = me->microseconds > 0 ? pthread_cond_clockwait(doomed->condition, &doomed->mutex, CLOCK_MONOTONIC, &deadline)
                                : pthread_cond_wait(doomed->condition, &doomed->mutex);
  }
  if (code != 0) CHECK_CODE(code, ETIMEDOUT);
  pthread_cleanup_pop(1);
  return NULL;
}

static void await_doomed(struct doomed* doomed, int count) {
  for (;;) {
    CHECK_OK(pthread_mutex_lock(&doomed->mutex));
    if (doomed->waiting == count) return;
    CHECK_OK(pthread_mutex_unlock(&doomed->mutex));
    sched_yield();
  }
}

static pthread_cond_t* condition_page(void) {
  pthread_cond_t* condition = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(condition != MAP_FAILED);
  CHECK_OK(pthread_cond_init(condition, NULL));
  return condition;
}

struct doom {
  const char* name;
  bool broadcast;      ///< a broadcast; otherwise as many signals as waiters
  bool mutex_held;     ///< the mutex is held while the condition is destroyed
  bool cancel_before;  ///< cancels before the broadcast; otherwise after the destruction
};
static const struct doom dooms[] = {
    {"broadcast_mutex_held_cancelled_before", true, true, true},
    {"broadcast_mutex_held_cancelled_after", true, true, false},
    {"broadcast_cancelled_before", true, false, true},
    {"broadcast_cancelled_after", true, false, false},
    {"signals_mutex_held_cancelled_before", false, true, true},
    {"signals_mutex_held_cancelled_after", false, true, false},
};

CASE_FOR(destroyed_among_cancelled, struct doom, way, dooms) {
  for (int round = 0; round < 150; ++round) {
    note("round %d", round);
    struct doomed doomed;
    memset(&doomed, 0, sizeof doomed);
    make_mutex(&doomed.mutex, &main_kinds[round % 4]);
    doomed.condition = condition_page();
    const int count = way->broadcast ? 4 : 2;
    struct doomed_waiter waiters[4];
    pthread_t threads[4];
    for (int i = 0; i < count; ++i) {
      // The deadline of one waiter passes at about the time of the broadcast.
      waiters[i] = (struct doomed_waiter){&doomed, way->broadcast && i == 2 ? 150 + round % 30 * 5 : 0};
      threads[i] = start_thread(wait_on_doomed, &waiters[i]);
    }
    await_doomed(&doomed, count);
    const int victim = round % 2;
    if (round % 3 == 0) compute(3000);
    if (way->cancel_before) CHECK_OK(pthread_cancel(threads[victim]));
    if (round % 5 == 0) compute(3000);
    doomed.open = 1;
    if (way->broadcast) {
      CHECK_OK(pthread_cond_broadcast(doomed.condition));
    } else {
      // A signal is sent for each waiter, although one waiter may be cancelled. The cancelled waiter must not consume a
      // signal that another waiter needs.
      for (int i = 0; i < count; ++i) CHECK_OK(pthread_cond_signal(doomed.condition));
      if (way->cancel_before) CHECK_OK(pthread_cond_broadcast(doomed.condition));
    }
    if (!way->mutex_held) CHECK_OK(pthread_mutex_unlock(&doomed.mutex));
    CHECK_OK(pthread_cond_destroy(doomed.condition));
    munmap(doomed.condition, 4096);
    if (!way->cancel_before) CHECK_OK(pthread_cancel(threads[victim]));
    if (round % 4 == 0) compute(3000);
    if (way->mutex_held) CHECK_OK(pthread_mutex_unlock(&doomed.mutex));
    for (int i = 0; i < count; ++i) {
      void* result = join_thread(threads[i]);
      CHECK(result == NULL || (i == victim && result == PTHREAD_CANCELED));
    }
    CHECK_NUMBER(doomed.out, count);
    CHECK_OK(try_elsewhere(&doomed.mutex));
  }
}

// A semaphore whose waiters have all been cancelled has no waiters.
CASE_WHERE(semaphore_destroyed_after_cancellation, struct waiting, wait, waits, wait->on_semaphore) {
  for (int round = 0; round < 100; ++round) {
    struct scene* scene = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(scene != MAP_FAILED && sizeof *scene <= 4096);
    make_scene(scene, wait, &all_kinds[0]);
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) threads[i] = start_thread(wait_with_handlers, scene);
    if (round % 2) await_flag(&scene->waiting, 1);
    scene->handlers = 0;
    for (int i = 0; i < 2; ++i) {
      CHECK_OK(pthread_cancel(threads[i]));
      CHECK(join_thread(threads[i]) == PTHREAD_CANCELED);
      CHECK_NUMBER(scene->handlers, 2);
      scene->handlers = 0;
    }
    CHECK_NUMBER(value_of(&scene->semaphore), 0);
    CHECK_SUCCESS(sem_destroy(&scene->semaphore));
    munmap(scene, 4096);
  }
}
