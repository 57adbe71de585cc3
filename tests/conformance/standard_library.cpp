// Tests the C++ library's mutexes and conditions, which are implemented by pthread calls: std::mutex calls neither init
// nor destroy, std::timed_mutex calls pthread_mutex_clocklock, wait_for calls pthread_cond_clockwait. Cancellation and
// exceptions unwind the stack through these calls.
#include "cases.h"
#include "in_threads.hpp"

#include <cxxabi.h>
#include <semaphore.h>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

template <class Mutex>
void exclude() {
  Mutex mutex;
  int inside = 0;
  long count = 0;
  in_threads(4, [&](int) {
    for (int i = 0; i < 300; ++i) {
      std::lock_guard<Mutex> guard(mutex);
      CHECK(__atomic_exchange_n(&inside, 1, __ATOMIC_RELAXED) == 0);
      linger(++count);
      __atomic_store_n(&inside, 0, __ATOMIC_RELAXED);
    }
  });
  CHECK_NUMBER(count, 4 * 300);
}

CASE(std_mutex) {
  exclude<std::mutex>();
}
CASE(std_recursive_mutex) {
  exclude<std::recursive_mutex>();
}
CASE(std_timed_mutex) {
  exclude<std::timed_mutex>();
}
CASE(std_recursive_timed_mutex) {
  exclude<std::recursive_timed_mutex>();
}
CASE(std_shared_mutex) {
  exclude<std::shared_mutex>();
}

CASE(std_shared_timed_mutex) {
  exclude<std::shared_timed_mutex>();
}

// Readers run together, writers alone.
template <class Mutex>
void read_and_write() {
  Mutex mutex;
  int readers = 0, writers = 0, most = 0;
  long count = 0;
  in_threads(5, [&](int number) {
    for (int i = 0; i < 200; ++i) {
      if (number == 0 || i % 16 == 0) {
        std::unique_lock lock(mutex);
        CHECK_NUMBER(flag_add(&writers, 1), 1);
        CHECK_NUMBER(flag_get(&readers), 0);
        linger(++count);
        flag_add(&writers, -1);
      } else {
        std::shared_lock lock(mutex);
        const int together = flag_add(&readers, 1);
        if (together > flag_get(&most)) flag_set(&most, together);
        CHECK_NUMBER(flag_get(&writers), 0);
        linger(i);
        flag_add(&readers, -1);
      }
    }
  });
  CHECK_NUMBER(count, 200 + 4 * 13);
}

CASE(std_readers_and_writers) {
  read_and_write<std::shared_mutex>();
  read_and_write<std::shared_timed_mutex>();
}

CASE(std_mutex_in_reused_memory) {
  // std::mutex calls neither pthread_mutex_init nor pthread_mutex_destroy. So the memory's previous content must not
  // matter, and the zeros that the constructor writes must be a free mutex.
  alignas(std::mutex) static unsigned char memory[sizeof(std::mutex)];
  for (int round = 0; round < 100; ++round) {
    std::memset(memory, 0xa5, sizeof memory);
    auto* mutex = new (memory) std::mutex;
    mutex->lock();
    std::thread waiter([&] { std::lock_guard guard(*mutex); });
    if (round % 10 == 0) await_sleepers(1);
    mutex->unlock();
    waiter.join();
    CHECK(mutex->try_lock());
    if (round % 2) mutex->unlock();
    mutex->~mutex();
  }
}

CASE(std_timed_calls) {
  std::timed_mutex mutex;
  CHECK(mutex.try_lock_for(0s));
  mutex.unlock();
  CHECK(mutex.try_lock_until(std::chrono::steady_clock::now() - 1s));
  std::thread other([&] {
    CHECK(!mutex.try_lock());
    const auto start = std::chrono::steady_clock::now();
    CHECK(!mutex.try_lock_for(10ms));
    CHECK(std::chrono::steady_clock::now() - start >= 10ms);
    CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() + 10ms));
    CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() - 10ms));
  });
  other.join();
  std::thread patient([&] {
    CHECK(mutex.try_lock_for(10s));
    mutex.unlock();
  });
  await_sleepers(1);
  mutex.unlock();
  patient.join();
}

