// A queue of limited length between threads, made of a mutex and two condition variables.
//
// The mutex is a timed_mutex. If a thread is notified while such a mutex is held, not the notification but the unlock
// wakes it. So the thread does not wake up only to wait for the mutex.
#include <usher/condition_variable.hpp>
#include <usher/mutex.hpp>

#include <cstddef>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

class bounded_queue {
 public:
  explicit bounded_queue(std::size_t most) : most_(most) {}

  void put(long item) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return items_.size() < most_; });
    items_.push_back(item);
    has_items_.notify_one();
  }

  long take() {
    std::unique_lock lock(mutex_);
    has_items_.wait(lock, [this] { return !items_.empty(); });
    const long item = items_.front();
    items_.pop_front();
    has_room_.notify_one();
    return item;
  }

 private:
  usher::timed_mutex<>
      mutex_;  // with the default lock; usher::timed_mutex<usher::twa>, from <usher/locks/twa.hpp>, has another one
  usher::condition_variable has_items_, has_room_;
  const std::size_t most_;
  std::deque<long> items_;
};

int main() {
  constexpr int pairs = 4;
  constexpr long items = 5000;
  bounded_queue queue(16);
  std::vector<long> sums(pairs);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < pairs; i++) {
      threads.emplace_back([&queue] {
        for (long item = 1; item <= items; item++) queue.put(item);
      });
      threads.emplace_back([&queue, &sum = sums[i]] {
        for (long n = 0; n < items; n++) sum += queue.take();
      });
    }
  }
  long sum = 0;
  for (const long s : sums) sum += s;
  std::printf("%ld items went through the queue; their sum is %ld\n", pairs * items, sum);
  return sum == pairs * (items * (items + 1) / 2) ? 0 : 1;
}
