// Tests the calls of read-write locks, for every kind of lock and every way to make one. USHER_RWLOCK names the
// implementation.
#include "kinds.h"

#include <sys/syscall.h>

struct rwlock_kind {
  const char* name;
  int kind;  ///< the attribute's kind, or one of the two values below
  bool prefers_writers;
  const pthread_rwlock_t* initialiser;
};

enum { without_attributes = -1, initialised_statically = -2 };

static const pthread_rwlock_t plain = PTHREAD_RWLOCK_INITIALIZER;
static const pthread_rwlock_t nonrecursive = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static const struct rwlock_kind kinds[] = {
    {"initialiser", initialised_statically, false, &plain},
    {"no attributes", without_attributes, false, NULL},
    {"readers", PTHREAD_RWLOCK_PREFER_READER_NP, false, NULL},
    {"writers, recursive", PTHREAD_RWLOCK_PREFER_WRITER_NP, false, NULL},
    {"writers", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, true, NULL},
    {"writers, initialiser", initialised_statically, true, &nonrecursive},
};
static const struct rwlock_kind main_two[] = {
    {"readers", PTHREAD_RWLOCK_PREFER_READER_NP, false, NULL},
    {"writers", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, true, NULL},
};

static void make(pthread_rwlock_t* lock, const struct rwlock_kind* kind) {
  if (kind->kind == initialised_statically) {
    memcpy(lock, kind->initialiser, sizeof *lock);
    return;
  }
  memset(lock, 0x5a, sizeof *lock);
  if (kind->kind == without_attributes) {
    CHECK_OK(pthread_rwlock_init(lock, NULL));
    return;
  }
  pthread_rwlockattr_t attributes;
  CHECK_OK(pthread_rwlockattr_init(&attributes));
  CHECK_OK(pthread_rwlockattr_setkind_np(&attributes, kind->kind));
  CHECK_OK(pthread_rwlock_init(lock, &attributes));
  CHECK_OK(pthread_rwlockattr_destroy(&attributes));
}

static bool is_the_c_librarys(void) {
  const char* lock = getenv("USHER_RWLOCK");
  return lock == NULL || strcmp(lock, "pthread") == 0;
}

// -- calls in other threads; the result is the error number --

static void* thread_try_read(void* lock) {
  const int error = pthread_rwlock_tryrdlock(lock);
  if (error == 0) CHECK_OK(pthread_rwlock_unlock(lock));
  return (void*)(intptr_t)error;
}
static void* thread_try_write(void* lock) {
  const int error = pthread_rwlock_trywrlock(lock);
  if (error == 0) CHECK_OK(pthread_rwlock_unlock(lock));
  return (void*)(intptr_t)error;
}
static void* thread_write_once(void* lock) {
  CHECK_OK(pthread_rwlock_wrlock(lock));
  CHECK_OK(pthread_rwlock_unlock(lock));
  return NULL;
}
static void* thread_read_once(void* lock) {
  CHECK_OK(pthread_rwlock_rdlock(lock));
  CHECK_OK(pthread_rwlock_unlock(lock));
  return NULL;
}
static int try_read(pthread_rwlock_t* lock) {
  return (int)(intptr_t)in_new_thread(thread_try_read, lock);
}
static int try_write(pthread_rwlock_t* lock) {
  return (int)(intptr_t)in_new_thread(thread_try_write, lock);
}

#define CHECK_FREE(lock) CHECK_OK(try_write(lock))

/// A thread that holds the lock until the flag is set.
struct lock_holder {
  pthread_rwlock_t* lock;
  bool writes;
  pthread_t thread;
  int held, let_go;
};
static void* thread_hold(void* argument) {
  struct lock_holder* me = argument;
  CHECK_OK(me->writes ? pthread_rwlock_wrlock(me->lock) : pthread_rwlock_rdlock(me->lock));
  flag_set(&me->held, 1);
  await_flag(&me->let_go, 1);
  CHECK_OK(pthread_rwlock_unlock(me->lock));
  return NULL;
}
static void begin_to_hold(struct lock_holder* holder, pthread_rwlock_t* lock, bool writes) {
  *holder = (struct lock_holder){.lock = lock, .writes = writes};
  holder->thread = start_thread(thread_hold, holder);
}
static void hold_lock(struct lock_holder* holder, pthread_rwlock_t* lock, bool writes) {
  begin_to_hold(holder, lock, writes);
  await_flag(&holder->held, 1);
}
static void end_hold(struct lock_holder* holder) {
  flag_set(&holder->let_go, 1);
  join_thread(holder->thread);
}

// -- the plain calls --

