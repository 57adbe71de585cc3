// Tests of the native world: its counts, the placement of threads, reads of blocks, and its detection of a lock without
// exclusion.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "lab/bench/native/native_point.hpp"
#include "lab/bench/native/native_world.hpp"
#include "lab/bench/native/topology.hpp"
#include "usher/catalog.hpp"

namespace usher::bench {
namespace {

using workloads::placement;

// ---- durations

TEST(histogram, small_durations_are_exact) {
  histogram h;
  for (std::uint64_t ns = 1; ns <= 20; ns++) h.add(ns);
  const support::durations d = h.summary();
  EXPECT_EQ(d.count, 20u);
  EXPECT_DOUBLE_EQ(d.mean, 10.5);
  EXPECT_EQ(d.median, 11u);
  EXPECT_EQ(d.p99, 20u);
  EXPECT_EQ(d.longest, 20u);
  EXPECT_EQ(h.sum(), 210u);
}

TEST(histogram, all_are_right_to_a_sixteenth) {
  for (std::uint64_t ns = 1; ns != 0 && ns < ~std::uint64_t{0} / 3; ns += ns / 5 + 1) {
    histogram h;
    h.add(ns);
    h.add(~std::uint64_t{0} / 2);  // otherwise the longest duration would be exact
    h.add(ns);
    const auto seen = static_cast<double>(h.summary().median);
    EXPECT_NEAR(seen, static_cast<double>(ns), static_cast<double>(ns) / 16);
  }
}

TEST(histogram, they_add_up) {
  histogram a, b;
  a.add(10);
  b.add(1000000);
  a.add(b);
  EXPECT_EQ(a.summary().count, 2u);
  EXPECT_EQ(a.summary().longest, 1000000u);
}

TEST(metrics, the_smallest_share) {
  const std::vector<std::uint64_t> even{5, 5, 5}, one{0, 9}, none{0, 0};
  EXPECT_DOUBLE_EQ(support::smallest_share(even), 1);
  EXPECT_DOUBLE_EQ(support::smallest_share(one), 0);
  EXPECT_DOUBLE_EQ(support::smallest_share(none), 0);
}

// ---- CPUs

class topology : public testing::Test {
 protected:
  /// Describes two sockets with two cores each and two hardware threads per core. CPUs are numbered as by a kernel that
  /// counts the first hardware threads of all cores first. The numbers of sockets and cores have gaps.
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "usher-native-test-cpus";
    for (unsigned id = 0; id < 8; id++) {
      const auto at = folder_ / ("cpu" + std::to_string(id)) / "topology";
      std::filesystem::create_directories(at);
      std::ofstream(at / "physical_package_id") << (id % 4 / 2) * 3 << "\n";
      std::ofstream(at / "core_id") << (id % 2) * 4 << "\n";
    }
    cpus_ = cpus_of(folder_, std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<unsigned> ids(placement where, unsigned threads) const {
    std::vector<unsigned> all;
    for (const cpu& c : places(cpus_, where, threads)) all.push_back(c.id);
    return all;
  }

  std::filesystem::path folder_;
  std::vector<cpu> cpus_;
};

TEST_F(topology, is_read) {
  ASSERT_EQ(cpus_.size(), 8u);
  EXPECT_EQ(cpus_[0], (cpu{0, 0, 0, 0}));
  EXPECT_EQ(cpus_[1], (cpu{4, 0, 0, 1}));
  EXPECT_EQ(cpus_[2], (cpu{1, 0, 1, 0}));
  EXPECT_EQ(cpus_[7], (cpu{7, 1, 1, 1}));
}

TEST_F(topology, scattered_goes_round_the_sockets) {
  EXPECT_EQ(ids(placement::scattered, 10), (std::vector<unsigned>{0, 2, 1, 3, 4, 6, 5, 7, 0, 2}));
}

TEST_F(topology, compact_fills_sockets_and_second_hardware_threads_last) {
  EXPECT_EQ(ids(placement::compact, 8), (std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(topology, even_gives_each_socket_its_part) {
  EXPECT_EQ(ids(placement::even, 4), (std::vector<unsigned>{0, 1, 2, 3}));
  EXPECT_EQ(ids(placement::even, 6), (std::vector<unsigned>{0, 1, 4, 2, 3, 6}));
  EXPECT_EQ(ids(placement::even, 1), (std::vector<unsigned>{0}));
}

TEST_F(topology, what_is_not_known_is_one_socket) {
  const std::vector<cpu> some = cpus_of(folder_ / "none", std::vector<unsigned>{3, 7});
  EXPECT_EQ(some, (std::vector<cpu>{{3, 0, 0, 0}, {7, 0, 1, 0}}));
}

TEST(cpus, this_computer_has_some) {
  EXPECT_FALSE(usable_cpus().empty());
}

// ---- the world

std::uintptr_t place_of(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

class native_world : public testing::Test {
 protected:
  world world_{2, *find_lock("ticket"), {{"cs", 4}}, false};
};

TEST_F(native_world, objects_are_on_lines_of_their_own) {
  int &a = world_.make<int>(), &b = world_.make<int>();
  EXPECT_EQ(place_of(&a) % line_pair, 0u);
  EXPECT_EQ(place_of(&b) % line_pair, 0u);
  EXPECT_NE(&a, &b);
  EXPECT_EQ(a, 0);
}

TEST_F(native_world, blocks_can_be_read_to_their_end) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  world::thread t(world_, 0, 1);
  for (const auto& [bytes, page] : {std::pair<std::size_t, std::size_t>{3 * mib, 2 * mib}, {100000, 8192}, {8, 4096}}) {
    const world::block b = world_.make_block(bytes, page);
    EXPECT_EQ(place_of(b.begin) % (page >= mib ? 2 * mib : 4096), 0u);
    t.fetch(b, bytes - sizeof(std::uint64_t));
    t.fetch_at_random(b, 1000);
    EXPECT_NE(b.begin[bytes - 1], 0) << "otherwise all pages may be the same page";
  }
}

TEST_F(native_world, objects_that_lie_apart_keep_what_is_not_cleared) {
  world::thread t(world_, 0, 1);
  constexpr std::size_t n = 50, distance = 208;
  const auto all = world_.make_spaced<std::uint64_t>(n, distance, 8192);
  for (std::size_t i = 0; i < n; i++) {
    EXPECT_EQ(place_of(&all[i]) - place_of(&all[0]), i * distance);
    EXPECT_EQ(all[i], 0u);
    all[i] = i + 1;
  }
  constexpr std::size_t word = sizeof(std::uint64_t);
  for (std::size_t i = 0; i < n; i++) t.clear(all, i * distance + word, distance - word);
  for (std::size_t i = 0; i < n; i++) {
    EXPECT_EQ(all[i], i + 1);
    const char* const bytes = reinterpret_cast<const char*>(&all[i]);
    for (std::size_t k = word; k < distance; k++) ASSERT_EQ(bytes[k], 0);
  }
  EXPECT_THROW(world_.make_spaced<std::uint64_t>(2, 4, 8192), std::logic_error);
}

TEST_F(native_world, chance_is_in_bounds_and_follows_from_the_seed) {
  world::thread a(world_, 0, 1), same(world_, 0, 1), other(world_, 1, 1);
  unsigned differ = 0;
  for (unsigned i = 0; i < 1000; i++) {
    const std::uint32_t v = a.uniform(100);
    EXPECT_LT(v, 100u);
    EXPECT_EQ(v, same.uniform(100));
    differ += v != other.uniform(100);
  }
  EXPECT_GT(differ, 900u);
  EXPECT_EQ(a.uniform(0), 0u);
}

TEST_F(native_world, a_shared_generator_is_its_own_witness) {
  auto& g = world_.make<world::generator>();
  world::thread t(world_, 0, 1);
  for (int i = 0; i < 100; i++) t.steps(g, 7);
  EXPECT_EQ(t.shared_steps(), 700u);
  EXPECT_TRUE(world_.is_generator_at(700));
  EXPECT_FALSE(world_.is_generator_at(699));
}

TEST_F(native_world, a_metered_lock_is_timed_while_that_is_measured) {
  world w(1, *find_lock("ticket"), {}, true);
  world::lock first = w.make_lock(), second = w.make_lock();
  world::thread t(w, 0, 1);
  const auto use = [](world::lock& l) {
    l.lock();
    l.unlock();
  };
  use(first);
  EXPECT_EQ(t.waits().summary().count, 0u);
  w.measure();
  use(first);
  use(second);
  EXPECT_EQ(t.waits().summary().count, 1u) << "only the first lock is watched";
  EXPECT_EQ(t.holds().summary().count, 1u);
  EXPECT_FALSE(t.over());
  w.end();
  EXPECT_TRUE(t.over());
  use(first);
  EXPECT_EQ(t.waits().summary().count, 1u);
  EXPECT_FALSE(t.waited_at_end());
}

// ---- runs

point short_point(const char* workload, const char* lock, unsigned threads) {
  point p;
  p.workload = workload;
  p.lock = lock;
  p.threads = threads;
  p.run_ns = 20000000;
  return p;
}

TEST(runs, count_what_threads_do) {
  point p = short_point("mutexbench", "futex", 2);
  p.parameters["shared"] = 1;
  result r;
  double sum = 0;
  // On a busy machine a short run may end before a thread gets a CPU, so the run is repeated with twice the length.
  for (p.run_ns = 100000000; sum == 0 && p.run_ns < 60000000000; p.run_ns *= 2) {
    r = run_point(p);
    sum = static_cast<double>(std::accumulate(r.operations.begin(), r.operations.end(), std::uint64_t{0}));
  }
  EXPECT_EQ(r.operations.size(), 2u);
  EXPECT_GT(sum, 0);
  EXPECT_DOUBLE_EQ(r.throughput, sum / (r.seconds * 1e6));
  EXPECT_GE(r.seconds, 0.1);
  EXPECT_EQ(r.exclusive, true);
  EXPECT_EQ(r.lock, "futex");
}

TEST(runs, time_waits_where_they_are_of_interest) {
  const result r = run_point(short_point("reflex", "futex", 1));
  ASSERT_TRUE(r.metered);
  ASSERT_EQ(r.groups.size(), 1u);
  EXPECT_GE(r.groups[0].waits.longest, r.groups[0].waits.median);
  EXPECT_LE(r.utilisation, 1.01);
}

TEST(runs, say_what_they_cannot_do) {
  EXPECT_THROW(run_point(short_point("none", "futex", 1)), std::runtime_error);
  EXPECT_THROW(run_point(short_point("mutexbench", "none", 1)), std::runtime_error);
  EXPECT_THROW(run_point(short_point("reflex", "null", 1)), workloads::bad_program);
  point p = short_point("mcsg-loop", "futex", 1);
  p.parameters["guests"] = 1;
  EXPECT_THROW(run_point(p), workloads::bad_program);
}

TEST(runs, threads_are_pinned) {
  point p = short_point("quads", "futex", 2);
  p.pinned = true;
  EXPECT_EQ(run_point(p).sockets.size(), 2u);
}

}  // namespace
}  // namespace usher::bench
