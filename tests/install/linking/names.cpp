// A program that has names of its own for everything.
#include <mutex>
#include <usher/condition_variable.hpp>
#include <usher/mutex.hpp>
#include <usher/semaphore.hpp>

static usher::timed_mutex<> mutex;
static usher::condition_variable state;
static usher::semaphore s;
static int lock, queue, q, m, t, f, v, me, selected, word, left, now, target, i;

int main() {
  std::unique_lock own(mutex);
  state.wait(own, [] { return true; });
  state.wait(mutex, [] { return true; });
  if (state.wait_for(own, std::chrono::seconds(0)) == std::cv_status::timeout) s.release(2);
  s.acquire();
  const int all = lock + queue + q + m + t + f + v + me + selected + word + left + now + target + i;
  return s.try_acquire_for(std::chrono::seconds(0)) ? all : 1;
}