CASE_FOR(read_unlock, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(pthread_rwlock_rdlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_OK(pthread_rwlock_tryrdlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
  }
  CHECK_FREE(&lock);
  CHECK_OK(pthread_rwlock_destroy(&lock));
}

CASE_FOR(write_unlock, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(pthread_rwlock_wrlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_OK(pthread_rwlock_trywrlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
  }
  CHECK_FREE(&lock);
  CHECK_OK(pthread_rwlock_destroy(&lock));
}

CASE_FOR(init_destroy, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  for (int i = 0; i < 10; ++i) {
    make(&lock, kind);
    CHECK_OK(pthread_rwlock_rdlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_OK(pthread_rwlock_destroy(&lock));
  }
}

CASE_FOR(readers_share, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  struct lock_holder first, second;
  hold_lock(&first, &lock, false);
  hold_lock(&second, &lock, false);
  CHECK_OK(try_read(&lock));
  CHECK_CODE(try_write(&lock), EBUSY);
  end_hold(&first);
  CHECK_CODE(try_write(&lock), EBUSY);
  end_hold(&second);
  CHECK_FREE(&lock);
}

CASE_FOR(writer_excludes, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  struct lock_holder writer, reader, other;
  hold_lock(&writer, &lock, true);
  CHECK_CODE(try_read(&lock), EBUSY);
  CHECK_CODE(try_write(&lock), EBUSY);
  begin_to_hold(&reader, &lock, false);
  begin_to_hold(&other, &lock, true);
  await_sleepers(3);
  CHECK(!flag_get(&reader.held) && !flag_get(&other.held));
  end_hold(&writer);
  flag_set(&reader.let_go, 1);
  flag_set(&other.let_go, 1);
  await_flag(&reader.held, 1);
  await_flag(&other.held, 1);
  join_thread(reader.thread);
  join_thread(other.thread);
  CHECK_FREE(&lock);
}

CASE_FOR(writer_locks_again, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  const struct timespec soon = later(now(CLOCK_REALTIME), 50);
  for (int i = 0; i < 2; ++i) {  // the second time after the process has had a second thread
    CHECK_OK(pthread_rwlock_wrlock(&lock));
    CHECK_CODE(pthread_rwlock_wrlock(&lock), EDEADLK);
    CHECK_CODE(pthread_rwlock_rdlock(&lock), EDEADLK);
    CHECK_CODE(pthread_rwlock_timedwrlock(&lock, &soon), EDEADLK);
    CHECK_CODE(pthread_rwlock_timedrdlock(&lock, &soon), EDEADLK);
    CHECK_CODE(pthread_rwlock_trywrlock(&lock), EBUSY);
    CHECK_CODE(pthread_rwlock_tryrdlock(&lock), EBUSY);
    CHECK_CODE(try_read(&lock), EBUSY);
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_FREE(&lock);
  }
}

CASE_FOR(reader_locks_again, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  for (int i = 0; i < 100; ++i) CHECK_OK(pthread_rwlock_rdlock(&lock));
  CHECK_CODE(pthread_rwlock_trywrlock(&lock), EBUSY);
  for (int i = 0; i < 100; ++i) {
    CHECK_CODE(try_write(&lock), EBUSY);
    CHECK_OK(pthread_rwlock_unlock(&lock));
  }
  CHECK_FREE(&lock);
}

// The C library's count of readers has room for more than a test can lock in its time. A lock with a smaller limit must
// return an error beyond the limit.
CASE(very_many_readers) {
  pthread_rwlock_t lock = plain;
  CHECK_FREE(&lock);
  long held = 0;
  int error = 0;
  while (held < 9000000 && (error = pthread_rwlock_rdlock(&lock)) == 0) ++held;
  CHECK(error == 0 || error == EAGAIN);
  if (error != 0) {
    const int again = pthread_rwlock_tryrdlock(&lock);
    CHECK(again == EAGAIN || again == EBUSY);
  }
  CHECK(held > 1000000);
  CHECK_CODE(try_write(&lock), EBUSY);
  for (; held > 0; --held) CHECK_OK(pthread_rwlock_unlock(&lock));
  CHECK_FREE(&lock);
}

// -- deadlines --

struct timed_lock_call {
  const char* name;
  bool writes;
  clockid_t clock;
  int (*call)(pthread_rwlock_t*, const struct timespec*);
};
static int clockrd_realtime(pthread_rwlock_t* l, const struct timespec* t) {
  return pthread_rwlock_clockrdlock(l, CLOCK_REALTIME, t);
}
static int clockrd_monotonic(pthread_rwlock_t* l, const struct timespec* t) {
  return pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, t);
}
static int clockwr_realtime(pthread_rwlock_t* l, const struct timespec* t) {
  return pthread_rwlock_clockwrlock(l, CLOCK_REALTIME, t);
}
static int clockwr_monotonic(pthread_rwlock_t* l, const struct timespec* t) {
  return pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, t);
}
static const struct timed_lock_call timed[] = {
    {"timedrdlock", false, CLOCK_REALTIME, pthread_rwlock_timedrdlock},
    {"clockrdlock, realtime", false, CLOCK_REALTIME, clockrd_realtime},
    {"clockrdlock, monotonic", false, CLOCK_MONOTONIC, clockrd_monotonic},
    {"timedwrlock", true, CLOCK_REALTIME, pthread_rwlock_timedwrlock},
    {"clockwrlock, realtime", true, CLOCK_REALTIME, clockwr_realtime},
    {"clockwrlock, monotonic", true, CLOCK_MONOTONIC, clockwr_monotonic},
};

CASE_FOR(time_out, struct timed_lock_call, timed_call, timed) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
    note("%s", kinds[k].name);
    pthread_rwlock_t lock;
    make(&lock, &kinds[k]);
    for (int writer = 0; writer < 2; ++writer) {
      if (!writer && !timed_call->writes) continue;
      struct lock_holder holder;
      hold_lock(&holder, &lock, writer);
      const struct timespec end = later(now(timed_call->clock), 30), past = {1, 0};
      CHECK_CODE(timed_call->call(&lock, &past), ETIMEDOUT);
      // libstdc++ converts a time before the clock's epoch to negative nanoseconds. Only the C library refuses such a
      // time.
      const struct timespec before_epoch[] = {{-1, 0}, {-1, -500000000}, {-3000, 1000000000}};
      for (int i = 0; i < (under_usher() ? 3 : 1); ++i)
        CHECK_CODE(timed_call->call(&lock, &before_epoch[i]), ETIMEDOUT);
      CHECK_CODE(timed_call->call(&lock, &end), ETIMEDOUT);
      CHECK(!before(now(timed_call->clock), end));
      end_hold(&holder);
      CHECK_FREE(&lock);
      CHECK_OK(timed_call->call(&lock, &past));  // a free lock needs no time
      CHECK_OK(pthread_rwlock_unlock(&lock));
      CHECK_FREE(&lock);
    }
  }
}

