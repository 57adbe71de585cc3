// Tests condition variables: results of the calls, wake-ups, deadlines, cancellation, destruction.
#include "kinds.h"

#include <sys/resource.h>
#include <sys/syscall.h>

static const pthread_cond_t initialiser = PTHREAD_COND_INITIALIZER;

// The ways to make a condition variable that is used within one process.
struct condition_kind {
  const char* name;
  bool is_static, attribute, monotonic, shared;
};

static const struct condition_kind condition_kinds[] = {
    {"default", false, false, false, false},
    {"static", true, false, false, false},
    {"plain_attribute", false, true, false, false},
    {"monotonic", false, true, true, false},
};

static void make_condition(pthread_cond_t* condition, const struct condition_kind* kind) {
  memset(condition, 0xa5, sizeof *condition);
  if (kind->is_static) {
    memcpy(condition, &initialiser, sizeof *condition);
  } else if (!kind->attribute) {
    CHECK_OK(pthread_cond_init(condition, NULL));
  } else {
    pthread_condattr_t attribute;
    CHECK_OK(pthread_condattr_init(&attribute));
    if (kind->monotonic) CHECK_OK(pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC));
    if (kind->shared) CHECK_OK(pthread_condattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED));
    CHECK_OK(pthread_cond_init(condition, &attribute));
    CHECK_OK(pthread_condattr_destroy(&attribute));
  }
}

static clockid_t clock_of(const struct condition_kind* kind) {
  return kind->monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

// The waiting calls, wrapped in functions of one signature. Conditions that are used with this table have the clock
// CLOCK_REALTIME.
struct wait_call {
  const char* name;
  clockid_t clock;
  int (*call)(pthread_cond_t* condition, pthread_mutex_t* mutex, const struct timespec* deadline);
};

static int wait_untimed(pthread_cond_t* condition, pthread_mutex_t* mutex, const struct timespec* deadline) {
  (void)deadline;
  return pthread_cond_wait(condition, mutex);
}

static int clockwait_realtime(pthread_cond_t* condition, pthread_mutex_t* mutex, const struct timespec* deadline) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, deadline);
}

static int clockwait_monotonic(pthread_cond_t* condition, pthread_mutex_t* mutex, const struct timespec* deadline) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, deadline);
}

static const struct wait_call wait_calls[] = {
    {"wait", CLOCK_REALTIME, wait_untimed},
    {"timedwait", CLOCK_REALTIME, pthread_cond_timedwait},
    {"clockwait_realtime", CLOCK_REALTIME, clockwait_realtime},
    {"clockwait_monotonic", CLOCK_MONOTONIC, clockwait_monotonic},
};
static const struct wait_call timed_waits[] = {
    {"timedwait", CLOCK_REALTIME, pthread_cond_timedwait},
    {"clockwait_realtime", CLOCK_REALTIME, clockwait_realtime},
    {"clockwait_monotonic", CLOCK_MONOTONIC, clockwait_monotonic},
};

// The usual use of a condition variable: a gate that lets threads through. Its counter `open` is the number of threads
// that may still pass.
struct gate {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int waiting, open, through, thread_id, in_time;
  struct timespec deadline;
  const struct wait_call* wait;
  long milliseconds;
};

static void make_gate(struct gate* gate, const struct mutex_kind* mutex, const struct condition_kind* kind) {
  memset(gate, 0, sizeof *gate);
  make_mutex(&gate->mutex, mutex);
  make_condition(&gate->condition, kind);
  gate->wait = &wait_calls[0];
  gate->milliseconds = 60000;
}

static void lock_gate(struct gate* gate) {
  CHECK_OK(pthread_mutex_lock(&gate->mutex));
}
static void unlock_gate(struct gate* gate) {
  CHECK_OK(pthread_mutex_unlock(&gate->mutex));
}

// Waits until `open` is not zero, then decrements it.
static void* go_through(void* argument) {
  struct gate* gate = argument;
  lock_gate(gate);
  ++gate->waiting;
  gate->thread_id = (int)gettid();
  while (gate->open == 0) {
    const struct timespec deadline = later(now(gate->wait->clock), gate->milliseconds);
    CHECK_OK(gate->wait->call(&gate->condition, &gate->mutex, &deadline));
  }
  --gate->open;
  --gate->waiting;
  ++gate->through;
  unlock_gate(gate);
  return NULL;
}

static void await_waiting(struct gate* gate, int count) {
  for (;;) {
    lock_gate(gate);
    const int waiting = gate->waiting;
    unlock_gate(gate);
    if (waiting >= count) return;
    usleep(200);  // polls; the case has a time limit
  }
}

// -- without waiters --

CASE_FOR(signal_without_waiter, struct condition_kind, kind, condition_kinds) {
  pthread_cond_t condition;
  make_condition(&condition, kind);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(pthread_cond_signal(&condition));
    CHECK_OK(pthread_cond_broadcast(&condition));
  }
  // A signal without a waiter has no effect, so the later wait times out. It may wake up spuriously, but not for ever.
  CHECK_OK(pthread_mutex_lock(&mutex));
  const struct timespec deadline = later(now(clock_of(kind)), 10);
  int code = 0;
  for (int i = 0; i < 100 && code == 0; ++i) code = pthread_cond_timedwait(&condition, &mutex, &deadline);
  CHECK_CODE(code, ETIMEDOUT);
  CHECK_OK(pthread_mutex_unlock(&mutex));
  CHECK_OK(pthread_cond_destroy(&condition));
}

CASE_FOR(condition_init_destroy, struct condition_kind, kind, condition_kinds) {
  pthread_cond_t condition;
  for (int i = 0; i < 100; ++i) {
    make_condition(&condition, kind);
    if (i % 2) CHECK_OK(pthread_cond_signal(&condition));
    CHECK_OK(pthread_cond_destroy(&condition));
  }
}

CASE(condition_attributes) {
  pthread_condattr_t attribute;
  clockid_t clock = 77;
  int shared = 77;
  CHECK_OK(pthread_condattr_init(&attribute));
  CHECK_OK(pthread_condattr_getclock(&attribute, &clock));
  CHECK_NUMBER(clock, CLOCK_REALTIME);
  CHECK_OK(pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC));
  CHECK_OK(pthread_condattr_getclock(&attribute, &clock));
  CHECK_NUMBER(clock, CLOCK_MONOTONIC);
  CHECK_CODE(pthread_condattr_setclock(&attribute, CLOCK_PROCESS_CPUTIME_ID), EINVAL);
  CHECK_CODE(pthread_condattr_setclock(&attribute, CLOCK_BOOTTIME), EINVAL);
  CHECK_OK(pthread_condattr_getpshared(&attribute, &shared));
  CHECK_NUMBER(shared, PTHREAD_PROCESS_PRIVATE);
  CHECK_CODE(pthread_condattr_setpshared(&attribute, 17), EINVAL);
  CHECK_OK(pthread_condattr_destroy(&attribute));
}

// -- one waiter --

CASE_FOR(signal_wakes_the_waiter, struct condition_kind, kind, condition_kinds) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], kind);
  for (int round = 0; round < 20; ++round) {
    pthread_t thread = start_thread(go_through, &gate);
    await_waiting(&gate, 1);  // the thread counted itself under the mutex: now it waits, and the mutex is free
    if (round % 2) await_asleep(gate.thread_id);
    lock_gate(&gate);
    gate.open = 1;
    CHECK_OK(round % 4 < 2 ? pthread_cond_signal(&gate.condition) : pthread_cond_broadcast(&gate.condition));
    unlock_gate(&gate);
    join_thread(thread);
    CHECK_NUMBER(gate.through, round + 1);
  }
  CHECK_OK(pthread_cond_destroy(&gate.condition));
}

CASE_FOR(every_wait_call, struct wait_call, wait, wait_calls) {
  struct gate gate;
  for (int way = 0; way < 12; ++way) {
    make_gate(&gate, &main_kinds[way % 4], &condition_kinds[way % 3]);
    gate.wait = wait;
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i) threads[i] = start_thread(go_through, &gate);
    await_waiting(&gate, 3);
    lock_gate(&gate);
    gate.open = 3;
    CHECK_OK(pthread_cond_broadcast(&gate.condition));
    unlock_gate(&gate);
    for (int i = 0; i < 3; ++i) join_thread(threads[i]);
  }
}

CASE(signalled_without_the_mutex) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  for (int round = 0; round < 50; ++round) {
    pthread_t thread = start_thread(go_through, &gate);
    lock_gate(&gate);
    ++gate.open;
    unlock_gate(&gate);
    CHECK_OK(pthread_cond_signal(&gate.condition));
    join_thread(thread);
  }
}

// Checks that the caller holds the mutex when a wait returns, for each of the calls.
static void* wait_and_keep(void* argument) {
  struct gate* gate = argument;
  lock_gate(gate);
  ++gate->waiting;
  while (gate->open == 0) {
    const struct timespec deadline = later(now(gate->wait->clock), gate->milliseconds);
    CHECK_OK(gate->wait->call(&gate->condition, &gate->mutex, &deadline));
  }
  CHECK_CODE(elsewhere(thread_trylock, &gate->mutex), EBUSY);
  unlock_gate(gate);
  CHECK_OK(try_elsewhere(&gate->mutex));
  return NULL;
}

CASE_FOR(returns_with_the_mutex, struct wait_call, wait, wait_calls) {
  for (int i = 0; i < 11; ++i) {
    note("mutex %s", all_kinds[i].name);
    struct gate gate;
    make_gate(&gate, &all_kinds[i], &condition_kinds[0]);
    gate.wait = wait;
    pthread_t thread = start_thread(wait_and_keep, &gate);
    await_waiting(&gate, 1);
    lock_gate(&gate);
    gate.open = 1;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    unlock_gate(&gate);
    join_thread(thread);
  }
}