CASE(std_recursion) {
  std::recursive_timed_mutex mutex;
  for (int i = 0; i < 50; ++i) CHECK(i % 2 ? mutex.try_lock() : mutex.try_lock_for(1ms));
  for (int i = 0; i < 50; ++i) {
    std::thread([&] { CHECK(!mutex.try_lock()); }).join();
    mutex.unlock();
  }
  std::thread([&] {
    CHECK(mutex.try_lock());
    mutex.unlock();
  }).join();
}

// All threads lock recursively: one with a short timeout, two with deadlines on different clocks, one without a
// deadline.
CASE(std_recursive_timed_among_others) {
  std::recursive_timed_mutex mutex;
  int inside = 0;
  long count = 0, timeouts = 0;
  in_threads(4, [&](int number) {
    for (int i = 0; i < 150; ++i) {
      bool mine = true;
      if (number == 0)
        mine = mutex.try_lock_for(std::chrono::microseconds(50));
      else if (number == 1)
        mine = mutex.try_lock_until(std::chrono::system_clock::now() + 10s);
      else if (number == 2)
        mine = mutex.try_lock_until(std::chrono::steady_clock::now() + 10s);
      else
        mutex.lock();
      if (!mine) {
        CHECK_NUMBER(number, 0);
        ++timeouts;
        continue;
      }
      CHECK(mutex.try_lock_for(0s));
      CHECK(__atomic_exchange_n(&inside, 1, __ATOMIC_RELAXED) == 0);
      linger(++count);
      __atomic_store_n(&inside, 0, __ATOMIC_RELAXED);
      mutex.unlock();
      mutex.unlock();
    }
  });
  CHECK_NUMBER(count + timeouts, 4 * 150);
}

CASE(std_scoped_lock) {
  std::mutex a, b, c;
  long count = 0;
  in_threads(3, [&](int number) {
    for (int i = 0; i < 200; ++i) {
      if (number == 0) {
        std::scoped_lock lock(a, b, c);
        ++count;
      } else if (number == 1) {
        std::scoped_lock lock(c, b, a);
        ++count;
      } else {
        std::scoped_lock lock(b, a, c);
        ++count;
      }
    }
  });
  CHECK_NUMBER(count, 600);
}

template <class Condition>
void queue_through() {
  std::mutex mutex;
  Condition changed;
  std::deque<int> queue;
  long long sum = 0;
  int left = 600;
  in_threads(4, [&](int number) {
    for (int i = 0; i < 300; ++i) {
      std::unique_lock<std::mutex> lock(mutex);
      if (number % 2) {
        queue.push_back(i);
        changed.notify_one();
      } else {
        changed.wait(lock, [&] { return !queue.empty(); });
        sum += queue.front();
        queue.pop_front();
        --left;
      }
    }
  });
  CHECK_NUMBER(left, 0);
  CHECK_NUMBER(sum, 2 * 300 * 299 / 2);
}

CASE(std_condition_variable) {
  queue_through<std::condition_variable>();
}
CASE(std_condition_variable_any) {
  queue_through<std::condition_variable_any>();
}

CASE(std_condition_deadlines) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  auto start = std::chrono::steady_clock::now();
  CHECK(!condition.wait_for(lock, 10ms, [] { return false; }));
  CHECK(std::chrono::steady_clock::now() - start >= 10ms);
  CHECK(condition.wait_until(lock, std::chrono::system_clock::now() - 1s) == std::cv_status::timeout);
  CHECK(!condition.wait_until(lock, std::chrono::system_clock::now() + 5ms, [] { return false; }));
  CHECK(!condition.wait_until(lock, std::chrono::steady_clock::now() + 5ms, [] { return false; }));
  CHECK(lock.owns_lock());
  bool ready = false;
  std::thread notifier([&] {
    std::lock_guard guard(mutex);
    ready = true;
    condition.notify_all();
  });
  CHECK(condition.wait_for(lock, 10s, [&] { return ready; }));
  lock.unlock();
  notifier.join();
}

