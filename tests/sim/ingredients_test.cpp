// What breaks when an ingredient of the model is left out: MutexBench on the X5-2, as in docs/simulation.md. A claim that
// rests on an ingredient shows here.
#include <gtest/gtest.h>

#include "sim/point.hpp"

namespace usher::sim {
namespace {

double throughput(const machine& m, const char* lock, unsigned threads) {
  double sum = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    point p;
    p.workload = "mutexbench";
    p.lock = lock;
    p.threads = threads;
    p.seed = seed;
    p.run_ns = 1000000;
    p.watch = false;
    sum += run_point(m, p).throughput;
  }
  return sum / 3;
}

machine x5_2() {
  return read_machine(USHER_MACHINES "/x5-2.toml");
}

TEST(ingredients, all_in) {
  const machine m = x5_2();
  EXPECT_GT(throughput(m, "ticket-spin", 5), throughput(m, "twa-spin", 5) * 0.98);
  EXPECT_LT(throughput(m, "ticket-spin", 72), 0.8 * throughput(m, "ticket-spin", 5)) << "ticket fails to scale";
  EXPECT_LT(throughput(m, "ticket-spin", 36), throughput(m, "mcs-spin", 36));
  EXPECT_GT(throughput(m, "twa-spin", 72), throughput(m, "mcs-spin", 72));
}

TEST(ingredients, without_queued_refetches_and_a_cost_for_each_sharer_ticket_is_flat) {
  machine m = x5_2();
  m.per_read = 0;
  m.per_sharer = 0;
  EXPECT_GT(throughput(m, "ticket-spin", 72), 0.93 * throughput(m, "ticket-spin", 5));
}

TEST(ingredients, without_queued_refetches_ticket_keeps_up_with_mcs) {
  machine m = x5_2();
  m.per_read = 0;
  EXPECT_GT(throughput(m, "ticket-spin", 72), 0.95 * throughput(m, "mcs-spin", 72));
  EXPECT_LT(throughput(x5_2(), "ticket-spin", 72), 0.85 * throughput(x5_2(), "mcs-spin", 72))
      << "with them it does not";
}

TEST(ingredients, without_jitter_threads_run_in_lock_step) {
  machine m = x5_2();
  m.jitter = 0;
  EXPECT_GT(throughput(m, "mcs-spin", 24), 1.05 * throughput(x5_2(), "mcs-spin", 24));
}

}  // namespace
}  // namespace usher::sim