CASE_FOR(needs_the_mutex, struct wait_call, wait, wait_calls) {
  // A wait without the mutex fails with EPERM if the mutex is of a kind that checks its owner.
  for (int i = 0; i < 11; ++i) {
    if (!all_kinds[i].checks) continue;
    note("mutex %s", all_kinds[i].name);
    struct gate gate;
    make_gate(&gate, &all_kinds[i], &condition_kinds[0]);
    const struct timespec deadline = later(now(wait->clock), 1000);
    CHECK_CODE(wait->call(&gate.condition, &gate.mutex, &deadline), EPERM);
    struct holder holder;
    hold(&holder, &gate.mutex);
    CHECK_CODE(wait->call(&gate.condition, &gate.mutex, &deadline), EPERM);
    CHECK_CODE(pthread_mutex_trylock(&gate.mutex), EBUSY);
    let_go(&holder);
    // The failed waits have left no waiter in the queue: the signal goes to a real waiter.
    gate.wait = wait;
    pthread_t thread = start_thread(go_through, &gate);
    await_waiting(&gate, 1);
    lock_gate(&gate);
    gate.open = 1;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    unlock_gate(&gate);
    join_thread(thread);
  }
}

CASE(waits_with_another_mutex_held) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread = start_thread(go_through, &gate);
  CHECK_OK(pthread_mutex_lock(&outer));
  lock_gate(&gate);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 5);
  int code = 0;
  while (code == 0) code = pthread_cond_timedwait(&gate.condition, &gate.mutex, &deadline);
  CHECK_CODE(code, ETIMEDOUT);
  CHECK_CODE(elsewhere(thread_trylock, &outer), EBUSY);
  gate.open = 1;
  CHECK_OK(pthread_cond_broadcast(&gate.condition));
  unlock_gate(&gate);
  CHECK_OK(pthread_mutex_unlock(&outer));
  join_thread(thread);
}

// A condition may be used with one mutex after another if no thread waits in between.
CASE(one_condition_many_mutexes) {
  struct gate gates[11];
  for (int i = 0; i < 11; ++i) {
    if (i == 0) make_gate(&gates[0], &all_kinds[0], &condition_kinds[0]);
    make_mutex(&gates[0].mutex, &all_kinds[i]);
    gates[0].waiting = 0;
    pthread_t thread = start_thread(go_through, &gates[0]);
    await_waiting(&gates[0], 1);
    lock_gate(&gates[0]);
    gates[0].open = 1;
    CHECK_OK(pthread_cond_signal(&gates[0].condition));
    unlock_gate(&gates[0]);
    join_thread(thread);
    CHECK_OK(pthread_mutex_destroy(&gates[0].mutex));
  }
}

// Two conditions with one mutex are independent: a signal to one does not wake a waiter of the other.
CASE(two_conditions_one_mutex) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  pthread_cond_t other;
  make_condition(&other, &condition_kinds[1]);
  pthread_t thread = start_thread(go_through, &gate);
  await_waiting(&gate, 1);
  for (int round = 0; round < 3; ++round) {
    lock_gate(&gate);
    gate.open = round == 2;
    for (int i = 0; i < 5; ++i) CHECK_OK(i % 2 ? pthread_cond_signal(&other) : pthread_cond_broadcast(&other));
    if (round == 2) CHECK_OK(pthread_cond_signal(&gate.condition));
    unlock_gate(&gate);
    if (round == 2) break;
    sleep_ms(3);  // a thread that the other condition had woken would be through within this time
    CHECK_NUMBER(flag_get(&gate.through), 0);
  }
  join_thread(thread);
  CHECK_OK(pthread_cond_destroy(&other));
  CHECK_OK(pthread_cond_destroy(&gate.condition));
}

// A signal goes to a thread that waited when the signal was sent, not to one that began to wait afterwards.
struct latecomer {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int waiting, out;
};

static void* wait_early(void* argument) {
  struct latecomer* scene = argument;
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  flag_set(&scene->waiting, 1);
  CHECK_OK(pthread_cond_wait(&scene->condition, &scene->mutex));
  scene->out = 1;
  CHECK_OK(pthread_cond_signal(&scene->condition));
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  return NULL;
}

CASE(signal_is_not_for_latecomers) {
  for (int round = 0; round < 200; ++round) {
    struct latecomer scene;
    memset(&scene, 0, sizeof scene);
    make_mutex(&scene.mutex, &main_kinds[round % 4]);
    make_condition(&scene.condition, &condition_kinds[round % 3]);
    pthread_t thread = start_thread(wait_early, &scene);
    await_flag(&scene.waiting, 1);
    CHECK_OK(pthread_mutex_lock(&scene.mutex));
    CHECK_OK(pthread_cond_signal(&scene.condition));
    // The mutex has been held since the signal, so the other thread is still in its wait.
    const struct timespec deadline = later(now(CLOCK_REALTIME), 5000);
    int code = 0;
    while (!scene.out && code == 0) code = pthread_cond_timedwait(&scene.condition, &scene.mutex, &deadline);
    CHECK_OK(code);
    CHECK_OK(pthread_mutex_unlock(&scene.mutex));
    join_thread(thread);
    CHECK_OK(pthread_cond_destroy(&scene.condition));
  }
}

// -- deadlines --

// A wait whose deadline has already passed must still release the mutex for a moment. The second thread runs this body
// and acquires the mutex in that moment.
static void* lock_once(void* argument) {
  struct gate* gate = argument;
  flag_set(&gate->thread_id, (int)gettid());
  lock_gate(gate);
  gate->through = 1;
  unlock_gate(gate);
  return NULL;
}

CASE_FOR(past_deadline_gives_the_mutex_away, struct wait_call, wait, timed_waits) {
  for (int i = 0; i < 4; ++i) {
    struct gate gate;
    make_gate(&gate, &main_kinds[i], &condition_kinds[0]);
    lock_gate(&gate);
    pthread_t thread = start_thread(lock_once, &gate);
    await_flag(&gate.thread_id, 1);
    await_asleep(gate.thread_id);
    const double limit = seconds() + 5;
    while (!gate.through) {
      const struct timespec past = {0, 0};
      CHECK_CODE(wait->call(&gate.condition, &gate.mutex, &past), ETIMEDOUT);
      CHECK(seconds() < limit);
    }
    CHECK_CODE(elsewhere(thread_trylock, &gate.mutex), EBUSY);
    unlock_gate(&gate);
    join_thread(thread);
  }
}

CASE_FOR(times_out, struct wait_call, wait, timed_waits) {
  for (int i = 0; i < 11; ++i) {
    note("mutex %s", all_kinds[i].name);
    struct gate gate;
    make_gate(&gate, &all_kinds[i], &condition_kinds[0]);
    lock_gate(&gate);
    const struct timespec past[] = {later(now(wait->clock), -1000), {0, 0}, {-1, 0}};
    for (int j = 0; j < 3; ++j) {
      CHECK_CODE(wait->call(&gate.condition, &gate.mutex, &past[j]), ETIMEDOUT);
      CHECK_CODE(elsewhere(thread_trylock, &gate.mutex), EBUSY);
    }
    const struct timespec deadline = later(now(wait->clock), 10);
    int code = 0;
    while (code == 0) code = wait->call(&gate.condition, &gate.mutex, &deadline);
    CHECK_CODE(code, ETIMEDOUT);
    CHECK(!before(now(wait->clock), deadline));
    CHECK_CODE(elsewhere(thread_trylock, &gate.mutex), EBUSY);
    unlock_gate(&gate);
    CHECK_OK(try_elsewhere(&gate.mutex));
    CHECK_OK(pthread_cond_destroy(&gate.condition));
  }
}

CASE(times_out_on_its_own_clock) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[3]);
  lock_gate(&gate);
  // On the real-time clock this deadline is far in the past; on the monotonic clock it is in the future.
  const struct timespec deadline = later(now(CLOCK_MONOTONIC), 20);
  int code = 0;
  while (code == 0) code = pthread_cond_timedwait(&gate.condition, &gate.mutex, &deadline);
  CHECK_CODE(code, ETIMEDOUT);
  CHECK(!before(now(CLOCK_MONOTONIC), deadline));
  // pthread_cond_clockwait overrides the condition's clock.
  const struct timespec real = later(now(CLOCK_REALTIME), 20);
  for (code = 0; code == 0;) code = pthread_cond_clockwait(&gate.condition, &gate.mutex, CLOCK_REALTIME, &real);
  CHECK_CODE(code, ETIMEDOUT);
  CHECK(!before(now(CLOCK_REALTIME), real));
  unlock_gate(&gate);
}

CASE_FOR(invalid_deadline, struct wait_call, wait, timed_waits) {
  for (int i = 0; i < 11; ++i) {
    note("mutex %s", all_kinds[i].name);
    struct gate gate;
    make_gate(&gate, &all_kinds[i], &condition_kinds[0]);
    lock_gate(&gate);
    const struct timespec wrong[] = {
        {0, -1}, {0, 1000000000}, {now(wait->clock).tv_sec + 9, 1000000000}, {now(wait->clock).tv_sec + 9, -1}};
    for (int j = 0; j < 4; ++j) {
      CHECK_CODE(wait->call(&gate.condition, &gate.mutex, &wrong[j]), EINVAL);
      CHECK_CODE(elsewhere(thread_trylock, &gate.mutex), EBUSY);
    }
    unlock_gate(&gate);
    CHECK_OK(try_elsewhere(&gate.mutex));
  }
}

