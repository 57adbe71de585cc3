// What the meter says of histories that one can count by hand.
#include "sim/meter.hpp"

#include <gtest/gtest.h>

#include "bench/metrics.hpp"

namespace usher::sim {
namespace {

/// A cycle is a nanosecond; measured from 1000 to 101000.
struct one_lock : testing::Test {
  machine m = [] {
    machine m;
    m.mhz = 1000;
    return m;
  }();
  meter seen{m, 4, 1000, 101000};

  static bool anybody(unsigned) { return true; }
  void visit(unsigned thread, cycles came, cycles in, cycles out, unsigned socket = 0) {
    seen.came(thread, came);
    seen.got_in(thread, socket, in);
    seen.left(out);
    seen.has_unlocked(out, out + 5);
  }
};

TEST_F(one_lock, waits_holds_and_use) {
  visit(0, 2000, 2100, 3100);
  visit(1, 4000, 4300, 6300);
  EXPECT_EQ(seen.history(), (std::vector<std::uint16_t>{0, 1}));
  EXPECT_EQ(seen.waits(anybody).mean, 200);
  EXPECT_EQ(seen.waits(anybody).longest, 300u);
  EXPECT_EQ(seen.waits([](unsigned t) { return t == 0; }).longest, 100u);
  EXPECT_EQ(seen.holds().mean, 1500);
  EXPECT_EQ(seen.unlocks().mean, 5);
  EXPECT_DOUBLE_EQ(seen.utilisation(), 0.03);
  EXPECT_EQ(seen.found_free(), 2u);
  EXPECT_EQ(seen.hand_overs().count, 0u) << "nobody waited";
}

TEST_F(one_lock, before_and_after_does_not_count) {
  visit(0, 100, 200, 300);
  visit(1, 100500, 102000, 103000);
  EXPECT_TRUE(seen.history().empty());
  EXPECT_EQ(seen.waiting_at_end(anybody), 1u);
  EXPECT_EQ(seen.waits(anybody).longest, 500u) << "so long at least";
}

TEST_F(one_lock, hand_over_and_overtaking) {
  seen.came(0, 10000);
  seen.got_in(0, 0, 10000);
  seen.came(1, 11000);
  seen.came(2, 30000);
  seen.left(40000);
  seen.got_in(2, 1, 40200);  // overtakes 1
  seen.left(41000);
  seen.got_in(1, 1, 41400);
  seen.left(42000);
  EXPECT_EQ(seen.bypasses(), 1u);
  EXPECT_EQ(seen.hand_overs().count, 2u);
  EXPECT_EQ(seen.hand_overs().longest, 400u);
  EXPECT_EQ(seen.between_sockets(), 1u);
  EXPECT_EQ(seen.found_free(), 1u);
}

TEST_F(one_lock, who_says_early_that_it_will_come_has_not_waited) {
  seen.came(0, 10000);
  seen.got_in(0, 0, 10100);
  seen.came(1, 50000);  // a thread that only computes says so while 0 is in
  seen.left(40000);
  seen.got_in(1, 0, 50100);
  EXPECT_EQ(seen.found_free(), 2u);
  EXPECT_EQ(seen.hand_overs().count, 0u);
  seen.came(2, 52000);
  seen.came(3, 70000);
  seen.left(60000);
  seen.got_in(3, 0, 70100);  // free while 2 waited
  EXPECT_EQ(seen.found_free(), 3u);
  EXPECT_EQ(seen.hand_overs().count, 1u);
  EXPECT_EQ(seen.hand_overs().longest, 10100u);
}

TEST_F(one_lock, overtaking_within_a_kind) {
  seen.kinds({true, false, false, false});
  seen.came(0, 10000);
  seen.came(1, 20000);
  seen.came(2, 30000);
  seen.got_in(1, 0, 40000);  // of the other kind than 0
  seen.left(40500);
  seen.came(1, 41000);
  seen.came(3, 60000);
  seen.got_in(3, 0, 70000);  // overtakes all, of its kind as well
  seen.left(70500);
  EXPECT_EQ(seen.bypasses(), 2u);
  EXPECT_EQ(seen.bypasses_among(false), 1u);
  EXPECT_EQ(seen.bypasses_among(true), 0u);
}

TEST_F(one_lock, who_comes_in_the_same_moment_is_not_overtaken) {
  seen.came(0, 10000);
  seen.came(1, 14000);
  seen.got_in(1, 0, 15000);
  EXPECT_EQ(seen.bypasses(), 0u);
}

TEST(metrics, mttr_counts_the_others) {
  std::vector<std::uint16_t> cycle;
  for (int i = 0; i < 320; i++) cycle.push_back(std::uint16_t(i % 32));
  EXPECT_EQ(workloads::median_reacquire(cycle), 31);
  EXPECT_EQ(workloads::working_set(cycle, 32), 32);
  const std::vector<std::uint16_t> paper{0, 1, 2, 0, 1, 2, 3, 0, 4};  // ABCABCDAE
  EXPECT_EQ(workloads::working_set(std::span(paper).first(6), 6), 3);
}

}  // namespace
}  // namespace usher::sim
