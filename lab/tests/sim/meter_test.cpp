// Tests the meter's results for histories that can be evaluated by hand.
#include "lab/sim/meter.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "lab/sim/random.hpp"
#include "support/measure/metrics.hpp"

namespace usher::sim {
namespace {

/// A cycle is a nanosecond. The measured time is from 1,000 to 101,000 ns.
struct one_lock : testing::Test {
  machine m = [] {
    machine m;
    m.mhz = 1000;
    return m;
  }();
  meter seen{m, 4, 1000, 101000};

  static bool anybody(unsigned) { return true; }
  void visit(unsigned thread, cycles arrived, cycles in, cycles out, unsigned socket = 0) {
    seen.arrived(thread, arrived);
    seen.admitted(thread, socket, in);
    seen.released(out);
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
  EXPECT_EQ(seen.hand_overs().count, 0u) << "no thread waited";
}

TEST_F(one_lock, before_and_after_does_not_count) {
  visit(0, 100, 200, 300);
  visit(1, 100500, 102000, 103000);
  EXPECT_TRUE(seen.history().empty());
  EXPECT_EQ(seen.waiting_at_end(anybody), 1u);
  EXPECT_EQ(seen.waits(anybody).longest, 500u) << "a lower bound of the wait";
}

TEST_F(one_lock, hand_over_and_overtaking) {
  seen.arrived(0, 10000);
  seen.admitted(0, 0, 10000);
  seen.arrived(1, 11000);
  seen.arrived(2, 30000);
  seen.released(40000);
  seen.admitted(2, 1, 40200);  // thread 2 overtakes thread 1
  seen.released(41000);
  seen.admitted(1, 1, 41400);
  seen.released(42000);
  EXPECT_EQ(seen.bypasses(), 1u);
  EXPECT_EQ(seen.hand_overs().count, 2u);
  EXPECT_EQ(seen.hand_overs().longest, 400u);
  EXPECT_EQ(seen.between_sockets(), 1u);
  EXPECT_EQ(seen.found_free(), 1u);
}

TEST_F(one_lock, who_says_early_that_it_will_come_has_not_waited) {
  seen.arrived(0, 10000);
  seen.admitted(0, 0, 10100);
  seen.arrived(1, 50000);  // a thread that only computes reports this while 0 is in
  seen.released(40000);
  seen.admitted(1, 0, 50100);
  EXPECT_EQ(seen.found_free(), 2u);
  EXPECT_EQ(seen.hand_overs().count, 0u);
  seen.arrived(2, 52000);
  seen.arrived(3, 70000);
  seen.released(60000);
  seen.admitted(3, 0, 70100);  // the lock was free while 2 waited
  EXPECT_EQ(seen.found_free(), 3u);
  EXPECT_EQ(seen.hand_overs().count, 1u);
  EXPECT_EQ(seen.hand_overs().longest, 10100u);
}

TEST_F(one_lock, overtaking_within_a_kind) {
  seen.kinds({true, false, false, false});
  seen.arrived(0, 10000);
  seen.arrived(1, 20000);
  seen.arrived(2, 30000);
  seen.admitted(1, 0, 40000);  // of another kind than 0
  seen.released(40500);
  seen.arrived(1, 41000);
  seen.arrived(3, 60000);
  seen.admitted(3, 0, 70000);  // overtakes all, including those of its kind
  seen.released(70500);
  EXPECT_EQ(seen.bypasses(), 2u);
  EXPECT_EQ(seen.bypasses_among(false), 1u);
  EXPECT_EQ(seen.bypasses_among(true), 0u);
}

TEST_F(one_lock, who_comes_in_the_same_moment_is_not_overtaken) {
  seen.arrived(0, 10000);
  seen.arrived(1, 14000);
  seen.admitted(1, 0, 15000);
  EXPECT_EQ(seen.bypasses(), 0u);
}

TEST(metrics, mttr_counts_the_others) {
  std::vector<std::uint16_t> cycle;
  for (int i = 0; i < 320; i++) cycle.push_back(std::uint16_t(i % 32));
  EXPECT_EQ(support::median_reacquire(cycle), 31);
  EXPECT_EQ(support::working_set(cycle, 32), 32);
  const std::vector<std::uint16_t> paper{0, 1, 2, 0, 1, 2, 3, 0, 4};  // ABCABCDAE
  EXPECT_EQ(support::working_set(std::span(paper).first(6), 6), 3);
}

// ---- bypasses, counted by a scan of all waiters ----

/// Counts bypasses by a simple scan, an earlier and slower algorithm. The meter must give the same counts.
class scan {
 public:
  scan(unsigned threads, std::vector<bool> kinds) : order_(threads, nobody), kinds_(std::move(kinds)) {}
  void arrived(unsigned thread, cycles now) { order_[thread] = now; }
  void doorway(unsigned thread, cycles now) {
    if (order_[thread] != nobody) order_[thread] = now;
  }
  void admitted(unsigned thread, bool measured) {
    const cycles order = std::exchange(order_[thread], nobody);
    if (!measured) return;
    bool any = false, of_my_kind = false;
    for (std::size_t t = 0; t < order_.size(); t++) {
      if (order_[t] == nobody || order_[t] + 5000 >= order) continue;
      any = true;
      of_my_kind = of_my_kind || kind(t) == kind(thread);
    }
    bypasses += any ? 1 : 0;
    among[kind(thread) ? 1 : 0] += of_my_kind ? 1 : 0;
  }
  std::uint64_t bypasses = 0, among[2] = {0, 0};

