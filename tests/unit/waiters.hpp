// For the tests of order: a lock's words, and threads that wait behind a holder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace usher::test {

/// A lock's words as its header describes them.
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

/// Returns when the thread that writes its number there has done so and sleeps; where it does not, after half a second.
inline void until_asleep(const std::atomic<pid_t>& begun) {
  while (begun == 0) std::this_thread::yield();
  for (int ms = 0; ms < 500 && !sleeps(begun); ms++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Lets n threads come one after the other while the lock is held, and returns the order in which they get in. Each has gone to sleep
/// in the queue before the next one comes; where it does not sleep it has had half a second.
template <class Lock>
std::vector<unsigned> admission_order(Lock& lock, unsigned n) {
  std::vector<unsigned> order;
  lock.lock();
  {
    std::vector<std::jthread> team;
    for (unsigned i = 0; i < n; i++) {
      std::atomic<pid_t> begun = 0;
      team.emplace_back([&lock, &order, &begun, i] {
        begun = gettid();
        lock.lock();
        order.push_back(i);
        lock.unlock();
      });
      until_asleep(begun);
    }
    lock.unlock();
  }
  return order;
}

/// Lets n threads come at once while the lock is held: each gets in several times, and the lock is free afterwards.
template <class Lock>
void lets_a_crowd_in(Lock& lock, unsigned n) {
  constexpr unsigned times = 5;
  unsigned entered = 0;
  lock.lock();
  {
    std::vector<std::jthread> team;
    for (unsigned i = 0; i < n; i++)
      team.emplace_back([&] {
        for (unsigned k = 0; k < times; k++) {
          lock.lock();
          entered++;
          lock.unlock();
        }
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    lock.unlock();
  }
  EXPECT_EQ(entered, n * times);
  EXPECT_TRUE(lock.try_lock());
}

}  // namespace usher::test