CASE(clockwait_bad_clock) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  lock_gate(&gate);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 1000);
  const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME, -1, 1000};
  for (int i = 0; i < 5; ++i) {
    CHECK_CODE(pthread_cond_clockwait(&gate.condition, &gate.mutex, clocks[i], &deadline), EINVAL);
    CHECK_CODE(elsewhere(thread_trylock, &gate.mutex), EBUSY);
  }
  unlock_gate(&gate);
}

// The deadline has passed but another thread owns the mutex: the wait continues until the mutex is free.
static void* time_out_late(void* argument) {
  struct gate* gate = argument;
  lock_gate(gate);
  gate->deadline = later(now(gate->wait->clock), 10);
  flag_set(&gate->waiting, 1);
  int code = 0;
  while (code == 0) code = gate->wait->call(&gate->condition, &gate->mutex, &gate->deadline);
  CHECK_CODE(code, ETIMEDOUT);
  if (gate->in_time) CHECK(gate->open == 1);  // set just before the mutex was released
  unlock_gate(gate);
  return NULL;
}

CASE_FOR(reacquires_after_the_deadline, struct wait_call, wait, timed_waits) {
  for (int i = 0; i < 4; ++i) {
    struct gate gate;
    make_gate(&gate, &main_kinds[i], &condition_kinds[0]);
    gate.wait = wait;
    pthread_t thread = start_thread(time_out_late, &gate);
    await_flag(&gate.waiting, 1);
    lock_gate(&gate);
    // On a busy machine the deadline may have passed before this point. Then the wait has already ended, and this round
    // tests nothing.
    gate.in_time = before(now(wait->clock), gate.deadline);
    sleep_ms(30);  // the deadline, after 10 ms, passes while the mutex is held
    gate.open = 1;
    unlock_gate(&gate);
    join_thread(thread);
  }
}

// -- many waiters --

CASE_FOR(broadcast_wakes_all, struct mutex_kind, kind, all_kinds) {
  struct gate gate;
  make_gate(&gate, kind, &condition_kinds[0]);
  for (int round = 0; round < 5; ++round) {
    pthread_t threads[8];
    for (int i = 0; i < 8; ++i) threads[i] = start_thread(go_through, &gate);
    await_waiting(&gate, 8);
    lock_gate(&gate);
    gate.open = 8;
    CHECK_OK(pthread_cond_broadcast(&gate.condition));
    if (round % 2) sleep_ms(2);  // threads that the broadcast woke find the mutex held
    unlock_gate(&gate);
    for (int i = 0; i < 8; ++i) join_thread(threads[i]);
  }
  CHECK_NUMBER(gate.through, 40);
  CHECK_OK(pthread_cond_destroy(&gate.condition));
}

CASE_FOR(as_many_signals_as_waiters, struct condition_kind, kind, condition_kinds) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], kind);
  for (int round = 0; round < 5; ++round) {
    pthread_t threads[8];
    for (int i = 0; i < 8; ++i) threads[i] = start_thread(go_through, &gate);
    await_waiting(&gate, 8);
    for (int i = 0; i < 8; ++i) {
      lock_gate(&gate);
      ++gate.open;
      if (round % 2) CHECK_OK(pthread_cond_signal(&gate.condition));
      unlock_gate(&gate);
      if (round % 2 == 0) CHECK_OK(pthread_cond_signal(&gate.condition));
    }
    for (int i = 0; i < 8; ++i) join_thread(threads[i]);
  }
  CHECK_NUMBER(gate.through, 40);
}

CASE(broadcast_to_fifty) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  pthread_t threads[50];
  for (int i = 0; i < 50; ++i) threads[i] = start_thread(go_through, &gate);
  await_waiting(&gate, 50);
  lock_gate(&gate);
  gate.open = 50;
  CHECK_OK(pthread_cond_broadcast(&gate.condition));
  unlock_gate(&gate);
  for (int i = 0; i < 50; ++i) join_thread(threads[i]);
}

// -- guarantees that only Usher gives: FIFO order, no futile wake-up, no wake-up of a thread that would find the mutex
// held --

struct line_up {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  const struct wait_call* wait;
  int waiting, out, order[64], switches, tokens;
};
struct in_line {
  struct line_up* line;
  int number;
};

static void* stand_in_line(void* argument) {
  struct in_line* me = argument;
  struct line_up* line = me->line;
  CHECK_OK(pthread_mutex_lock(&line->mutex));
  flag_add(&line->waiting, 1);
  const struct timespec deadline = later(now(line->wait->clock), 60000);
  // The wait is not in a loop, so a thread that returns has been selected by a signal.
  CHECK_OK(line->wait->call(&line->condition, &line->mutex, &deadline));
  line->order[line->out] = me->number;
  flag_add(&line->out, 1);
  CHECK_OK(pthread_mutex_unlock(&line->mutex));
  return NULL;
}

static void make_line(struct line_up* line, const struct wait_call* wait, const struct mutex_kind* kind) {
  memset(line, 0, sizeof *line);
  make_mutex(&line->mutex, kind);
  make_condition(&line->condition, &condition_kinds[0]);
  line->wait = wait;
}

CASE_FOR(first_in_first_out, struct wait_call, wait, wait_calls) {
  SKIP_ON_THE_C_LIBRARY("pthread_cond_signal");
  for (int round = 0; round < 8; ++round) {
    struct line_up line;
    make_line(&line, wait, &main_kinds[round % 4]);
    struct in_line numbers[8];
    pthread_t threads[8];
    for (int i = 0; i < 8; ++i) {
      numbers[i] = (struct in_line){&line, i};
      threads[i] = start_thread(stand_in_line, &numbers[i]);
      await_flag(&line.waiting, i + 1);
      if (i % 3 == round % 3) await_sleepers(i + 1);
    }
    for (int i = 0; i < 8; ++i) {
      const bool with_mutex = (i + round) % 2;
      CHECK_OK(pthread_mutex_lock(&line.mutex));
      if (!with_mutex) CHECK_OK(pthread_mutex_unlock(&line.mutex));
      CHECK_OK(pthread_cond_signal(&line.condition));
      if (with_mutex) CHECK_OK(pthread_mutex_unlock(&line.mutex));
      CHECK(flag_comes(&line.out, i + 1));
      if (i % 4 == 0) sleep_ms(1);  // a second thread that the signal woke would be out within this time
      CHECK_NUMBER(flag_get(&line.out), i + 1);
    }
    for (int i = 0; i < 8; ++i) {
      join_thread(threads[i]);
      CHECK_NUMBER(line.order[i], i);
    }
    CHECK_OK(pthread_cond_destroy(&line.condition));
  }
}

