// The C++ library's mutexes and conditions over pthread's: std::mutex is never initialised nor destroyed,
// std::timed_mutex takes pthread_mutex_clocklock, wait_for takes pthread_cond_clockwait; cancellation and
// exceptions unwind through the frames of the calls.
#include "cases.h"

#include <cxxabi.h>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

template <class Body>
void in_threads(int count, Body body) {
  std::vector<std::thread> threads;
  int gate = 0;  // they begin together
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&gate, body, i] {
      while (!flag_get(&gate)) sched_yield();
      body(i);
    });
  flag_set(&gate, 1);
  for (std::thread& thread : threads) thread.join();
}

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

CASE(std_mutex_in_reused_memory) {
  // It says neither hello nor goodbye: what was there before must not matter, zeroes do.
  alignas(std::mutex) static unsigned char memory[sizeof(std::mutex)];
  for (int round = 0; round < 100; ++round) {
    std::memset(memory, 0xa5, sizeof memory);
    auto* mutex = new (memory) std::mutex;
    mutex->lock();
    std::thread waiter([&] { std::lock_guard guard(*mutex); });
    if (round % 10 == 0) std::this_thread::sleep_for(1ms);
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
  std::this_thread::sleep_for(5ms);
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

// The notification runs after the destructors of the thread's own objects, by a key of the library.
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
    // The mutex has been taken again before any destructor of the caller's runs.
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
    if (round % 2) sleep_ms(2);
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

}  // namespace
