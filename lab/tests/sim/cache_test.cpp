// Tests of caches, TLBs and memory channels: arrays that fit produce hits, larger arrays produce misses.
#include "lab/sim/cache.hpp"

#include <gtest/gtest.h>

namespace usher::sim {
namespace {

constexpr std::uint64_t large = std::uint64_t{2} << 20, kib = 1024;

machine small() {
  machine m;
  m.name = "small";
  m.sockets = 2;
  m.cores = 2;
  m.hardware_threads = 2;
  m.caches = machine::cache{.bytes = 1024 * kib,
                            .ways = 16,
                            .line = 64,
                            .private_bytes = 0,
                            .private_ways = 8,
                            .access = 10,
                            .hit = 5,
                            .miss = 100,
                            .channel = 20,
                            .tlb_entries = 8,
                            .tlb_miss = 1000};
  return m;
}

/// Returns the misses per load of CPU 0 after a warm-up.
double miss_ratio(const machine& m, std::uint64_t bytes) {
  caches c(m);
  random chance(1);
  const auto b = c.make_block(bytes, large);
  for (int i = 0; i < 2000; i++) c.load_at_random(b, 100, 0, 0, chance);
  const auto before = c.counted();
  for (int i = 0; i < 2000; i++) c.load_at_random(b, 100, 0, 0, chance);
  return double(c.counted().misses - before.misses) / double(c.counted().loads - before.loads);
}

TEST(caches, what_fits_stays) {
  EXPECT_LT(miss_ratio(small(), 512 * kib), 0.003);
  EXPECT_NEAR(miss_ratio(small(), 2048 * kib), 0.5, 0.05);
  EXPECT_NEAR(miss_ratio(small(), 8192 * kib), 0.875, 0.03);
}

TEST(caches, the_cache_is_not_fully_associative) {
  EXPECT_GT(miss_ratio(small(), 960 * kib), 0.01) << "some sets have more lines than ways";
}

TEST(caches, each_socket_has_its_own) {
  caches c(small());
  random chance(1);
  const auto b = c.make_block(512 * kib, large);
  for (int i = 0; i < 2000; i++) c.load_at_random(b, 100, 0, 0, chance);
  const auto before = c.counted().misses;
  c.load_at_random(b, 1000, 4, 0, chance);  // the other socket's first CPU
  EXPECT_GT(c.counted().misses - before, 900u);
}

TEST(caches, tells_who_displaces_whose_lines) {
  caches c(small());
  random chance(1);
  const auto mine = c.make_block(512 * kib, large), theirs = c.make_block(8192 * kib, large);
  for (int i = 0; i < 2000; i++) c.load_at_random(mine, 100, 0, 0, chance);
  EXPECT_EQ(c.counted().others_displaced, 0u);
  for (int i = 0; i < 2000; i++) c.load_at_random(theirs, 100, 2, 0, chance);
  EXPECT_GT(c.counted().others_displaced, 5000u) << "all lines of CPU 0 were displaced";
  EXPECT_GT(c.counted().own_displaced, 50000u) << "then CPU 2's own lines were displaced";
}

TEST(caches, a_private_cache_answers_first) {
  machine m = small();
  m.caches->private_bytes = 128 * kib;
  caches c(m);
  random chance(1);
  const auto b = c.make_block(64 * kib, large);
  for (int i = 0; i < 500; i++) c.load_at_random(b, 100, 0, 0, chance);
  const auto before = c.counted().private_hits;
  const auto cost = c.load_at_random(b, 100, 1, 0, chance);  // the core's other hardware thread
  EXPECT_EQ(c.counted().private_hits - before, 100u);
  EXPECT_EQ(cost.busy, 1000u);
  EXPECT_EQ(cost.stall, 0u);
}

TEST(caches, a_miss_waits_for_memory_and_for_the_channels) {
  caches c(small());
  const auto b = c.make_block(8 * 8192, 8192);  // with small pages every load is simulated
  EXPECT_EQ(c.load(b, 0, 0, 0).stall, 5u + 100u + 1000u) << "the page was not in the TLB either";
  EXPECT_EQ(c.load(b, 0, 0, 0).stall, 5u);
  cycles last = 0;
  for (int i = 1; i < 8; i++) last = c.load(b, std::uint64_t(i) * 64, 0, 0).stall;
  EXPECT_EQ(last, 5u + 8 * 20u) << "eight misses at once: the channels are behind";
}

TEST(caches, a_tlb_has_so_many_pages_and_no_more) {
  caches c(small());
  const auto b = c.make_block(16 * 8192, 8192);
  const auto walk = [&](int pages, unsigned cpu) {
    const auto before = c.counted().tlb_misses;
    for (int i = 0; i < pages; i++) c.load(b, std::uint64_t(i) * 8192, cpu, 0);
    return c.counted().tlb_misses - before;
  };
  EXPECT_EQ(walk(8, 0), 8u);
  EXPECT_EQ(walk(8, 0), 0u);
  EXPECT_EQ(walk(8, 1), 0u) << "hardware threads of a core share the TLB";
  EXPECT_EQ(walk(8, 2), 8u) << "another core has its own TLB";
  walk(9, 0);
  EXPECT_EQ(walk(9, 0), 9u) << "the oldest entry is replaced, so a ring that does not fit always misses";
}

TEST(caches, a_machine_without_caches_says_so) {
  machine m = small();
  m.caches.reset();
  caches c(m);
  EXPECT_THROW(c.make_block(1, large), bad_machine);
}

}  // namespace
}  // namespace usher::sim
