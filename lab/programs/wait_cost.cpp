// The cost of condition variables and semaphores: calls without a waiter, turns that two threads pass to each other,
// and a semaphore that is used as a lock. The program runs without Usher, under the preload library, and, for calls
// without a waiter, under an instruction counter. With --quiet it prints nothing, so that two runs differ only in the
// number of operations.
#include <pthread.h>
#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "options.hpp"
#include "second_thread.hpp"
#include "team.hpp"

namespace {

using workloads::fail;

// ---- without waiters ----------------------------------------------------------------------------------------------

struct objects {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  sem_t semaphore{};
};

// This function and the next ones are not inlined, so that each loop is the same code for every caller.
[[gnu::noinline]] void signals(objects& o, long iterations) {
  for (long i = 0; i < iterations; ++i) pthread_cond_signal(&o.condition);
}

[[gnu::noinline]] void broadcasts(objects& o, long iterations) {
  for (long i = 0; i < iterations; ++i) pthread_cond_broadcast(&o.condition);
}

[[gnu::noinline]] void waits_and_posts(objects& o, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    sem_wait(&o.semaphore);
    sem_post(&o.semaphore);
  }
}

[[gnu::noinline]] void tries_and_posts(objects& o, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    sem_trywait(&o.semaphore);
    sem_post(&o.semaphore);
  }
}

/// Signals while the mutex is held, like a program that signals inside the critical section.
[[gnu::noinline]] void locked_signals(objects& o, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    pthread_mutex_lock(&o.mutex);
    pthread_cond_signal(&o.condition);
    pthread_mutex_unlock(&o.mutex);
  }
}

struct uncontended {
  const char* name;
  void (*loop)(objects&, long);
};
constexpr uncontended alone[] = {{"signal", signals},
                                 {"broadcast", broadcasts},
                                 {"locked-signal", locked_signals},
                                 {"sem", waits_and_posts},
                                 {"sem-try", tries_and_posts}};

double fastest(void (*loop)(objects&, long), objects& o, long iterations, long batches) {
  using clock = std::chrono::steady_clock;
  loop(o, iterations / 10 + 1);  // warm-up
  double best = std::numeric_limits<double>::infinity();
  for (long batch = 0; batch < batches; ++batch) {
    const clock::time_point start = clock::now();
    loop(o, iterations);
    best = std::min(best, std::chrono::duration<double, std::nano>(clock::now() - start).count());
  }
  return best / static_cast<double>(iterations);
}

// ---- with other threads -------------------------------------------------------------------------------------------

/// Two threads take turns. They share a mutex, and each waits on its own condition variable.
struct alignas(128) table_tennis {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t mine[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
  long turn = 0;
  bool over = false;
};

workloads::team_result turns_by_condition(double seconds, bool inside) {
  static table_tennis t;
  return workloads::run_team(2, {0, seconds}, [inside](long me, workloads::allowance& allowance) {
    const auto other = static_cast<std::size_t>(1 - me);
    for (bool go_on = true; go_on;) {
      pthread_mutex_lock(&t.mutex);
      while (t.turn != me && !t.over) pthread_cond_wait(&t.mine[me], &t.mutex);
      go_on = !t.over && allowance.another();
      t.over = !go_on;
      t.turn = 1 - me;
      if (inside) pthread_cond_signal(&t.mine[other]);
      pthread_mutex_unlock(&t.mutex);
      if (!inside) pthread_cond_signal(&t.mine[other]);
    }
  });
}

workloads::team_result turns_by_semaphore(double seconds) {
  static sem_t mine[2];
  static std::atomic<bool> over;
  sem_init(&mine[0], 0, 1);
  sem_init(&mine[1], 0, 0);
  return workloads::run_team(2, {0, seconds}, [](long me, workloads::allowance& allowance) {
    for (bool go_on = true; go_on;) {
      if (sem_wait(&mine[me]) != 0) continue;
      go_on = !over.load(std::memory_order_relaxed) && allowance.another();
      if (!go_on) over.store(true, std::memory_order_relaxed);
      sem_post(&mine[1 - me]);
    }
  });
}

struct alignas(128) share {
  long operations = 0;
};

workloads::team_result semaphore_as_lock(double seconds, long threads, double& smallest) {
  static sem_t lock;
  std::vector<share> shares(static_cast<std::size_t>(threads));
  alignas(128) static long count = 0;  // deliberately not atomic, to detect a failure of exclusion
  sem_init(&lock, 0, 1);
  const workloads::team_result result =
      workloads::run_team(threads, {0, seconds}, [&shares](long me, workloads::allowance& allowance) {
        while (allowance.another()) {
          while (sem_wait(&lock) != 0) {
          }
          ++count;
          sem_post(&lock);
        }
        shares[static_cast<std::size_t>(me)].operations = allowance.done();
      });
  if (count != result.operations) fail("the semaphore let in more than one thread");
  const auto least = std::min_element(shares.begin(), shares.end(),
                                      [](const share& a, const share& b) { return a.operations < b.operations; });
  smallest = static_cast<double>(least->operations * threads) / static_cast<double>(std::max(count, 1L));
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  long iterations = 1000000, batches = 5, threads = 2;
  double seconds = 0.5;
  std::string what = "signal";
  bool quiet = false, outside = false;
  workloads::options o("wait_cost", "what condition variables and semaphores cost");
  o.text("what", what, "signal, broadcast, locked-signal, sem, sem-try; cond-turns, sem-turns, sem-lock (signal)");
  o.number("iterations", iterations, 1, 1L << 40, "operations in a batch, of the first five (1000000)");
  o.number("batches", batches, 1, 1000000, "batches; the fastest counts (5)");
  o.real("seconds", seconds, 0.01, 3600, "measured time, of the last three (0.5)");
  o.number("threads", threads, 1, 4096, "threads, of sem-lock (2)");
  o.flag("outside", outside, "cond-turns: signal when the mutex is free again");
  o.flag("quiet", quiet, "one batch, no clock, no output");
  o.parse(argc, argv);

  for (const uncontended& u : alone) {
    if (what != u.name) continue;
    static objects of;
    sem_init(&of.semaphore, 0, 1);
    workloads::stop_being_alone();
    if (quiet)
      u.loop(of, iterations);
    else
      std::printf("nanoseconds an operation: %.4f\n", fastest(u.loop, of, iterations, batches));
    return 0;
  }
  workloads::team_result result;
  double smallest = -1;
  if (what == "cond-turns")
    result = turns_by_condition(seconds, !outside);
  else if (what == "sem-turns")
    result = turns_by_semaphore(seconds);
  else if (what == "sem-lock")
    result = semaphore_as_lock(seconds, threads, smallest);
  else
    fail("there is no '" + what + "' (try --help)", 2);
  std::printf("operations a second: %.2f\n", result.rate());
  if (smallest >= 0) std::printf("smallest share: %.4f\n", smallest);
  return 0;
}
