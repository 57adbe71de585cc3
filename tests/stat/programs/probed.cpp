// Makes one wait of each kind that the library has probes for, and prints the addresses of the objects. test_probes.py
// compares these addresses with the probes' arguments.
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "asleep.hpp"

namespace {
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
sem_t semaphore;
std::atomic<pid_t> waiter{0};
int turn = 0;

void check(bool as_expected) {
  if (!as_expected) std::abort();
}

timespec soon() {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

/// Waits until the announced waiter sleeps in the kernel. The limit is long because a debugger may delay the waiter.
void await_sleeper() {
  planted::await_asleep(waiter, std::chrono::seconds(2));
  waiter = 0;
}

pid_t thread_id() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

[[gnu::noinline]] void wait_for_all() {
  waiter = thread_id();
  check(pthread_mutex_lock(&mutex) == 0);
  for (int i = 1; i <= 2; ++i) {
    waiter = thread_id();
    while (turn < i) check(pthread_cond_wait(&condition, &mutex) == 0);
  }
  pthread_mutex_unlock(&mutex);
  waiter = thread_id();
  check(sem_wait(&semaphore) == 0);
}
}  // namespace

int main() {
  check(sem_init(&semaphore, 0, 0) == 0);
  std::printf("mutex %p\ncondition %p\nsemaphore %p\n", static_cast<void*>(&mutex), static_cast<void*>(&condition),
              static_cast<void*>(&semaphore));
  std::fflush(stdout);
  timespec until = soon();
  check(sem_timedwait(&semaphore, &until) != 0 && errno == ETIMEDOUT);
  pthread_mutex_lock(&mutex);
  until = soon();
  check(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
  std::thread other(wait_for_all);
  await_sleeper();
  pthread_mutex_unlock(&mutex);
  for (const int now : {1, 2}) {
    await_sleeper();
    pthread_mutex_lock(&mutex);
    turn = now;
    check((now == 1 ? pthread_cond_signal(&condition) : pthread_cond_broadcast(&condition)) == 0);
    pthread_mutex_unlock(&mutex);
  }
  await_sleeper();
  sem_post(&semaphore);
  other.join();
}
