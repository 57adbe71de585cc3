// Locks that a program embeds, and calls of the C functions. The program is built with and without USHER_RECORD, and
// linked at a fixed and at a variable address. ../test_embedded.py has the expected numbers.
#include <pthread.h>
#include <unistd.h>
#include <usher/usher.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <usher/condition_variable.hpp>
#include <usher/locks/mcs.hpp>
#include <usher/locks/ticket.hpp>
#include <usher/mutex.hpp>
#include <usher/semaphore.hpp>

#include "asleep.hpp"

using namespace std::chrono_literals;

namespace {

usher::mutex<usher::ticket> plain;
usher::mutex<> once, hot;
usher::timed_mutex<usher::mcs> timed;
usher::timed_mutex<> handed;
usher::condition_variable turn;
usher::semaphore credits;
usher_mutex_t of_c = USHER_MUTEX_INITIALIZER, handed_of_c = USHER_MUTEX_INITIALIZER;
usher_cond_t turn_of_c = USHER_COND_INITIALIZER;
usher_sem_t credits_of_c = USHER_SEM_INITIALIZER;

/// Runs `waits` in another thread. When that thread sleeps, runs `ends`, which must end the other thread's wait.
template <class Waits, class Ends>
void while_waiting(Waits waits, Ends ends) {
  std::atomic<pid_t> id{0};
  std::thread other([&] {
    id = gettid();
    waits();
  });
  planted::await_asleep(id, 20s);
  ends();
  other.join();
}

[[gnu::noinline]] void wait_for_plain() {
  plain.lock();  // mark: embedded waits
  plain.unlock();
}

void mutexes() {
  for (int i = 0; i < 1000; i++) {
    const std::lock_guard guard(plain);
  }
  for (int i = 0; i < 3; i++) {
    plain.lock();
    if (plain.try_lock()) plain.unlock();
    while_waiting(wait_for_plain, [] {
      usleep(2000);  // the length of the wait that is recorded
      plain.unlock();
    });
  }
  timed.lock();
  std::thread([] {
    if (timed.try_lock_for(2ms)) timed.unlock();
  }).join();
  while_waiting(
      [] {
        if (timed.try_lock_for(60s)) timed.unlock();
      },
      [] { timed.unlock(); });
  // Each thread locks `hot` so often that it counts its holds of `hot` in a slot of its own.
  std::thread threads[2];
  for (auto& t : threads)
    t = std::thread([] {
      for (int i = 0; i < 100000; i++) {
        const std::lock_guard guard(hot);
      }
    });
  for (auto& t : threads) t.join();
  for (int i = 0; i < 3; i++) {
    const auto made = std::make_unique<usher::mutex<usher::mcs>>();  // mark: embedded made
    for (int k = 0; k < 10; k++) {
      const std::lock_guard guard(*made);
    }
  }
}

void conditions() {
  int turns = 0;
  for (int i = 0; i < 20; i++)
    while_waiting(
        [&] {
          std::unique_lock lock(handed);
          turn.wait(lock, [&] { return turns > i; });
        },
        [&] {
          const std::lock_guard lock(handed);
          turns++;
          turn.notify_one();
          // so long that the unlock hands the mutex over; the waiter then acquires the mutex without a lock call
          if (i % 4 == 0) usleep(3000);
        });
  std::unique_lock lock(handed);
  turn.wait_for(lock, 1ms);
  turn.notify_all();
}

void semaphores() {
  for (int i = 0; i < 10; i++) {
    credits.release(3);
    credits.acquire();
    if (credits.try_acquire()) credits.acquire();
  }
  if (credits.try_acquire()) return;
  while_waiting([] { credits.acquire(); }, [] { credits.release(); });
  if (credits.try_acquire_for(1ms)) return;
}

void c_functions() {
  usher_mutex_t* const made = usher_mutex_new("ticket");  // mark: embedded of C
  for (int i = 0; i < 100; i++) {
    usher_mutex_lock(made);
    usher_mutex_unlock(made);
  }
  usher_mutex_free(made);
  for (int i = 0; i < 20; i++) {
    static int turns = 0;
    while_waiting(
        [i] {
          usher_mutex_lock(&handed_of_c);
          while (turns <= i) usher_cond_wait(&turn_of_c, &handed_of_c);
          usher_mutex_unlock(&handed_of_c);
        },
        [] {
          usher_mutex_lock(&handed_of_c);
          turns++;
          usher_cond_signal(&turn_of_c);
          usher_mutex_unlock(&handed_of_c);
        });
  }
  for (int i = 0; i < 10; i++) {
    usher_sem_post(&credits_of_c);
    usher_sem_wait(&credits_of_c);
  }
  while_waiting([] { usher_sem_wait(&credits_of_c); }, [] { usher_sem_post(&credits_of_c); });
  const timespec past{1, 0};
  if (usher_sem_timedwait(&credits_of_c, &past) == 0) return;
  usher_mutex_lock(&of_c);
  while_waiting([&] { usher_mutex_lock(&of_c), usher_mutex_unlock(&of_c); }, [] { usher_mutex_unlock(&of_c); });
  usher_mutex_lock(&of_c);
  std::thread([&] {
    if (usher_mutex_timedlock(&of_c, &past) == 0 || usher_mutex_trylock(&of_c) == 0) usher_mutex_unlock(&of_c);
  }).join();
  usher_mutex_unlock(&of_c);
}

[[gnu::noinline]] void lock_twice() {
  once.lock();
  once.lock();  // mark: embedded once more
  once.unlock();
}

[[gnu::noinline]] void lock_twice_of_c() {
  usher_mutex_lock(&of_c);
  usher_mutex_lock(&of_c);  // mark: embedded once more of C
  usher_mutex_unlock(&of_c);
}

/// A thread locks a mutex again that it holds itself, with a deadline: this is no deadlock.
void lock_twice_until_deadline() {
  timed.lock();
  if (timed.try_lock_for(1500ms)) timed.unlock();
  timed.unlock();
}

void lock_twice_until_deadline_of_c() {
  timespec deadline{};
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += 2;
  usher_mutex_lock(&of_c);
  if (usher_mutex_timedlock(&of_c, &deadline) == 0) usher_mutex_unlock(&of_c);
  usher_mutex_unlock(&of_c);
}

}  // namespace

int main(int, char** words) {
  const std::string_view which = words[1];
  if (which == "all") mutexes(), conditions(), semaphores();
  if (which == "c") c_functions();
  if (which == "self") lock_twice();
  if (which == "self-of-c") lock_twice_of_c();
  if (which == "self-timed") lock_twice_until_deadline();
  if (which == "self-timed-of-c") lock_twice_until_deadline_of_c();
}
