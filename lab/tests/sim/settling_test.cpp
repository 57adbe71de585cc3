// Tests the decision, from the distribution of operations over time, whether a run had settled. Also tests that threads
// begin one after another.
#include "lab/sim/settling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/random.hpp"

namespace usher::sim {
namespace {

constexpr std::uint64_t time = 2000000;

/// Counts operations that come in groups of `burst`. The mean time between groups is `first` in the first half of the
/// measured time and `second` in the second half. The times are constant if the seed is 0, otherwise random.
settling seen(std::uint64_t first, std::uint64_t second, std::uint64_t seed = 0, unsigned burst = 1) {
  settling s(time, 4);
  random chance(seed);
  for (std::uint64_t now = 1; now <= time;) {
    for (unsigned i = 0; i < burst; i++) s.note(now);
    const std::uint64_t gap = now <= time / 2 ? first : second;
    now += std::max<std::uint64_t>(1, seed == 0 ? gap : chance.exponential(gap));
  }
  return s;
}

TEST(settling, halves) {
  const settling s = seen(1000, 500);
  EXPECT_EQ(s.first_half(), 1000u);
  EXPECT_EQ(s.second_half(), 2000u);
  EXPECT_FALSE(s.settled());
  EXPECT_TRUE(seen(1000, 1000).settled());
}

TEST(settling, evenly_spread_operations_tell_small_differences) {
  EXPECT_TRUE(seen(1000, 950).settled()) << "not more than a tenth";
  EXPECT_FALSE(seen(1000, 850).settled());
  EXPECT_FALSE(seen(20000, 10000).settled()) << "few, but regular";
}

TEST(settling, noise_is_no_difference) {
  unsigned told_apart = 0, missed = 0;
  for (std::uint64_t seed = 1; seed <= 200; seed++) {
    for (const std::uint64_t gap : {500u, 5000u, 50000u}) {
      told_apart += !seen(gap, gap, seed).settled();
      told_apart += !seen(10 * gap, 10 * gap, seed, 20).settled() && gap < 50000;
    }
    missed += seen(500, 400, seed).settled();  // 2000 and 2500 operations, seven standard errors apart
    missed += seen(1000, 200, seed, 3).settled();
  }
  EXPECT_LE(told_apart, 2u) << "of 1000";
  EXPECT_LE(missed, 20u) << "of 400";
}

/// Like seen(), but the mean interval changes at the time `when`.
settling changed_at(std::uint64_t when, std::uint64_t before, std::uint64_t after, std::uint64_t seed) {
  settling s(time, 4);
  random chance(seed);
  for (std::uint64_t now = 1; now <= time;
       now += std::max<std::uint64_t>(1, chance.exponential(now <= when ? before : after)))
    s.note(now);
  return s;
}

TEST(settling, a_change_of_state_is_seen_wherever_it_is) {
  for (std::uint64_t seed = 1; seed <= 20; seed++)
    for (const unsigned tenths : {1, 2, 3, 5, 7, 9}) {
      EXPECT_FALSE(changed_at(time / 10 * tenths, 200, 7000, seed).settled()) << tenths;
      EXPECT_FALSE(changed_at(time / 10 * tenths, 7000, 200, seed).settled()) << tenths;
      EXPECT_TRUE(changed_at(time / 10 * tenths, 200, 200, seed).settled()) << tenths;
    }
  EXPECT_FALSE(changed_at(time / 20 * 3 + time / 40, 200, 7000, 1).settled()) << "in the middle of a part";
}

TEST(settling, too_little_to_tell) {
  EXPECT_FALSE(settling(time, 4).settled());
  EXPECT_FALSE(seen(500000, 500000).settled());
  settling many(time, 500);
  for (std::uint64_t now = 5000; now <= time; now += 5000) many.note(now);
  EXPECT_FALSE(many.settled()) << "400 operations of 500 threads";
}

TEST(settling, clocks_of_threads_that_are_a_little_behind) {
  settling s(time, 4);
  for (std::uint64_t now = 2000; now <= time; now += 500) {
    s.note(now);
    s.note(now - 1900);
  }
  EXPECT_NEAR(double(s.first_half()), double(s.second_half()), 20);
  EXPECT_TRUE(s.settled());
}

// ---- runs ----

point on_mutexbench(const char* lock, unsigned threads) {
  point p;
  p.workload = "mutexbench";
  p.lock = lock;
  p.threads = threads;
  p.run_ns = 1000000;
  return p;
}

TEST(start, what_comes_before_grows_with_the_threads) {
  point p = on_mutexbench("ticket-spin", 1);
  EXPECT_EQ(usual_warm_up_ns(p), 200000u);
  p.threads = 72;
  EXPECT_EQ(usual_warm_up_ns(p), 72u * 20000);
  EXPECT_EQ(run_point(known_machine("x5-2"), p).warm_up_ns, 72u * 20000);
  p.together = true;
  EXPECT_EQ(usual_warm_up_ns(p), 200000u);
}

TEST(start, all_are_there_when_it_is_measured) {
  const result r = run_point(known_machine("x5-2"), on_mutexbench("ticket-spin", 72));
  for (const std::uint64_t n : r.operations) EXPECT_GT(n, 0u);
  EXPECT_TRUE(r.settled);
  EXPECT_NEAR((r.first_half + r.second_half) / 2, r.throughput, 1e-9);
}

TEST(start, a_run_that_is_measured_while_threads_still_come_has_not_settled) {
  point p = on_mutexbench("ticket-spin", 72);
  p.warm_up_ns = 100000;
  EXPECT_FALSE(run_point(known_machine("x5-2"), p).settled);
}

TEST(start, together_is_another_start) {
  point p = on_mutexbench("ticket-spin", 20);
  const result one_by_one = run_point(known_machine("x5-2"), p);
  p.together = true;
  EXPECT_NE(run_point(known_machine("x5-2"), p).operations, one_by_one.operations);
}

TEST(start, a_storm_at_the_beginning_is_said) {
  // 512 threads arrive at once at a lock that is entered by a loop of compare-and-swap. While one thread succeeds, each
  // of the others makes a failed attempt.
  point p = on_mutexbench("qspinlock-spin", 512);
  const result one_by_one = run_point(known_machine("t7-2"), p);
  EXPECT_GT(one_by_one.throughput, 1);
  EXPECT_TRUE(one_by_one.settled);
  p.together = true;
  const result at_once = run_point(known_machine("t7-2"), p);
  ASSERT_LT(at_once.throughput, 0.1);
  EXPECT_FALSE(at_once.settled) << "both halves may be alike, but most threads have had no turn";
}

TEST(start, what_is_measured_begins_after_the_last_has_come) {
  point p = on_mutexbench("ticket-spin", 20);
  p.seed = 103;  // this seed is late by chance
  EXPECT_GT(usual_warm_up_ns(p), 20u * 20000);
  EXPECT_TRUE(run_point(known_machine("x5-2"), p).settled);
  p.warm_up_ns = 20u * 20000;
  EXPECT_FALSE(run_point(known_machine("x5-2"), p).settled) << "threads still arrived";
}

TEST(placement, fewer_cpus_than_threads) {
  const machine m = known_machine("x5-2");
  point p = on_mutexbench("mcs-spin", 4);
  EXPECT_EQ(usual_run_ns(m, p), 2000000u);
  p.placement = "0..3";
  EXPECT_EQ(usual_run_ns(m, p), 2000000u);
  p.placement = "0,0,1,1,2";
  EXPECT_EQ(usual_run_ns(m, p), 50u * 3000000) << "two CPUs for four threads";
  p.placement = "0";
  EXPECT_EQ(usual_run_ns(m, p), 100u * 3000000);

  p.pinned = true;
  const result alone = run_point(m, p);
  EXPECT_EQ(alone.sockets, std::vector<unsigned>(4, 0));
  EXPECT_EQ(std::count(alone.operations.begin(), alone.operations.end(), 0u), 3)
      << "a millisecond is less than a slice";
  EXPECT_FALSE(alone.settled);
  EXPECT_NEAR(alone.cpus_used, 1, 0.01);

  p.run_ns = usual_run_ns(m, p);
  const result all = run_point(m, p);
  for (const std::uint64_t n : all.operations) EXPECT_GT(n, 0u);
  EXPECT_NEAR(all.cpus_used, 1, 0.01);

  p.pinned = false;
  p.run_ns = 2000000;
  EXPECT_GT(run_point(m, p).cpus_used, 1.5) << "a thread that finds the CPU busy takes an idle one";
}

/// Returns the sockets on which the point's threads begin.
std::vector<unsigned> sockets_of(const machine& m, const std::string& placement, std::uint64_t seed, unsigned threads) {
  point p = on_mutexbench("ticket-spin", threads);
  p.placement = placement;
  p.seed = seed;
  p.warm_up_ns = p.run_ns = 1000;
  return run_point(m, p).sockets;
}

TEST(placement, at_random) {
  const machine m = known_machine("x5-2");
  std::set<std::vector<unsigned>> different;
  unsigned second_socket = 0;
  for (std::uint64_t seed = 1; seed <= 20; seed++) {
    const std::vector<unsigned> once = sockets_of(m, "random", seed, 8);
    EXPECT_EQ(once, sockets_of(m, "random", seed, 8)) << "a seed determines its placement: " << seed;
    different.insert(once);
    second_socket += unsigned(std::count(once.begin(), once.end(), 1u));
  }
  EXPECT_GT(different.size(), 15u);
  EXPECT_NEAR(second_socket, 80, 25) << "half of 160 threads";

  // Each CPU has one thread if there are as many threads as CPUs.
  const std::vector<unsigned> all = sockets_of(m, "random", 7, m.cpus());
  EXPECT_EQ(std::count(all.begin(), all.end(), 0u), m.cpus() / 2);
  point p = on_mutexbench("ticket-spin", m.cpus());
  p.placement = "random";
  EXPECT_EQ(usual_run_ns(m, p), 2000000u) << "no thread waits for a CPU";
}

TEST(placement, of_cpus_that_there_are_not) {
  EXPECT_EQ(read_placement("4294967295").cpus, std::vector<unsigned>{4294967295u});
  EXPECT_EQ(read_placement("4294967294..4294967295,3").cpus, (std::vector<unsigned>{4294967294u, 4294967295u, 3}));
  EXPECT_THROW(read_placement("0..4294967295"), std::runtime_error);
  point p = on_mutexbench("ticket-spin", 4);
  p.placement = "4294967295";
  EXPECT_THROW(check_point(known_machine("x5-2"), p), std::runtime_error);
}

}  // namespace
}  // namespace usher::sim
