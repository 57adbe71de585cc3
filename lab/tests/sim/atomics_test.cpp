// Tests of atomic operations that are executed at a line's home (far atomics), and of waiters that monitor a line.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/runtime.hpp"
#include "plain_machine.hpp"

namespace usher::sim {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

machine far() {
  machine m = plain_machine();
  m.far_atomics = true;
  m.home = 0;  // the home of all lines is the first socket
  return m;
}

/// Returns how long `what` takes on the core `core`, after `before` has run on the core `earlier`.
cycles time_of(const machine& m, unsigned earlier, const std::function<void(word&)>& before, unsigned core,
               const std::function<void(word&)>& what) {
  simulation s(m, 1);
  word& w = shared_word(s);
  cycles took = 0;
  s.add_thread(earlier, [&] { before(w); });
  s.add_thread(core, [&] {
    s.compute(50000);
    const cycles begin = s.now();
    what(w);
    took = s.now() - begin;
  });
  s.run();
  return took;
}

void adds(word& w) {
  w.fetch_add(1, relaxed);
}
void writes(word& w) {
  w.store(1, relaxed);
}
void reads(word& w) {
  w.load(relaxed);
}

TEST(far_atomics, are_executed_at_the_home) {
  const machine m = far();
  EXPECT_EQ(time_of(m, 0, adds, 1, adds), 60u + 10) << "the home has the line: a round trip, and the operation";
  EXPECT_EQ(time_of(m, 0, adds, 2, adds), 600u + 10) << "from the other socket";
  EXPECT_EQ(time_of(m, 0, writes, 1, adds), 60u + 60 + 10) << "the home recalls the line from its owner";
  EXPECT_EQ(time_of(m, 2, writes, 1, adds), 60u + 600 + 10) << "the owner is in the other socket";
  EXPECT_EQ(time_of(m, 0, adds, 1, reads), 100u) << "a read gets the line from the home, not from the last adder";
  EXPECT_EQ(time_of(m, 0, adds, 2, reads), 1000u);
}

TEST(far_atomics, are_near_if_the_core_owns_the_line) {
  const auto twice = [](word& w) {
    w.store(1, relaxed);
    w.fetch_add(1, relaxed);
    w.fetch_add(1, relaxed);
  };
  machine m = far();
  const cycles took = time_of(
      m, 1, [](word&) {}, 0, twice);
  m.far_atomics = false;
  EXPECT_EQ(took, time_of(
                      m, 1, [](word&) {}, 0, twice));
}

TEST(far_atomics, leave_no_copy) {
  const auto reads_after_adding = [](word& w) {
    w.fetch_add(1, relaxed);
    w.load(relaxed);
  };
  EXPECT_EQ(time_of(far(), 0, adds, 1, reads_after_adding), 60u + 10 + 100);
  const auto reads_after_failing = [](word& w) {
    std::uint32_t expected = 7;
    EXPECT_FALSE(w.compare_exchange_strong(expected, 8, relaxed, relaxed));
    EXPECT_EQ(w.load(relaxed), 1u);
  };
  EXPECT_EQ(time_of(far(), 0, adds, 1, reads_after_failing), 60u + 10 + 100);
}

TEST(far_atomics, of_many_cores_follow_one_another_at_the_home) {
  const auto last_of = [](machine m) {
    m.cores = 16;
    simulation s(m, 1);
    word& w = shared_word(s);
    cycles last = 0;
    for (unsigned i = 0; i < 16; i++)
      s.add_thread(i, [&] {
        if (s.thread() == 0) w.fetch_add(0, relaxed);
        s.compute(50000 - s.now());
        w.fetch_add(1, relaxed);
        last = std::max(last, s.now() - 50000);
      });
    s.run();
    EXPECT_EQ(w.peek(), 16u);
    return last;
  };
  EXPECT_EQ(last_of(far()), 60u + 16 * 10);
  machine near = far();
  near.far_atomics = false;
  EXPECT_GT(last_of(near), 15u * 100) << "the line travels from core to core";
}

TEST(far_atomics, tell_watchers) {
  simulation s(far(), 1);
  word& w = shared_word(s);
  cycles written = 0, seen = 0;
  s.add_thread(1, [&] {
    simulated::await(
        w, [](std::uint32_t v) { return v == 2; }, relaxed, pacing::polling);
    seen = s.now();
  });
  s.add_thread(0, [&] {
    s.compute(10000);
    w.fetch_add(1, relaxed);
    s.compute(1000);
    w.fetch_add(1, relaxed);
    written = s.now();
  });
  s.run();
  EXPECT_EQ(seen, written + 31)
      << "the way to the home and back is 100, and the writer has its answer 30 after the write";
}

/// Returns the time from a write until a waiter that monitors the word's line continues.
cycles seen_after(cycles wake, std::uint64_t seed) {
  machine m = plain_machine();
  m.monitor_wake = wake;
  m.poll_period = 500;
  simulation s(m, seed);
  word& w = shared_word(s);
  cycles written = 0, seen = 0;
  s.add_thread(1, [&] {
    EXPECT_TRUE(simulated::await(
        w, [](std::uint32_t v) { return v == 1; }, relaxed, pacing::within<pacing::by::monitoring>{1000000}));
    seen = s.now();
  });
  s.add_thread(0, [&] {
    s.compute(10000);
    w.fetch_add(1, relaxed);
    written = s.now();
  });
  s.run();
  return seen - written;
}

TEST(monitor, a_waiter_goes_on_a_constant_time_after_the_write) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    EXPECT_EQ(seen_after(300, seed), seen_after(300, 1)) << "the waiter has no loop";
    EXPECT_EQ(seen_after(350, seed), seen_after(300, 1) + 50);
  }
  EXPECT_NE(seen_after(0, 1), seen_after(0, 2)) << "without the key the waiter polls, at a random moment of its loop";
}

TEST(monitor, a_waiter_gives_up_in_time) {
  machine m = plain_machine();
  m.monitor_wake = 40;
  simulation s(m, 1);
  word& w = shared_word(s);
  s.add_thread(1, [&] {
    const cycles begin = s.now();
    const auto never = [](std::uint32_t v) { return v == 1; };
    EXPECT_FALSE(simulated::await(w, never, relaxed, pacing::within<pacing::by::monitoring>{5000}));
    EXPECT_NEAR(double(s.now() - begin), 5000, 400);
    EXPECT_FALSE(simulated::await(w, never, relaxed, pacing::within<pacing::by::monitoring>{0}));
  });
  s.run();
}

// The effect on a lock's throughput, on a present-day machine.
double throughput(const char* lock, unsigned threads, const std::map<std::string, std::string>& changes) {
  point p;
  p.workload = "mutexbench";
  p.lock = lock;
  p.threads = threads;
  p.seed = 1;
  p.run_ns = 300000;
  return run_point(known_machine("graviton3", changes), p).throughput;
}

TEST(far_atomics, change_a_locks_throughput_on_a_mesh) {
  EXPECT_NE(throughput("ticket-spin", 64, {{"coherence.atomics", "far"}}), throughput("ticket-spin", 64, {}));
  EXPECT_NE(throughput("mcs-mwait", 4, {{"coherence.monitor_wake", "50"}}), throughput("mcs-mwait", 4, {}));
  EXPECT_EQ(throughput("mcs-spin", 4, {{"coherence.monitor_wake", "50"}}), throughput("mcs-spin", 4, {}));
}

}  // namespace
}  // namespace usher::sim
