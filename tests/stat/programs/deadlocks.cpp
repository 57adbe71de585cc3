// Threads that wait for each other for ever. The program prints its known figures before they begin.
#include <unistd.h>

#include "planted.hpp"

namespace planted {

namespace {
pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
tally left_figures("left");
std::atomic<int> have_first{0};

void both_have_first(int all) {
  ++have_first;
  while (have_first < all) sched_yield();
}

[[gnu::noinline]] void left_then_right() {
  pthread_mutex_lock(&left);
  both_have_first(2);
  pthread_mutex_lock(&right);  // mark: left, then right
  pthread_mutex_unlock(&right);
  pthread_mutex_unlock(&left);
}

[[gnu::noinline]] void right_then_left() {
  pthread_mutex_lock(&right);
  both_have_first(2);
  pthread_mutex_lock(&left);  // mark: right, then left
  pthread_mutex_unlock(&left);
  pthread_mutex_unlock(&right);
}

[[gnu::noinline]] void take_own_and_next(pthread_mutex_t* forks, int self) {
  pthread_mutex_lock(&forks[self]);
  both_have_first(3);
  pthread_mutex_lock(&forks[(self + 1) % 3]);  // mark: own, then next
  pthread_mutex_unlock(&forks[(self + 1) % 3]);
  pthread_mutex_unlock(&forks[self]);
}

[[gnu::noinline]] void take_twice() {
  pthread_mutex_lock(&once);
  pthread_mutex_lock(&once);  // mark: once more
  pthread_mutex_unlock(&once);
}
}  // namespace

/// Two threads lock two mutexes in opposite order. Both mutexes have been locked so often that most of their holds are
/// not recorded in the mutexes' entries.
void opposite_order() {
  lock_often(left);
  lock_often(right);
  left_figures.say("threads", 2);
  print();
  in_threads(2, [](int self) { self == 0 ? left_then_right() : right_then_left(); });
}

void ring() {
  left_figures.say("threads", 3);
  print();
  auto* forks = new pthread_mutex_t[3];
  for (int i = 0; i < 3; ++i) pthread_mutex_init(&forks[i], nullptr);  // mark: forks
  in_threads(3, [forks](int self) { take_own_and_next(forks, self); });
}

void self() {
  lock_often(once);
  left_figures.say("threads", 1);
  print();
  take_twice();
}

/// A thread waits for a mutex whose holder sleeps for 1.8 s: this is no deadlock.
void no_deadlock() {
  in_threads(2, [](int self) {
    if (self == 1) both_have_first(2);
    pthread_mutex_lock(&left);
    if (self == 0) {
      both_have_first(2);
      sleep_for(1800 * ms);  // the observer samples the locks many times meanwhile
    }
    pthread_mutex_unlock(&left);
  });
}

}  // namespace planted
