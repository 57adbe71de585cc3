// Measures the cost of an uncontended pthread_mutex_lock() or pthread_mutex_trylock() with the following
// pthread_mutex_unlock(). The program runs without Usher, under the preload library, and under an instruction counter.
// With --quiet it prints nothing, so that two runs differ only in the number of iterations.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "mutex_kind.hpp"
#include "options.hpp"
#include "second_thread.hpp"

namespace {

using workloads::fail;

/// Not inlined, so that the loop is the same code for every kind and every caller.
[[gnu::noinline]] void pairs(pthread_mutex_t& mutex, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  }
}

[[gnu::noinline]] void pairs_by_trylock(pthread_mutex_t& mutex, long iterations) {
  for (long i = 0; i < iterations; ++i) {
    if (pthread_mutex_trylock(&mutex) != 0) fail("a free mutex is busy");
    pthread_mutex_unlock(&mutex);
  }
}

}  // namespace

int main(int argc, char** argv) {
  long iterations = 1000000, batches = 5;
  std::string kind = "normal";
  bool quiet = false, alone = false, trylock = false;
  workloads::options o("pair_cost", "nanoseconds of an uncontended pthread lock, or trylock, and unlock");
  o.number("iterations", iterations, 1, 1L << 40, "pairs in a batch (1000000)");
  o.number("batches", batches, 1, 1000000, "batches; the fastest counts (5)");
  o.text("kind", kind, "normal, recursive, errorcheck or adaptive (normal)");
  o.flag("alone", alone, "in a process that never had a second thread, where the C library saves the atomics");
  o.flag("trylock", trylock, "pthread_mutex_trylock in the place of pthread_mutex_lock");
  o.flag("quiet", quiet, "one batch, no clock, no output");
  o.parse(argc, argv);

  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  workloads::initialise(mutex, kind);
  if (!alone) workloads::stop_being_alone();
  const auto run = trylock ? pairs_by_trylock : pairs;
  if (quiet) {
    run(mutex, iterations);
    return 0;
  }
  using clock = std::chrono::steady_clock;
  run(mutex, iterations / 10 + 1);  // warm-up
  double best = std::numeric_limits<double>::infinity();
  for (long batch = 0; batch < batches; ++batch) {
    const clock::time_point start = clock::now();
    run(mutex, iterations);
    best = std::min(best, std::chrono::duration<double, std::nano>(clock::now() - start).count());
  }
  std::printf("nanoseconds a pair: %.4f\n", best / static_cast<double>(iterations));
  return 0;
}