// A condition_variable_any has a mutex of its own besides the lock passed to wait.
template <class Mutex>
void any_waits_for() {
  Mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock<Mutex> lock(mutex);
  CHECK(condition.wait_for(lock, 3ms) == std::cv_status::timeout || lock.owns_lock());
  CHECK(!condition.wait_until(lock, std::chrono::system_clock::now() + 3ms, [] { return false; }));
  CHECK(!condition.wait_until(lock, std::chrono::steady_clock::now() + 3ms, [] { return false; }));
  int ready = 0;
  std::thread notifier([&] {
    for (int i = 0; i < 100; ++i) {
      {
        std::lock_guard guard(mutex);
        ++ready;
      }
      condition.notify_one();
    }
  });
  for (int i = 1; i <= 100; ++i) CHECK(condition.wait_for(lock, 10s, [&] { return ready >= i; }));
  lock.unlock();
  notifier.join();
}

CASE(std_condition_variable_any_of_each) {
  any_waits_for<std::mutex>();
  any_waits_for<std::timed_mutex>();
  any_waits_for<std::recursive_mutex>();
  any_waits_for<std::recursive_timed_mutex>();
  any_waits_for<std::shared_mutex>();
}

CASE(std_stop_token) {
  for (int round = 0; round < 60; ++round) {
    std::mutex mutex;
    std::condition_variable_any condition;
    int waiting = 0, stopped = 0, timed_out = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 3; ++i)
        threads.emplace_back([&, i](std::stop_token token) {
          std::unique_lock lock(mutex);
          flag_add(&waiting, 1);
          const bool done = i == 0   ? condition.wait(lock, token, [] { return false; })
                            : i == 1 ? condition.wait_for(lock, token, 60s, [] { return false; })
                                     : condition.wait_until(lock, token, std::chrono::system_clock::now() + 60s,
                                                            [] { return false; });
          CHECK(!done);
          ++(token.stop_requested() ? stopped : timed_out);
          CHECK(lock.owns_lock());
        });
      if (round % 2) await_flag(&waiting, 3);
      if (round % 4 == 3) await_sleepers(3);
      // The destructors stop and join the threads one after the other; in some rounds all are asked to stop first.
      if (round % 3 == 0)
        for (std::jthread& thread : threads) thread.request_stop();
    }
    CHECK_NUMBER(stopped, 3);
    CHECK_NUMBER(timed_out, 0);
  }
}

// The C++ library sends the notification from the destructor of a thread-specific key, after the destructors of the
// thread's own objects.
CASE(std_notify_at_thread_exit) {
  for (int round = 0; round < 50; ++round) {
    std::mutex mutex;
    std::condition_variable condition;
    bool ready = false;
    std::thread thread([&] {
      std::unique_lock lock(mutex);
      ready = true;
      std::notify_all_at_thread_exit(condition, std::move(lock));
    });
    {
      std::unique_lock lock(mutex);
      condition.wait(lock, [&] { return ready; });
    }
    thread.join();
  }
}

std::mutex late_mutex;
int late_count = 0;

struct locks_when_destroyed {
  ~locks_when_destroyed() {
    std::lock_guard guard(late_mutex);
    ++late_count;
  }
  int touched = 0;
};
thread_local locks_when_destroyed late_object;

CASE(thread_local_destructors_that_lock) {
  for (int round = 0; round < 20; ++round)
    in_threads(6, [](int number) {
      if (number % 2) {
        std::lock_guard guard(late_mutex);
        ++late_count;
      }
      ++late_object.touched;
    });
  CHECK_NUMBER(late_count, 20 * (6 + 3));
}

CASE(std_futures) {
  std::vector<std::future<int>> results;
  for (int i = 0; i < 20; ++i) results.push_back(std::async(std::launch::async, [i] { return i * i; }));
  for (int i = 0; i < 20; ++i) CHECK_NUMBER(results[std::size_t(i)].get(), i * i);
}