static int context_switches(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return (int)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static void* stand_in_crowd(void* argument) {
  struct line_up* line = argument;
  CHECK_OK(pthread_mutex_lock(&line->mutex));
  flag_add(&line->waiting, 1);
  CHECK_OK(pthread_cond_wait(&line->condition, &line->mutex));
  compute(100);
  if (flag_add(&line->out, 1) == 64) line->switches = context_switches() - line->switches;
  CHECK_OK(pthread_mutex_unlock(&line->mutex));
  return NULL;
}

// All waiters of a broadcast return one after the other. None of them is woken only to find the mutex held.
CASE_FOR(broadcast_is_no_stampede, struct mutex_kind, kind, main_kinds) {
  SKIP_ON_THE_C_LIBRARY("pthread_cond_broadcast");
  int least = 1 << 30;
  for (int round = 0; round < 20 && least > 3 * 64; ++round) {
    struct line_up line;
    make_line(&line, &wait_calls[0], kind);
    pthread_t threads[64];
    for (int i = 0; i < 64; ++i) threads[i] = start_thread(stand_in_crowd, &line);
    await_flag(&line.waiting, 64);
    await_sleepers(64);
    CHECK_OK(pthread_mutex_lock(&line.mutex));
    line.switches = context_switches();
    CHECK_OK(pthread_cond_broadcast(&line.condition));
    sleep_ms(2);  // woken threads would find the mutex held, and go to sleep again
    CHECK_NUMBER(flag_get(&line.out), 0);
    CHECK_OK(pthread_mutex_unlock(&line.mutex));
    for (int i = 0; i < 64; ++i) join_thread(threads[i]);
    CHECK_NUMBER(line.out, 64);
    if (line.switches < least) least = line.switches;
    CHECK_OK(pthread_cond_destroy(&line.condition));
  }
  // Load on the machine adds context switches in some rounds, so only the best round is judged.
  note("%d context switches for 64 waiters", least);
  CHECK(least <= 3 * 64);
}

// -- no wake-up is lost --

struct ping_pong {
  pthread_mutex_t mutex;
  pthread_cond_t changed[2];
  int turn, rounds;
};

struct player {
  struct ping_pong* game;
  int side;
};

static void* play(void* argument) {
  struct player* player = argument;
  struct ping_pong* game = player->game;
  CHECK_OK(pthread_mutex_lock(&game->mutex));
  for (int i = 0; i < game->rounds; ++i) {
    while (game->turn != player->side) CHECK_OK(pthread_cond_wait(&game->changed[player->side], &game->mutex));
    game->turn = 1 - player->side;
    CHECK_OK(pthread_cond_signal(&game->changed[1 - player->side]));
  }
  CHECK_OK(pthread_mutex_unlock(&game->mutex));
  return NULL;
}

static void ping_pong(const struct mutex_kind* kind, int rounds) {
  static struct ping_pong game;
  make_mutex(&game.mutex, kind);
  make_condition(&game.changed[0], &condition_kinds[0]);
  make_condition(&game.changed[1], &condition_kinds[1]);
  game.rounds = rounds;
  struct player players[2] = {{&game, 0}, {&game, 1}};
  run_threads(2, play, players, sizeof *players);
}

CASE(ping_pong_twenty_thousand) {
  ping_pong(&all_kinds[0], 20000);
}
CASE_FOR(ping_pong_of_each_kind, struct mutex_kind, kind, all_kinds) {
  ping_pong(kind, 500);
}

struct buffer {
  pthread_mutex_t mutex;
  pthread_cond_t not_full, not_empty;
  int items[4], count, first;
  int to_produce, to_consume;
  long long produced, consumed;
  bool timed;
};

static void buffer_wait(struct buffer* buffer, pthread_cond_t* condition) {
  if (buffer->timed) {
    const struct timespec deadline = later(now(CLOCK_REALTIME), 1);
    const int code = pthread_cond_timedwait(condition, &buffer->mutex, &deadline);
    if (code != 0) CHECK_CODE(code, ETIMEDOUT);
  } else {
    CHECK_OK(pthread_cond_wait(condition, &buffer->mutex));
  }
}

static void* produce(void* argument) {
  struct buffer* buffer = argument;
  CHECK_OK(pthread_mutex_lock(&buffer->mutex));
  while (buffer->to_produce > 0) {
    if (buffer->count == 4) {
      buffer_wait(buffer, &buffer->not_full);
      continue;
    }
    const int item = buffer->to_produce--;
    buffer->produced += item;
    buffer->items[(buffer->first + buffer->count++) % 4] = item;
    CHECK_OK(pthread_cond_signal(&buffer->not_empty));
    CHECK_OK(pthread_mutex_unlock(&buffer->mutex));
    CHECK_OK(pthread_mutex_lock(&buffer->mutex));
  }
  CHECK_OK(pthread_cond_broadcast(&buffer->not_full));
  CHECK_OK(pthread_mutex_unlock(&buffer->mutex));
  return NULL;
}

static void* consume(void* argument) {
  struct buffer* buffer = argument;
  CHECK_OK(pthread_mutex_lock(&buffer->mutex));
  while (buffer->to_consume > 0) {
    if (buffer->count == 0) {
      buffer_wait(buffer, &buffer->not_empty);
      continue;
    }
    buffer->consumed += buffer->items[buffer->first];
    buffer->first = (buffer->first + 1) % 4;
    --buffer->count;
    --buffer->to_consume;
    CHECK_OK(pthread_cond_signal(&buffer->not_full));
  }
  CHECK_OK(pthread_cond_broadcast(&buffer->not_empty));
  CHECK_OK(pthread_mutex_unlock(&buffer->mutex));
  return NULL;
}

static void* produce_or_consume(void* argument) {
  struct {
    struct buffer* buffer;
    int number;
  }* me = argument;
  return me->number % 2 ? produce(me->buffer) : consume(me->buffer);
}

static void bounded_buffer(const struct mutex_kind* kind, int items, bool timed) {
  static struct buffer buffer;
  make_mutex(&buffer.mutex, kind);
  make_condition(&buffer.not_full, &condition_kinds[0]);
  make_condition(&buffer.not_empty, &condition_kinds[1]);
  buffer.to_produce = buffer.to_consume = items;
  buffer.timed = timed;
  struct {
    struct buffer* buffer;
    int number;
  } workers[6];
  for (int i = 0; i < 6; ++i) {
    workers[i].buffer = &buffer;
    workers[i].number = i;
  }
  run_threads(6, produce_or_consume, workers, sizeof *workers);
  CHECK(buffer.count == 0);
  CHECK_NUMBER(buffer.consumed, (long long)items * (items + 1) / 2);
  CHECK_OK(pthread_cond_destroy(&buffer.not_full));
  CHECK_OK(pthread_cond_destroy(&buffer.not_empty));
}

CASE_FOR(bounded_buffer_untimed, struct mutex_kind, kind, main_kinds) {
  bounded_buffer(kind, 1200, false);
}
CASE_FOR(bounded_buffer_timed, struct mutex_kind, kind, main_kinds) {
  bounded_buffer(kind, 600, true);
}

// A signal is sent at the moment when a timed waiter times out. If that waiter returns ETIMEDOUT, it must not have
// consumed the signal: the waiter without a deadline must receive it.
struct near_miss {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int waiting, timed_code, patient_woken, enough;
  long nanoseconds;
};

static void* near_miss_timed(void* argument) {
  struct near_miss* scene = argument;
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  flag_add(&scene->waiting, 1);
  struct timespec deadline = later(now(CLOCK_REALTIME), 1);
  const int code = pthread_cond_timedwait(&scene->condition, &scene->mutex, &deadline);
  CHECK(code == 0 || code == ETIMEDOUT);
  scene->timed_code = code;
  if (code == 0) {  // code 0: the only signal may have served both waiters
    flag_set(&scene->enough, 1);
    CHECK_OK(pthread_cond_broadcast(&scene->condition));
  }
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  return NULL;
}

static void* near_miss_patient(void* argument) {
  struct near_miss* scene = argument;
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  flag_add(&scene->waiting, 1);
  CHECK_OK(pthread_cond_wait(&scene->condition, &scene->mutex));
  scene->patient_woken = 1;
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  return NULL;
}

CASE(signal_at_the_deadline) {
  for (int round = 0; round < 150; ++round) {
    struct near_miss scene = {.timed_code = -1};
    make_mutex(&scene.mutex, &all_kinds[0]);
    make_condition(&scene.condition, &condition_kinds[0]);
    // In odd rounds the timed waiter is the first in the queue, in even rounds the waiter without a deadline.
    pthread_t first = start_thread(round % 2 ? near_miss_timed : near_miss_patient, &scene);
    await_flag(&scene.waiting, 1);
    pthread_t second = start_thread(round % 2 ? near_miss_patient : near_miss_timed, &scene);
    await_flag(&scene.waiting, 2);
    // The signal is sent at a time between 0.4 ms before the deadline and 0.3 ms after it.
    usleep((useconds_t)(600 + round % 50 * 14));
    CHECK_OK(pthread_mutex_lock(&scene.mutex));  // both have released the mutex in their waits
    CHECK_OK(pthread_cond_signal(&scene.condition));
    CHECK_OK(pthread_mutex_unlock(&scene.mutex));
    join_thread(first);
    join_thread(second);
    CHECK(scene.patient_woken);
  }
}

// Every second waiter times out. All signals sent afterwards must reach the waiters that remain.
static void* give_up_or_stay(void* argument) {
  struct in_line* me = argument;
  struct line_up* line = me->line;
  CHECK_OK(pthread_mutex_lock(&line->mutex));
  flag_add(&line->waiting, 1);
  const struct timespec deadline = later(now(line->wait->clock), me->number % 2 ? 3 : 60000);
  int code = 0;
  while (code == 0 && line->tokens == 0) code = line->wait->call(&line->condition, &line->mutex, &deadline);
  if (code == 0) {
    --line->tokens;
    flag_add(&line->out, 1);
  } else {
    CHECK_CODE(code, ETIMEDOUT);
    CHECK(me->number % 2);
    flag_add(&line->order[0], 1);
  }
  CHECK_OK(pthread_mutex_unlock(&line->mutex));
  return NULL;
}

CASE_FOR(timed_out_in_the_middle_of_the_queue, struct wait_call, wait, timed_waits) {
  for (int round = 0; round < 8; ++round) {
    struct line_up line;
    make_line(&line, wait, &main_kinds[round % 4]);
    struct in_line numbers[10];
    pthread_t threads[10];
    for (int i = 0; i < 10; ++i) {
      numbers[i] = (struct in_line){&line, i};
      threads[i] = start_thread(give_up_or_stay, &numbers[i]);
    }
    await_flag(&line.waiting, 10);
    // In half of the rounds all timed waiters have given up before the signals; in the other half they give up while
    // signals are sent.
    if (round % 2) CHECK(flag_comes(&line.order[0], 5));
    for (int i = 0; i < 5; ++i) {
      CHECK_OK(pthread_mutex_lock(&line.mutex));
      ++line.tokens;
      CHECK_OK(pthread_cond_signal(&line.condition));
      CHECK_OK(pthread_mutex_unlock(&line.mutex));
    }
    CHECK(flag_comes(&line.out, 5));
    // A timed waiter may have taken a token before its deadline. In that case a waiter without a deadline still waits
    // and needs another token.
    CHECK_OK(pthread_mutex_lock(&line.mutex));
    line.tokens += 5;
    CHECK_OK(pthread_cond_broadcast(&line.condition));
    CHECK_OK(pthread_mutex_unlock(&line.mutex));
    for (int i = 0; i < 10; ++i) join_thread(threads[i]);
    CHECK_NUMBER(line.out + line.order[0], 10);
  }
}

struct soon_over {
  struct gate* gate;
  pthread_cond_t* condition;
  int waiting, out;
};

static void* wait_until_over(void* argument) {
  struct soon_over* over = argument;
  lock_gate(over->gate);
  flag_add(&over->waiting, 1);
  const struct timespec deadline = later(now(CLOCK_REALTIME), 1);
  int code = 0;
  while (!over->gate->open && code == 0) code = pthread_cond_timedwait(over->condition, &over->gate->mutex, &deadline);
  if (code != 0) CHECK_CODE(code, ETIMEDOUT);
  ++over->out;
  unlock_gate(over->gate);
  return NULL;
}

// The broadcast is sent at about the deadline of the waiters, and the condition is destroyed immediately afterwards.
CASE(broadcast_at_the_deadline) {
  for (int round = 0; round < 60; ++round) {
    pthread_cond_t* condition = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(condition != MAP_FAILED);
    make_condition(condition, &condition_kinds[0]);
    struct gate gate;
    make_gate(&gate, &main_kinds[round % 4], &condition_kinds[0]);
    struct soon_over over = {&gate, condition, 0, 0};
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) threads[i] = start_thread(wait_until_over, &over);
    await_flag(&over.waiting, 4);
    // The broadcast is sent at a time between 0.5 ms before the deadlines and 0.1 ms after them.
    usleep((useconds_t)(500 + round % 30 * 20));
    lock_gate(&gate);
    gate.open = 1;
    CHECK_OK(pthread_cond_broadcast(condition));
    if (round % 2) unlock_gate(&gate);
    CHECK_OK(pthread_cond_destroy(condition));
    munmap(condition, 4096);
    if (round % 2 == 0) unlock_gate(&gate);
    for (int i = 0; i < 4; ++i) join_thread(threads[i]);
    CHECK_NUMBER(over.out, 4);
  }
}

