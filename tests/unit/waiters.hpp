// Helpers for tests of waiters: they read the words of a lock, make threads wait behind an owner, and wait until
// threads sleep. A test waits for the state that it needs, by until_asleep(), asleep_in() or eventually(), and not
// for a time in which that state usually occurs.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace usher::test {

/// Returns the i-th 32-bit word of a lock. The lock's header describes its words.
template <class Lock>
std::uint32_t word(const Lock& lock, std::size_t i) {
  return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(&lock) + i, __ATOMIC_RELAXED);
}
template <class Lock>
void set_word(Lock& lock, std::size_t i, std::uint32_t w) {
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(&lock) + i, w, __ATOMIC_RELAXED);
}

/// Whether a thread of this process sleeps in the kernel.
inline bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'S';
}

/// Polls until the condition holds; false if it does not hold after 100 s.
template <class F>
bool eventually(F holds) {
  using std::chrono::steady_clock;
  for (const auto end = steady_clock::now() + std::chrono::seconds(100); steady_clock::now() < end;) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // polls
  }
  return false;
}

/// Waits until a thread sleeps. The thread stores its id in `begun`, which is 0 before. If the thread does not sleep
/// after 100 s, the test has failed.
inline void until_asleep(const std::atomic<pid_t>& begun) {
  EXPECT_TRUE(eventually([&] { return begun != 0 && sleeps(begun); }));
}

/// Returns a thread that runs `body` and already sleeps in a lock's slow path.
template <class Body>
std::jthread asleep_in(Body body) {
  std::atomic<pid_t> begun = 0;
  std::jthread thread([&begun, body = std::move(body)] {
    begun = gettid();
    body();
  });
  until_asleep(begun);
  return thread;
}

/// Lets n threads arrive one after the other while the lock is held. Each sleeps in the queue before the next one
/// arrives. Returns the order in which they acquire the lock.
template <class Lock>
std::vector<unsigned> admission_order(Lock& lock, unsigned n) {
  std::vector<unsigned> order;
  lock.lock();
  {
    std::vector<std::jthread> team;
    for (unsigned i = 0; i < n; i++)
      team.push_back(asleep_in([&lock, &order, i] {
        lock.lock();
        order.push_back(i);
        lock.unlock();
      }));
    lock.unlock();
  }
  return order;
}

/// Lets n threads arrive at once while the lock is held. Each acquires the lock several times, and the lock is free
/// afterwards.
template <class Lock>
void lets_a_crowd_in(Lock& lock, unsigned n) {
  constexpr unsigned times = 5;
  unsigned entered = 0;
  lock.lock();
  {
    std::vector<std::atomic<pid_t>> begun(n);
    std::vector<std::jthread> team;
    for (unsigned i = 0; i < n; i++)
      team.emplace_back([&, i] {
        begun[i] = gettid();
        for (unsigned k = 0; k < times; k++) {
          lock.lock();
          entered++;
          lock.unlock();
        }
      });
    // Waits until all threads have begun and, under locks whose waiters sleep, have had time to fall asleep.
    int waited = 0;
    for (const std::atomic<pid_t>& thread : begun)
      while (thread == 0 || (!sleeps(thread) && waited++ < 100))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // at most 100 times, since waiters may also poll
    lock.unlock();
  }
  EXPECT_EQ(entered, n * times);
  EXPECT_TRUE(lock.try_lock());
}

}  // namespace usher::test
