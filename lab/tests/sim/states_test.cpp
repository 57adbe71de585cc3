// Tests locks with two stable states. In a FIFO lock whose waiters park, either all waiters are awake or all are
// asleep. Locks that restrict concurrency alternate between these states. A cohort lock stays within one NUMA node for
// long or not, depending on the order in which it releases its two locks.
//
// Let T be the number of threads, h the time of a hand-over between awake threads, L the time of a hand-over to a
// sleeping thread (wake-up, system calls, context switch), and S the spin budget. No thread sleeps if (T-1)·h < S. Once
// all sleep, they continue to sleep if (T-1)·L > S.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/world.hpp"

namespace usher::sim {
namespace {

constexpr std::uint64_t us = 1000, ms = 1000 * us;  // in ns

constexpr std::pair<const char*, const char*> no_interruptions[] = {{"scheduler.tick_period", "0"},
                                                                    {"scheduler.tick", "0"},
                                                                    {"scheduler.daemon_period", "0"},
                                                                    {"scheduler.daemon", "0"}};

/// Returns the X5-2 without interruptions, which would end the state in which no thread sleeps.
machine undisturbed(std::map<std::string, std::string> changes = {}) {
  changes.insert(std::begin(no_interruptions), std::end(no_interruptions));
  return known_machine("x5-2", changes);
}

/// Returns a machine whose CPUs wake as quickly from a long sleep as from a short one.
machine undisturbed_without_deep_sleep(std::map<std::string, std::string> changes = {}) {
  changes["scheduler.idle_after"] = changes["scheduler.idle_exit"] = "[]";
  return undisturbed(changes);
}

/// The parameters of a run of MutexBench's loop. One operation of the run takes stall_ns longer than the others.
struct loop {
  const char* lock;
  unsigned threads;
  std::uint64_t run_ns;
  std::uint64_t stall_ns = 0, stalls_at = ms;
  std::uint64_t spin_ns = 5555;
  std::uint64_t seed = 1;
};

/// The counts of a run, for each tenth of a millisecond.
struct history {
  static constexpr std::uint64_t part_ns = ms / 10;

  std::vector<std::uint64_t> operations, sleeps;