CASE(std_shared_futures_and_tasks) {
  std::promise<int> promise;
  std::shared_future<int> future = promise.get_future().share();
  CHECK(future.wait_for(2ms) == std::future_status::timeout);
  CHECK(future.wait_until(std::chrono::system_clock::now() + 2ms) == std::future_status::timeout);
  std::vector<std::thread> threads;
  int seen = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      if (i % 2) CHECK(future.wait_for(10s) == std::future_status::ready);
      flag_add(&seen, future.get());
    });
  std::thread([&] { promise.set_value_at_thread_exit(5); }).join();
  for (std::thread& thread : threads) thread.join();
  CHECK_NUMBER(seen, 4 * 5);
  for (int i = 0; i < 50; ++i) {
    std::packaged_task<int(int)> task([](int n) -> int {
      if (n % 5 == 0) throw std::runtime_error("five");
      return n;
    });
    std::future<int> result = task.get_future();
    std::thread worker(std::move(task), i);
    try {
      CHECK_NUMBER(result.get(), i);
    } catch (const std::runtime_error&) {
      CHECK_NUMBER(i % 5, 0);
    }
    worker.join();
  }
}

// The C++ library implements this semaphore by std::atomic's wait, not by sem_t. At most one thread waits on each
// semaphore here, because with several waiters the semaphore of gcc 12 can lose a wake-up (GCC bug 104928).
CASE(std_counting_semaphore) {
  std::counting_semaphore<3> room(3), items(0);
  long put = 0, taken = 0;
  in_threads(2, [&](int number) {
    for (int i = 0; i < 600; ++i) {
      if (number == 0) {
        while (!room.try_acquire_for(100us)) {
        }
        linger(++put);
        items.release();
      } else {
        items.acquire();
        linger(++taken);
        room.release();
      }
    }
  });
  CHECK(put == 600 && taken == 600);
  CHECK(room.try_acquire() && room.try_acquire() && room.try_acquire() && !room.try_acquire());
  CHECK(!room.try_acquire_until(std::chrono::steady_clock::now() + 2ms));
}

CASE(std_latch_and_barrier) {
  for (int round = 0; round < 30; ++round) {
    std::latch arrived(4), gone(4);
    std::mutex mutex;
    long phases = 0, count = 0;
    std::barrier barrier(4, [&]() noexcept {
      CHECK(count % 4 == 0);
      ++phases;
    });
    in_threads(4, [&](int) {
      arrived.arrive_and_wait();
      for (int i = 0; i < 8; ++i) {
        {
          std::lock_guard guard(mutex);
          ++count;
        }
        barrier.arrive_and_wait();
      }
      gone.count_down();
    });
    gone.wait();
    CHECK_NUMBER(phases, 8);
    CHECK_NUMBER(count, 32);
  }
}

CASE(std_call_once) {
  std::once_flag flag;
  int runs = 0, attempts = 0;
  in_threads(4, [&](int) {
    try {
      std::call_once(flag, [&] {
        if (__atomic_add_fetch(&attempts, 1, __ATOMIC_SEQ_CST) == 1) throw std::runtime_error("not yet");
        ++runs;
      });
    } catch (const std::runtime_error&) {
    }
  });
  std::call_once(flag, [&] { ++runs; });
  CHECK_NUMBER(runs, 1);
}

CASE(exceptions_through_guards) {
  std::mutex mutex;
  int caught = 0;
  for (int i = 0; i < 200; ++i) {
    try {
      std::lock_guard guard(mutex);
      if (i % 2) throw std::runtime_error("out");
    } catch (const std::runtime_error&) {
      ++caught;
    }
    CHECK(mutex.try_lock());
    mutex.unlock();
  }
  CHECK_NUMBER(caught, 100);
}

// -- cancellation runs destructors, in C++ and in C compiled with -fexceptions --

struct scene {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  int waiting = 0, destroyed = 0, caught = 0, way = 0;
};

void* try_to_lock(void* mutex) {
  const int code = pthread_mutex_trylock(static_cast<pthread_mutex_t*>(mutex));
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(code));
}

struct releases {
  scene* at;
  ~releases() {
    // The cancelled wait has acquired the mutex again before the destructors of the caller's objects run.
    CHECK_NUMBER(reinterpret_cast<std::intptr_t>(in_new_thread(try_to_lock, &at->mutex)), EBUSY);
    CHECK_OK(pthread_mutex_unlock(&at->mutex));
    ++at->destroyed;
  }
};