// Three waiters time out at the same time, and behind them in the list a fourth waits without a deadline. The only
// signal is sent at that moment: a waiter that returns ETIMEDOUT has not consumed it.
struct exodus {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int rounds, ready, waiting, tokens, served, patient_served, given_up;
  struct timespec deadline;
};

static void* give_up_with_others(void* argument) {
  struct exodus* exodus = argument;
  for (int round = 1; round <= exodus->rounds; ++round) {
    CHECK(flag_comes(&exodus->ready, round));
    CHECK_OK(pthread_mutex_lock(&exodus->mutex));
    flag_add(&exodus->waiting, 1);
    int code = 0;
    while (code == 0 && exodus->tokens == 0)
      code = pthread_cond_clockwait(&exodus->condition, &exodus->mutex, CLOCK_MONOTONIC, &exodus->deadline);
    if (code == 0) {
      --exodus->tokens;
      flag_add(&exodus->served, 1);
    } else {
      CHECK_CODE(code, ETIMEDOUT);
    }
    CHECK_OK(pthread_mutex_unlock(&exodus->mutex));
    flag_add(&exodus->given_up, 1);
  }
  return NULL;
}

static void* stand_behind(void* argument) {
  struct exodus* exodus = argument;
  for (int round = 1; round <= exodus->rounds; ++round) {
    CHECK(flag_comes(&exodus->waiting, 4 * round - 1));
    CHECK_OK(pthread_mutex_lock(&exodus->mutex));
    flag_add(&exodus->waiting, 1);
    while (exodus->tokens == 0) CHECK_OK(pthread_cond_wait(&exodus->condition, &exodus->mutex));
    --exodus->tokens;
    flag_add(&exodus->patient_served, 1);  // first: a thread that sees `served` next reads which waiter took the token
    flag_add(&exodus->served, 1);
    CHECK_OK(pthread_mutex_unlock(&exodus->mutex));
  }
  return NULL;
}

static void hand_out_token(struct exodus* exodus) {
  CHECK_OK(pthread_mutex_lock(&exodus->mutex));
  ++exodus->tokens;
  CHECK_OK(pthread_mutex_unlock(&exodus->mutex));
  CHECK_OK(pthread_cond_signal(&exodus->condition));
}

CASE(signal_while_others_give_up) {
  static struct exodus exodus = {.rounds = 600};
  make_mutex(&exodus.mutex, &all_kinds[0]);
  make_condition(&exodus.condition, &condition_kinds[0]);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) threads[i] = start_thread(i < 3 ? give_up_with_others : stand_behind, &exodus);
  int served = 0;
  for (int round = 1; round <= exodus.rounds; ++round) {
    note("round %d", round);
    exodus.deadline = now(CLOCK_MONOTONIC);
    exodus.deadline.tv_nsec += 200000;
    exodus.deadline.tv_sec += exodus.deadline.tv_nsec / 1000000000;
    exodus.deadline.tv_nsec %= 1000000000;
    const double until = seconds() + (190 + round % 83) * 1e-6;
    flag_set(&exodus.ready, round);
    CHECK(flag_comes(&exodus.waiting, 4 * round));
    while (seconds() < until) {
    }
    hand_out_token(&exodus);
    CHECK(flag_comes(&exodus.served, ++served));
    CHECK(flag_comes(&exodus.given_up, 3 * round));
    if (flag_get(&exodus.patient_served) < round) {
      hand_out_token(&exodus);
      CHECK(flag_comes(&exodus.served, ++served));
    }
  }
  for (int i = 0; i < 4; ++i) join_thread(threads[i]);
  CHECK_OK(pthread_cond_destroy(&exodus.condition));
}

// This waiter times out again and again. It must not consume the wake-ups of other waiters.
static void* keep_timing_out(void* argument) {
  struct gate* gate = argument;
  lock_gate(gate);
  while (gate->through < 100) {
    const struct timespec deadline = later(now(CLOCK_REALTIME), 1);
    const int code = pthread_cond_timedwait(&gate->condition, &gate->mutex, &deadline);
    if (code != 0) CHECK_CODE(code, ETIMEDOUT);
    // A wait that returned 0 may have consumed a signal. This thread takes no token, so it sends another signal.
    if (code == 0 && gate->open > 0) CHECK_OK(pthread_cond_signal(&gate->condition));
  }
  unlock_gate(gate);
  return NULL;
}

static void* go_through_fifty_times(void* argument) {
  for (int i = 0; i < 50; ++i) go_through(argument);
  return NULL;
}

CASE(timed_and_untimed_together) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  pthread_t threads[5];
  for (int i = 0; i < 5; ++i) threads[i] = start_thread(i < 2 ? go_through_fifty_times : keep_timing_out, &gate);
  for (int i = 0; i < 100; ++i) {
    lock_gate(&gate);
    ++gate.open;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    unlock_gate(&gate);
    if (i % 4 == 0) usleep(300);  // waits time out between the signals, too
  }
  for (int i = 0; i < 5; ++i) join_thread(threads[i]);
  CHECK_NUMBER(gate.through, 100);
}

// -- destruction --

// POSIX allows a program to destroy a condition as soon as all its waiters have been woken, even if none of them has
// run yet. The tests reuse or unmap the condition's memory immediately afterwards.
struct doomed {
  pthread_mutex_t* mutex;
  pthread_cond_t* condition;
  int waiting, open;
};

static void* wait_on_doomed(void* argument) {
  struct doomed* doomed = argument;
  CHECK_OK(pthread_mutex_lock(doomed->mutex));
  ++doomed->waiting;
  const struct timespec deadline = later(now(CLOCK_REALTIME), 60000);
  int code = 0;
  // `open` is tested before each wait, because the condition is destroyed once the gate has opened.
  while (!doomed->open && code == 0) {
    code = doomed->waiting % 2 ? pthread_cond_wait(doomed->condition, doomed->mutex)
                               : pthread_cond_timedwait(doomed->condition, doomed->mutex, &deadline);
  }
  CHECK_OK(code);
  --doomed->waiting;
  CHECK_OK(pthread_mutex_unlock(doomed->mutex));
  return NULL;
}

struct destruction {
  const char* name;
  bool mutex_held, unmap;
  int waiters;
};

static const struct destruction destructions[] = {
    {"mutex_held", true, false, 4},
    {"mutex_free", false, false, 4},
    {"mutex_held_unmapped", true, true, 4},
    {"one_waiter_unmapped", false, true, 1},
};

CASE_FOR(destroyed_after_broadcast, struct destruction, way, destructions) {
  pthread_mutex_t mutex;
  make_mutex(&mutex, &all_kinds[0]);
  for (int round = 0; round < 40; ++round) {
    pthread_cond_t* condition = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(condition != MAP_FAILED);
    make_condition(condition, &condition_kinds[round % 4]);
    struct doomed doomed = {&mutex, condition, 0, 0};
    pthread_t threads[4];
    for (int i = 0; i < way->waiters; ++i) threads[i] = start_thread(wait_on_doomed, &doomed);
    for (;;) {
      CHECK_OK(pthread_mutex_lock(&mutex));
      if (doomed.waiting == way->waiters) break;
      CHECK_OK(pthread_mutex_unlock(&mutex));
      usleep(100);  // polls; the case has a time limit
    }
    doomed.open = 1;
    CHECK_OK(way->waiters == 1 ? pthread_cond_signal(condition) : pthread_cond_broadcast(condition));
    if (!way->mutex_held) CHECK_OK(pthread_mutex_unlock(&mutex));
    CHECK_OK(pthread_cond_destroy(condition));
    if (way->unmap)
      munmap(condition, 4096);
    else
      memset(condition, 0x77, sizeof *condition);
    if (way->mutex_held) CHECK_OK(pthread_mutex_unlock(&mutex));
    for (int i = 0; i < way->waiters; ++i) join_thread(threads[i]);
    if (way->unmap) continue;
    for (size_t i = 0; i < sizeof *condition; ++i) CHECK_NUMBER(((unsigned char*)condition)[i], 0x77);
    munmap(condition, 4096);
  }
}