CASE_FOR(in_time, struct timed_lock_call, timed_call, timed) {
  pthread_rwlock_t lock = plain;
  struct lock_holder holder;
  hold_lock(&holder, &lock, true);
  flag_set(&holder.let_go, 1);
  const struct timespec end = later(now(timed_call->clock), 10000);
  CHECK_OK(timed_call->call(&lock, &end));
  CHECK_CODE(try_write(&lock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&lock));
  end_hold(&holder);
  CHECK_FREE(&lock);
}

CASE_FOR(invalid_times, struct timed_lock_call, timed_call, timed) {
  pthread_rwlock_t lock = plain;
  const struct timespec invalid[] = {{0, -1}, {0, 1000000000}, {later(now(CLOCK_REALTIME), 1000).tv_sec, 1000000000}};
  for (int i = 0; i < 3; ++i) CHECK_CODE(timed_call->call(&lock, &invalid[i]), EINVAL);
  const struct timespec end = later(now(CLOCK_REALTIME), 1000);
  CHECK_CODE(pthread_rwlock_clockrdlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &end), EINVAL);
  CHECK_CODE(pthread_rwlock_clockwrlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &end), EINVAL);
  CHECK_FREE(&lock);
}

static void* time_out_often(void* argument) {
  pthread_rwlock_t* lock = argument;
  for (int i = 0; i < 200; ++i) {
    const struct timespec end = now(CLOCK_MONOTONIC);
    const int error = i % 2 ? pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &end) : pthread_rwlock_trywrlock(lock);
    CHECK(error == ETIMEDOUT || error == EBUSY);
  }
  return NULL;
}

// A writer that gives up clears its mark in the lock, so that new readers pass. Readers that were inside before stay
// inside.
CASE_FOR(writers_that_give_up, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  CHECK_OK(pthread_rwlock_rdlock(&lock));
  in_new_thread(time_out_often, &lock);
  in_new_thread(thread_read_once, &lock);
  CHECK_OK(pthread_rwlock_unlock(&lock));
  CHECK_FREE(&lock);
}

// -- readers and waiting writers --

CASE_WHERE(nested_reader, struct rwlock_kind, kind, kinds, !kind->prefers_writers) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  for (int i = 0; i < 20; ++i) {
    CHECK_OK(pthread_rwlock_rdlock(&lock));
    const pthread_t writer = start_thread(thread_write_once, &lock);
    await_sleepers(1);
    CHECK_OK(pthread_rwlock_rdlock(&lock));  // beside the writer that waits
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
    join_thread(writer);
  }
  CHECK_FREE(&lock);
}