void* wait_in_cxx(void* argument) {
  auto* at = static_cast<scene*>(argument);
  CHECK_OK(pthread_mutex_lock(&at->mutex));
  releases guard{at};
  flag_set(&at->waiting, 1);
  try {
    for (;;) {
      const timespec realtime = later(now(CLOCK_REALTIME), 60000);
      const timespec monotonic = later(now(CLOCK_MONOTONIC), 60000);
      if (at->way == 0) CHECK_OK(pthread_cond_wait(&at->condition, &at->mutex));
      if (at->way == 1) CHECK_OK(pthread_cond_timedwait(&at->condition, &at->mutex, &realtime));
      if (at->way == 2) CHECK_OK(pthread_cond_clockwait(&at->condition, &at->mutex, CLOCK_MONOTONIC, &monotonic));
    }
  } catch (abi::__forced_unwind&) {
    ++at->caught;
    throw;
  }
}

CASE(cancellation_runs_destructors) {
  for (int round = 0; round < 12; ++round) {
    scene at;
    at.way = round % 3;
    pthread_t thread = start_thread(wait_in_cxx, &at);
    await_flag(&at.waiting, 1);
    if (round % 2) await_sleepers(1);
    CHECK_OK(pthread_cancel(thread));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK_NUMBER(at.caught, 1);
    CHECK_NUMBER(at.destroyed, 1);
    CHECK_NUMBER(reinterpret_cast<std::intptr_t>(in_new_thread(try_to_lock, &at.mutex)), 0);
  }
}

void* leave_while_locked(void* argument) {
  auto* at = static_cast<scene*>(argument);
  CHECK_OK(pthread_mutex_lock(&at->mutex));
  releases guard{at};
  pthread_exit(nullptr);
}

CASE(pthread_exit_runs_destructors) {
  scene at;
  in_new_thread(leave_while_locked, &at);
  CHECK_NUMBER(at.destroyed, 1);
  CHECK_NUMBER(reinterpret_cast<std::intptr_t>(in_new_thread(try_to_lock, &at.mutex)), 0);
}

// When the thread is cancelled, its stack contains a unique_lock and a guard of the program. The thread is cancelled in
// each kind of wait.
struct stage {
  std::mutex mutex;
  std::condition_variable condition;
  sem_t semaphore;
  int waiting = 0, guards = 0, caught = 0, way = 0;
};

struct leaves_word {
  stage& at;
  ~leaves_word() {
    // This guard is destroyed before the older unique_lock, so the mutex is still held.
    if (at.way < 3) CHECK(!std::async(std::launch::async, [this] { return at.mutex.try_lock(); }).get());
    ++at.guards;
  }
};

void* wait_with_guards(void* argument) {
  stage& at = *static_cast<stage*>(argument);
  try {
    std::unique_lock lock(at.mutex, std::defer_lock);
    if (at.way < 3) lock.lock();
    leaves_word guard{at};
    flag_set(&at.waiting, 1);
    const timespec realtime = later(now(CLOCK_REALTIME), 60000), monotonic = later(now(CLOCK_MONOTONIC), 60000);
    switch (at.way) {
      // These cases call pthread functions directly: std::condition_variable::wait is noexcept, and cancellation in it
      // would end the program.
      case 0:
        pthread_cond_wait(at.condition.native_handle(), at.mutex.native_handle());
        break;
      case 1:
        pthread_cond_timedwait(at.condition.native_handle(), at.mutex.native_handle(), &realtime);
        break;
      case 2:
        pthread_cond_clockwait(at.condition.native_handle(), at.mutex.native_handle(), CLOCK_MONOTONIC, &monotonic);
        break;
      case 3:
        sem_wait(&at.semaphore);
        break;
      case 4:
        sem_timedwait(&at.semaphore, &realtime);
        break;
      default:
        sem_clockwait(&at.semaphore, CLOCK_MONOTONIC, &monotonic);
    }
  } catch (abi::__forced_unwind&) {
    ++at.caught;
    CHECK(at.mutex.try_lock());  // the lock was destroyed by the unwinding
    at.mutex.unlock();
    throw;
  } catch (...) {
    at.caught += 100;
    throw;
  }
  return nullptr;
}