CASE(destroyed_after_time_out) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  CHECK_OK(pthread_mutex_lock(&mutex));
  for (int round = 0; round < 50; ++round) {
    pthread_cond_t condition;
    make_condition(&condition, &condition_kinds[round % 4]);
    const struct timespec deadline = later(now(clock_of(&condition_kinds[round % 4])), 1);
    int code = 0;
    while (code == 0) code = pthread_cond_timedwait(&condition, &mutex, &deadline);
    CHECK_CODE(code, ETIMEDOUT);
    CHECK_OK(pthread_cond_destroy(&condition));
    memset(&condition, 0x77, sizeof condition);
  }
  CHECK_OK(pthread_mutex_unlock(&mutex));
}

CASE(made_again_after_destroy) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  for (int round = 0; round < 20; ++round) {
    CHECK_OK(pthread_cond_destroy(&gate.condition));
    make_condition(&gate.condition, &condition_kinds[round % 4]);
    pthread_t thread = start_thread(go_through, &gate);
    await_waiting(&gate, 1);
    lock_gate(&gate);
    gate.open = 1;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    unlock_gate(&gate);
    join_thread(thread);
  }
}

// -- cancellation --

struct cancelled_wait {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  const struct wait_call* wait;
  int waiting, thread_id, in_handler, open, may_enter, disabled, woken;
};

static void check_handler(void* argument) {
  struct cancelled_wait* scene = argument;
  flag_add(&scene->in_handler, 1);
  // This thread holds the mutex: no other thread can acquire it, and this thread may release it.
  CHECK_CODE(elsewhere(thread_trylock, &scene->mutex), EBUSY);
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
}

static void* wait_for_cancellation(void* argument) {
  struct cancelled_wait* scene = argument;
  int old;
  if (scene->disabled) CHECK_OK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
  CHECK_OK(pthread_mutex_lock(&scene->mutex));
  pthread_cleanup_push(check_handler, scene);
  scene->thread_id = (int)gettid();
  flag_add(&scene->waiting, 1);
  await_flag(&scene->may_enter, 1);
  while (!scene->open) {
    const struct timespec deadline = later(now(scene->wait->clock), 60000);
    CHECK_OK(scene->wait->call(&scene->condition, &scene->mutex, &deadline));
  }
  pthread_cleanup_pop(0);
  CHECK_OK(pthread_mutex_unlock(&scene->mutex));
  flag_add(&scene->woken, 1);
  if (scene->disabled) {
    CHECK_OK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old));
    pthread_testcancel();
  }
  return NULL;
}

static void make_scene(struct cancelled_wait* scene, const struct mutex_kind* kind, const struct wait_call* wait) {
  memset(scene, 0, sizeof *scene);
  make_mutex(&scene->mutex, kind);
  make_condition(&scene->condition, &condition_kinds[0]);
  scene->wait = wait;
  scene->may_enter = 1;
}

/// Cancels one waiter for each kind of mutex. Every second waiter is already asleep when it is cancelled.
static void cancel_with_each_kind(const struct condition_kind* condition, const struct wait_call* wait) {
  for (int kind = 0; kind < 11; ++kind) {
    note("mutex %s", all_kinds[kind].name);
    struct cancelled_wait scene;
    make_scene(&scene, &all_kinds[kind], wait);
    make_condition(&scene.condition, condition);
    pthread_t thread = start_thread(wait_for_cancellation, &scene);
    await_flag(&scene.waiting, 1);
    CHECK_OK(pthread_mutex_lock(&scene.mutex));
    CHECK_OK(pthread_mutex_unlock(&scene.mutex));
    if (kind % 2) await_asleep(scene.thread_id);
    CHECK_OK(pthread_cancel(thread));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK_NUMBER(scene.in_handler, 1);
    CHECK_OK(try_elsewhere(&scene.mutex));
    CHECK_OK(pthread_cond_signal(&scene.condition));
    CHECK_OK(pthread_cond_destroy(&scene.condition));
    CHECK_OK(pthread_mutex_destroy(&scene.mutex));
  }
}

CASE_FOR(waiter_is_cancelled, struct wait_call, wait, wait_calls) {
  cancel_with_each_kind(&condition_kinds[0], wait);
}

// A cancelled waiter acquires the mutex like every other thread: it waits while the mutex is held.
CASE_FOR(cancelled_waiter_waits_for_the_mutex, struct wait_call, wait, wait_calls) {
  struct cancelled_wait scene;
  make_scene(&scene, &all_kinds[0], wait);
  pthread_t thread = start_thread(wait_for_cancellation, &scene);
  await_flag(&scene.waiting, 1);
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  CHECK_OK(pthread_cancel(thread));
  sleep_ms(10);  // a thread that does not wait for the mutex would be in its handler within this time
  CHECK(flag_get(&scene.in_handler) == 0);
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  CHECK(join_thread(thread) == PTHREAD_CANCELED);
  CHECK_NUMBER(scene.in_handler, 1);
}

// A request made before the wait takes effect, even if a wake-up arrives, too.
CASE_FOR(cancelled_before_it_waits, struct wait_call, wait, wait_calls) {
  for (int round = 0; round < 5; ++round) {
    struct cancelled_wait scene;
    make_scene(&scene, &all_kinds[round], wait);
    scene.may_enter = 0;
    pthread_t thread = start_thread(wait_for_cancellation, &scene);
    await_flag(&scene.waiting, 1);
    CHECK_OK(pthread_cancel(thread));
    flag_set(&scene.may_enter, 1);
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK_NUMBER(scene.in_handler, 1);
    CHECK_OK(try_elsewhere(&scene.mutex));
  }
}

CASE_FOR(cancellation_disabled, struct wait_call, wait, wait_calls) {
  struct cancelled_wait scene;
  make_scene(&scene, &all_kinds[0], wait);
  scene.disabled = 1;
  pthread_t thread = start_thread(wait_for_cancellation, &scene);
  await_flag(&scene.waiting, 1);
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  CHECK_OK(pthread_cancel(thread));
  sleep_ms(10);  // a wait that the request had ended would return within this time
  CHECK(flag_get(&scene.woken) == 0 && flag_get(&scene.in_handler) == 0);
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  scene.open = 1;
  CHECK_OK(pthread_cond_signal(&scene.condition));
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  CHECK(join_thread(thread) == PTHREAD_CANCELED);
  CHECK_NUMBER(scene.woken, 1);
  CHECK_NUMBER(scene.in_handler, 0);
}

// Two threads wait; one signal is sent, and one of the threads is cancelled at the same moment. If that thread ends by
// cancellation, the other must get the signal.
struct duel {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  const struct wait_call* wait;
  int waiting, woken[2];
};

struct duellist {
  struct duel* duel;
  int number;
};

static void unlock_duel(void* argument) {
  CHECK_OK(pthread_mutex_unlock(argument));
}

static void* wait_in_duel(void* argument) {
  struct duellist* me = argument;
  struct duel* duel = me->duel;
  CHECK_OK(pthread_mutex_lock(&duel->mutex));
  pthread_cleanup_push(unlock_duel, &duel->mutex);
  flag_add(&duel->waiting, 1);
  const struct timespec deadline = later(now(duel->wait->clock), 60000);
  CHECK_OK(duel->wait->call(&duel->condition, &duel->mutex, &deadline));
  duel->woken[me->number] = 1;
  pthread_cleanup_pop(1);
  return NULL;
}

CASE_FOR(signal_survives_cancellation, struct wait_call, wait, wait_calls) {
  for (int round = 0; round < 60; ++round) {
    struct duel duel = {.wait = wait};
    make_mutex(&duel.mutex, &main_kinds[round % 4]);
    make_condition(&duel.condition, &condition_kinds[0]);
    struct duellist duellists[2] = {{&duel, 0}, {&duel, 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) {
      threads[i] = start_thread(wait_in_duel, &duellists[i]);
      await_flag(&duel.waiting, i + 1);
    }
    CHECK_OK(pthread_mutex_lock(&duel.mutex));
    if (round % 3 == 0) CHECK_OK(pthread_mutex_unlock(&duel.mutex));
    const int victim = round / 3 % 2;
    if (round % 2) CHECK_OK(pthread_cancel(threads[victim]));
    CHECK_OK(pthread_cond_signal(&duel.condition));
    if (round % 2 == 0) CHECK_OK(pthread_cancel(threads[victim]));
    if (round % 3 != 0) CHECK_OK(pthread_mutex_unlock(&duel.mutex));
    // The result of the join proves nothing: glibc may report a thread as cancelled although it was woken and ended
    // before the request arrived (docs/differences.md).
    if (join_thread(threads[victim]) != PTHREAD_CANCELED) CHECK(duel.woken[victim] == 1);
    if (duel.woken[victim] == 1) {  // the victim got the signal; then the other thread may still wait
      CHECK_OK(pthread_mutex_lock(&duel.mutex));
      CHECK_OK(pthread_cond_broadcast(&duel.condition));
      CHECK_OK(pthread_mutex_unlock(&duel.mutex));
    }
    join_thread(threads[1 - victim]);
    CHECK(duel.woken[1 - victim] == 1);
    CHECK_OK(try_elsewhere(&duel.mutex));
    CHECK_OK(pthread_cond_destroy(&duel.condition));
  }
}

CASE(cancelled_in_the_middle_of_the_queue) {
  for (int round = 0; round < 20; ++round) {
    struct duel duel = {.wait = &wait_calls[round % 4]};
    make_mutex(&duel.mutex, &all_kinds[0]);
    make_condition(&duel.condition, &condition_kinds[0]);
    int woken = 0;
    struct duellist duellists[6];
    pthread_t threads[6];
    for (int i = 0; i < 6; ++i) {
      duellists[i] = (struct duellist){&duel, i % 2};
      threads[i] = start_thread(wait_in_duel, &duellists[i]);
      await_flag(&duel.waiting, i + 1);
    }
    for (int i = 1; i < 6; i += 2) CHECK_OK(pthread_cancel(threads[i]));
    for (int i = 1; i < 6; i += 2) woken += join_thread(threads[i]) != PTHREAD_CANCELED;
    for (int i = 0; i < 3; ++i) {
      CHECK_OK(pthread_mutex_lock(&duel.mutex));
      CHECK_OK(pthread_cond_signal(&duel.condition));
      CHECK_OK(pthread_mutex_unlock(&duel.mutex));
    }
    for (int i = 0; i < 6; i += 2) CHECK(join_thread(threads[i]) == NULL);
    CHECK_NUMBER(woken, 0);
  }
}

// -- signals to handlers --

static int handled;
static void count_signal(int number) {
  (void)number;
  flag_add(&handled, 1);
}

static void* wait_timed_out_once(void* argument) {
  struct gate* gate = argument;
  lock_gate(gate);
  flag_set(&gate->waiting, 1);
  const struct timespec deadline = later(now(gate->wait->clock), 25);
  int code = 0;
  while (code == 0) code = gate->wait->call(&gate->condition, &gate->mutex, &deadline);
  CHECK_CODE(code, ETIMEDOUT);
  CHECK(!before(now(gate->wait->clock), deadline));
  unlock_gate(gate);
  return NULL;
}

CASE_FOR(wait_is_never_interrupted, struct wait_call, wait, wait_calls) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = count_signal;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  gate.wait = wait;
  pthread_t thread = start_thread(wait->call == wait_untimed ? go_through : wait_timed_out_once, &gate);
  await_flag(&gate.waiting, 1);
  for (int i = 0; i < 30; ++i) {
    pthread_kill(thread, SIGUSR1);
    usleep(500);  // the thread waits again when the next signal arrives
  }
  lock_gate(&gate);
  gate.open = 1;
  if (wait->call == wait_untimed) CHECK_OK(pthread_cond_signal(&gate.condition));
  unlock_gate(&gate);
  join_thread(thread);
  // A waiter with a deadline may have returned before the signal handler ran.
  if (wait->call == wait_untimed) CHECK(flag_get(&handled) > 0);
}