CASE_WHERE(tries_beside_a_waiting_writer, struct rwlock_kind, kind, kinds, !kind->prefers_writers) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  for (int i = 0; i < 20; ++i) {
    CHECK_OK(pthread_rwlock_rdlock(&lock));
    const pthread_t writer = start_thread(thread_write_once, &lock);
    await_sleepers(1);
    CHECK_OK(pthread_rwlock_tryrdlock(&lock));  // tried by a thread that already reads
    CHECK_OK(try_read(&lock));
    sleep_ms(i % 4);  // so that a window of the waiting writer, in which readers may enter, ends in some rounds
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_OK(pthread_rwlock_tryrdlock(&lock));
    CHECK_CODE(try_write(&lock), EBUSY);
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
    join_thread(writer);
  }
  CHECK_FREE(&lock);
}

struct linked {
  pthread_rwlock_t lock;
  pthread_mutex_t mutex;
  int has_mutex;
};
static void* read_with_mutex(void* argument) {
  struct linked* l = argument;
  CHECK_OK(pthread_mutex_lock(&l->mutex));
  flag_set(&l->has_mutex, 1);
  CHECK_OK(pthread_rwlock_rdlock(&l->lock));
  CHECK_OK(pthread_rwlock_unlock(&l->lock));
  CHECK_OK(pthread_mutex_unlock(&l->mutex));
  return NULL;
}

// A reader waits for a mutex. The mutex's owner waits for the lock to read, behind a writer that waits for the first
// reader.
CASE_WHERE(readers_linked_by_a_mutex, struct rwlock_kind, kind, kinds, !kind->prefers_writers) {
  for (int i = 0; i < 20; ++i) {
    struct linked l = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    make(&l.lock, kind);
    CHECK_OK(pthread_rwlock_rdlock(&l.lock));
    const pthread_t writer = start_thread(thread_write_once, &l.lock);
    await_sleepers(1);
    const pthread_t reader = start_thread(read_with_mutex, &l);
    await_flag(&l.has_mutex, 1);
    CHECK_OK(pthread_mutex_lock(&l.mutex));
    CHECK_OK(pthread_mutex_unlock(&l.mutex));
    CHECK_OK(pthread_rwlock_unlock(&l.lock));
    join_thread(reader);
    join_thread(writer);
    CHECK_FREE(&l.lock);
  }
}

CASE_WHERE(writer_before_new_readers, struct rwlock_kind, kind, kinds, kind->prefers_writers) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  CHECK_OK(pthread_rwlock_rdlock(&lock));
  struct lock_holder writer, reader;
  begin_to_hold(&writer, &lock, true);
  await_sleepers(1);
  for (int i = 0; i < 200 && try_read(&lock) == 0; ++i) sleep_ms(5);  // until the writer waits
  CHECK_CODE(try_read(&lock), EBUSY);
  begin_to_hold(&reader, &lock, false);
  sleep_ms(20);
  CHECK(!flag_get(&reader.held));
  CHECK_OK(pthread_rwlock_unlock(&lock));
  await_flag(&writer.held, 1);
  CHECK(!flag_get(&reader.held));
  end_hold(&writer);
  await_flag(&reader.held, 1);
  end_hold(&reader);
  CHECK_FREE(&lock);
}

// -- many threads --

struct shared_data {
  pthread_rwlock_t lock;
  int readers, writers;
  long written, copy;
};

static bool acquire(pthread_rwlock_t* lock, bool writes, long step) {
  int error = 0;
  const struct timespec end = later(now(CLOCK_MONOTONIC), step % 3);
  switch (step % 5) {
    case 0:
      error = writes ? pthread_rwlock_trywrlock(lock) : pthread_rwlock_tryrdlock(lock);
      CHECK(error == 0 || error == EBUSY);
      return error == 0;
    case 1:
      error = writes ? pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &end)
                     : pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &end);
      CHECK(error == 0 || error == ETIMEDOUT);
      return error == 0;
    default:
      CHECK_OK(writes ? pthread_rwlock_wrlock(lock) : pthread_rwlock_rdlock(lock));
      return true;
  }
}

static void* use_the_data(void* argument) {
  struct shared_data* d = *(struct shared_data**)argument;
  for (long i = 0; i < 300; ++i) {
    const bool writes = (i * 7 + (long)(intptr_t)argument / 8) % 4 == 0;
    if (!acquire(&d->lock, writes, i)) continue;
    if (writes) {
      CHECK(flag_add(&d->writers, 1) == 1 && flag_get(&d->readers) == 0);
      linger(++d->written);
      d->copy = d->written;
      flag_add(&d->writers, -1);
    } else {
      flag_add(&d->readers, 1);
      CHECK(flag_get(&d->writers) == 0 && d->copy == d->written);
      linger(i);
      flag_add(&d->readers, -1);
    }
    CHECK_OK(pthread_rwlock_unlock(&d->lock));
  }
  return NULL;
}