CASE(cancellation_runs_destructors_in_every_wait) {
  for (int round = 0; round < 24; ++round) {
    stage at;
    at.way = round % 6;
    CHECK(sem_init(&at.semaphore, 0, 0) == 0);
    pthread_t thread = start_thread(wait_with_guards, &at);
    if (round >= 6) await_flag(&at.waiting, 1);
    if (round >= 12) await_sleepers(1);
    CHECK_OK(pthread_cancel(thread));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    if (at.waiting == 0) continue;  // the request took effect before the wait
    CHECK_NUMBER(at.caught, 1);
    CHECK_NUMBER(at.guards, 1);
    CHECK(at.mutex.try_lock());
    at.mutex.unlock();
  }
}

// The cancellation passes through a catch (...) that rethrows, as many programs have it.
void* catch_all(void* argument) {
  stage& at = *static_cast<stage*>(argument);
  try {
    std::unique_lock lock(at.mutex);
    flag_set(&at.waiting, 1);
    pthread_cond_wait(at.condition.native_handle(), at.mutex.native_handle());
  } catch (...) {
    ++at.caught;
    throw;
  }
  return nullptr;
}

CASE(cancellation_through_catch_all) {
  for (int round = 0; round < 10; ++round) {
    stage at;
    pthread_t thread = start_thread(catch_all, &at);
    await_flag(&at.waiting, 1);
    if (round % 2) await_sleepers(1);
    CHECK_OK(pthread_cancel(thread));
    CHECK(join_thread(thread) == PTHREAD_CANCELED);
    CHECK_NUMBER(at.caught, 1);
    CHECK(at.mutex.try_lock());
    at.mutex.unlock();
  }
}

// -- the end --

// At exit the destructors of static objects lock and notify, while other threads still use objects that live longer.
struct shared_state {
  std::mutex mutex;
  std::condition_variable condition;
  std::condition_variable_any any;
  int generation = 0;
};
shared_state& immortal() {
  static auto* state = new shared_state;
  return *state;
}
int* at_exit = nullptr;

struct static_object {
  ~static_object() {
    if (!at_exit) return;
    for (int i = 0; i < 20; ++i) {
      shared_state& state = immortal();
      std::unique_lock lock(state.mutex);
      ++state.generation;
      state.condition.notify_all();
      state.any.notify_all();
      state.condition.wait_for(lock, std::chrono::microseconds(50));
    }
    std::lock_guard guard(own_mutex);
    own_condition.notify_all();
    ++*at_exit;
  }
  std::mutex own_mutex;
  std::condition_variable own_condition;
  std::timed_mutex own_timed;
};
static_object static_one;

CASE(static_destructors_among_threads) {
  for (int round = 0; round < 10; ++round) {
    at_exit = static_cast<int*>(shared_page());
    const pid_t child = fork();
    if (child == 0) {
      be_a_child();
      static static_object local;
      for (int i = 0; i < 3; ++i)
        std::thread([i] {
          shared_state& state = immortal();
          for (;;) {
            std::unique_lock lock(state.mutex);
            const int last = state.generation;
            if (i == 0)
              state.condition.wait(lock, [&] { return state.generation != last; });
            else if (i == 1)
              state.any.wait_for(lock, 1ms, [&] { return state.generation != last; });
            else
              ++state.generation, state.condition.notify_one(), state.any.notify_one();
          }
        }).detach();
      // This thread waits on the static object, and is joined before the object is destroyed.
      std::thread waiter([] {
        std::unique_lock lock(static_one.own_mutex);
        static_one.own_condition.wait_for(lock, 1ms);
      });
      // In these rounds the threads are in the middle of their work when the process ends.
      if (round % 2) std::this_thread::sleep_for(500us);
      waiter.join();
      std::exit(21);
    }
    CHECK_CHILD(child, 21);
    CHECK_NUMBER(*at_exit, 2);
    munmap(at_exit, 4096);
    at_exit = nullptr;
  }
}

}  // namespace