CASE(condition_errno_untouched) {
  enum { marker = 4711 };
  struct gate gate;
  for (int i = 0; i < 4; ++i) {
    make_gate(&gate, &main_kinds[i], &condition_kinds[i]);
    lock_gate(&gate);
    errno = marker;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    CHECK_OK(pthread_cond_broadcast(&gate.condition));
    const struct timespec past = {0, 0}, wrong = {0, -1};
    CHECK_CODE(pthread_cond_timedwait(&gate.condition, &gate.mutex, &past), ETIMEDOUT);
    CHECK_NUMBER(errno, (int)marker);
    CHECK_CODE(pthread_cond_timedwait(&gate.condition, &gate.mutex, &wrong), EINVAL);
    CHECK_CODE(pthread_cond_clockwait(&gate.condition, &gate.mutex, 1000, &past), EINVAL);
    CHECK_NUMBER(errno, (int)marker);
    const struct timespec soon = later(now(CLOCK_MONOTONIC), 5);
    int code = 0;
    while (code == 0) code = pthread_cond_clockwait(&gate.condition, &gate.mutex, CLOCK_MONOTONIC, &soon);
    CHECK_CODE(code, ETIMEDOUT);
    CHECK_NUMBER(errno, (int)marker);
    unlock_gate(&gate);
    pthread_t thread = start_thread(go_through, &gate);
    await_waiting(&gate, 1);
    lock_gate(&gate);
    gate.open = 1;
    errno = marker;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    CHECK_NUMBER(errno, (int)marker);
    unlock_gate(&gate);
    join_thread(thread);
    errno = marker;
    CHECK_OK(pthread_cond_destroy(&gate.condition));
    CHECK_OK(pthread_cond_init(&gate.condition, NULL));
    CHECK_NUMBER(errno, (int)marker);
  }
}

// -- with kinds of mutex that the C library handles itself --

struct special_mutex {
  const char* name;
  int robust, protocol, shared, type;
};

static const struct special_mutex special_mutexes[] = {
    {"robust", PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_NORMAL},
    {"inheriting", PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_NORMAL},
    {"shared", PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_NORMAL},
    {"robust_inheriting", PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_PRIVATE,
     PTHREAD_MUTEX_ERRORCHECK},
    {"robust_recursive", PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_RECURSIVE},
    {"shared_recursive", PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_RECURSIVE},
};

static void make_special(pthread_mutex_t* mutex, const struct special_mutex* special) {
  pthread_mutexattr_t attribute;
  CHECK_OK(pthread_mutexattr_init(&attribute));
  CHECK_OK(pthread_mutexattr_setrobust(&attribute, special->robust));
  CHECK_OK(pthread_mutexattr_setprotocol(&attribute, special->protocol));
  CHECK_OK(pthread_mutexattr_setpshared(&attribute, special->shared));
  CHECK_OK(pthread_mutexattr_settype(&attribute, special->type));
  const int code = pthread_mutex_init(mutex, &attribute);
  if (code == ENOTSUP && special->protocol != PTHREAD_PRIO_NONE) skip_case("no priority inheritance here");
  CHECK_OK(code);
}

CASE_FOR(with_special_mutex, struct special_mutex, special, special_mutexes) {
  static struct ping_pong game;
  make_special(&game.mutex, special);
  make_condition(&game.changed[0], &condition_kinds[0]);
  make_condition(&game.changed[1], &condition_kinds[1]);
  game.rounds = 500;
  struct player players[2] = {{&game, 0}, {&game, 1}};
  run_threads(2, play, players, sizeof *players);

  CHECK_OK(pthread_mutex_lock(&game.mutex));
  for (int i = 0; i < 3; ++i) {
    const struct timespec past = {0, 0}, soon = later(now(timed_waits[i].clock), 5);
    CHECK_CODE(timed_waits[i].call(&game.changed[0], &game.mutex, &past), ETIMEDOUT);
    int code = 0;
    while (code == 0) code = timed_waits[i].call(&game.changed[0], &game.mutex, &soon);
    CHECK_CODE(code, ETIMEDOUT);
    CHECK_CODE(elsewhere(thread_trylock, &game.mutex), EBUSY);
  }
  CHECK_OK(pthread_mutex_unlock(&game.mutex));
  CHECK_OK(try_elsewhere(&game.mutex));
}

CASE_FOR(special_mutex_and_cancellation, struct special_mutex, special, special_mutexes) {
  struct cancelled_wait scene;
  for (int i = 0; i < 4; ++i) {
    make_scene(&scene, &all_kinds[0], &wait_calls[i]);
    make_special(&scene.mutex, special);
    pthread_t thread = start_thread(wait_for_cancellation, &scene);
    await_flag(&scene.waiting, 1);
    CHECK_OK(pthread_mutex_lock(&scene.mutex));
    CHECK_OK(pthread_mutex_unlock(&scene.mutex));
    CHECK_OK(pthread_cancel(thread));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK_NUMBER(scene.in_handler, 1);
    CHECK_OK(try_elsewhere(&scene.mutex));
  }
}

// The owner of a robust mutex signals and then dies without an unlock: the waiter gets EOWNERDEAD from its wait.
struct bequest {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
  int waiting, code;
};

static void* inherit(void* argument) {
  struct bequest* bequest = argument;
  CHECK_OK(pthread_mutex_lock(&bequest->mutex));
  flag_set(&bequest->waiting, 1);
  bequest->code = pthread_cond_wait(&bequest->condition, &bequest->mutex);
  if (bequest->code == EOWNERDEAD) CHECK_OK(pthread_mutex_consistent(&bequest->mutex));
  CHECK_OK(pthread_mutex_unlock(&bequest->mutex));
  return NULL;
}

static void* signal_and_die(void* argument) {
  struct bequest* bequest = argument;
  CHECK_OK(pthread_mutex_lock(&bequest->mutex));
  CHECK_OK(pthread_cond_signal(&bequest->condition));
  return NULL;
}

CASE(wait_meets_a_dead_owner) {
  struct bequest bequest;
  memset(&bequest, 0, sizeof bequest);
  make_special(&bequest.mutex, &special_mutexes[0]);
  make_condition(&bequest.condition, &condition_kinds[0]);
  pthread_t heir = start_thread(inherit, &bequest);
  await_flag(&bequest.waiting, 1);
  in_new_thread(signal_and_die, &bequest);
  join_thread(heir);
  CHECK_CODE(bequest.code, EOWNERDEAD);
  CHECK_OK(try_elsewhere(&bequest.mutex));
}

static int inherit_way;
static void* inherit_somehow(void* argument) {
  struct bequest* bequest = argument;
  const struct wait_call* wait = &wait_calls[inherit_way];
  const struct timespec deadline = later(now(wait->clock), 60000);
  CHECK_OK(pthread_mutex_lock(&bequest->mutex));
  flag_set(&bequest->waiting, 1);
  bequest->code = wait->call(&bequest->condition, &bequest->mutex, &deadline);
  // After EOWNERDEAD the waiter owns the mutex, and may make it consistent and use it.
  if (bequest->code == EOWNERDEAD) {
    CHECK_CODE(elsewhere(thread_trylock, &bequest->mutex), EBUSY);
    CHECK_OK(pthread_mutex_consistent(&bequest->mutex));
  }
  CHECK_OK(pthread_mutex_unlock(&bequest->mutex));
  return NULL;
}