CASE_FOR(exclusion, struct rwlock_kind, kind, main_two) {
  struct shared_data data = {.readers = 0};
  make(&data.lock, kind);
  struct shared_data* all[6];
  for (int i = 0; i < 6; ++i) all[i] = &data;
  run_threads(6, use_the_data, all, sizeof *all);
  CHECK(data.written > 0);
  CHECK_FREE(&data.lock);
}

/// A lock that one thread destroys as soon as the other thread has unlocked.
struct short_lived {
  pthread_rwlock_t lock;
  bool writes;
  int locked;
};
static void* lock_and_leave(void* argument) {
  struct short_lived* s = argument;
  CHECK_OK(s->writes ? pthread_rwlock_wrlock(&s->lock) : pthread_rwlock_rdlock(&s->lock));
  flag_set(&s->locked, 1);
  sched_yield();
  CHECK_OK(pthread_rwlock_unlock(&s->lock));
  return NULL;
}
CASE(memory_is_free_after_unlock) {
  for (int i = 0; i < 300; ++i) {
    struct short_lived* s = shared_page();
    s->writes = i % 2;
    const pthread_t other = start_thread(lock_and_leave, s);
    await_flag(&s->locked, 1);
    CHECK_OK(pthread_rwlock_wrlock(&s->lock));
    CHECK_OK(pthread_rwlock_unlock(&s->lock));
    CHECK_OK(pthread_rwlock_destroy(&s->lock));
    munmap(s, 1);  // a later access of the other thread is a crash
    join_thread(other);
  }
}

CASE_FOR(destroy_in_use, struct rwlock_kind, kind, kinds) {
  if (is_the_c_librarys()) skip_case("the C library does not promise this of pthread_rwlock_destroy");
  pthread_rwlock_t lock;
  make(&lock, kind);
  CHECK_OK(pthread_rwlock_rdlock(&lock));
  CHECK_CODE(pthread_rwlock_destroy(&lock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&lock));
  CHECK_OK(pthread_rwlock_wrlock(&lock));
  CHECK_CODE(pthread_rwlock_destroy(&lock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&lock));
  CHECK_OK(pthread_rwlock_destroy(&lock));
}

// -- threads that begin late, cancellation --

static void* read_unlock_of_main(void* lock) {
  CHECK_CODE(pthread_rwlock_trywrlock(lock), EBUSY);
  return NULL;
}

// A process has one thread, which locks. More threads exist when the lock is unlocked.
CASE(first_thread_while_locked) {
  pthread_rwlock_t read = plain, written = plain;
  CHECK_OK(pthread_rwlock_rdlock(&read));
  CHECK_OK(pthread_rwlock_rdlock(&read));
  CHECK_OK(pthread_rwlock_wrlock(&written));
  in_new_thread(read_unlock_of_main, &read);
  in_new_thread(read_unlock_of_main, &written);
  CHECK_OK(pthread_rwlock_unlock(&read));
  CHECK_CODE(try_write(&read), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&read));
  CHECK_OK(pthread_rwlock_unlock(&written));
  CHECK_FREE(&read);
  CHECK_FREE(&written);
}

struct cancelled {
  pthread_rwlock_t* lock;
  bool writes;
  int has_lock, go_on;
};
static void unlock_on_cancel(void* lock) {
  CHECK_OK(pthread_rwlock_unlock(lock));
}
static void* be_cancelled(void* argument) {
  struct cancelled* c = argument;
  CHECK_OK(c->writes ? pthread_rwlock_wrlock(c->lock) : pthread_rwlock_rdlock(c->lock));
  pthread_cleanup_push(unlock_on_cancel, c->lock);
  flag_set(&c->has_lock, 1);
  while (!flag_get(&c->go_on)) pthread_testcancel();
  pthread_cleanup_pop(1);
  return NULL;
}

