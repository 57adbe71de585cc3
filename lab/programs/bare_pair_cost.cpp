// The cost of one uncontended lock and unlock in a bare loop, without pthread calls (Fairlocks, §6.1, Table 3).
// Compares test-and-set, whose unlock is a plain store, with fairlock, whose unlock is a compare-and-swap, in
// interleaved rounds. The ratio is that of the fastest rounds, because noise on a shared machine only adds time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <vector>

#include "options.hpp"
#include "usher/locks/fairlock.hpp"
#include "usher/locks/tas.hpp"
#include "usher/platform/native.hpp"

namespace {

using spinning = usher::waiting<usher::native, usher::waiting_kind::spin>;

/// Not inlined, so that the loops of both locks are compiled alike.
template <template <class, class> class Lock>
[[gnu::noinline]] void pairs(long iterations) {
  alignas(128) static Lock<usher::native, spinning> lock;
  for (; iterations > 0; --iterations) {
    lock.lock();
    asm volatile("" : : : "memory");  // keeps the two calls apart
    lock.unlock();
  }
}

double nanoseconds_a_pair(void (*run)(long), long iterations) {
  using clock = std::chrono::steady_clock;
  const clock::time_point start = clock::now();
  run(iterations);
  return std::chrono::duration<double, std::nano>(clock::now() - start).count() / static_cast<double>(iterations);
}

}  // namespace

int main(int argc, char** argv) {
  long iterations = 1000000, rounds = 31;
  workloads::options o("bare_pair_cost", "nanoseconds of an uncontended lock and unlock: tas-spin and fairlock-spin");
  o.number("iterations", iterations, 1, 1L << 40, "pairs in a round (1000000)");
  o.number("rounds", rounds, 1, 1000000, "rounds of each lock, interleaved (31)");
  o.parse(argc, argv);

  void (*const tas)(long) = pairs<usher::tas>;
  void (*const fairlock)(long) = pairs<usher::fairlock>;
  double best_tas = std::numeric_limits<double>::infinity(), best_fairlock = best_tas;
  std::vector<double> ratios;
  for (auto* const run : {tas, fairlock}) run(iterations / 10 + 1);  // warm-up
  for (long round = 0; round < rounds; ++round) {
    const double t = nanoseconds_a_pair(tas, iterations), f = nanoseconds_a_pair(fairlock, iterations);
    best_tas = std::min(best_tas, t);
    best_fairlock = std::min(best_fairlock, f);
    ratios.push_back(f / t);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto quartile = [&ratios](std::size_t n) { return ratios[(ratios.size() - 1) * n / 4]; };
  std::printf("tas-spin: %.3f ns a pair\nfairlock-spin: %.3f ns a pair\n", best_tas, best_fairlock);
  std::printf("fairlock-spin / tas-spin: %.3f (median of the rounds %.3f, half of them from %.3f to %.3f)\n",
              best_fairlock / best_tas, quartile(2), quartile(1), quartile(3));
  return 0;
}