CASE_FOR(every_wait_meets_a_dead_owner, struct wait_call, wait, wait_calls) {
  inherit_way = (int)(wait - wait_calls);
  for (int special = 0; special < 6; ++special) {
    if (special_mutexes[special].robust != PTHREAD_MUTEX_ROBUST) continue;
    note("mutex %s", special_mutexes[special].name);
    struct bequest bequest;
    memset(&bequest, 0, sizeof bequest);
    make_special(&bequest.mutex, &special_mutexes[special]);
    make_condition(&bequest.condition, &condition_kinds[0]);
    pthread_t heir = start_thread(inherit_somehow, &bequest);
    await_flag(&bequest.waiting, 1);
    in_new_thread(signal_and_die, &bequest);
    join_thread(heir);
    CHECK_CODE(bequest.code, EOWNERDEAD);
    CHECK_OK(try_elsewhere(&bequest.mutex));
    // The mutex has recovered.
    if (wait->call == wait_untimed) continue;
    CHECK_OK(pthread_mutex_lock(&bequest.mutex));
    const struct timespec past = {0, 0};
    CHECK_CODE(wait->call(&bequest.condition, &bequest.mutex, &past), ETIMEDOUT);
    CHECK_OK(pthread_mutex_unlock(&bequest.mutex));
  }
}

// -- between processes --

static const struct condition_kind shared_kind = {"shared", false, true, false, true};

static void play_in_child(void* argument) {
  play(argument);
}

CASE(shared_ping_pong) {
  struct ping_pong* game = shared_page();
  make_special(&game->mutex, &special_mutexes[2]);
  make_condition(&game->changed[0], &shared_kind);
  make_condition(&game->changed[1], &shared_kind);
  game->rounds = 1000;
  struct player here = {game, 0}, there = {game, 1};
  const pid_t child = start_child(play_in_child, &there);
  play(&here);
  CHECK_CHILD(child, 0);
  CHECK_OK(pthread_cond_destroy(&game->changed[0]));
  CHECK_OK(pthread_mutex_destroy(&game->mutex));
}

static void child_goes_through(void* argument) {
  go_through(argument);
}

CASE(shared_broadcast) {
  struct gate* gate = shared_page();
  const struct condition_kind monotonic = {"shared, monotonic", false, true, true, true};
  make_special(&gate->mutex, &special_mutexes[2]);
  make_condition(&gate->condition, &monotonic);
  gate->wait = &wait_calls[0];
  pid_t children[3];
  for (int i = 0; i < 3; ++i) children[i] = start_child(child_goes_through, gate);
  pthread_t thread = start_thread(go_through, gate);
  await_waiting(gate, 4);
  lock_gate(gate);
  const struct timespec deadline = later(now(CLOCK_MONOTONIC), 5);
  int code = 0;
  while (code == 0) code = pthread_cond_timedwait(&gate->condition, &gate->mutex, &deadline);
  CHECK_CODE(code, ETIMEDOUT);
  gate->open = 4;
  CHECK_OK(pthread_cond_broadcast(&gate->condition));
  unlock_gate(gate);
  join_thread(thread);
  for (int i = 0; i < 3; ++i) CHECK_CHILD(children[i], 0);
  CHECK_NUMBER(gate->through, 4);
}

// A shared condition is used with private mutexes within one process, which the C library permits.
CASE_FOR(shared_condition_with_private_mutex, struct wait_call, wait, wait_calls) {
  for (int i = 0; i < 11; ++i) {
    note("mutex %s", all_kinds[i].name);
    struct gate gate;
    make_gate(&gate, &all_kinds[i], &shared_kind);
    gate.wait = wait;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    CHECK_OK(pthread_cond_broadcast(&gate.condition));
    if (wait->call != wait_untimed) {
      lock_gate(&gate);
      const struct timespec past = {0, 0}, wrong = {0, -1}, soon = later(now(wait->clock), 2);
      CHECK_CODE(wait->call(&gate.condition, &gate.mutex, &past), ETIMEDOUT);
      CHECK_CODE(wait->call(&gate.condition, &gate.mutex, &wrong), EINVAL);
      int code = 0;
      while (code == 0) code = wait->call(&gate.condition, &gate.mutex, &soon);
      CHECK_CODE(code, ETIMEDOUT);
      CHECK_CODE(elsewhere(thread_trylock, &gate.mutex), EBUSY);
      unlock_gate(&gate);
    }
    pthread_t threads[3];
    for (int t = 0; t < 3; ++t) threads[t] = start_thread(go_through, &gate);
    await_waiting(&gate, 3);
    CHECK_CODE(pthread_mutex_destroy(&gate.mutex), EBUSY);
    lock_gate(&gate);
    gate.open = 1;
    CHECK_OK(pthread_cond_signal(&gate.condition));
    unlock_gate(&gate);
    await_flag(&gate.through, 1);
    lock_gate(&gate);
    gate.open = 2;
    CHECK_OK(pthread_cond_broadcast(&gate.condition));
    unlock_gate(&gate);
    for (int t = 0; t < 3; ++t) join_thread(threads[t]);
    CHECK_OK(pthread_cond_destroy(&gate.condition));
    CHECK_OK(pthread_mutex_destroy(&gate.mutex));
  }
}

CASE(shared_condition_ping_pong_with_private_mutex) {
  static struct ping_pong game;
  make_mutex(&game.mutex, &all_kinds[0]);
  make_condition(&game.changed[0], &shared_kind);
  make_condition(&game.changed[1], &shared_kind);
  game.rounds = 2000;
  struct player players[2] = {{&game, 0}, {&game, 1}};
  run_threads(2, play, players, sizeof *players);
}

CASE_FOR(shared_condition_private_mutex_and_cancellation, struct wait_call, wait, wait_calls) {
  cancel_with_each_kind(&shared_kind, wait);
}

static void wait_in_vain(void* argument) {
  struct gate* gate = argument;
  lock_gate(gate);
  const struct timespec soon = later(now(CLOCK_REALTIME), 2);
  int code = 0;
  while (code == 0) code = pthread_cond_timedwait(&gate->condition, &gate->mutex, &soon);
  CHECK_CODE(code, ETIMEDOUT);
  unlock_gate(gate);
}

// A child waits on a shared condition of its own while a thread of its parent waits on another shared condition.
CASE(shared_condition_with_private_mutex_across_fork) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &shared_kind);
  pthread_t thread = start_thread(go_through, &gate);
  await_waiting(&gate, 1);
  for (int i = 0; i < 20; ++i) {
    lock_gate(&gate);
    CHECK_OK(pthread_cond_signal(&gate.condition));
    unlock_gate(&gate);
    struct gate mine;
    make_gate(&mine, &all_kinds[0], &shared_kind);
    CHECK_CHILD(start_child(wait_in_vain, &mine), 0);
  }
  lock_gate(&gate);
  gate.open = 1;
  CHECK_OK(pthread_cond_signal(&gate.condition));
  unlock_gate(&gate);
  join_thread(thread);
}

// -- destruction of the mutex --

static void mutex_is_in_use(struct gate* gate) {
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) threads[i] = start_thread(go_through, gate);
  await_waiting(gate, 2);
  CHECK_CODE(pthread_mutex_destroy(&gate->mutex), EBUSY);
  lock_gate(gate);
  gate->open = 1;
  CHECK_OK(pthread_cond_signal(&gate->condition));
  unlock_gate(gate);
  await_flag(&gate->through, 1);
  lock_gate(gate);
  unlock_gate(gate);
  CHECK_CODE(pthread_mutex_destroy(&gate->mutex), EBUSY);
  lock_gate(gate);
  gate->open = 1;
  CHECK_OK(pthread_cond_broadcast(&gate->condition));
  unlock_gate(gate);
  for (int i = 0; i < 2; ++i) join_thread(threads[i]);
  lock_gate(gate);
  const struct timespec past = {0, 0};
  CHECK_CODE(pthread_cond_timedwait(&gate->condition, &gate->mutex, &past), ETIMEDOUT);
  unlock_gate(gate);
  CHECK_OK(pthread_mutex_destroy(&gate->mutex));
}

// The mutex of a waiting thread is destroyed while no thread holds it. POSIX leaves this undefined, but the C library
// defines it.
CASE_FOR(mutex_destroyed_while_a_thread_waits, struct mutex_kind, kind, all_kinds) {
  struct gate gate;
  make_gate(&gate, kind, &condition_kinds[0]);
  mutex_is_in_use(&gate);
}
CASE_WHERE(special_mutex_destroyed_while_a_thread_waits, struct special_mutex, special, special_mutexes,
           special->robust != PTHREAD_MUTEX_ROBUST) {
  struct gate gate;
  make_gate(&gate, &all_kinds[0], &condition_kinds[0]);
  make_special(&gate.mutex, special);
  mutex_is_in_use(&gate);
}

CASE_FOR(mutex_destroyed_after_cancellation, struct wait_call, wait, wait_calls) {
  struct cancelled_wait scene;
  make_scene(&scene, &all_kinds[0], wait);
  pthread_t thread = start_thread(wait_for_cancellation, &scene);
  await_flag(&scene.waiting, 1);
  CHECK_OK(pthread_mutex_lock(&scene.mutex));
  CHECK_OK(pthread_mutex_unlock(&scene.mutex));
  CHECK_CODE(pthread_mutex_destroy(&scene.mutex), EBUSY);
  CHECK_OK(pthread_cancel(thread));
  CHECK(join_thread(thread) == PTHREAD_CANCELED);
  CHECK_OK(pthread_mutex_destroy(&scene.mutex));
}