// A cancellation request to a thread that waits for a read-write lock takes effect only when the thread has the lock.
CASE_FOR(cancellation_of_a_waiter, struct rwlock_kind, kind, main_two) {
  for (int writes = 0; writes < 2; ++writes) {
    pthread_rwlock_t lock;
    make(&lock, kind);
    CHECK_OK(pthread_rwlock_wrlock(&lock));
    struct cancelled c = {.lock = &lock, .writes = writes};
    const pthread_t thread = start_thread(be_cancelled, &c);
    await_sleepers(1);
    CHECK_OK(pthread_cancel(thread));
    sleep_ms(5);
    CHECK(!flag_get(&c.has_lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK(flag_get(&c.has_lock));
    CHECK_FREE(&lock);
  }
}

struct cancelled_holder {
  pthread_rwlock_t* lock;
  bool writes;
  int has_lock, is_over;
};
static void unlock_and_lock_again(void* argument) {
  struct cancelled_holder* h = argument;
  CHECK_CODE(pthread_rwlock_trywrlock(h->lock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(h->lock));
  CHECK_OK(h->writes ? pthread_rwlock_wrlock(h->lock) : pthread_rwlock_rdlock(h->lock));
  CHECK_OK(pthread_rwlock_unlock(h->lock));
  flag_set(&h->is_over, 1);
}
static void* hold_until_cancelled(void* argument) {
  struct cancelled_holder* h = argument;
  CHECK_OK(h->writes ? pthread_rwlock_wrlock(h->lock) : pthread_rwlock_rdlock(h->lock));
  pthread_cleanup_push(unlock_and_lock_again, h);
  flag_set(&h->has_lock, 1);
  for (;;) pause();
  pthread_cleanup_pop(0);
}

// A thread is cancelled while it holds the lock and other threads wait. Its clean-up handler unlocks, and then uses the
// lock once more.
CASE_FOR(cancellation_of_a_holder, struct rwlock_kind, kind, kinds) {
  for (int writes = 0; writes < 2; ++writes) {
    pthread_rwlock_t lock;
    make(&lock, kind);
    struct cancelled_holder holder = {.lock = &lock, .writes = writes};
    const pthread_t thread = start_thread(hold_until_cancelled, &holder);
    await_flag(&holder.has_lock, 1);
    struct lock_holder writer, reader;
    begin_to_hold(&writer, &lock, true);
    if (writes) begin_to_hold(&reader, &lock, false);
    await_sleepers(2 + writes);
    CHECK(!flag_get(&writer.held));
    flag_set(&writer.let_go, 1);
    if (writes) flag_set(&reader.let_go, 1);
    CHECK_OK(pthread_cancel(thread));
    join_thread(writer.thread);
    if (writes) join_thread(reader.thread);
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK(flag_get(&holder.is_over));
    CHECK_FREE(&lock);
  }
}

// -- processes --

static void* read_often(void* argument) {
  struct shared_data* d = argument;
  while (!flag_get(&d->readers)) {
    CHECK_OK(pthread_rwlock_rdlock(&d->lock));
    CHECK_OK(pthread_rwlock_unlock(&d->lock));
  }
  return NULL;
}
static void use_in_child(void* argument) {
  struct shared_data* d = argument;
  CHECK_OK(pthread_rwlock_wrlock(&d->lock));
  CHECK_CODE(try_read(&d->lock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&d->lock));
  CHECK_OK(pthread_rwlock_rdlock(&d->lock));
  CHECK_OK(try_read(&d->lock));
  CHECK_CODE(try_write(&d->lock), EBUSY);
  CHECK_OK(pthread_rwlock_unlock(&d->lock));
  CHECK_FREE(&d->lock);
}

static struct shared_data forked;
static void before_fork(void) {
  CHECK_OK(pthread_rwlock_wrlock(&forked.lock));
}
static void after_fork(void) {
  CHECK_OK(pthread_rwlock_unlock(&forked.lock));
}
static void nothing_in_child(void* unused) {
  (void)unused;
  use_in_child(&forked);
}

// Handlers of fork() lock for writing while other threads read.
CASE_FOR(atfork_handlers, struct rwlock_kind, kind, main_two) {
  if (is_the_c_librarys()) skip_case("the C library does not promise this of pthread_rwlock_unlock in a child");
  make(&forked.lock, kind);
  CHECK_OK(pthread_atfork(before_fork, after_fork, after_fork));
  pthread_t readers[3];
  for (int i = 0; i < 3; ++i) readers[i] = start_thread(read_often, &forked);
  for (int i = 0; i < 10; ++i) CHECK_CHILD(start_child(nothing_in_child, NULL), 0);
  flag_set(&forked.readers, 1);
  for (int i = 0; i < 3; ++i) join_thread(readers[i]);
  CHECK_FREE(&forked.lock);
}

static void unlock_in_child(void* argument) {
  struct shared_data* d = argument;
  CHECK_CODE(pthread_rwlock_trywrlock(&d->lock), EBUSY);
  CHECK_OK(pthread_rwlock_tryrdlock(&d->lock));
  CHECK_OK(pthread_rwlock_unlock(&d->lock));
  CHECK_OK(pthread_rwlock_unlock(&d->lock));
  use_in_child(d);
}

CASE_FOR(fork_while_reading, struct rwlock_kind, kind, main_two) {
  struct shared_data data = {.readers = 0};
  make(&data.lock, kind);
  for (int i = 0; i < 5; ++i) {
    CHECK_OK(pthread_rwlock_rdlock(&data.lock));
    CHECK_CHILD(start_child(unlock_in_child, &data), 0);
    CHECK_OK(pthread_rwlock_unlock(&data.lock));
    CHECK_FREE(&data.lock);
  }
}

// A child initialises a lock at the address of a lock that readers of the parent held.
static void make_anew_in_child(void* argument) {
  struct shared_data* d = argument;
  CHECK_OK(pthread_rwlock_init(&d->lock, NULL));
  use_in_child(d);
}
CASE(new_lock_in_child) {
  struct shared_data data = {.readers = 0};
  struct lock_holder holders[4];
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 4; ++i) hold_lock(&holders[i], &data.lock, false);
    CHECK_CHILD(start_child(make_anew_in_child, &data), 0);
    for (int i = 0; i < 4; ++i) end_hold(&holders[i]);
  }
  CHECK_FREE(&data.lock);
}

// Another thread of the parent holds the lock for writing. Calls in the child must have the results that they have in
// the C library.
static void use_while_another_writes(void* argument) {
  struct shared_data* d = argument;
  const struct timespec soon = later(now(CLOCK_REALTIME), 10);
  CHECK_CODE(pthread_rwlock_tryrdlock(&d->lock), EBUSY);
  CHECK_CODE(pthread_rwlock_trywrlock(&d->lock), EBUSY);
  CHECK_CODE(pthread_rwlock_timedrdlock(&d->lock, &soon), ETIMEDOUT);
  CHECK_CODE(pthread_rwlock_timedwrlock(&d->lock, &soon), ETIMEDOUT);
  CHECK_CODE(try_read(&d->lock), EBUSY);
  CHECK_CODE(try_write(&d->lock), EBUSY);
  struct shared_data own = {.readers = 0};
  use_in_child(&own);
  make_anew_in_child(d);
}
static void use_while_another_reads(void* argument) {
  struct shared_data* d = argument;
  const struct timespec soon = later(now(CLOCK_REALTIME), 10), much_later = later(soon, 10000);
  CHECK_CODE(pthread_rwlock_trywrlock(&d->lock), EBUSY);
  CHECK_CODE(pthread_rwlock_timedwrlock(&d->lock, &soon), ETIMEDOUT);
  CHECK_OK(pthread_rwlock_rdlock(&d->lock));
  CHECK_OK(pthread_rwlock_tryrdlock(&d->lock));
  CHECK_OK(pthread_rwlock_timedrdlock(&d->lock, &much_later));
  CHECK_OK(try_read(&d->lock));
  for (int i = 0; i < 3; ++i) CHECK_OK(pthread_rwlock_unlock(&d->lock));
  CHECK_CODE(try_write(&d->lock), EBUSY);
  struct shared_data own = {.readers = 0};
  use_in_child(&own);
  make_anew_in_child(d);
}

// A reader may be registered in a slot of a table instead of the lock. The lock must work if another thread or a child
// unlocks for such a reader, and if the lock is initialised again meanwhile.

static void read_many_times(pthread_rwlock_t* lock) {
  in_new_thread(thread_read_once, lock);
  for (int i = 0; i < 100; ++i) {
    CHECK_OK(pthread_rwlock_rdlock(lock));
    CHECK_OK(pthread_rwlock_unlock(lock));
  }
}
static void* unlock_for_another(void* lock) {
  return (void*)(intptr_t)pthread_rwlock_unlock(lock);
}

CASE_FOR(reader_unlocked_by_another_thread, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  read_many_times(&lock);
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(pthread_rwlock_rdlock(&lock));
    CHECK_OK((int)(intptr_t)in_new_thread(unlock_for_another, &lock));
    CHECK_FREE(&lock);
    CHECK_OK(pthread_rwlock_wrlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
  }
}

CASE_FOR(made_anew_while_read, struct rwlock_kind, kind, kinds) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  for (int i = 0; i < 3; ++i) {
    read_many_times(&lock);
    CHECK_OK(pthread_rwlock_rdlock(&lock));
    make(&lock, kind);
    read_many_times(&lock);
    CHECK_OK(pthread_rwlock_wrlock(&lock));
    CHECK_OK(pthread_rwlock_unlock(&lock));
    CHECK_FREE(&lock);
  }
}