  static double sum(const std::vector<std::uint64_t>& of, std::uint64_t from, std::uint64_t to) {
    std::uint64_t all = 0;
    for (std::size_t i = from / part_ns; i < to / part_ns; i++) all += of.at(i);
    return static_cast<double>(all);
  }
  /// Returns the rate in million operations a second.
  double rate(std::uint64_t from, std::uint64_t to) const {
    return sum(operations, from, to) * 1000 / static_cast<double>(to - from);
  }
  double sleeps_an_operation(std::uint64_t from, std::uint64_t to) const {
    return sum(sleeps, from, to) / sum(operations, from, to);
  }
  /// Returns the first tenth of a millisecond after `from` in which no thread sleeps; if there is none, the end.
  std::uint64_t awake_again(std::uint64_t from) const {
    std::size_t i = from / part_ns;
    while (i < sleeps.size() && (operations[i] == 0 || sleeps[i] != 0)) i++;
    return i * part_ns;
  }
};

history seen(const machine& m, const loop& p) {
  world w(m, p.seed, p.threads, 0, *find_simulated_lock(p.lock), {}, {1, p.run_ns}, false);
  w.shared_runtime().limits.spin = std::uint32_t(p.spin_ns);
  simulation& s = w.sim();
  auto lock = w.make_lock();
  history h;
  h.operations.resize(p.run_ns / history::part_ns + 1);
  h.sleeps.resize(p.run_ns / history::part_ns);
  const cycles stalls_at = m.from_ns(p.stalls_at);
  bool stalled = p.stall_ns == 0;
  for (unsigned i = 0; i < p.threads; i++)  // fills core after core
    s.add_thread(i % m.all_cores() * m.hardware_threads + i / m.all_cores(), [&, i] {
      world::thread t(w, i);
      while (!t.over()) {
        lock.lock();
        t.overhead(0, 4);
        t.steps(4);
        if (!stalled && s.now() >= stalls_at) {
          stalled = true;
          s.compute(m.from_ns(p.stall_ns));
        }
        lock.unlock();
        h.operations[std::min(m.to_ns(s.now()), p.run_ns) / history::part_ns]++;
        t.steps(t.uniform(200));
      }
    });
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < h.sleeps.size(); i++)
    s.at(m.from_ns((i + 1) * history::part_ns), [&, i] {
      h.sleeps[i] = s.counted().voluntary - before;
      before = s.counted().voluntary;
    });
  s.run();
  return h;
}

TEST(fifo_that_parks, one_long_section_is_enough) {
  const history quiet = seen(undisturbed(), {"mcs", 8, 3 * ms});
  EXPECT_EQ(quiet.sleeps_an_operation(0, 3 * ms), 0);
  EXPECT_GT(quiet.rate(1 * ms, 3 * ms), 5);

  const history h = seen(undisturbed(), {"mcs", 8, 30 * ms, 6 * us});
  EXPECT_EQ(h.sleeps_an_operation(0, ms), 0);
  EXPECT_GT(h.rate(0, ms), 5);
  for (std::uint64_t from = 2 * ms; from < 30 * ms; from += 4 * ms) {
    EXPECT_NEAR(h.sleeps_an_operation(from, from + 4 * ms), 1, 0.1) << "every hand-over is and stays a wake-up";
    EXPECT_LT(h.rate(from, from + 4 * ms), h.rate(0, ms) / 30);
  }
}

TEST(fifo_that_parks, a_stall_is_borne_that_leaves_the_last_waiter_time) {
  // A stall makes the waiters sleep if it is longer than S - (T-1)·h, where S is the spin budget, T the number of
  // threads and h the time of a hand-over: 4.7 µs with 8 threads, 2.4 µs with 20.
  const auto sleeps = [](unsigned threads, std::uint64_t stall_ns) {
    return seen(undisturbed(), {"mcs", threads, 3 * ms, stall_ns}).sleeps_an_operation(2 * ms, 3 * ms);
  };
  EXPECT_EQ(sleeps(8, 4 * us), 0);
  EXPECT_GT(sleeps(8, 6 * us), 0.9);
  EXPECT_EQ(sleeps(20, 1 * us), 0);
  EXPECT_GT(sleeps(20, 4 * us), 0.9);
}

TEST(fifo_that_parks, with_many_threads_only_one_state_is_left) {
  // A round of hand-overs takes longer than the spin budget, (T-1)·h > S (top of this file), so the threads sleep even
  // without a stall.
  const history h = seen(known_machine("x5-2"), {"mcs", 36, 4 * ms});
  EXPECT_GT(h.sleeps_an_operation(2 * ms, 4 * ms), 0.9);
  EXPECT_LT(h.rate(2 * ms, 4 * ms), 0.2);
}

TEST(fifo_that_parks, wakes_up_for_good_where_the_budget_covers_a_round_of_wake_ups) {
  const auto returns = [](unsigned threads, std::uint64_t spin_ns, const machine& m) {
    const std::uint64_t over = ms + ms / 5;
    return seen(m, {"mcs", threads, 20 * ms, 150 * us, ms, spin_ns}).awake_again(over) - over;
  };
  const machine m = undisturbed_without_deep_sleep();
  EXPECT_LT(returns(6, 25 * us, m), 2 * ms);
  EXPECT_GE(returns(6, 15 * us, m), 18 * ms) << "the end of the run";
  EXPECT_LT(returns(3, 10 * us, m), 2 * ms);
  EXPECT_GE(returns(3, 4 * us, m), 18 * ms);
  const machine quick = undisturbed_without_deep_sleep({{"scheduler.syscall", "300"},
                                                        {"scheduler.wake", "600"},
                                                        {"scheduler.context_switch", "600"},
                                                        {"scheduler.latency_least", "600"},
                                                        {"scheduler.latency_mean", "1400"}});
  EXPECT_LT(returns(6, 6 * us, quick), 2 * ms) << "the same with quick wake-ups";
  EXPECT_GE(returns(6, 6 * us, m), 18 * ms);
}

TEST(fifo_that_parks, a_deep_sleep_makes_it_worse) {
  // If hand-overs take longer, CPUs are idle longer and sleep more deeply.
  const history deep = seen(known_machine("x5-2"), {"mcs", 36, 20 * ms}),
                light = seen(undisturbed_without_deep_sleep(), {"mcs", 36, 20 * ms});
  EXPECT_GT(light.rate(10 * ms, 20 * ms), 5 * deep.rate(10 * ms, 20 * ms));
}

TEST(restricting_that_parks, goes_to_and_fro) {
  // The few threads that circulate begin to sleep when a passive thread (one that the lock has set aside) takes longer
  // to wake up than they spin. One quick wake-up makes all of them spin again. The next wake-up of a passive thread,
  // which follows when the queue is empty, makes them sleep again.
  const auto at = [](std::uint64_t spin_ns) {
    loop p{"mcscr", 16, 12 * ms};
    p.spin_ns = spin_ns;
    // In the machine file as it is, no wake-up is quicker than 30000 cycles.
    return seen(known_machine("t5", {{"scheduler.latency_least", "9000"}}), p);
  };
  const history short_of_it = at(5555), enough = at(20 * us);
  for (const std::uint64_t from : {2 * ms, 7 * ms}) {
    const double often = short_of_it.sleeps_an_operation(from, from + 5 * ms);
    EXPECT_GT(often, 0.2);
    EXPECT_LT(often, 0.7) << "not every hand-over";
    EXPECT_LT(enough.sleeps_an_operation(from, from + 5 * ms), 0.05);
    EXPECT_GT(enough.rate(from, from + 5 * ms), 5 * short_of_it.rate(from, from + 5 * ms));
  }
  unsigned changes = 0;
  bool slept = false;
  for (std::size_t i = 20; i < short_of_it.sleeps.size(); i++) {
    const bool sleeps = short_of_it.sleeps[i] * 2 > short_of_it.operations[i];
    changes += sleeps != slept;
    slept = sleeps;
  }
  EXPECT_GT(changes, 10u);
}

// ---- cohorts --------------------------------------------------------------------------------------------------------

struct shares {
  double most;        ///< share of the node with the most operations
  double hand_overs;  ///< hand-overs within a node for each hand-over to another node
  double operations;  ///< million operations a second
};

shares of_nodes(const machine& m, const char* lock, unsigned threads, std::uint64_t run_ns = 3 * ms) {
  point p;
  p.workload = "mutexbench";
  p.lock = lock;
  p.threads = threads;
  p.run_ns = run_ns;
  p.placement = "scattered";
  const result r = run_point(m, p);
  std::vector<std::uint64_t> nodes(m.sockets);
  std::uint64_t all = 0, most = 0;
  for (unsigned t = 0; t < threads; t++) {
    nodes[r.sockets[t]] += r.operations[t];
    all += r.operations[t];
  }
  for (const std::uint64_t n : nodes) most = std::max(most, n);
  return {static_cast<double>(most) / static_cast<double>(all),
          static_cast<double>(r.admissions) / static_cast<double>(r.between_sockets + 1), r.throughput};
}

TEST(cohort, whoever_is_released_first_is_there_first) {
  // If a cohort lock releases its local lock first, the next local holder tries the global lock while the store that
  // frees the global lock is still on its way to the other nodes, and wins. If the cohort lock releases the global lock
  // first, the other node wins more often, although the lock's line is still near. A global lock with a queue has no
  // such race.
  const machine m = known_machine("x5-2");
  const shares local = of_nodes(m, "c-bo-mcs-spin", 36), global = of_nodes(m, "c-bo-mcs-global-first-spin", 36),
               queue = of_nodes(m, "c-tkt-mcs-spin", 36);
  EXPECT_GT(local.most, 0.95);
  EXPECT_GT(local.hand_overs, 1000);
  EXPECT_GT(global.most, 0.8);
  EXPECT_LT(global.hand_overs, local.hand_overs);
  EXPECT_NEAR(queue.most, 0.5, 0.02);
  EXPECT_NEAR(queue.hand_overs, 65, 2);
  EXPECT_GT(global.operations, 0.9 * local.operations) << "the gain is small";
}

// ---- the tables of docs/simulation.md ----

TEST(states, DISABLED_table) {
  std::printf(
      "x5-2, mcs, S 5.6 µs; a section of 20 µs after 1 ms: M/s and sleeps an operation before, from 2 to 20 ms\n");
  for (const unsigned threads : {2u, 3u, 8u, 16u, 24u, 36u})
    for (const bool deep : {true, false}) {
      const history h =
          seen(deep ? known_machine("x5-2") : undisturbed_without_deep_sleep(), {"mcs", threads, 20 * ms, 20 * us});
      std::printf("%2u threads, deep sleep %d: %.2f %.2f → %.3f %.2f\n", threads, deep, h.rate(0, ms),
                  h.sleeps_an_operation(0, ms), h.rate(2 * ms, 20 * ms), h.sleeps_an_operation(2 * ms, 20 * ms));
    }
  std::printf("x5-2 without deep sleep, mcs: ms until nobody sleeps any more, median of 5 seeds (80: not in 80 ms)\n");
  for (const auto& [threads, budgets] : std::map<unsigned, std::vector<std::uint64_t>>{
           {3, {4, 5, 6, 7}}, {6, {15, 18, 20, 22, 25}}, {8, {22, 28, 30, 33, 36}}, {12, {40, 50, 55, 60}}})
    for (const std::uint64_t budget : budgets) {
      std::vector<std::uint64_t> times;
      for (std::uint64_t seed = 1; seed <= 5; seed++) {
        const std::uint64_t over = ms + ms / 5;
        times.push_back(
            seen(undisturbed_without_deep_sleep(), {"mcs", threads, 80 * ms + over, 150 * us, ms, budget * us, seed})
                .awake_again(over) -
            over);
      }
      std::sort(times.begin(), times.end());
      std::printf("%2u threads, S %2" PRIu64 " µs: %.1f\n", threads, budget, double(times[2]) / ms);
    }
  std::printf("t5, 16 threads: M/s, sleeps an operation, by S in µs\n");
  for (const char* lock : {"mcscr", "lifo-cr", "mcs"})
    for (const std::uint64_t budget : {2000u, 5555u, 8000u, 12000u, 20000u, 40000u}) {
      loop p{lock, 16, 20 * ms};
      p.spin_ns = budget;
      const history h = seen(known_machine("t5"), p);
      std::printf("%s %.1f: %.2f %.3f\n", lock, double(budget) / us, h.rate(2 * ms, 20 * ms),
                  h.sleeps_an_operation(2 * ms, 20 * ms));
    }
  std::printf("cohorts, spinning, 10 ms: M/s, the part of the node that has most, hand-overs in a row within a node\n");
  for (const auto& [name, threads] : std::vector<std::pair<const char*, unsigned>>{{"x5-2", 36},
                                                                                   {"x5-2", 72},
                                                                                   {"xeon-8260-8", 64},
                                                                                   {"xeon-8260-8", 192},
                                                                                   {"epyc-9654-2", 64},
                                                                                   {"epyc-9654-2", 192}})
    for (const char* lock : {"c-bo-mcs-spin", "c-bo-mcs-global-first-spin", "c-tkt-mcs-spin"}) {
      const shares s = of_nodes(known_machine(name), lock, threads, 10 * ms);
      std::printf("%s %u %s: %.2f %.3f %.0f\n", name, threads, lock, s.operations, s.most, s.hand_overs);
    }
}

}  // namespace
}  // namespace usher::sim
