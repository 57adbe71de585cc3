// Tests the rules of Solaris' time-sharing class, and that CPUs choose threads by its priorities.
#include "lab/sim/time_sharing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/runtime.hpp"
#include "plain_machine.hpp"

namespace usher::sim {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr cycles ms = 1000000;  // of the plain machine

/// Returns a machine of one socket with `cpus` CPUs and the time-sharing class.
machine with_class(unsigned cpus) {
  machine m = plain_machine();
  m.sockets = 1;
  m.cores = cpus;
  m.os = machine::scheduler{.slice = 10 * ms,
                            .context_switch = 100,
                            .syscall = 50,
                            .wake = 20,
                            .latency_least = 500,
                            .latency_mean = 500,
                            .time_sharing = true,
                            .clock_tick = 10 * ms,
                            .update_ticks = 100,
                            .rechoose_ticks = 3,
                            .first_priority = 59};
  return m;
}

time_share share_of(const time_sharing& c, int priority) {
  time_share s;
  c.begin(s, false);
  s.priority = priority;
  s.left = c.quantum(priority);
  return s;
}

/// Counts the ticks until the CPU has to choose a thread again.
int ticks_of(const time_sharing& c, time_share& s) {
  int n = 1;
  while (!c.tick(s, -1)) n++;
  return n;
}

// ---- rules ----

TEST(time_sharing, has_the_table_of_solaris) {
  struct {
    int priority;
    unsigned quantum;
    int after_quantum, after_sleep, after_waiting;
  } const known[] = {{0, 200, 0, 50, 50},   {9, 200, 0, 50, 50},  {10, 160, 0, 51, 51}, {19, 160, 9, 51, 51},
                     {29, 120, 19, 52, 52}, {34, 80, 24, 53, 53}, {35, 80, 25, 54, 54}, {39, 80, 29, 54, 54},
                     {40, 40, 30, 55, 55},  {44, 40, 34, 55, 55}, {45, 40, 35, 56, 56}, {46, 40, 36, 57, 57},
                     {47, 40, 37, 58, 58},  {48, 40, 38, 58, 58}, {49, 40, 39, 58, 59}, {58, 40, 48, 58, 59},
                     {59, 20, 49, 59, 59}};
  for (const auto& k : known) {
    const time_sharing::level l = time_sharing::of(k.priority);
    EXPECT_EQ(l.quantum_ms, k.quantum) << k.priority;
    EXPECT_EQ(l.after_quantum, k.after_quantum) << k.priority;
    EXPECT_EQ(l.after_sleep, k.after_sleep) << k.priority;
    EXPECT_EQ(l.after_waiting, k.after_waiting) << k.priority;
    EXPECT_EQ(l.most_waits, k.priority == 59 ? 32000u : 0u) << k.priority;
  }
}

TEST(time_sharing, a_thread_that_uses_up_its_quanta_sinks_and_gets_longer_ones) {
  const time_sharing c(with_class(1));
  time_share s;
  c.begin(s, false);
  std::vector<int> ticks, priorities;
  for (int i = 0; i < 8; i++) {
    priorities.push_back(s.priority);
    ticks.push_back(ticks_of(c, s));
    EXPECT_TRUE(c.give_way(s)) << "behind the others";
  }
  EXPECT_EQ(priorities, (std::vector<int>{59, 49, 39, 29, 19, 9, 0, 0}));
  EXPECT_EQ(ticks, (std::vector<int>{2, 4, 8, 12, 16, 20, 20, 20}));
}

TEST(time_sharing, a_quantum_is_rounded_up_to_ticks) {
  machine m = with_class(1);
  m.os->clock_tick = 30 * ms;
  const time_sharing c(m);
  EXPECT_EQ(c.quantum(59), 1);
  EXPECT_EQ(c.quantum(58), 2);
  EXPECT_EQ(c.quantum(0), 7);
}

TEST(time_sharing, a_tick_ends_the_turn_if_a_better_thread_is_queued) {
  const time_sharing c(with_class(1));
  time_share s = share_of(c, 30);
  EXPECT_FALSE(c.tick(s, 30));
  EXPECT_TRUE(c.tick(s, 31));
  EXPECT_EQ(s.priority, 30) << "its quantum is not used up";
  EXPECT_TRUE(c.give_way(s));
  EXPECT_EQ(s.left, 8) << "but the next one is new";
}

TEST(time_sharing, who_is_preempted_between_ticks_keeps_what_is_left) {
  const time_sharing c(with_class(1));
  time_share s = share_of(c, 30);
  c.tick(s, -1);
  EXPECT_FALSE(c.give_way(s));
  EXPECT_EQ(s.left, 7);
}

TEST(time_sharing, an_update_lifts_by_what_a_thread_does) {
  const time_sharing c(with_class(1));
  using at = time_sharing::place;
  for (const auto& [place, lifted, left] :
       {std::tuple{at::has_cpu, 58, 4}, std::tuple{at::queued, 59, 2}, std::tuple{at::sleeps, 59, 1}}) {
    time_share s = share_of(c, 49);
    s.left = 1;
    EXPECT_TRUE(c.update(s, place));
    EXPECT_EQ(s.priority, lifted);
    EXPECT_EQ(s.left, left);
  }
}

TEST(time_sharing, the_highest_priority_waits_for_long) {
  const time_sharing c(with_class(1));
  time_share s = share_of(c, 59);
  for (int i = 0; i < 32000; i++) EXPECT_FALSE(c.update(s, time_sharing::place::queued));
  EXPECT_EQ(s.waited, 32000u);
  s.priority = 0;
  c.wake(s);
  EXPECT_EQ(s.priority, 50) << "what it waited for counts when it is woken";
  EXPECT_EQ(s.left, 4);
  c.wake(s);
  EXPECT_EQ(s.priority, 50) << "once";
}

TEST(time_sharing, other_processes_are_above_the_class) {
  const time_sharing c(with_class(1));
  time_share s;
  c.begin(s, true);
  for (int i = 0; i < 100; i++) EXPECT_FALSE(c.tick(s, 59));
  EXPECT_FALSE(c.update(s, time_sharing::place::queued));
  EXPECT_EQ(s.priority, time_sharing::above);
}

// ---- CPUs ----

/// Computes until the time `until`, and returns the lengths of the thread's turns on a CPU in ms. A gap of more than 1
/// ms ends a turn.
std::vector<double> turns(simulation& s, word& w, cycles until) {
  std::vector<double> lengths;
  cycles begin = s.now(), last = begin;
  while (s.now() < until) {
    s.compute(ms / 10);
    w.load(relaxed);
    if (s.now() - last > ms) {
      lengths.push_back(double(last - begin) / double(ms));
      begin = s.now();
    }
    last = s.now();
  }
  return lengths;
}

TEST(time_sharing, two_threads_of_a_cpu_take_turns_by_quanta) {
  machine m = with_class(1);
  simulation s(m, 1);
  word& w = shared_word(s);
  std::array<std::vector<double>, 2> of;
  for (unsigned t = 0; t < 2; t++) s.add_thread(0, [&, t] { of[t] = turns(s, w, 1500 * ms); });
  s.run();
  for (const auto& lengths : of) {
    ASSERT_GE(lengths.size(), 6u);
    const double wanted[] = {20, 40, 80, 120, 160};
    for (unsigned i = 0; i < 5; i++) EXPECT_NEAR(lengths[i], wanted[i], 1) << i;
  }
  EXPECT_NEAR(of[0][6], 40, 1) << "the update at 1 s has lifted both";
}

TEST(time_sharing, a_woken_thread_preempts_one_of_lower_priority) {
  for (const bool sharing : {true, false}) {
    machine m = with_class(1);
    m.os->time_sharing = sharing;
    m.os->slice = 200 * ms;
    simulation s(m, 1);
    word& w = shared_word(s);
    std::vector<cycles> late;
    s.add_thread(0, [&] {
      s.compute(100);
      while (s.now() < 900 * ms) {
        const cycles begin = s.now();
        s.nap(50 * ms + 7);
        late.push_back(s.now() - begin - 50 * ms);
      }
    });
    s.add_thread(0, [&] { turns(s, w, 1000 * ms); });
    s.run();
    // Both threads begin with priority 59. The second one uses up a quantum before the first one wakes.
    const cycles worst = *std::max_element(late.begin(), late.end());
    if (sharing)
      EXPECT_LT(worst, ms / 5);
    else
      EXPECT_GT(worst, 20 * ms);
  }
}

TEST(time_sharing, who_yields_to_a_lower_priority_keeps_its_cpu) {
  machine m = with_class(1);
  m.os->migrate = false;
  simulation s(m, 1);
  word& w = shared_word(s);
  cycles yielding = 0;
  s.add_thread(0, [&] { turns(s, w, 500 * ms); });
  s.add_thread(
      0,
      [&] {  // when the other one has sunk
        const cycles begin = s.now();
        for (int i = 0; i < 10; i++) s.yield();
        yielding = s.now() - begin;
      },
      false, 300 * ms + 12345);
  s.run();
  EXPECT_LT(yielding, 1000u);
}

TEST(time_sharing, who_yields_to_an_equal_priority_goes_behind_it) {
  machine m = with_class(1);
  m.os->migrate = false;
  simulation s(m, 1);
  std::vector<unsigned> order;
  for (unsigned t = 0; t < 2; t++)
    s.add_thread(0, [&, t] {
      for (int i = 0; i < 3; i++) {
        order.push_back(t);
        s.yield();
      }
    });
  s.run();
  EXPECT_EQ(order, (std::vector<unsigned>{0, 1, 0, 1, 0, 1}));
}

TEST(time_sharing, a_thread_that_slept_for_long_preempts_where_the_priority_is_the_lowest) {
  for (const cycles nap : {10 * ms, 100 * ms}) {
    machine m = with_class(2);
    simulation s(m, 1);
    word& w = shared_word(s);
    std::string after;
    s.add_thread(0, [&] { turns(s, w, 1000 * ms); });
    s.add_thread(
        1,
        [&] {
          s.compute(ms);
          s.nap(nap);
          s.compute(ms);
        },
        false, 300 * ms);
    // Begins on the other thread's CPU while that thread sleeps, and so has a higher priority than the first thread.
    s.add_thread(
        1, [&] { turns(s, w, 1000 * ms); }, false, 302 * ms);
    s.at(302 * ms + nap, [&] { after = s.what_threads_do()[1]; });
    s.run();
    EXPECT_EQ(after.find("CPU 0") != std::string::npos, nap > 30 * ms) << after;
  }
}

TEST(time_sharing, an_idle_cpu_takes_the_best_queued_thread) {
  simulation s(with_class(3), 1);
  word& w = shared_word(s);
  std::vector<std::string> after;
  const auto works_until = [&](cycles time) { return [&s, &w, time] { turns(s, w, time); }; };
  s.add_thread(0, works_until(600 * ms));
  s.add_thread(1, works_until(600 * ms));
  s.add_thread(2, works_until(370 * ms));
  s.add_thread(1, works_until(600 * ms));                       // these two sink more slowly than the first one
  s.add_thread(0, works_until(600 * ms), false, 350 * ms + 1);  // preempts the first one
  s.at(372 * ms, [&] { after = s.what_threads_do(); });
  s.run();
  ASSERT_EQ(after.size(), 5u);
  EXPECT_NE(after[0].find("without a CPU"), std::string::npos) << after[0];
  EXPECT_NE(after[1].find("works, CPU"), std::string::npos) << after[1];
  EXPECT_NE(after[3].find("works, CPU"), std::string::npos) << after[3];
}

TEST(time_sharing, the_clock_does_not_hide_a_deadlock) {
  simulation s(with_class(2), 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] { simulated::park(w, 0u, every_sleeper); });
  EXPECT_THROW(s.run(), deadlock);
}

