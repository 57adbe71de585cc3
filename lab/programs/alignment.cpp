// MutexBench with two threads ("TWA", section 4.2: each thread executes some PRNG steps in the critical section and a
// random number of steps outside). The mutex is at each 8-byte offset in a cache line in turn. A mutex of 40 bytes
// spans two lines at four of the eight offsets; all writes of a hand-over should go to one line.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

#include "options.hpp"

namespace {

constexpr std::size_t line = 64, step = 8;

/// Memory for a mutex, with two unused lines before and behind, so that no other data shares the lines of the mutex.
struct alignas(2 * line) room {
  unsigned char before[2 * line];
  unsigned char bytes[2 * line];
  unsigned char behind[2 * line];
};

std::uint32_t next(std::uint32_t x) {
  x ^= x << 13;
  x ^= x >> 17;
  return x ^ x << 5;
}

/// Returns the number of acquisitions by both threads per millisecond.
double run(pthread_mutex_t& mutex, long inside, long outside, double seconds) {
  std::atomic<bool> go{false}, over{false};
  std::atomic<std::uint64_t> all{0};
  const auto thread = [&](std::uint32_t seed) {
    std::uint32_t x = seed;
    std::uint64_t done = 0;
    while (!go.load(std::memory_order_acquire)) {
    }
    while (!over.load(std::memory_order_relaxed)) {
      pthread_mutex_lock(&mutex);
      for (long i = 0; i < inside; i++) x = next(x);
      pthread_mutex_unlock(&mutex);
      done++;
      for (long i = outside == 0 ? 0 : long(x % std::uint32_t(outside)); i > 0; i--) x = next(x);
    }
    all += done + (x == 0);  // xorshift is never 0; this use keeps the loops from being optimised away
  };
  std::thread a(thread, 1), b(thread, 2);
  const auto begin = std::chrono::steady_clock::now();
  go.store(true, std::memory_order_release);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));  // the measured time
  over.store(true, std::memory_order_relaxed);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  a.join();
  b.join();
  return double(all.load()) / took.count();
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0.2;
  long rounds = 5, inside = 4, outside = 200;
  workloads::options o("alignment",
                       "acquisitions a millisecond of two threads, with the mutex at each place in a cache line");
  o.real("seconds", seconds, 0.001, 1000, "of a run (0.2)");
  o.number("rounds", rounds, 1, 10000, "interleaved; the medians are shown (5)");
  o.number("inside", inside, 0, 1000000, "PRNG steps with the mutex (4)");
  o.number("outside", outside, 0, 1000000, "at most so many without it (200)");
  o.parse(argc, argv);

  static room rooms[line / step];
  std::vector<std::vector<double>> seen(line / step);
  for (std::size_t i = 0; i < line / step; i++)
    ::new (rooms[i].bytes + i * step) pthread_mutex_t(PTHREAD_MUTEX_INITIALIZER);
  for (long r = 0; r < rounds; r++)
    for (std::size_t i = 0; i < line / step; i++)
      seen[i].push_back(
          run(*std::launder(reinterpret_cast<pthread_mutex_t*>(rooms[i].bytes + i * step)), inside, outside, seconds));
  for (std::size_t i = 0; i < line / step; i++) {
    std::sort(seen[i].begin(), seen[i].end());
    std::printf("%zu %.1f %.1f %.1f\n", i * step, seen[i].front(), seen[i][seen[i].size() / 2], seen[i].back());
  }
}
