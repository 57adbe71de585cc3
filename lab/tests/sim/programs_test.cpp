// Runs every benchmark program on every machine that can run it, and tests properties of the results.
#include <gtest/gtest.h>

#include <numeric>

#include "known_machine.hpp"
#include "lab/sim/harness.hpp"

namespace usher::sim {
namespace {

result run(const char* machine_name, const char* workload, const char* lock, unsigned threads,
           std::map<std::string, long> parameters = {}, std::uint64_t run_ns = 300000, unsigned others = 0) {
  point p;
  p.workload = workload;
  p.lock = lock;
  p.threads = threads;
  p.parameters = std::move(parameters);
  p.run_ns = run_ns;
  p.others = others;
  return run_point(known_machine(machine_name), p);
}

TEST(programs, all_count_something_alone_and_together) {
  for (const auto& about : programs())
    for (const unsigned threads : {1u, 6u}) {
      const result r = run("t5", about.name, "mcscr", threads);
      EXPECT_GT(r.throughput, 0) << about.name;
      EXPECT_EQ(r.operations.size(), threads);
      if (!about.one_lock || std::string(about.name) == "reflex") continue;
      const auto sum = std::accumulate(r.operations.begin(), r.operations.end(), std::uint64_t{0});
      EXPECT_NEAR(double(r.admissions), double(sum), threads) << about.name;
    }
}

TEST(programs, a_shared_generator_is_memory_too) {
  EXPECT_LT(run("x5-2", "mutexbench", "mcs-spin", 8, {{"shared", 1}}).throughput,
            0.8 * run("x5-2", "mutexbench", "mcs-spin", 8).throughput);
}

TEST(programs, random_cache_finds_what_it_stored) {
  // The program random-cache itself throws if a value does not match its key.
  const result few = run("x5-2", "random-cache", "ttas-spin", 6, {{"capacity", 3}, {"keys", 9}, {"fresh", 100}});
  EXPECT_GT(few.throughput, 0);
  EXPECT_GT(run("x5-2", "random-cache", "ttas-spin", 6, {{"fresh", 0}}).throughput, few.throughput);
}

TEST(programs, guests_and_regulars_are_told_apart) {
  const result r = run("e7-4890", "mcsg-loop", "mcsg++-spin", 12, {{"guests", 2}});
  ASSERT_EQ(r.groups.size(), 3u);
  EXPECT_EQ(r.groups[1].name, "guests");
  EXPECT_EQ(r.groups[1].threads, 2u);
  EXPECT_EQ(r.groups[2].threads, 10u);
  EXPECT_NEAR(r.groups[1].throughput + r.groups[2].throughput, r.throughput, 1e-9);
  EXPECT_THROW(run("e7-4890", "mcsg-loop", "ticket-spin", 4, {{"guests", 1}}), workloads::bad_program);
  EXPECT_THROW(run("e7-4890", "mcsg-loop", "mcsg-spin", 4, {{"guests", 5}}), workloads::bad_program);
}

TEST(programs, the_authors_program_of_mcsg_moves_four_lines_and_reads_the_clock) {
  const auto rate = [](const char* program, unsigned threads, std::map<std::string, long> settings = {}) {
    return run("e7-4890", program, "mcs-node-spin", threads, std::move(settings)).throughput;
  };
  EXPECT_LT(rate("mcsg-artifact", 16), 0.8 * rate("mcsg-loop", 16)) << "its sections write";
  const auto ns = [&rate](long clock) { return 1000 / rate("mcsg-artifact", 1, {{"clock", clock}}); };
  EXPECT_NEAR(ns(2800) - ns(0), 2000, 20) << "two reads an acquisition, each of a microsecond";
  const result r = run("e7-4890", "mcsg-artifact", "mcsg++-artifact-spin", 12, {{"guests", 2}});
  ASSERT_EQ(r.groups.size(), 3u);
  EXPECT_GT(r.groups[1].throughput, 0);
  EXPECT_GT(r.groups[2].throughput, 0);
}

TEST(programs, reflex_passes_every_token_on_however_many_cpus) {
  for (const unsigned cpus : {1u, 3u, 8u})
    EXPECT_GT(run("numa-q", "reflex", "ttas-spin", cpus, {{"sets", 5}, {"members", 3}}, 3000000).throughput, 0) << cpus;
  const result r = run("numa-q", "reflex", "fairlock-spin", 8, {}, 3000000);
  EXPECT_GT(r.holds.count, 100u);
  EXPECT_GT(r.utilisation, 0.1);
}

TEST(programs, reflex_finds_the_lock_free_where_calls_are_long) {
  const auto found_free = [](long work) {
    const result r = run("numa-q", "reflex", "ttas-linux-spin", 8, {{"work", work}}, 100000000);
    return double(r.found_free) / double(r.admissions);
  };
  const double of_long_calls = found_free(127000);
  EXPECT_GT(of_long_calls, 0.3);
  EXPECT_LT(of_long_calls, 0.7);
  EXPECT_GT(found_free(1000000), 0.8);
}

TEST(programs, locktorture_delays_one_of_four_acquisitions_a_thread) {
  const auto ns = [](unsigned threads, long delay, long random = 45) {
    return 1000 /
           run("x5-4", "locktorture", "qspinlock-linux-spin", threads, {{"delay", delay}, {"random", random}}, 5000000)
               .throughput;
  };
  EXPECT_NEAR(ns(1, 5200) - ns(1, 0), 500, 30) << "2 µs of 2600 MHz at every fourth";
  EXPECT_NEAR(ns(16, 83200) - ns(16, 0), 500, 100) << "16 times as long, and as rare";
  EXPECT_NEAR(ns(1, 0, 145) - ns(1, 0), 300 / 2.6, 5) << "three decisions";
}

TEST(programs, rwbench_readers_share_and_visible_readers_scale) {
  const auto rate = [](long rwlock, unsigned threads, long writes, const char* lock = "ttas-spin", long sleep = 0) {
    return run("x5-2", "rwbench", lock, threads,
               {{"rwlock", rwlock}, {"writes", writes}, {"inside", 2000}, {"outside", 0}, {"sleep", sleep}}, 2000000)
        .throughput;
  };
  EXPECT_GT(rate(0, 8, 0), 4 * rate(4, 8, 0)) << "phase-fair, and a lock that readers hold alone";
  EXPECT_GT(rate(2, 16, 0), 0.7 * 16 * rate(2, 1, 0)) << "bravo";
  for (const long rwlock : {0, 1, 2, 3}) EXPECT_GT(rate(rwlock, 8, 100, "ttas", 1), 0) << rwlock;
  EXPECT_LT(rate(5, 16, 0), 0.7 * 16 * rate(5, 1, 0)) << "readers that count themselves in one word";
  EXPECT_THROW(rate(5, 8, 1000), workloads::bad_program);
}

TEST(programs, a_bare_pair_costs_no_more_than_its_loop) {
  const auto ns = [](const char* lock, long bare) {
    return 1000 / run("numa-q", "quads", lock, 1, {{"bare", bare}}).throughput;
  };
  EXPECT_LT(ns("ttas-linux-spin", 1), ns("ttas-linux-spin", 0) - 10);
  EXPECT_GT(ns("fairlock-spin", 1), ns("ttas-linux-spin", 1));
}

TEST(programs, entrained_locks_meet_in_the_array_unless_they_are_in_the_hash) {
  const auto more_polls = [](long entrained) {
    const auto polls = [entrained](const char* lock) {
      const result r =
          run("x5-2", "interlock", lock, 64, {{"locks", 4}, {"cs", 4}, {"ncs", 4}, {"entrained", entrained}}, 1000000);
      return double(r.polls) / r.throughput;
    };
    return polls("twa-unsalted-spin") / polls("twa-spin");
  };
  EXPECT_GT(more_polls(1), 1.2);
  EXPECT_GT(more_polls(1), 1.1 * more_polls(0));
}

TEST(programs, writes_are_those_of_lock_and_unlock) {
  const auto writes = [](const char* lock, unsigned threads) {
    const result r = run("x5-2", "mutexbench", lock, threads);
    return double(r.writes) / double(r.admissions);
  };
  EXPECT_NEAR(writes("ticket-spin", 1), 2, 0.05) << "the ticket, then grant";
  EXPECT_NEAR(writes("twa-spin", 1), 3, 0.05) << "and the slot";
  EXPECT_NEAR(writes("twa-spin", 16), 3, 0.1) << "waiting is reading";
}

TEST(programs, leaders_that_come_too_late_are_seen) {
  EXPECT_EQ(run("e7-4890", "mcsg-loop", "mcsg+-node-spin", 60, {{"guests", 0}}).leaders_too_late, 0u)
      << "no guests, no groups";
  const auto late = [](const char* lock) {
    return run("e7-4890", "mcsg-loop", lock, 60, {{"guests", 4}}, 2000000).leaders_too_late;
  };
  EXPECT_GT(late("mcsg+-node-spin"), 2u);
  EXPECT_GT(late("mcsg++-node-spin"), 2u);
  EXPECT_EQ(late("mcsg-node-spin"), 0u) << "MCSg does not count late leaders";
}

TEST(programs, ringwalker_misses_the_tlb_once_two_rings_share_a_core) {
  // The TLB has 128 entries. The 50 pages of the shared ring and those of one thread's private ring fit; those of a
  // second private ring do not fit as well.
  const auto misses = [](unsigned threads) {
    const result r = run("t5", "ringwalker", "ttas-spin", threads, {}, 2000000);
    return double(r.tlb_misses) / (r.throughput * 2000);
  };
  EXPECT_LT(misses(16), 1);
  EXPECT_GT(misses(32), 5);
}

TEST(programs, keymap_misses_where_its_map_is_larger_than_the_cache) {
  const auto misses = [](long keys, long fresh) {
    const result r = run("t5", "keymap", "ttas-spin", 16, {{"keys", keys}, {"fresh", fresh}}, 20000000);
    return double(r.misses) / double(r.admissions);
  };
  EXPECT_LT(misses(1000, 100), 0.1);
  EXPECT_GT(misses(1000000, 100), 1.5);
  EXPECT_LT(misses(1000000, 0), 0.7 * misses(1000000, 100)) << "a thread's own keys stay";
}

TEST(programs, lru_cache_misses_where_keys_are_more_than_elements) {
  const auto counted = [](long counts, long capacity, unsigned threads) {
    const result r = run("t5", "lru-cache", "ttas-spin", threads,
                         {{"counts", counts}, {"capacity", capacity}, {"keyset", 100}, {"ncs", 10}}, 3000000);
    return r.throughput * 3000 / double(r.admissions);
  };
  EXPECT_NEAR(counted(0, 500, 4), 1, 0.01);
  EXPECT_LT(counted(1, 500, 4), 0.1) << "all keys fit, except new ones";
  EXPECT_GT(counted(1, 100, 4), 0.5);
  EXPECT_GT(counted(2, 100, 4), 0.3) << "these accesses displace other threads' keys";
  EXPECT_EQ(counted(2, 50, 1), 0) << "there are no other threads";
}

TEST(programs, mmicro_misses_where_its_blocks_are_larger_than_the_cache) {
  const auto misses = [](long blocks) {
    const result r = run("t5", "mmicro", "ttas-spin", 16, {{"blocks", blocks}}, 4000000);
    return double(r.misses) / double(r.admissions);
  };
  EXPECT_LT(misses(10), 0.3) << "a hundred and sixty blocks of a KiB";
  EXPECT_GT(misses(4000), 3) << "64 MiB";
}

TEST(programs, waiters_on_a_list_circulate_in_the_order_asked_for) {
  // Returns the number of cache misses in an operation, if `append` of 1000 waiters are appended at the tail of the
  // list.
  const auto misses = [](const char* workload, long append, unsigned threads, std::map<std::string, long> more) {
    more["append"] = append;
    const result r = run("t5", workload, "mcs-spin", threads, more, 20000000);
    return double(r.misses) / (r.throughput * 20000);
  };
  // 24 private arrays of 3.2 MB do not fit into 8 MiB, those of two or three threads do.
  const std::map<std::string, long> short_loops{{"ncs", 100}, {"elements", 100000}, {"interpreter", 50}};
  EXPECT_LT(misses("perl-array", 0, 24, short_loops), 0.5 * misses("perl-array", 1000, 24, short_loops));
  const std::map<std::string, long> one_buffer{{"buffers", 1}, {"updates", 500}};
  EXPECT_LT(misses("buffer-pool", 0, 24, one_buffer), 0.5 * misses("buffer-pool", 1000, 24, one_buffer));
}

TEST(programs, waiters_on_a_list_may_sleep) {
  const auto sleeps = [](long park) {
    return run("t5", "buffer-pool", "mcs-spin", 12, {{"buffers", 2}, {"kib", 16}, {"park", park}}, 2000000).voluntary;
  };
  EXPECT_EQ(sleeps(0), 0u);
  EXPECT_GT(sleeps(1), 50u);
}

TEST(programs, throwing_moves_its_list_of_modules_with_the_lock) {
  const auto ns = [](unsigned threads, std::map<std::string, long> settings) {
    return 1000 / run("x5-2", "throwing", "ticket-spin", threads, std::move(settings)).throughput;
  };
  const std::map<std::string, long> no_list{{"cache", 0}};
  EXPECT_NEAR(ns(1, {{"inside", 400}, {"outside", 846}}) - ns(1, {{"inside", 0}, {"outside", 0}}), 1246 / 2.8, 10);
  EXPECT_LT(ns(1, {}), ns(1, no_list) + 60) << "one core has all lines";
  EXPECT_GT(ns(16, {}), ns(16, no_list) + 60) << "two lines at least come from another core";
}

TEST(programs, payment_waits_for_few_records) {
  // The program itself compares the totals at the end of the run.
  const result r = run("e7-4890", "payment", "mcs-spin", 48, {{"customers", 300}}, 300000);
  EXPECT_GT(r.utilisation, 0.5) << "the warehouse is what the threads wait for";
}

TEST(programs, other_processes_take_cpu_time) {
  // The second run has eight threads of other processes, each of which needs a quarter of a CPU, on eight CPUs.
  const result alone = run("numa-q", "ideal", "null", 8, {}, 200000000);
  const result beside = run("numa-q", "ideal", "null", 8, {}, 200000000, 8);
  EXPECT_EQ(alone.involuntary, 0u);
  EXPECT_GT(beside.voluntary, 50u) << "the threads sleep in between";
  EXPECT_LT(beside.throughput, 0.95 * alone.throughput);
  EXPECT_GT(beside.throughput, 0.6 * alone.throughput);
  EXPECT_EQ(beside.operations.size(), 8u);
}

TEST(programs, a_point_that_cannot_be_run_says_why) {
  EXPECT_THROW(run("x5-2", "no-such", "ticket-spin", 1), std::runtime_error);
  EXPECT_THROW(run("x5-2", "mutexbench", "no-such", 1), std::runtime_error);
  EXPECT_THROW(run("x5-2", "mutexbench", "ticket-spin", 1, {{"color", 1}}), workloads::bad_program);
  EXPECT_THROW(run("x5-2", "mutexbench", "ticket-spin", 1, {{"cs", -1}}), workloads::bad_program);
  EXPECT_THROW(run("x5-2", "randarray", "ticket-spin", 1), bad_machine) << "it has no section [cache]";
}

}  // namespace
}  // namespace usher::sim