TEST(time_sharing, a_sleep_lasts_at_least_a_tick_where_the_machine_says_so) {
  for (const cycles least : {cycles{0}, 10 * ms}) {
    machine m = with_class(1);
    m.os->least_sleep = least;
    simulation s(m, 1);
    word& w = shared_word(s);
    std::array<cycles, 3> took{};
    s.add_thread(0, [&] {
      const auto timed = [&](auto&& sleep) {
        const cycles begin = s.now();
        sleep();
        return s.now() - begin;
      };
      took = {timed([&] { s.nap(5000); }), timed([&] { simulated::park_for(w, 0u, every_sleeper, 5000); }),
              timed([&] { s.nap(20 * ms); })};
    });
    s.run();
    EXPECT_NEAR(double(took[0]), double(std::max<cycles>(5000, least)), 1000);
    EXPECT_NEAR(double(took[1]), double(std::max<cycles>(5000, least)), 2000);
    EXPECT_NEAR(double(took[2]), double(20 * ms), 1000);
  }
}

TEST(time_sharing, a_run_is_repeated_exactly) {
  const machine m = known_machine("t5");
  point p;
  p.workload = "stress-latency";
  p.lock = "ttas-spin";
  p.threads = 160;
  p.seed = 3;
  p.run_ns = 40000000;
  const result once = run_point(m, p), again = run_point(m, p);
  EXPECT_EQ(once.operations, again.operations);
  EXPECT_EQ(once.involuntary, again.involuntary);
  p.seed = 4;
  EXPECT_NE(run_point(m, p).operations, once.operations);
}

/// With no more threads than CPUs no thread is queued, and the class changes nothing.
TEST(time_sharing, does_nothing_while_each_thread_has_a_cpu) {
  point p;
  p.workload = "stress-latency";
  p.lock = "mcscr";
  p.threads = 100;
  p.run_ns = 60000000;
  const result with = run_point(known_machine("t5"), p);
  const result without = run_point(known_machine("t5", {{"scheduler.time_sharing", "false"}}), p);
  EXPECT_EQ(with.operations, without.operations);
  EXPECT_EQ(with.events, without.events);
}

}  // namespace
}  // namespace usher::sim
