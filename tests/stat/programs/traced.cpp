// A thread waits for a mutex that another one holds until the waiter sleeps, five times or as often as the argument says. Prints its ids: the process, the holder,
// the waiter, the rounds.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdio>
#include <cstdlib>

#include "asleep.hpp"

pthread_mutex_t traced_mutex = PTHREAD_MUTEX_INITIALIZER;

namespace {

int rounds = 5;
std::atomic<int> round_of_holder{0}, round_of_waiter{0};
std::atomic<pid_t> waiting{0};
pid_t waiter = 0;

pid_t own_id() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

void* wait_for_it(void*) {
  prctl(PR_SET_NAME, "the waiter");
  waiter = own_id();
  for (int i = 1; i <= rounds; i++) {
    while (round_of_holder != i) sched_yield();
    waiting = waiter;
    pthread_mutex_lock(&traced_mutex);
    pthread_mutex_unlock(&traced_mutex);
    waiting = 0;
    round_of_waiter = i;
  }
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) rounds = std::atoi(arguments[1]);
  pthread_t thread;
  pthread_create(&thread, nullptr, wait_for_it, nullptr);
  for (int i = 1; i <= rounds; i++) {
    pthread_mutex_lock(&traced_mutex);
    round_of_holder = i;
    planted::await_asleep(waiting, std::chrono::seconds(60));
    const timespec a_while{0, 30'000'000};  // so that samples see both threads
    nanosleep(&a_while, nullptr);
    pthread_mutex_unlock(&traced_mutex);
    while (round_of_waiter != i) sched_yield();
  }
  pthread_join(thread, nullptr);
  std::printf("%d %d %d %d\n", getpid(), own_id(), waiter, rounds);
  return 0;
}