 private:
  static constexpr cycles nobody = ~cycles{0};
  bool kind(std::size_t t) const { return t < kinds_.size() && kinds_[t]; }
  std::vector<cycles> order_;
  std::vector<bool> kinds_;
};

/// A run of threads that arrive at a lock, are admitted and release it at random. The meter and the scan observe the
/// same events.
struct random_run {
  static constexpr cycles begin = 100000, end = 3000000;
  const machine m = [] {
    machine m;
    m.mhz = 1000;
    return m;
  }();
  const std::uint64_t seed;
  // The order of these declarations is the order in which the members draw random numbers.
  random chance{seed};
  const unsigned threads = 1 + chance.below(seed % 3 == 0 ? 200 : 12);
  const std::vector<bool> kinds = random_kinds();
  const unsigned fair = chance.below(100);  // percentage of admissions in which the eldest is next
  meter seen{m, threads, begin, end};
  scan expected{threads, kinds};
  std::vector<unsigned> away, waiting;
  int inside = -1;
  cycles now = 0;

  explicit random_run(std::uint64_t seed) : seed(seed) {
    seen.kinds(kinds);
    seen.watch(&seen);
    for (unsigned t = 0; t < threads; t++) away.push_back(t);
  }

  std::vector<bool> random_kinds() {
    std::vector<bool> some;
    if (seed % 2 == 0)
      for (unsigned t = 0; t < threads; t++) some.push_back(chance.below(4) == 0);
    return some;
  }

  void run() {
    for (now = 1; now < end + 200000; now += 1 + chance.below(3000)) {
      switch (chance.below(4)) {
        case 0:
        case 1:
          arrive();
          break;
        case 2:
          admit();
          break;
        default:
          release();
      }
      if (!waiting.empty() && chance.below(8) == 0) return_to_doorway();
      if (inside >= 0) doorway(unsigned(inside), now);  // an admitted thread has left the order
    }
  }

  /// A thread arrives at the lock. In half of the cases it gets its place in the order later.
  void arrive() {
    if (away.empty()) return;
    const std::size_t i = chance.below(std::uint32_t(away.size()));
    const unsigned t = away[i];
    away.erase(away.begin() + std::ptrdiff_t(i));
    waiting.push_back(t);
    const cycles arrived = a_little_off();
    seen.arrived(t, arrived);
    expected.arrived(t, arrived);
    if (chance.below(2) != 0) doorway(t, arrived + chance.below(9000));
  }

  void admit() {
    if (inside >= 0 || waiting.empty()) return;
    const std::size_t i = chance.below(100) < fair ? 0 : chance.below(std::uint32_t(waiting.size()));
    const unsigned t = waiting[i];
    waiting.erase(waiting.begin() + std::ptrdiff_t(i));
    const cycles in = a_little_off();
    seen.admitted(t, 0, in);
    expected.admitted(t, in > begin && in <= end);
    inside = int(t);
  }

  void release() {
    if (inside < 0) return;
    seen.released(now);
    away.push_back(unsigned(inside));
    inside = -1;
  }

  /// A waiter gets another place in the order, as under locks whose waiters return to the doorway.
  void return_to_doorway() {
    const unsigned t = waiting[chance.below(std::uint32_t(waiting.size()))];
    doorway(t, a_little_off());
  }

  void doorway(unsigned thread, cycles order) {
    seen.doorway(&seen, thread, order);
    expected.doorway(thread, order);
  }

  /// Returns the present time on the clock of some thread. The clocks of threads differ.
  cycles a_little_off() { return now + chance.below(seed % 5 == 0 ? 20000 : 200); }
};

TEST(bypasses, as_many_as_a_look_at_all_who_wait_finds) {
  std::uint64_t counted = 0, same_kind = 0;
  for (std::uint64_t seed = 1; seed <= 60; seed++) {
    random_run r(seed);
    r.run();
    ASSERT_EQ(r.seen.bypasses(), r.expected.bypasses) << "seed " << seed;
    ASSERT_EQ(r.seen.bypasses_among(false), r.expected.among[0]) << "seed " << seed;
    ASSERT_EQ(r.seen.bypasses_among(true), r.expected.among[1]) << "seed " << seed;
    counted += r.expected.bypasses;
    same_kind += r.expected.among[1];
  }
  EXPECT_GT(counted, 1000u);
  EXPECT_GT(same_kind, 20u);
}

}  // namespace
}  // namespace usher::sim
