// Shapes (programs selected by --shape) in which threads exclude each other from a critical section. A shape is a class
// with enter() and leave(). Each object has a symbol of its own, and each kind of work in the section has a function of
// its own, so that a report of `usher stat` can name both.
//
// The causes of waiting that `--without` can remove: `lock` gives each thread an object of its own; `hold` moves the
// work of the section behind the section; `yield` lets the holder keep its CPU.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../options.hpp"
#include "known_work.hpp"

#define ALWAYS [[gnu::always_inline]] inline
#define NAMED [[gnu::noinline]]

namespace causes {

constexpr long most_objects = 1024;

struct plain_mutex {
  pthread_mutex_t word = PTHREAD_MUTEX_INITIALIZER;
  ALWAYS void enter() { pthread_mutex_lock(&word); }
  ALWAYS void leave() { pthread_mutex_unlock(&word); }
  ALWAYS bool try_enter() { return pthread_mutex_trylock(&word) == 0; }
};
/// A mutex that threads acquire by calling trylock and sched_yield() repeatedly.
struct polled_mutex : plain_mutex {
  ALWAYS void enter() {
    while (pthread_mutex_trylock(&word) != 0) sched_yield();
  }
};
struct read_write {
  pthread_rwlock_t word = PTHREAD_RWLOCK_INITIALIZER;
  ALWAYS void enter() {
    if (dice.below(100) < static_cast<unsigned long>(plan.writes))
      pthread_rwlock_wrlock(&word);
    else
      pthread_rwlock_rdlock(&word);
  }
  ALWAYS void leave() { pthread_rwlock_unlock(&word); }
};
struct spinning {
  pthread_spinlock_t word{};
  spinning() { pthread_spin_init(&word, 0); }
  ALWAYS void enter() { pthread_spin_lock(&word); }
  ALWAYS void leave() { pthread_spin_unlock(&word); }
};
/// A semaphore with one credit, used as a mutex.
struct binary {
  sem_t word{};
  binary() { sem_init(&word, 0, 1); }
  ALWAYS void enter() {
    while (sem_wait(&word) != 0) {
    }
  }
  ALWAYS void leave() { sem_post(&word); }
};
/// A lock that the program implements with a futex. The word is 0 if the lock is free, 1 if it is held, and 2 if it is
/// held and threads may sleep. `usher stat` does not record the calls of this lock.
struct own_lock {
  std::atomic<int> word{0};
  ALWAYS void enter() {
    int free = 0;
    if (!word.compare_exchange_strong(free, 1)) wait_for_own_lock(word);
  }
  ALWAYS void leave() {
    if (word.exchange(0) == 2) syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  NAMED static void wait_for_own_lock(std::atomic<int>& word) {
    while (word.exchange(2) != 0) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
  }
};
/// A lock whose waiters sleep in std::atomic::wait().
struct waiting_atomic {
  std::atomic<int> word{0};
  ALWAYS void enter() {
    while (word.exchange(1) != 0) word.wait(1);
  }
  ALWAYS void leave() {
    word.store(0);
    word.notify_one();
  }
};
/// A lock like that of an interpreter: a flag under a mutex, and a condition variable for threads that find the flag
/// set.
struct interpreter {
  pthread_mutex_t word = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t free = PTHREAD_COND_INITIALIZER;
  bool busy = false;
  ALWAYS void enter() {
    pthread_mutex_lock(&word);
    while (busy) pthread_cond_wait(&free, &word);
    busy = true;
    pthread_mutex_unlock(&word);
  }
  ALWAYS void leave() {
    pthread_mutex_lock(&word);
    busy = false;
    pthread_mutex_unlock(&word);
    pthread_cond_signal(&free);
  }
};

#define OBJECTS(type, name) \
  type hot_##name;          \
  type name##_shards[256];  \
  type name##_table[most_objects]
OBJECTS(plain_mutex, mutex);
OBJECTS(polled_mutex, polled);
OBJECTS(read_write, rwlock);
OBJECTS(spinning, spin);
OBJECTS(binary, binary);
OBJECTS(own_lock, own);
OBJECTS(waiting_atomic, atomic);
OBJECTS(interpreter, interpreter);
pthread_mutex_t beside_mutex = PTHREAD_MUTEX_INITIALIZER;

// These functions hold the lock during their work, one function for each kind of work.
template <class L>
NAMED void held_by_cpu(L& lock, double us) {
  lock.enter();
  burn(us);
  lock.leave();
}
template <class L>
NAMED void held_by_sleep(L& lock, double us) {
  lock.enter();
  nap(us);
  lock.leave();
}
template <class L>
NAMED void held_by_read(L& lock, double us) {
  lock.enter();
  await_device(us);
  lock.leave();
}
template <class L>
NAMED void held_by_sync(L& lock, double us) {
  lock.enter();
  sync_file(us);
  lock.leave();
}
template <class L>
NAMED void held_by_yield(L& lock, double us) {
  lock.enter();
  burn(us / 2);
  if (!removed("yield")) sched_yield();
  burn(us / 2);
  lock.leave();
}
template <class L>
NAMED void held_shortly(L& lock) {
  lock.enter();
  lock.leave();
}

template <class L>
void section(L& lock) {
  const double us = about(plan.hold_us);
  if (removed("hold")) {
    held_shortly(lock);
    between(plan.hold, plan.hold_us);
    return;
  }
  switch (plan.hold) {
    case way::none:
      held_shortly(lock);
      break;
    case way::cpu:
      held_by_cpu(lock, us);
      break;
    case way::sleep:
      held_by_sleep(lock, us);
      break;
    case way::io:
      held_by_read(lock, us);
      break;
    case way::file:
      held_by_sync(lock, us);
      break;
    case way::yield:
      held_by_yield(lock, us);
      break;
  }
}

NAMED void locks_beside() {
  pthread_mutex_lock(&beside_mutex);
  burn(0.1);
  pthread_mutex_unlock(&beside_mutex);
}

template <class L>
L& chosen(L& hot, L* shards, L* table) {
  if (removed("lock")) return shards[self];
  if (plan.objects == 1) return hot;
  // At least `loaded` per cent of the operations use one object, the middle one of the table.
  if (dice.below(100) < static_cast<unsigned long>(plan.loaded)) return table[plan.objects / 2];
  return table[dice.below(static_cast<unsigned long>(plan.objects))];
}

template <class L>
void start_turns(L& hot, L* shards, L* table) {
  start(plan.threads, [&hot, shards, table] {
    for (long n = self; !stopped(); ++n) {
      section(chosen(hot, shards, table));
      between(plan.gap, plan.gap_us);
      if (plan.beside != 0 && n % plan.beside == 0) locks_beside();
      count();
    }
  });
}

/// A thread that finds the mutex taken does other work instead, which counts as an operation, too.
NAMED void work_instead() {
  between(plan.hold, plan.hold_us);
}
void start_fallback() {
  start(plan.threads, [] {
    while (!stopped()) {
      plain_mutex& lock = removed("lock") ? mutex_shards[self] : hot_mutex;
      if (lock.try_enter()) {
        between(plan.hold, plan.hold_us);
        lock.leave();
      } else {
        work_instead();
      }
      between(plan.gap, plan.gap_us);
      count();
    }
  });
}

/// An allocator with one mutex. `usher stat` recognises an allocator by a function name that ends in `malloc`.
NAMED void* global_malloc() {
  plain_mutex& lock = removed("lock") ? mutex_shards[self] : hot_mutex;
  lock.enter();
  burn(about(plan.hold_us));
  lock.leave();
  return &lock;
}
NAMED void use_memory(void* memory) {
  asm volatile("" : : "r"(memory) : "memory");
  between(plan.gap, plan.gap_us);
}
void start_allocator() {
  start(plan.threads, [] {
    while (!stopped()) {
      use_memory(global_malloc());
      count();
    }
  });
}

bool start_exclusion(const std::string& shape) {
  if (plan.objects > most_objects) workloads::fail("too many objects", 2);
#define SHAPE(name) \
  if (shape == #name) return start_turns(hot_##name, name##_shards, name##_table), true
  SHAPE(mutex);
  SHAPE(polled);
  SHAPE(rwlock);
  SHAPE(spin);
  SHAPE(binary);
  SHAPE(own);
  SHAPE(atomic);
  SHAPE(interpreter);
#undef SHAPE
  if (shape == "fallback") return start_fallback(), true;
  if (shape == "allocator") return start_allocator(), true;
  return false;
}

}  // namespace causes
