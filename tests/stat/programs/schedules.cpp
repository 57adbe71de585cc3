// Programs with fixed schedules of their threads. For each of these, an earlier version of the recording reported times
// that differed from the program's own measurements.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>
#include <thread>

#include "planted.hpp"

namespace planted {

namespace {
timespec in(std::int64_t nanoseconds) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += nanoseconds;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

// -- one of two waiters gives up while the mutex is held: both waits must be attributed to the holder --

pthread_mutex_t given_up = PTHREAD_MUTEX_INITIALIZER;
tally given_up_figures("given_up");

[[gnu::noinline]] void release_given_up() {
  pthread_mutex_unlock(&given_up);  // mark: given up released
  use(&given_up);                   // an instruction after the unlock, so that it is no tail call
}
}  // namespace

void gives_up() {
  for (int i = 0; i < 8; ++i) {
    pthread_mutex_lock(&given_up);
    const auto held = now();
    given_up_figures.took(held, held);
    std::atomic<int> ready{0};
    std::thread hasty([&] {
      const auto until = in(12 * ms);
      const auto called = now();
      ++ready;
      if (pthread_mutex_timedlock(&given_up, &until) == 0) std::abort();
      given_up_figures.waited(called, now());
    });
    std::thread patient([&] {
      const auto called = now();
      ++ready;
      pthread_mutex_lock(&given_up);
      given_up_figures.took(called, now());
      pthread_mutex_unlock(&given_up);
    });
    while (ready != 2) sched_yield();
    hasty.join();
    sleep_for(4 * ms);  // the patient thread waits for this much longer than the hasty one
    release_given_up();
    patient.join();
  }
}

// -- a signal is sent when the only waiter has timed out and waits for the mutex: the signal must not count for the
// waiter's next wait --

namespace {
pthread_mutex_t late_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t late = PTHREAD_COND_INITIALIZER;
tally late_figures("late");
}  // namespace

void late_signal() {
  constexpr int rounds = 6;
  std::atomic<int> waits{0};
  int turn = 0;
  bool gave_up = false;
  std::int64_t signalled_at = 0;
  std::thread waiter([&] {
    pthread_mutex_lock(&late_mutex);
    const auto until = in(2 * ms);
    waits = 1;
    // If the thread gets no CPU for some time, it may receive the signal before it times out.
    gave_up = pthread_cond_timedwait(&late, &late_mutex, &until) == ETIMEDOUT;
    if (!gave_up) late_figures.took(signalled_at, now());
    for (int i = 1; i <= rounds; ++i) {
      waits = i + 1;
      while (turn < i) pthread_cond_wait(&late, &late_mutex);
      late_figures.took(signalled_at, now());
    }
    pthread_mutex_unlock(&late_mutex);
  });
  const auto signal = [&](int i) {
    while (waits <= i) sched_yield();
    if (i > 0) sleep_for(10 * ms);  // the waiter waits without a signal for this time, which is no delay of a signal
    pthread_mutex_lock(&late_mutex);
    if (i == 0) sleep_for(20 * ms);  // meanwhile the first wait times out
    turn = i;
    signalled_at = now();
    pthread_cond_signal(&late);
    sleep_for(3 * ms);  // the length of the hold after the signal: the signalled thread waits for the mutex
    pthread_mutex_unlock(&late_mutex);
  };
  for (int i = 0; i <= rounds; ++i) signal(i);
  waiter.join();
  late_figures.say("timeouts", gave_up ? 1 : 0);
  late_figures.say("woken", gave_up ? rounds : rounds + 1);
}

// -- processes with one thread each wait for each other --

namespace {
struct shared_memory {
  pthread_mutex_t mutex;
  std::atomic<int> phase;
};
tally between_figures("between");
}  // namespace

void between_processes() {
  constexpr int rounds = 8;
  void* memory = mmap(nullptr, sizeof(shared_memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& both = *new (memory) shared_memory{};
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&both.mutex, &attributes);
  const pid_t child = fork();
  for (int i = 1; i <= rounds; ++i) {
    if (child == 0) {
      while (both.phase < 2 * i - 1) sched_yield();
      const auto called = now();
      pthread_mutex_lock(&both.mutex);  // mark: between processes
      between_figures.took(called, now());
      pthread_mutex_unlock(&both.mutex);
      both.phase = 2 * i;
    } else {
      pthread_mutex_lock(&both.mutex);
      both.phase = 2 * i - 1;
      sleep_for(10 * ms);  // the length of the hold, for which the other process waits
      pthread_mutex_unlock(&both.mutex);
      while (both.phase < 2 * i) sched_yield();
    }
  }
  if (child != 0) {
    waitpid(child, nullptr, 0);
    _exit(0);  // the child prints the figures
  }
  between_figures.say("contended", rounds);
}

// -- a static mutex is destroyed and initialised as another kind --

namespace {
pthread_mutex_t reborn = PTHREAD_MUTEX_INITIALIZER;
tally reborn_figures("reborn");
}  // namespace

void another_kind() {
  for (int i = 0; i < 10; ++i) {
    pthread_mutex_lock(&reborn);
    reborn_figures.took(0, 0);
    pthread_mutex_unlock(&reborn);
  }
  pthread_mutex_destroy(&reborn);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&reborn, &attributes);
  for (int i = 0; i < 10; ++i) {
    pthread_mutex_lock(&reborn);
    const auto taken = now();
    pthread_mutex_lock(&reborn);
    busy(1 * ms);
    pthread_mutex_unlock(&reborn);
    busy(1 * ms);
    reborn_figures.round(taken, taken, now());
    pthread_mutex_unlock(&reborn);
  }
}

// -- another thread waits for a mutex that its holder releases only inside pthread_cond_wait --

namespace {
pthread_mutex_t parted = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t never = PTHREAD_COND_INITIALIZER;
tally parted_figures("parted");

[[gnu::noinline]] void part_with_it() {
  const auto until = in(3 * ms);
  pthread_cond_timedwait(&never, &parted, &until);  // mark: parted with
  use(&parted);
}
}  // namespace

void held_until_a_wait() {
  for (int i = 0; i < 8; ++i) {
    pthread_mutex_lock(&parted);
    const auto held = now();
    parted_figures.took(held, held);
    std::atomic<pid_t> waiter{0};
    std::thread other([&] {
      waiter = thread_id();
      const auto called = now();
      pthread_mutex_lock(&parted);
      parted_figures.took(called, now());
      pthread_mutex_unlock(&parted);
    });
    await_asleep(waiter);
    sleep_for(5 * ms);  // the length of the wait, which the figures contain
    part_with_it();
    pthread_mutex_unlock(&parted);
    other.join();
  }
}

// -- each long hold is followed by a short one --

namespace {
pthread_mutex_t by_turns = PTHREAD_MUTEX_INITIALIZER;
tally turns_figures("by_turns");
}  // namespace

void long_and_short() {
  std::atomic<int> held{0}, done{0};
  in_threads(2, [&](int self) {
    for (int i = 1; i <= 60; ++i) {
      if (self == 1)
        while (held < i) sched_yield();
      const auto called = now();
      pthread_mutex_lock(&by_turns);
      const auto returned = now();
      if (self == 0) {
        held = i;
        sleep_for(2 * ms);  // the length of the hold: the other thread waits
      }
      const auto released = now();
      pthread_mutex_unlock(&by_turns);
      turns_figures.round(called, returned, released);
      if (self == 1) done = i;
      while (self == 0 && done < i) sched_yield();
    }
  });
}

// -- sched_yield() during holds, between holds, and during the holds of an earlier mutex at the same address --

namespace {
pthread_mutex_t yielded_before = PTHREAD_MUTEX_INITIALIZER;
tally yielded_figures("yielded_before");

#if defined(__x86_64__) && defined(__GLIBC__)
// pthread_yield(), which programs that were built before glibc 2.34 call.
extern "C" int older_yield();
__asm__(".symver older_yield, pthread_yield@GLIBC_2.2.5");
#else
int older_yield() {
  return sched_yield();
}
#endif

void contend_for(pthread_mutex_t& mutex, bool yields_inside) {
  in_threads(2, [&](int) {
    for (int i = 0; i < 100; ++i) {
      pthread_mutex_lock(&mutex);
      if (yields_inside) older_yield();
      busy(50 * us);
      pthread_mutex_unlock(&mutex);
      if (!yields_inside) sched_yield();
    }
  });
  pthread_mutex_destroy(&mutex);
}
}  // namespace

void yielding() {
  // on the heap, because a static mutex would keep its entry in the record
  const auto mutex = std::make_unique<pthread_mutex_t>();
  pthread_mutex_init(mutex.get(), nullptr);  // mark: yields in its holds
  contend_for(*mutex, true);
  pthread_mutex_init(mutex.get(), nullptr);  // mark: yields outside of its holds
  contend_for(*mutex, false);
  // The main thread calls sched_yield() before its only hold, not during it. Another thread waits during this hold.
  for (int i = 0; i < 10; ++i) sched_yield();
  pthread_mutex_lock(&yielded_before);
  std::atomic<pid_t> waiter{0};
  std::thread other([&] {
    waiter = thread_id();
    pthread_mutex_lock(&yielded_before);
    pthread_mutex_unlock(&yielded_before);
  });
  while (waiter == 0) sleep_for(ms);
  await_asleep(waiter);
  pthread_mutex_unlock(&yielded_before);
  other.join();
  yielded_figures.say("holds", 2);
}

}  // namespace planted
