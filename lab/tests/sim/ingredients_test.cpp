// Tests the effect of leaving out each ingredient of the model, as in docs/simulation.md: a claim holds with the
// ingredient and not without it, or the reverse. So the tests show which claims depend on which ingredient.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/runtime.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "lab/sim/simulated_platform.hpp"

namespace usher::sim {
namespace {

/// Results as means over the seeds.
struct seen {
  double throughput = 0, working_set = 0, parks = 0 /* an admission */, of_best_thread = 0;
  std::vector<double> of_sockets;  ///< each socket's share of the operations
};

struct setting {
  const char *workload, *lock;
  unsigned threads;
  std::uint64_t us;
  std::map<std::string, long> parameters = {};
  unsigned seeds = 3;
  const char* placement = "";
  bool together = false;
};

seen run(const machine& m, const setting& s) {
  seen mean;
  mean.of_sockets.resize(m.sockets);
  for (std::uint64_t seed = 1; seed <= s.seeds; seed++) {
    point p;
    p.workload = s.workload;
    p.lock = s.lock;
    p.threads = s.threads;
    p.seed = seed;
    p.run_ns = s.us * 1000;
    p.parameters = s.parameters;
    p.placement = s.placement;
    p.together = s.together;
    const result r = run_point(m, p);
    const auto all = double(std::accumulate(r.operations.begin(), r.operations.end(), std::uint64_t{0}));
    mean.throughput += r.throughput / s.seeds;
    mean.working_set += r.working_set / s.seeds;
    mean.parks += double(r.voluntary) / double(r.admissions) / s.seeds;
    mean.of_best_thread += double(*std::max_element(r.operations.begin(), r.operations.end())) / all / s.seeds;
    for (std::size_t i = 0; i < r.operations.size(); i++)
      mean.of_sockets[r.sockets[i]] += double(r.operations[i]) / all / s.seeds;
  }
  return mean;
}

// ---- coherence: MutexBench on the machine x5-2 ----

double throughput(const machine& m, const char* lock, unsigned threads) {
  return run(m, {"mutexbench", lock, threads, 1000}).throughput;
}

TEST(ingredients, all_in) {
  const machine m = known_machine("x5-2");
  EXPECT_GT(throughput(m, "ticket-spin", 5), throughput(m, "twa-spin", 5) * 0.98);
  EXPECT_LT(throughput(m, "ticket-spin", 72), 0.93 * throughput(m, "ticket-spin", 5)) << "ticket fails to scale";
  EXPECT_LT(throughput(m, "ticket-spin", 36), throughput(m, "mcs-spin", 36));
  EXPECT_GT(throughput(m, "twa-spin", 72), throughput(m, "mcs-spin", 72));
}

TEST(ingredients, without_queued_refetches_and_a_cost_for_each_sharer_ticket_is_flat) {
  machine m = known_machine("x5-2");
  m.per_read = 0;
  m.per_sharer = 0;
  EXPECT_GT(throughput(m, "ticket-spin", 72), 0.93 * throughput(m, "ticket-spin", 5));
}

TEST(ingredients, without_queued_refetches_ticket_keeps_up_with_mcs) {
  const machine all = known_machine("x5-2");
  machine m = all;
  m.per_read = 0;
  EXPECT_GT(throughput(m, "ticket-spin", 72), 0.95 * throughput(m, "mcs-spin", 72));
  EXPECT_LT(throughput(all, "ticket-spin", 72), 0.93 * throughput(all, "mcs-spin", 72));
}

TEST(ingredients, without_a_cost_for_each_sharer_mcs_passes_ticket_later) {
  const machine all = known_machine("x5-2");
  machine m = all;
  m.per_sharer = 0;
  EXPECT_LT(throughput(all, "ticket-spin", 36), 0.98 * throughput(all, "mcs-spin", 36));
  EXPECT_GT(throughput(m, "ticket-spin", 36), throughput(m, "mcs-spin", 36));
}

TEST(ingredients, the_random_part_of_a_latency_leaves_its_mean) {
  const machine all = known_machine("x5-2");
  machine m = all;
  m.jitter = 0;
  EXPECT_NEAR(throughput(m, "mcs-spin", 24) / throughput(all, "mcs-spin", 24), 1, 0.08);
}

TEST(ingredients, without_merged_fills_ticket_rises_when_cores_get_a_second_thread) {
  const machine all = known_machine("x5-2");
  machine m = all;
  m.merges_fills = false;
  EXPECT_LT(throughput(all, "ticket-spin", 72), throughput(all, "ticket-spin", 36));
  EXPECT_GT(throughput(m, "ticket-spin", 72), 1.05 * throughput(m, "ticket-spin", 36));
}

TEST(ingredients, without_a_store_buffer_mcs_pays_for_its_stores) {
  const machine all = known_machine("x5-2");
  machine m = all;
  m.store_entries = 0;
  EXPECT_LT(throughput(m, "mcs-spin", 24), 0.9 * throughput(all, "mcs-spin", 24));
  EXPECT_NEAR(throughput(m, "twa-spin", 24), throughput(all, "twa-spin", 24), 0.3)
      << "no thread waits for TWA's second store";
}

// In a hand-over, MCS writes two lines one after the other: the lock's word for the holder, and the flag of the next
// thread. TWA also makes two writes, but no thread waits for the second.
TEST(ingredients, where_stores_ask_ahead_mcs_gains_on_twa) {
  machine m = known_machine("x5-2");
  const auto ratio = [&](ownership asks) {
    m.asks = asks;
    return throughput(m, "mcs-spin", 16) / throughput(m, "twa-spin", 16);
  };
  const double in_turn = ratio(ownership::in_turn), ahead = ratio(ownership::ahead);
  EXPECT_LT(in_turn, 0.98);
  EXPECT_GT(ahead, in_turn + 0.03);
  EXPECT_NEAR(ratio(ownership::ahead_until_a_hit), in_turn, 0.02) << "the call of unlock() is a store that hits";
}

TEST(ingredients, where_a_store_needs_no_journey_after_a_load_few_threads_unlock_as_fast_by_a_store_as_by_an_addition) {
  machine m = known_machine("x5-2");
  const auto ratio = [&](unsigned threads) {
    return throughput(m, "ticket-spin", threads) / throughput(m, "ticket-xadd-spin", threads);
  };
  const double two_trips = ratio(3);
  EXPECT_LT(ratio(16), 0.95);
  m.load_then_store_at_once = true;
  EXPECT_GT(ratio(3), 1.005 * two_trips);
  EXPECT_LT(ratio(16), 0.95) << "waiters' copies arrive in between";
}

TEST(ingredients, where_hardware_threads_slow_only_what_programs_compute_more_of_them_cost_less) {
  machine m = known_machine("t7-2");
  m.homes = home_agent::none;  // else the homes' time hides that of the cores
  const auto at = [&](unsigned threads) { return run(m, {"mutexbench", "mcs-spin", threads, 1000, {}, 1}).throughput; };
  const auto drop = [&] { return at(512) / at(256); };
  const double all = drop();
  m.hardware_threads_slow_all = false;
  EXPECT_LT(all, drop() - 0.02);
}

// ---- topology ----

/// Returns a machine with sixteen complexes of eight cores, in two sockets or in sixteen.
machine of_complexes() {
  machine m = known_machine("x5-2");
  m.sockets = 2;
  m.cores = 64;
  m.complexes = 8;
  m.hardware_threads = 1;
  m.clean = {50, 300, 560, 560, 560};
  m.dirty = {100, 330, 600, 600, 600};
  m.invalidate = {60, 280, 520, 520, 520};
  m.memory = {330, 350, 600, 600, 600};
  return m;
}

TEST(ingredients, where_homes_take_a_request_at_a_time_many_complexes_cost_ticket_more) {
  machine m = of_complexes();
  const auto ratio = [&] { return throughput(m, "ticket-spin", 128) / throughput(m, "mcs-spin", 128); };
  const double at_once = ratio();
  m.homes = home_agent::until_answer;
  const double in_turn = ratio();
  EXPECT_LT(in_turn, 0.8 * at_once) << "each complex asks the line's home";
  m.homes = home_agent::until_answers;
  EXPECT_LT(ratio(), 0.9 * in_turn) << "the home waits for the farthest complex each time";
}

TEST(ingredients, where_a_lines_home_is_not_asked_complexes_of_the_other_socket_are_nearer) {
  machine m = known_machine("epyc-7003");
  const auto of = [&](const char* lock) { return throughput(m, lock, 128); };
  const double mcs = of("mcs-spin"), ticket = of("ticket-spin"), near = throughput(m, "mcs-spin", 8);
  m.through_homes_socket = false;
  EXPECT_GT(of("mcs-spin"), 1.03 * mcs);
  EXPECT_GT(of("ticket-spin"), 1.06 * ticket);
  EXPECT_NEAR(throughput(m, "mcs-spin", 8) / near, 1, 0.01) << "eight threads are where the lock's home is";
}

TEST(ingredients, where_requests_to_an_owner_overlap_test_and_set_is_faster) {
  machine m = known_machine("x5-2");
  const double in_turn = throughput(m, "tas-spin", 16);
  m.one_request_to_owner = false;
  EXPECT_GT(throughput(m, "tas-spin", 16), 1.1 * in_turn);
}

TEST(ingredients, complexes_are_nearer_than_sockets) {
  machine m = of_complexes();
  const double flat = throughput(m, "mcs-spin", 128);
  m.clean[1] = m.clean[2];
  m.dirty[1] = m.dirty[2];
  m.invalidate[1] = m.invalidate[2];
  EXPECT_LT(throughput(m, "mcs-spin", 128), 0.95 * flat);
}

TEST(ingredients, cohorts_are_numa_nodes_and_not_complexes) {
  machine m = of_complexes();
  const double by_socket = throughput(m, "c-bo-mcs-spin", 128);
  m.nodes = 8;
  EXPECT_GT(throughput(m, "c-bo-mcs-spin", 128), 1.3 * by_socket)
      << "these cohorts keep the lock in one last-level cache";
}

TEST(ingredients, where_retries_miss_loops_of_compare_and_swap_collapse) {
  const machine all = known_machine("t7-2");  // its exchange is a loop of compare-and-swap
  machine m = all;
  m.keeps_for_retry = false;
  // Loops of compare-and-swap collapse if all threads arrive at once, because then no thread finishes its loop. Threads
  // that arrive one after another form a queue instead.
  const auto mcs = [](const machine& on, unsigned threads) {
    return run(on, {"mutexbench", "mcs-spin", threads, 1000, {}, 3, "", true}).throughput;
  };
  EXPECT_GT(mcs(all, 256), 0.8 * mcs(all, 16));
  EXPECT_LT(mcs(m, 256), 0.3 * mcs(m, 16));
  const auto k42 = [](const machine& on, unsigned threads) {
    return run(on, {"mcsg-loop", "k42-spin", threads, 1000, {}, 3, "", true}).throughput;
  };
  machine large = known_machine("e7-4890");
  EXPECT_GT(k42(large, 224), 0.4 * k42(large, 56));
  large.keeps_for_retry = false;
  EXPECT_LT(k42(large, 224), 0.3 * k42(large, 56));
}

/// Prints the table of lab/pages: simulator-tables, in half a minute. Run it by --gtest_also_run_disabled_tests
/// --gtest_filter=*table.
TEST(ingredients, DISABLED_table) {
  const std::vector<std::pair<const char*, void (*)(machine&)>> variants{
      {"all in", [](machine&) {}},
      {"refetches do not queue (`per_read` 0)", [](machine& m) { m.per_read = 0; }},
      {"no cost for each sharer (`per_sharer` 0)", [](machine& m) { m.per_sharer = 0; }},
      {"a refetch at a time (`per_read` 50)", [](machine& m) { m.per_read = 50; }},
      {"homes wait for the answer", [](machine& m) { m.homes = home_agent::until_answer; }},
      {"homes wait for all answers", [](machine& m) { m.homes = home_agent::until_answers; }},
      {"requests to an owner overlap", [](machine& m) { m.one_request_to_owner = false; }},
      {"neither queue nor cost for each sharer", [](machine& m) { m.per_read = m.per_sharer = 0; }},
      {"no jitter", [](machine& m) { m.jitter = 0; }},
      {"misses ordered by departure", [](machine& m) { m.ordered_by_arrival = false; }},
      {"retries of compare-and-swap miss", [](machine& m) { m.keeps_for_retry = false; }},
      {"fills not merged", [](machine& m) { m.merges_fills = false; }},
      {"no store buffer", [](machine& m) { m.store_entries = 0; }},
      {"store buffer of one entry", [](machine& m) { m.store_entries = 1; }},
      {"stores ask in turn", [](machine& m) { m.asks = ownership::in_turn; }},
      {"stores ask ahead", [](machine& m) { m.asks = ownership::ahead; }},
      {"load and store, one trip", [](machine& m) { m.load_then_store_at_once = true; }},
      {"pipelines not shared", [](machine& m) { m.slowed_by_work = m.slowed_by_spin = 1024; }}};
  for (const auto& [name, leave_out] : variants) {
    machine m = known_machine("x5-2");
    leave_out(m);
    std::printf("| %s |", name);
    for (const unsigned threads : {5, 24, 36, 72}) {
      const char* between = " ";
      for (const char* lock : {"ticket-spin", "twa-spin", "mcs-spin", "ttas-spin"}) {
        std::printf("%s%.2f", between, run(m, {"mutexbench", lock, threads, 2000, {}, 5}).throughput);
        between = "/";
      }
      std::printf(" |");
    }
    std::printf("\n");
  }
}

// ---- order of misses ----

// The machine has two quads (NUMA nodes). If requests are ordered by arrival, the quad near the lock's memory usually
// has the lock, and the threads within the quad take turns: this is the problem that fairlocks address. If requests are
// ordered by departure, the thread that has the lock keeps it, and a fairlock is no better than a queue. One quad still
// gets most acquisitions, because a spinner of the other quad learns later that the lock is free. With MESI, copies
// come from the line's home, so the home determines the quad that wins. With MESIF, copies come from the nearest
// complex, and either quad may win by chance.
TEST(ingredients, by_departure_unfairness_is_between_threads_and_not_between_nodes) {
  machine all = known_machine("numa-q");
  const setting two_a_quad{"quads", "ttas-spin", 4, 50000, {{"cs", 500}, {"ncs", 100}}, 6};
  EXPECT_GT(run(all, two_a_quad).of_sockets[0], 0.9) << "the quad with the lock's memory has most operations";
  EXPECT_GT(run(all, two_a_quad).working_set, 3);
  setting fair = two_a_quad;
  fair.lock = "fairlock-spin";
  EXPECT_LT(run(all, fair).of_sockets[0], 0.65);

  machine m = all;
  m.ordered_by_arrival = false;
  EXPECT_LT(run(m, two_a_quad).working_set, 2);
  EXPECT_GT(run(m, two_a_quad).of_sockets[0], 0.99) << "the share does not fall";

  all.coherence = m.coherence = protocol::mesif;
  all.home.reset();
  m.home.reset();
  EXPECT_GT(run(all, two_a_quad).working_set, 3);
  EXPECT_LT(run(m, two_a_quad).working_set, 2);
  EXPECT_NEAR(run(m, two_a_quad).of_sockets[0], 0.5, 0.25);
}

// ---- loads by spinners after a write ----

/// Returns the number of acquisitions of each of eight threads that compete for a word, by test-and-test-and-set
/// without back-off.
std::vector<std::uint64_t> race(const machine& m) {
  constexpr unsigned threads = 8;
  std::vector<std::uint64_t> won(threads);
  for (const std::uint64_t seed : {1, 2, 3}) {
    simulation s(m, seed);
    auto& word = *::new (s.shared().allocate(128, 128)) simulated_atomic<std::uint32_t>();
    for (unsigned t = 0; t < threads; t++)
      s.add_thread(t * m.hardware_threads, [&, t] {
        while (s.now() < 3000000) {
          std::uint32_t free = 0;
          while (!word.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
            simulated::await(
                word, [](std::uint32_t v) { return v == 0; }, std::memory_order_relaxed, pacing::polling);
            free = 0;
          }
          won[t]++;
          s.compute(1000);
          word.store(0, std::memory_order_release);
          s.compute(s.chance().below(4000));
        }
      });
    s.run();
  }
  return won;
}

TEST(ingredients, without_random_refetches_the_lowest_number_wins_races) {
  machine m = known_machine("x5-2");
  m.jitter = 0;  // otherwise jitter decides the races
  const auto [least, most] = std::ranges::minmax(race(m));
  EXPECT_LT(most, least + least / 5);
  m.random_refetch = false;
  const auto won = race(m);
  EXPECT_LT(won[7] * 20, won[0]);
  EXPECT_LT(won[6] * 20, won[1]);
}

// ---- cores and capacity: the machine t5 ----

TEST(ingredients, without_shared_pipelines_spinners_are_free) {
  const machine all = known_machine("t5");
  machine m = all;
  m.pipelines = m.hardware_threads;
  const setting few{"mutexbench", "mcs-spin", 32, 1000, {{"cs", 50}, {"ncs", 1000}}, 1};
  setting many = few;
  many.threads = 128;
  EXPECT_LT(run(all, many).throughput, 0.7 * run(all, few).throughput);
  EXPECT_NEAR(run(m, many).throughput / run(m, few).throughput, 1, 0.03);
}

TEST(ingredients, without_a_last_level_cache_nothing_is_gained_by_restricting_concurrency) {
  machine all = known_machine("t5");
  all.alone = 1024;  // removes another gain, that of a core used by one thread
  machine m = all;
  m.caches->miss = m.caches->channel = 0;
  const auto at = [](const machine& on, const char* lock, unsigned threads) {
    return run(on, {"randarray", lock, threads, 3000, {}, 1}).throughput;
  };
  EXPECT_LT(at(all, "mcs-spin", 32), 0.85 * at(all, "mcs-spin", 5)) << "thirty-three arrays do not fit";
  EXPECT_GT(at(m, "mcs-spin", 32), at(m, "mcs-spin", 5));
  EXPECT_GT(at(all, "mcscr-spin", 32), 1.03 * at(all, "mcs-spin", 32));
  EXPECT_LT(at(m, "mcscr-spin", 32), at(m, "mcs-spin", 32));
}

// ---- scheduler ----

TEST(ingredients, without_deep_sleep_waking_costs_the_same_after_any_while) {
  machine deep = known_machine("x5-2");
  deep.os->idle_after = {0, 112000};  // 40 µs
  deep.os->idle_exit = {0, 280000};
  machine shallow = deep;
  shallow.os->idle_after.clear();
  shallow.os->idle_exit.clear();
  const setting s{"stress-latency", "mcs-park", 4, 10000, {{"cs", 100000}, {"ncs", 1000}}, 1};
  const setting t{"stress-latency", "mcs-park", 2, 10000, {{"cs", 1000}, {"ncs", 1000}}, 1};
  EXPECT_LT(run(deep, s).throughput, 0.8 * run(shallow, s).throughput) << "CPUs of waiters are idle for 100 µs";
  EXPECT_GT(run(deep, t).throughput, 0.9 * run(shallow, t).throughput) << "and here for less than 40";
}

TEST(ingredients, without_migration_threads_stay_where_they_began) {
  const machine all = known_machine("x5-2");
  machine m = all;
  m.os->migrate = false;
  const setting s{"mutexbench", "ttas-spin", 8, 10000, {{"ncs", 5000}}, 1, "0"};
  EXPECT_LT(run(m, s).throughput, 0.3 * run(all, s).throughput) << "eight that mostly work share a CPU";
}

TEST(ingredients, without_time_slices_a_thread_too_many_does_no_harm) {
  const machine all = known_machine("x5-2");
  machine m = all;
  m.os->slice = cycles{1} << 39;  // a spinning thread keeps its CPU
  const setting s{"mutexbench", "ticket-spin", 73, 10000, {}, 1};
  EXPECT_LT(run(all, s).throughput, 0.2 * throughput(all, "ticket-spin", 72))
      << "the next thread in the queue has no CPU";
  EXPECT_NEAR(run(m, s).throughput, throughput(m, "ticket-spin", 72), 0.1);
}

TEST(ingredients, without_the_time_sharing_class_a_preempted_successor_is_soon_back) {
  const machine all = known_machine("t5");
  machine m = all;
  m.os->time_sharing = false;
  const setting spins{"stress-latency", "mcs-spin", 160, 5000000, {}, 1};
  EXPECT_LT(run(all, spins).throughput, 0.05 * run(m, spins).throughput) << "quanta of up to 200 ms instead of 10";
  const setting parks{"stress-latency", "mcs-park", 160, 500000, {}, 1};
  EXPECT_NEAR(run(all, parks).throughput / run(m, parks).throughput, 1, 0.01) << "there are idle CPUs";
}

TEST(ingredients, without_a_least_length_of_sleeps_waiters_that_poll_between_sleeps_are_faster) {
  const machine all = known_machine("t5");
  machine m = all;
  m.os->least_sleep = 0;
  const setting s{"stress-latency", "mcs-sleep", 160, 500000, {}, 1};
  EXPECT_LT(run(all, s).throughput, 0.3 * run(m, s).throughput);
}

}  // namespace
}  // namespace usher::sim
