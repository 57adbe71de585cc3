// A program that includes all headers, uses all locks, and has global variables with all names that the headers use for
// variables. The test generates the files of generated/.
#include <mutex>

#include <generated/names.hpp>

#include <generated/headers.hpp>

template <template <class, class> class Lock>
void use_lock() {
  static usher::mutex<Lock> plain_mutex;
  static usher::timed_mutex<Lock> timed_mutex_;
  static usher::condition_variable condition_;
  std::unique_lock first_guard(plain_mutex);
  condition_.wait_for(first_guard, std::chrono::seconds(1), [] { return true; });
  std::unique_lock second_guard(timed_mutex_, std::chrono::seconds(1));
  condition_.wait(second_guard);
  condition_.wait(timed_mutex_, [] { return true; });
}

#include <generated/locks.hpp>

template <class P_, class W_>
using in_eight_bytes = usher::inflatable<P_, W_, usher::c_bo_mcs<P_, W_>>;

static usher::shared_mutex_in<usher::mcs> shared_mutex_;

int main() {
  use_all_locks();
  use_lock<in_eight_bytes>();
  const std::lock_guard shared_guard(shared_mutex_);
  usher::semaphore credits_(1, usher::append_probability(0.5));
  credits_.acquire();
  credits_.release(2);
  return credits_.try_acquire_for(std::chrono::seconds(0)) ? 0 : 1;
}
