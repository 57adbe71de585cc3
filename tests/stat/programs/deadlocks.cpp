// Threads that wait for each other for ever. The program prints its known figures before they do.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
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

/// Two threads lock two mutexes in opposite order. Both mutexes have been locked so often that the threads count most
/// of their holds in slots of their own and not in the mutexes' entries.
void opposite_order() {
  lock_often(left);
  lock_often(right);
  left_figures.say("threads", 2);
  print();
  in_threads(2, [](int self) { self == 0 ? left_then_right() : right_then_left(); });
}

/// A deadlock of read-write locks that are held to write.
void write_locks() {
  static pthread_rwlock_t outer = PTHREAD_RWLOCK_INITIALIZER, inner = PTHREAD_RWLOCK_INITIALIZER;
  left_figures.say("threads", 2);
  print();
  in_threads(2, [](int self) {
    pthread_rwlock_wrlock(self == 0 ? &outer : &inner);
    both_have_first(2);
    if (self == 0)
      pthread_rwlock_wrlock(&inner);  // mark: outer, then inner
    else
      pthread_rwlock_rdlock(&outer);  // mark: inner, then outer
    pthread_rwlock_unlock(&inner);
    pthread_rwlock_unlock(&outer);
  });
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

/// Two threads lock two mutexes in opposite order, the second mutex with a deadline, and then release the first one.
/// They wait for each other for 1.8 s, but this is no deadlock.
void retreats() {
  in_threads(2, [](int self) {
    pthread_mutex_t &first = self == 0 ? left : right, &second = self == 0 ? right : left;
    pthread_mutex_lock(&first);
    both_have_first(2);
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (800 + 50 * self) * ms;
    until.tv_sec += 1 + until.tv_nsec / (1000 * ms);
    until.tv_nsec %= 1000 * ms;
    if (pthread_mutex_timedlock(&second, &until) == 0) pthread_mutex_unlock(&second);
    pthread_mutex_unlock(&first);
  });
}

/// Two threads wait for each other until a third unlocks a mutex that it has not locked, 1.8 s later.
void ended_circle() {
  in_threads(3, [](int self) {
    if (self == 0) {
      pthread_mutex_lock(&left);
      both_have_first(2);
      pthread_mutex_lock(&right);
      pthread_mutex_unlock(&right);  // the third thread has unlocked the other one
    } else if (self == 1) {
      right_then_left();
    } else {
      while (have_first < 2) sched_yield();
      sleep_for(1800 * ms);  // the observer reports the circle after a second
      pthread_mutex_unlock(&left);
      sleep_for(200 * ms);  // the observer sees that the circle has ended
    }
  });
}

/// A child process that deadlocks. It is killed after 1.8 s, and its parent goes on.
void deadlocked_child() {
  const pid_t child = fork();
  if (child == 0) in_threads(2, [](int self) { self == 0 ? left_then_right() : right_then_left(); });
  pthread_mutex_lock(&once);
  sleep_for(1800 * ms);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  sleep_for(200 * ms);
  pthread_mutex_unlock(&once);
}

}  // namespace planted
