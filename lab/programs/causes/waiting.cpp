// Shapes (programs selected by --shape) in which a thread waits for the work of another thread, for a credit, or not at
// all. The comment of each shape names the cause that `--without` can remove.
#include <pthread.h>
#include <semaphore.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "../options.hpp"
#include "known_work.hpp"

#define NAMED [[gnu::noinline]]

namespace causes {

sem_t pool_credits, work_items, ring_turns[256];
pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER, turn_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t work_came = PTHREAD_COND_INITIALIZER, work_taken = PTHREAD_COND_INITIALIZER,
               turn_came = PTHREAD_COND_INITIALIZER, never_signalled = PTHREAD_COND_INITIALIZER;
pthread_mutex_t idle_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t hot_barrier;
pthread_rwlock_t read_mostly;
std::timed_mutex left_account, right_account;
pthread_mutex_t first_of_circle = PTHREAD_MUTEX_INITIALIZER, second_of_circle = PTHREAD_MUTEX_INITIALIZER;

namespace {

void take(sem_t& s) {
  while (sem_wait(&s) != 0) {
  }
}

/// Threads share the credits of a semaphore. Without `credits` there is a credit for each thread.
NAMED void work_with_credit() {
  take(pool_credits);
  between(plan.hold, plan.hold_us);
  sem_post(&pool_credits);
}
void start_pool() {
  sem_init(&pool_credits, 0, static_cast<unsigned>(removed("credits") ? plan.threads : plan.credits));
  start(plan.threads, [] {
    while (!stopped()) {
      work_with_credit();
      between(plan.gap, plan.gap_us);
      count();
    }
  });
}

/// One thread makes items, the other threads take them. Without `threads` only one thread takes items.
NAMED void consume_item() {
  take(work_items);
  between(plan.hold, plan.hold_us);
}
void start_queue() {
  sem_init(&work_items, 0, 0);
  start(removed("threads") ? 1 : plan.threads - 1, [] {
    while (!stopped()) {
      consume_item();
      count();
    }
  });
  start(1, [] {
    while (!stopped()) {
      between(plan.gap, plan.gap_us);
      sem_post(&work_items);
    }
  });
}

/// A token goes from thread to thread. Without `token` each thread has a token of its own.
NAMED void work_with_token(sem_t& mine, sem_t& next) {
  take(mine);
  between(plan.hold, plan.hold_us);
  sem_post(&next);
}
void start_ring() {
  for (long i = 0; i < plan.threads; ++i) sem_init(&ring_turns[i], 0, i == 0 || removed("token") ? 1 : 0);
  start(plan.threads, [] {
    while (!stopped()) {
      work_with_token(ring_turns[self], ring_turns[removed("token") ? self : (self + 1) % plan.threads]);
      count();
    }
  });
}

/// Many threads wait for a queue of one item, and each item wakes all of them. Without `herd` it wakes one of them.
bool has_item = false;
NAMED void await_item() {
  pthread_mutex_lock(&work_mutex);
  while (!has_item) pthread_cond_wait(&work_came, &work_mutex);
  has_item = false;
  pthread_mutex_unlock(&work_mutex);
  pthread_cond_signal(&work_taken);
}
NAMED void put_item() {
  pthread_mutex_lock(&work_mutex);
  while (has_item) pthread_cond_wait(&work_taken, &work_mutex);
  has_item = true;
  if (removed("herd"))
    pthread_cond_signal(&work_came);
  else
    pthread_cond_broadcast(&work_came);
  pthread_mutex_unlock(&work_mutex);
}
void start_herd() {
  start(plan.threads - 1, [] {
    while (!stopped()) {
      await_item();
      between(plan.hold, plan.hold_us);
      count();
    }
  });
  start(1, [] {
    while (!stopped()) {
      put_item();
      between(plan.gap, plan.gap_us);
    }
  });
}

/// Threads meet at a barrier after each phase. One thread has `skew` times the work of the others. Without `skew` all
/// threads have the same work.
NAMED void work_of_phase() {
  const auto n = static_cast<double>(plan.threads), skew = static_cast<double>(plan.skew);
  if (removed("skew"))
    between(plan.hold, plan.hold_us * (n - 1 + skew) / n);
  else
    between(plan.hold, plan.hold_us * (self == 0 ? skew : 1));
}
void start_barrier() {
  pthread_barrier_init(&hot_barrier, nullptr, static_cast<unsigned>(plan.threads));
  start(plan.threads, [] {
    while (!stopped()) {
      work_of_phase();
      pthread_barrier_wait(&hot_barrier);
      count();
    }
  });
}

/// Threads take turns, by one mutex and one condition variable. Without `turns` each thread works independently.
long turn = 0;
NAMED void await_turn() {
  pthread_mutex_lock(&turn_mutex);
  while (turn % plan.threads != self) pthread_cond_wait(&turn_came, &turn_mutex);
  pthread_mutex_unlock(&turn_mutex);
}
NAMED void pass_turn() {
  pthread_mutex_lock(&turn_mutex);
  ++turn;
  pthread_cond_broadcast(&turn_came);
  pthread_mutex_unlock(&turn_mutex);
}
void start_turns_by_condition() {
  start(plan.threads, [] {
    while (!stopped()) {
      if (!removed("turns")) await_turn();
      between(plan.hold, plan.hold_us);
      if (!removed("turns")) pass_turn();
      count();
    }
  });
}

/// Two accounts, which half of the threads lock in the opposite order. A thread that waits too long for the second
/// account unlocks the first and tries again. Without `order` all threads lock in the same order.
NAMED void transfer(std::timed_mutex& from, std::timed_mutex& to) {
  while (!stopped()) {
    from.lock();
    between(plan.hold, plan.hold_us / 2);
    if (to.try_lock_for(std::chrono::microseconds(static_cast<long>(plan.hold_us * 2)))) {
      between(plan.hold, plan.hold_us / 2);
      to.unlock();
      from.unlock();
      return;
    }
    from.unlock();
    between(plan.gap, plan.gap_us);
  }
}
void start_retreats() {
  start(plan.threads, [] {
    while (!stopped()) {
      if (self % 2 == 0 || removed("order"))
        transfer(left_account, right_account);
      else
        transfer(right_account, left_account);
      between(plan.gap, plan.gap_us);
      count();
    }
  });
}

/// Two threads lock two mutexes in opposite order and wait for each other for ever. Without `circle` they lock in the
/// same order.
NAMED void lock_both(pthread_mutex_t& one, pthread_mutex_t& other) {
  pthread_mutex_lock(&one);
  nap(50000);  // until both threads have their first mutex
  pthread_mutex_lock(&other);
  pthread_mutex_unlock(&other);
  pthread_mutex_unlock(&one);
}
void start_circle() {
  start(plan.threads, [] {
    const bool opposite = self == 1 && !removed("circle");
    if (self < 2)
      lock_both(opposite ? second_of_circle : first_of_circle, opposite ? first_of_circle : second_of_circle);
    while (!stopped()) {
      between(plan.gap, plan.gap_us);
      count();
    }
  });
}

/// Many readers and one writer; only the writer's operations count. Without `preference` (of readers) the lock prefers
/// writers.
NAMED void read_with_lock() {
  pthread_rwlock_rdlock(&read_mostly);
  between(plan.hold, plan.hold_us);
  pthread_rwlock_unlock(&read_mostly);
}
NAMED void write_with_lock() {
  pthread_rwlock_wrlock(&read_mostly);
  burn(1);
  pthread_rwlock_unlock(&read_mostly);
}
void start_writer() {
  pthread_rwlockattr_t kind;
  pthread_rwlockattr_init(&kind);
  if (removed("preference")) pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&read_mostly, &kind);
  start(plan.threads, [] {
    while (!stopped()) {
      if (self == 0) {
        write_with_lock();
        count();
      } else {
        read_with_lock();
      }
      between(plan.gap, plan.gap_us);
    }
  });
}

/// Threads without locks. Without `threads` there are as many threads as CPUs, if the plan has more.
void start_alone() {
  start(removed("threads") ? std::min<long>(plan.threads, std::thread::hardware_concurrency()) : plan.threads, [] {
    while (!stopped()) {
      between(plan.gap, plan.gap_us);
      count();
    }
  });
}

NAMED void wait_for_nothing() {
  pthread_mutex_lock(&idle_mutex);
  for (;;) pthread_cond_wait(&never_signalled, &idle_mutex);
}

}  // namespace

void start_idle(long threads) {
  start(threads, wait_for_nothing);
}

bool start_waiting(const std::string& shape) {
  static constexpr struct {
    const char* name;
    void (*begin)();
  } shapes[] = {{"pool", start_pool},         {"queue", start_queue},     {"ring", start_ring},
                {"herd", start_herd},         {"barrier", start_barrier}, {"turns", start_turns_by_condition},
                {"retreats", start_retreats}, {"circle", start_circle},   {"writer", start_writer},
                {"alone", start_alone},       {"guarded", start_guarded}, {"guarded-threads", start_guarded_threads}};
  for (const auto& one : shapes)
    if (shape == one.name) return one.begin(), true;
  return false;
}

}  // namespace causes
