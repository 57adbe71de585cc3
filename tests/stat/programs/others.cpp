// The objects that libusher-stat.so records: read-write locks, spin locks, barriers, joins, C11's mutexes and condition
// variables. Each scenario has known figures. The program prints these figures as a line of JSON for each object:
//
//     {"address": "55…", "kind": "rwlock", "acquisitions": 12, …}
//
// The scenario `results` prints the results of calls instead, which must be the C library's results, with and without
// recording.
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <source_location>
#include <thread>
#include <vector>

#include "asleep.hpp"

namespace {

void check(bool as_expected, std::source_location here = std::source_location::current()) {
  if (as_expected) return;
  std::fprintf(stderr, "others.cpp:%u: not as expected; errno is %d\n", unsigned{here.line()}, errno);
  std::abort();
}

/// Waits until the thread sleeps. Gives up after a limit, since a thread may only poll.
void await_sleep(const std::atomic<pid_t>& thread) {
  planted::await_asleep(thread, std::chrono::seconds(5));
}

/// `milliseconds` may be negative.
timespec after(clockid_t clock, long milliseconds) {
  timespec t{};
  clock_gettime(clock, &t);
  t.tv_nsec += milliseconds * 1000000;
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  if (t.tv_nsec < 0) --t.tv_sec, t.tv_nsec += 1000000000;
  return t;
}

void expect(const char* kind, const volatile void* object, const char* more) {
  std::printf("{\"address\": \"%lx\", \"kind\": \"%s\", %s}\n", reinterpret_cast<unsigned long>(object), kind, more);
}

/// Starts a thread and waits until it sleeps in `wait`.
template <class F>
std::thread sleeper(F wait) {
  std::atomic<pid_t> id{0};
  std::thread t([&id, wait] {
    id = gettid();
    wait();
  });
  await_sleep(id);
  return t;
}

// ---- read-write locks ----------------------------------------------------------------------------------------------

pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;

void rwlocks() {
  constexpr int rounds = 10;
  for (int i = 0; i < rounds; ++i) {  // a reader waits for a writer
    check(pthread_rwlock_wrlock(&shared) == 0);
    std::thread reader = sleeper([] {
      check(pthread_rwlock_rdlock(&shared) == 0);
      check(pthread_rwlock_unlock(&shared) == 0);
    });
    check(pthread_rwlock_unlock(&shared) == 0);
    reader.join();
  }
  for (int i = 0; i < rounds; ++i) {  // a writer waits for three readers
    for (int n = 0; n < 3; ++n) check(pthread_rwlock_rdlock(&shared) == 0);
    std::thread writer = sleeper([] {
      check(pthread_rwlock_wrlock(&shared) == 0);
      check(pthread_rwlock_unlock(&shared) == 0);
    });
    for (int n = 0; n < 3; ++n) check(pthread_rwlock_unlock(&shared) == 0);
    writer.join();
  }
  timespec until = after(CLOCK_MONOTONIC, 10), past = after(CLOCK_REALTIME, -10);
  check(pthread_rwlock_rdlock(&shared) == 0);
  check(pthread_rwlock_clockwrlock(&shared, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  check(pthread_rwlock_timedwrlock(&shared, &past) == ETIMEDOUT);
  check(pthread_rwlock_trywrlock(&shared) == EBUSY);
  check(pthread_rwlock_tryrdlock(&shared) == 0);
  check(pthread_rwlock_timedrdlock(&shared, &past) == 0);
  for (int n = 0; n < 3; ++n) check(pthread_rwlock_unlock(&shared) == 0);
  check(pthread_rwlock_wrlock(&shared) == 0);
  for (int n = 0; n < 7; ++n) check(pthread_rwlock_wrlock(&shared) == EDEADLK);  // a refused call is no acquisition
  check(pthread_rwlock_unlock(&shared) == 0);
  expect("rwlock", &shared,
         "\"acquisitions\": 64, \"reads\": 43, \"contended\": 20, \"contended_reads\": 10, \"holds\": 21, "
         "\"most_readers\": 3, \"readers\": 0, \"timeouts\": 2, \"owner\": 0, \"waiting\": 0, \"failed_tries\": 1, "
         "\"only\": [\"behind_writer_to_read\", \"behind_readers_to_write\"]");
  // 100 locks that are made and destroyed at one place: the record adds their figures up
  for (int i = 0; i < 100; ++i) {
    pthread_rwlock_t one;
    check(pthread_rwlock_init(&one, nullptr) == 0);
    check(pthread_rwlock_rdlock(&one) == 0);
    check(pthread_rwlock_unlock(&one) == 0);
    check(pthread_rwlock_wrlock(&one) == 0);
    check(pthread_rwlock_unlock(&one) == 0);
    check(pthread_rwlock_destroy(&one) == 0);
  }
  std::printf(
      "{\"sum\": true, \"kind\": \"rwlock\", \"owner\": 100, \"acquisitions\": 200, \"reads\": 100, \"holds\": 100}\n");
}

/// Threads lock for reading and for writing at random. The recorded counts must agree with each other; a plain variable
/// shows whether a writer excludes other threads.
void readers_and_writers() {
  static long value = 0;
  constexpr int threads = 4, rounds = 20000;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([t] {
      for (int i = 0; i < rounds; ++i)
        if ((i + t) % 8 == 0) {
          check(pthread_rwlock_wrlock(&shared) == 0);
          ++value;
          check(pthread_rwlock_unlock(&shared) == 0);
        } else {
          check(pthread_rwlock_rdlock(&shared) == 0);
          check(value >= 0);
          check(pthread_rwlock_unlock(&shared) == 0);
        }
    });
  for (std::thread& t : all) t.join();
  check(value == threads * rounds / 8);
  expect("rwlock", &shared,
         "\"acquisitions\": 80000, \"reads\": 70000, \"holds\": 10000, \"readers\": 0, \"owner\": 0, \"waiting\": 0");
}

// ---- spin locks ----------------------------------------------------------------------------------------------------

pthread_spinlock_t spinning;

/// Waits until the thread with this CPU clock has used `nanoseconds` of CPU time since it set `begun`.
void await_cpu_time(const std::atomic<bool>& begun, clockid_t clock, long nanoseconds) {
  const auto used = [clock] {
    timespec t{};
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
  };
  while (!begun) sched_yield();
  for (const long before = used(); used() < before + nanoseconds;) sched_yield();
}

void spins() {
  check(pthread_spin_init(&spinning, PTHREAD_PROCESS_PRIVATE) == 0);
  constexpr int rounds = 10;
  for (int i = 0; i < rounds; ++i) {
    check(pthread_spin_lock(&spinning) == 0);
    std::atomic<bool> begun{false};
    std::thread waiter([&begun] {
      begun = true;
      check(pthread_spin_lock(&spinning) == 0);
      check(pthread_spin_unlock(&spinning) == 0);
    });
    clockid_t clock = 0;
    check(pthread_getcpuclockid(waiter.native_handle(), &clock) == 0);
    await_cpu_time(begun, clock, 3000000);
    check(pthread_spin_unlock(&spinning) == 0);
    waiter.join();
  }
  check(pthread_spin_trylock(&spinning) == 0);
  for (int i = 0; i < 5; ++i) check(pthread_spin_trylock(&spinning) == EBUSY);
  check(pthread_spin_unlock(&spinning) == 0);
  expect("spin", &spinning,
         "\"acquisitions\": 21, \"contended\": 10, \"holds\": 21, \"owner\": 0, \"waiting\": 0, \"failed_tries\": 5");
  for (int i = 0; i < 50; ++i) {
    pthread_spinlock_t one;
    check(pthread_spin_init(&one, PTHREAD_PROCESS_PRIVATE) == 0);
    check(pthread_spin_lock(&one) == 0);
    check(pthread_spin_unlock(&one) == 0);
    check(pthread_spin_destroy(&one) == 0);
  }
  std::printf("{\"sum\": true, \"kind\": \"spin\", \"owner\": 50, \"acquisitions\": 50}\n");
}

// ---- barriers ------------------------------------------------------------------------------------------------------

pthread_barrier_t meeting;

/// In each round one thread arrives at the barrier when all others already sleep there.
void barriers() {
  constexpr int threads = 4, rounds = 12;
  check(pthread_barrier_init(&meeting, nullptr, threads) == 0);
  std::atomic<pid_t> ids[threads]{};
  std::atomic<int> serial{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([t, &ids, &serial] {
      for (int i = 0; i < rounds; ++i) {
        if (t == 0)
          for (int other = 1; other < threads; ++other) await_sleep(ids[other]);
        ids[t] = gettid();
        const int result = pthread_barrier_wait(&meeting);
        check(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD) ++serial;
        ids[t] = 0;
        // The next round begins only when all threads have left this one.
        static std::atomic<int> left{0};
        ++left;
        while (left < (i + 1) * threads) sched_yield();
      }
    });
  for (std::thread& t : all) t.join();
  check(serial == rounds);
  expect("barrier", &meeting,
         "\"acquisitions\": 48, \"contended\": 36, \"barrier_size\": 4, \"waiting\": 0, \"came_last\": 12, "
         "\"came_last_most\": 12");
  constexpr int made = 20;
  for (int i = 0; i < made; ++i) {
    auto* const one = new pthread_barrier_t;
    check(pthread_barrier_init(one, nullptr, 2) == 0);
    std::thread other([one] { pthread_barrier_wait(one); });
    pthread_barrier_wait(one);
    other.join();
    check(pthread_barrier_destroy(one) == 0);
    delete one;
  }
  std::printf(
      "{\"sum\": true, \"kind\": \"barrier\", \"owner\": 20, \"acquisitions\": 40, \"contended\": 20, "
      "\"barrier_size\": 2, \"came_last\": 20}\n");
}

// ---- joins ---------------------------------------------------------------------------------------------------------

/// A thread that sleeps until let_go(). await_end() waits until the thread has ended.
struct held_thread {
  sem_t go;
  std::atomic<pid_t> id{0};
  held_thread() { sem_init(&go, 0, 0); }
  void operator()() {
    id = gettid();
    while (sem_wait(&go) != 0) {
    }
  }
  void let_go() { sem_post(&go); }
  void await_end() const {
    while (id == 0) sched_yield();
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", id.load());
    while (access(path, F_OK) == 0) sched_yield();
  }
};

void* run_held(void* held) {
  (*static_cast<held_thread*>(held))();
  return held;
}

[[gnu::noinline]] void join_at_one_line(pthread_t t) {
  check(pthread_join(t, nullptr) == 0);  // mark: one line
}
[[gnu::noinline]] void join_at_another_line(std::thread& t) {
  t.join();          // mark: another line
  asm volatile("");  // no tail call
}
[[gnu::noinline]] void join_at_a_third_line(std::thread& t) {
  t.join();  // mark: a third line
  // no tail call, and different code from join_at_another_line(), so that the linker does not merge the functions
  asm volatile("nop");
}

/// Starts a thread that waits until the calling thread sleeps, and then calls let_go() for the held thread.
std::thread let_go_later(held_thread& held) {
  static std::atomic<pid_t> caller;
  caller = gettid();
  return std::thread([&held] {
    await_sleep(caller);
    held.let_go();
  });
}

void joins() {
  for (int i = 0; i < 6; ++i) {  // the thread ends when its joiner sleeps
    held_thread held;
    pthread_t t;
    check(pthread_create(&t, nullptr, run_held, &held) == 0);
    std::thread helper = let_go_later(held);
    join_at_one_line(t);
    helper.detach();
  }
  for (int i = 0; i < 4; ++i) {  // the thread has ended
    held_thread held;
    std::thread t(std::ref(held));
    held.let_go();
    held.await_end();
    join_at_another_line(t);
  }
  for (int i = 0; i < 3; ++i) {
    held_thread held;
    std::thread t(std::ref(held));
    std::thread helper = let_go_later(held);
    join_at_a_third_line(t);
    helper.detach();
  }
  std::printf(
      "{\"joins\": [[\"join_at_one_line\", 6, 6], [\"join_at_another_line\", 4, 0], "
      "[\"join_at_a_third_line\", 3, 3]]}\n");
}

/// A thread is cancelled while it joins a second one. A third thread can then join the second.
void cancelled_join() {
  static held_thread held;
  static pthread_t joined;
  static std::atomic<pid_t> joiner_id{0};
  static std::atomic<int> cleaned{0};
  check(pthread_create(&joined, nullptr, run_held, &held) == 0);
  for (int type : {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS}) {
    joiner_id = 0;
    static int type_of_joiner;
    type_of_joiner = type;
    pthread_t joiner;
    const auto run = [](void*) -> void* {
      int before = 0;
      pthread_setcanceltype(type_of_joiner, &before);
      joiner_id = gettid();
      pthread_cleanup_push([](void*) { ++cleaned; }, nullptr);
      pthread_join(joined, nullptr);
      pthread_cleanup_pop(0);
      return nullptr;
    };
    check(pthread_create(&joiner, nullptr, run, nullptr) == 0);
    await_sleep(joiner_id);
    check(pthread_cancel(joiner) == 0);
    void* result = nullptr;
    check(pthread_join(joiner, &result) == 0);
    check(result == PTHREAD_CANCELED);
  }
  check(cleaned == 2);
  held.let_go();
  void* result = nullptr;
  check(pthread_join(joined, &result) == 0 && result == &held);
  std::printf("{\"joins\": [[\"cancelled_join\", 3, null]]}\n");
}

// ---- forks ---------------------------------------------------------------------------------------------------------

/// The record has separate entries for the objects of the child process. The hold of an object that the parent held at
/// the fork is not recorded in the child.
void forked() {
  check(pthread_spin_init(&spinning, PTHREAD_PROCESS_PRIVATE) == 0);
  check(pthread_rwlock_rdlock(&shared) == 0);
  const pid_t child = fork();
  if (child == 0) {
    check(pthread_rwlock_unlock(&shared) == 0);
    for (int i = 0; i < 5; ++i) {
      check(pthread_rwlock_wrlock(&shared) == 0);
      check(pthread_rwlock_unlock(&shared) == 0);
      check(pthread_spin_lock(&spinning) == 0);
      check(pthread_spin_unlock(&spinning) == 0);
    }
    std::thread([] {}).join();
    _exit(0);
  }
  int status = 0;
  check(waitpid(child, &status, 0) == child && status == 0);
  check(pthread_rwlock_unlock(&shared) == 0);
  expect("rwlock", &shared, "\"process\": 0, \"acquisitions\": 1, \"reads\": 1, \"readers\": 0, \"owner\": 0");
  expect("rwlock", &shared,
         "\"process\": 1, \"acquisitions\": 5, \"reads\": 0, \"holds\": 5, \"readers\": 0, \"owner\": 0");
  expect("spin", &spinning, "\"process\": 1, \"acquisitions\": 5, \"owner\": 0");
}

// ---- an address that changes its kind ------------------------------------------------------------------------------

void another_kind() {
  union objects {
    pthread_rwlock_t rwlock;
    pthread_mutex_t mutex;
    pthread_spinlock_t spin;
    pthread_barrier_t barrier;
  };
  const auto use_all = [](objects& here) {
    std::memset(static_cast<void*>(&here), 0, sizeof here);
    check(pthread_rwlock_rdlock(&here.rwlock) == 0 && pthread_rwlock_unlock(&here.rwlock) == 0);
    check(pthread_spin_init(&here.spin, 0) == 0);
    check(pthread_spin_lock(&here.spin) == 0 && pthread_spin_unlock(&here.spin) == 0);
    check(pthread_barrier_init(&here.barrier, nullptr, 1) == 0);
    check(pthread_barrier_wait(&here.barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
    check(pthread_barrier_destroy(&here.barrier) == 0);
    check(pthread_mutex_init(&here.mutex, nullptr) == 0);
    check(pthread_mutex_lock(&here.mutex) == 0 && pthread_mutex_unlock(&here.mutex) == 0);
  };
  auto* const on_heap = new objects;
  static objects in_module;
  for (int i = 0; i < 3; ++i) {
    use_all(*on_heap);
    use_all(in_module);
  }
  for (const char* kind : {"rwlock", "spin", "barrier"})
    std::printf("{\"sum\": true, \"kind\": \"%s\", \"owner\": 3, \"acquisitions\": 3}\n", kind);
  expect("rwlock", &in_module, "\"acquisitions\": 3, \"reads\": 3");  // a static object's entry keeps its kind
}

// ---- C11 -----------------------------------------------------------------------------------------------------------

mtx_t c11_mutex, c11_recursive;
cnd_t c11_turn;

int take_turns(void* argument) {
  static int turn = 0;
  const int self = *static_cast<const int*>(argument);
  for (int i = 0; i < 1000; ++i) {
    check(mtx_lock(&c11_mutex) == thrd_success);
    while (turn != self) check(cnd_wait(&c11_turn, &c11_mutex) == thrd_success);
    turn = 1 - self;
    check(cnd_signal(&c11_turn) == thrd_success);
    check(mtx_unlock(&c11_mutex) == thrd_success);
  }
  return 40 + self;
}

void c11() {
  check(mtx_init(&c11_mutex, mtx_plain) == thrd_success && cnd_init(&c11_turn) == thrd_success);
  check(mtx_init(&c11_recursive, mtx_recursive | mtx_timed) == thrd_success);
  int selves[] = {0, 1};
  thrd_t threads[2];
  for (int i = 0; i < 2; ++i) check(thrd_create(&threads[i], take_turns, &selves[i]) == thrd_success);
  for (int i = 0; i < 2; ++i) {
    int result = 0;
    check(thrd_join(threads[i], &result) == thrd_success && result == 40 + i);
  }
  for (int i = 0; i < 4; ++i) check(mtx_lock(&c11_recursive) == thrd_success);
  std::thread([] {
    const timespec until = after(CLOCK_REALTIME, 20);
    check(mtx_trylock(&c11_recursive) == thrd_busy);
    check(mtx_timedlock(&c11_recursive, &until) == thrd_timedout);  // mark: C11 gives up
  }).join();
  for (int i = 0; i < 4; ++i) check(mtx_unlock(&c11_recursive) == thrd_success);
  expect("mutex", &c11_mutex, "\"at_least\": {\"acquisitions\": 2000}, \"owner\": 0, \"waiting\": 0");
  expect("mutex", &c11_recursive,
         "\"acquisitions\": 1, \"holds\": 1, \"timeouts\": 1, \"failed_tries\": 1, \"owner\": 0, \"waiting\": 0");
  expect("condition", &c11_turn, "\"signals\": 2000, \"waiting\": 0");
  std::printf("{\"joins\": [[\"c11\", 3, null]]}\n");
}

// ---- results -------------------------------------------------------------------------------------------------------

#define SAY(call) std::printf("%s: %d\n", #call, call)

// Time limits for the timed calls: two are in the past, two are invalid.
constexpr timespec past{1, 0}, negative{-5, 0}, low{0, -1}, high{0, 1000000000};
constexpr clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, 99};  // no clock has the number 99

/// Prints the results of timed lock calls on a free lock.
void results_on_free(pthread_rwlock_t& l, const timespec* t) {
  for (const clockid_t clock : clocks) {
    const int result = pthread_rwlock_clockrdlock(&l, clock, t);
    std::printf("clockrdlock: %d\n", result);
    if (result == 0) SAY(pthread_rwlock_unlock(&l));
  }
  if (const int r = pthread_rwlock_timedwrlock(&l, t); r == 0)
    SAY(pthread_rwlock_unlock(&l));
  else
    std::printf("timedwrlock: %d\n", r);
}

/// Prints the results of lock calls on a lock that the calling thread holds for writing: first its own calls, then
/// another thread's.
void results_beside_writer(pthread_rwlock_t& l, const timespec* t) {
  SAY(pthread_rwlock_wrlock(&l));
  SAY(pthread_rwlock_wrlock(&l));
  SAY(pthread_rwlock_rdlock(&l));
  SAY(pthread_rwlock_tryrdlock(&l));
  SAY(pthread_rwlock_trywrlock(&l));
  std::thread([&l, t] {
    SAY(pthread_rwlock_timedrdlock(&l, t));
    SAY(pthread_rwlock_timedwrlock(&l, t));
    for (const clockid_t clock : clocks) {
      SAY(pthread_rwlock_clockrdlock(&l, clock, t));
      SAY(pthread_rwlock_clockwrlock(&l, clock, t));
    }
  }).join();
  SAY(pthread_rwlock_unlock(&l));
}

void results_of_rwlock() {
  pthread_rwlock_t l;
  SAY(pthread_rwlock_init(&l, nullptr));
  for (const timespec* t : {&past, &negative, &low, &high}) {
    std::printf("free, %ld.%ld\n", long{t->tv_sec}, t->tv_nsec);
    results_on_free(l, t);
    results_beside_writer(l, t);
  }
  SAY(pthread_rwlock_destroy(&l));
}

void results_of_rwlock_that_prefers_writers() {
  pthread_rwlockattr_t writers;
  pthread_rwlockattr_init(&writers);
  pthread_rwlockattr_setkind_np(&writers, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_t l;
  SAY(pthread_rwlock_init(&l, &writers));
  SAY(pthread_rwlock_rdlock(&l));
  std::thread writer = sleeper([&l] {
    check(pthread_rwlock_wrlock(&l) == 0);
    check(pthread_rwlock_unlock(&l) == 0);
  });
  SAY(pthread_rwlock_tryrdlock(&l));  // a writer waits and is preferred
  SAY(pthread_rwlock_timedrdlock(&l, &past));
  SAY(pthread_rwlock_unlock(&l));
  writer.join();
}

void results_of_spin_lock() {
  pthread_spinlock_t s;
  SAY(pthread_spin_init(&s, PTHREAD_PROCESS_SHARED));
  SAY(pthread_spin_trylock(&s));
  SAY(pthread_spin_trylock(&s));
  SAY(pthread_spin_unlock(&s));
  SAY(pthread_spin_lock(&s));
  SAY(pthread_spin_unlock(&s));
  SAY(pthread_spin_destroy(&s));
}

void results_of_barrier() {
  pthread_barrier_t b;
  SAY(pthread_barrier_init(&b, nullptr, 0));
  pthread_barrierattr_t of_all;
  pthread_barrierattr_init(&of_all);
  pthread_barrierattr_setpshared(&of_all, PTHREAD_PROCESS_SHARED);
  SAY(pthread_barrier_init(&b, &of_all, 1));
  SAY(pthread_barrier_wait(&b));
  SAY(pthread_barrier_destroy(&b));
}

/// Prints the results of joining the calling thread itself, a running thread, and the same thread after its end.
void results_of_join() {
  held_thread held;
  pthread_t t;
  pthread_create(&t, nullptr, run_held, &held);
  while (held.id == 0) sched_yield();
  SAY(pthread_join(pthread_self(), nullptr));
  SAY(pthread_tryjoin_np(t, nullptr));
  for (const timespec* time : {&past, &negative}) {  // with the other limits glibc 2.36 waits for ever
    SAY(pthread_timedjoin_np(t, nullptr, time));
    for (const clockid_t clock : clocks) SAY(pthread_clockjoin_np(t, nullptr, clock, time));
  }
  held.let_go();
  held.await_end();
  SAY(pthread_clockjoin_np(t, nullptr, 99, &past));
  SAY(pthread_timedjoin_np(t, nullptr, &low));
}

void results_of_join_with_detached_thread() {
  static held_thread detached;  // static, because the thread may still run when this function returns
  pthread_t t;
  pthread_create(&t, nullptr, run_held, &detached);
  while (detached.id == 0) sched_yield();
  pthread_detach(t);
  SAY(pthread_join(t, nullptr));
  SAY(pthread_tryjoin_np(t, nullptr));
  detached.let_go();
}

/// Prints the results of calls on a timed mutex of C11, and on a condition variable that is used with it.
void results_of_mtx_and_cnd() {
  mtx_t m;
  for (int type = 0; type < 8; ++type) SAY(mtx_init(&m, type));
  SAY(mtx_init(&m, mtx_timed));
  SAY(mtx_lock(&m));
  SAY(mtx_trylock(&m));
  SAY(mtx_timedlock(&m, &past));
  SAY(mtx_timedlock(&m, &low));
  SAY(mtx_unlock(&m));
  SAY(mtx_timedlock(&m, &past));
  cnd_t c;
  SAY(cnd_init(&c));
  SAY(cnd_timedwait(&c, &m, &past));
  SAY(cnd_timedwait(&c, &m, &high));
  SAY(cnd_broadcast(&c));
  SAY(mtx_unlock(&m));
  cnd_destroy(&c);
  mtx_destroy(&m);
}

void results_of_recursive_mtx() {
  mtx_t m;
  SAY(mtx_init(&m, mtx_recursive));
  SAY(mtx_lock(&m));
  SAY(mtx_trylock(&m));
  std::thread([&m] { SAY(mtx_unlock(&m)); }).join();
  SAY(mtx_unlock(&m));
  SAY(mtx_unlock(&m));
}

void results() {
  results_of_rwlock();
  results_of_rwlock_that_prefers_writers();
  results_of_spin_lock();
  results_of_barrier();
  results_of_join();
  results_of_join_with_detached_thread();
  results_of_mtx_and_cnd();
  results_of_recursive_mtx();
}

/// Uses two locks until standard input ends.
void runs() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static std::atomic<bool> over{false};
  std::thread user([] {
    for (; !over; usleep(100)) {
      pthread_mutex_lock(&mutex);
      pthread_rwlock_wrlock(&shared);
      pthread_rwlock_unlock(&shared);
      pthread_mutex_unlock(&mutex);
    }
  });
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  over = true;
  user.join();
}

/// Locks and unlocks without contention. A test counts the instructions of this function.
void pairs(long count) {
  for (long i = 0; i < count; ++i) {
    pthread_rwlock_rdlock(&shared);
    pthread_rwlock_unlock(&shared);
  }
}

}  // namespace

int main(int count, char** arguments) {
  static constexpr struct {
    const char* name;
    void (*run)();
  } scenarios[] = {{"rwlocks", rwlocks}, {"readers_and_writers", readers_and_writers},
                   {"spins", spins},     {"barriers", barriers},
                   {"joins", joins},     {"cancelled_join", cancelled_join},
                   {"forked", forked},   {"another_kind", another_kind},
                   {"c11", c11},         {"results", results},
                   {"runs", runs}};
  if (count == 3 && std::strcmp(arguments[1], "pairs") == 0) return pairs(std::atol(arguments[2])), 0;
  for (const auto& s : scenarios)
    if (count == 2 && std::strcmp(arguments[1], s.name) == 0) {
      s.run();
      return std::fflush(stdout);
    }
  return 2;
}