// The child is made by the system call clone, so no fork handler runs.
CASE_FOR(child_of_a_plain_fork, struct rwlock_kind, kind, main_two) {
  pthread_rwlock_t lock;
  make(&lock, kind);
  read_many_times(&lock);
  CHECK_OK(pthread_rwlock_rdlock(&lock));
  const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
  if (child == 0) {
    alarm(20);
    if (pthread_rwlock_trywrlock(&lock) != EBUSY) _exit(1);
    if (pthread_rwlock_unlock(&lock) != 0 || pthread_rwlock_wrlock(&lock) != 0) _exit(2);
    _exit(pthread_rwlock_unlock(&lock) == 0 ? 0 : 3);
  }
  CHECK_CHILD(child, 0);
  CHECK_OK(pthread_rwlock_unlock(&lock));
  CHECK_FREE(&lock);
}

CASE_FOR(fork_while_another_writes, struct rwlock_kind, kind, main_two) {
  for (int i = 0; i < 5; ++i) {
    struct shared_data data = {.readers = 0};
    make(&data.lock, kind);
    struct lock_holder holder, reader, writer;
    hold_lock(&holder, &data.lock, true);
    begin_to_hold(&reader, &data.lock, false);
    begin_to_hold(&writer, &data.lock, true);
    await_sleepers(3);
    CHECK_CHILD(start_child(use_while_another_writes, &data), 0);
    flag_set(&reader.let_go, 1);
    flag_set(&writer.let_go, 1);
    end_hold(&holder);
    join_thread(reader.thread);
    join_thread(writer.thread);
    CHECK_FREE(&data.lock);
  }
}

CASE_FOR(fork_while_another_reads, struct rwlock_kind, kind, main_two) {
  for (int i = 0; i < 5; ++i) {
    struct shared_data data = {.readers = 0};
    make(&data.lock, kind);
    struct lock_holder holder, writer;
    hold_lock(&holder, &data.lock, false);
    // If the kind prefers writers, new readers wait while a writer waits; in the C library also in a child, where the
    // writer does not exist.
    if (!kind->prefers_writers) begin_to_hold(&writer, &data.lock, true);
    await_sleepers(kind->prefers_writers ? 1 : 2);
    CHECK_CHILD(start_child(use_while_another_reads, &data), 0);
    end_hold(&holder);
    if (!kind->prefers_writers) end_hold(&writer);
    CHECK_FREE(&data.lock);
  }
}

static void* write_often(void* argument) {
  struct shared_data* d = argument;
  while (!flag_get(&d->readers)) {
    CHECK_OK(pthread_rwlock_wrlock(&d->lock));
    linger(++d->written);
    d->copy = d->written;
    CHECK_OK(pthread_rwlock_unlock(&d->lock));
  }
  return NULL;
}
static void try_in_child(void* argument) {
  struct shared_data* d = argument;
  for (int i = 0; i < 20; ++i) {
    const int error = i % 2 ? pthread_rwlock_tryrdlock(&d->lock) : pthread_rwlock_trywrlock(&d->lock);
    CHECK(error == 0 || error == EBUSY);
    if (error != 0) continue;
    CHECK_NUMBER(d->copy, d->written);
    CHECK_OK(pthread_rwlock_unlock(&d->lock));
  }
  struct shared_data own = {.readers = 0};
  use_in_child(&own);
  make_anew_in_child(d);
}

// At the fork, other threads of the parent may be anywhere in a call. If the child can acquire the lock, no writer was
// changing the data.
CASE_FOR(fork_at_any_moment, struct rwlock_kind, kind, main_two) {
  static _Alignas(256) struct shared_data data;  // in one page, of which the child has a copy as of one moment
  make(&data.lock, kind);
  const pthread_t writer = start_thread(write_often, &data), reader = start_thread(read_often, &data);
  for (int i = 0; i < 30; ++i) CHECK_CHILD(start_child(try_in_child, &data), 0);
  flag_set(&data.readers, 1);
  join_thread(writer);
  join_thread(reader);
  CHECK_FREE(&data.lock);
}

struct between_processes {
  pthread_rwlock_t lock;
  int child_has_it;
  long count;
};
static void count_in_child(void* argument) {
  struct between_processes* b = argument;
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(pthread_rwlock_wrlock(&b->lock));
    b->count++;
    CHECK_OK(pthread_rwlock_unlock(&b->lock));
  }
  CHECK_OK(pthread_rwlock_rdlock(&b->lock));
  flag_set(&b->child_has_it, 1);
  sleep_ms(20);
  CHECK_OK(pthread_rwlock_unlock(&b->lock));
}

CASE(process_shared) {
  struct between_processes* b = shared_page();
  pthread_rwlockattr_t attributes;
  CHECK_OK(pthread_rwlockattr_init(&attributes));
  CHECK_OK(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
  CHECK_OK(pthread_rwlock_init(&b->lock, &attributes));
  const pid_t child = start_child(count_in_child, b);
  for (int i = 0; i < 1000; ++i) {
    CHECK_OK(pthread_rwlock_wrlock(&b->lock));
    b->count++;
    CHECK_OK(pthread_rwlock_unlock(&b->lock));
  }
  await_flag(&b->child_has_it, 1);
  const struct timespec end = later(now(CLOCK_REALTIME), 10000);
  CHECK_OK(pthread_rwlock_timedwrlock(&b->lock, &end));
  CHECK_NUMBER(b->count, 2000);
  CHECK_OK(pthread_rwlock_unlock(&b->lock));
  CHECK_CHILD(child, 0);
  CHECK_OK(pthread_rwlock_destroy(&b->lock));
}
