// The waiting by windows, as the observer samples it from a record, and as rows of a report have it.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

#include "synthetic.hpp"
#include "watch/reader/print/stat_json.hpp"
#include "watch/reader/read/window_sampler.hpp"

namespace usher::reader {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class windows_of_a_record : public testing::Test {
 protected:
  std::uint32_t mutex(std::uint64_t address) {
    const std::uint32_t i = made.object(kind::mutex, address);
    made.detail(i);
    return i;
  }
  std::uint64_t waited(std::size_t series) {
    const std::vector<std::uint64_t> all = sampler.windows().all.at(series).waited;
    return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  }

  synthetic made;
  std::uint32_t thread = made.thread(101);
  window_sampler sampler{contract::live(made.view), 0};
};

TEST_F(windows_of_a_record, EndedWaitsAndThreads) {
  const std::uint32_t m = mutex(0x1000);
  sampler.sample(50 * ms);
  made.at(m).waited = 30 * ms;
  sampler.sample(100 * ms);
  made.thread(102);
  sampler.sample(150 * ms);
  const waiting_windows w = sampler.windows();
  EXPECT_EQ(w.ends, (std::vector<std::uint64_t>{50 * ms, 100 * ms, 150 * ms}));
  EXPECT_EQ(w.threads, (std::vector<std::uint64_t>{50 * ms, 50 * ms, 100 * ms}));
  ASSERT_EQ(w.all.size(), 1u);
  EXPECT_EQ(w.all[0].waited, (std::vector<std::uint64_t>{0, 30 * ms, 0}));
}

TEST_F(windows_of_a_record, AWaitCountsInEachWindowThatItIsIn) {
  const std::uint32_t m = mutex(0x1000);
  made.waits(thread, m, 20 * ms);
  sampler.sample(50 * ms);
  sampler.sample(100 * ms);
  made.at(m).waiting = 0;
  made.at(m).waited = 100 * ms;
  sampler.sample(150 * ms);
  EXPECT_EQ(sampler.windows().all[0].waited, (std::vector<std::uint64_t>{30 * ms, 50 * ms, 20 * ms}));
}

TEST_F(windows_of_a_record, AFirstWaitCountsWithoutADetail) {
  const std::uint32_t m = made.object(kind::join, 0x1000);
  made.waits(thread, m, 20 * ms);
  made.waits(made.thread(102), m, 30 * ms);
  sampler.sample(50 * ms);
  EXPECT_EQ(waited(0), 50 * ms);
}

TEST_F(windows_of_a_record, AProcessThatHasEndedWaitsNoMore) {
  const std::uint32_t m = mutex(0x1000);
  made.waits(thread, m, 0);
  sampler.sample(50 * ms);
  made.view.process(0).ended = 60 * ms;
  sampler.sample(100 * ms);
  sampler.sample(150 * ms);
  EXPECT_EQ(waited(0), 60 * ms);
}

TEST_F(windows_of_a_record, ADestroyedObjectMovesItsCountsToASum) {
  const std::uint32_t chain = made.chain({0x400100});
  const std::uint32_t one = made.placed(kind::mutex, 0x7000, chain);
  const std::uint32_t sum = made.placed(kind::mutex, 0x400100, chain, contract::is_sum);
  made.detail(one);
  made.detail(sum);
  made.at(one).waited = 20 * ms;
  sampler.sample(50 * ms);
  made.at(sum).waited = 20 * ms;
  made.at(one).waited = 0;
  sampler.sample(100 * ms);
  made.at(one).waited = 5 * ms;
  sampler.sample(150 * ms);
  ASSERT_EQ(sampler.windows().all.size(), 1u);
  EXPECT_EQ(sampler.windows().all[0].waited, (std::vector<std::uint64_t>{20 * ms, 0, 5 * ms}));
}

TEST_F(windows_of_a_record, NeighboursBecomeOne) {
  const std::uint32_t m = mutex(0x1000);
  for (std::uint64_t i = 1; i <= 1000; i++) {
    made.at(m).waited += i * 1000;
    sampler.sample(i * 50 * ms);
  }
  const waiting_windows w = sampler.windows();
  EXPECT_LE(w.ends.size(), window_sampler::most_windows);
  EXPECT_GE(w.ends.size(), window_sampler::most_windows / 2 - 1);
  EXPECT_EQ(w.ends.back(), 50'000 * ms);
  EXPECT_EQ(w.ends[1] - w.ends[0], w.ends[0]);
  EXPECT_EQ(std::accumulate(w.threads.begin(), w.threads.end(), std::uint64_t{0}), 50'000 * ms);
  EXPECT_EQ(waited(0), 1000u * 1001 / 2 * 1000);
}

TEST_F(windows_of_a_record, ForgedWordsAreLimited) {
  const std::uint32_t m = mutex(0x1000);
  made.at(m).waited = ~std::uint64_t{0};
  made.at(m).waiting = ~std::uint64_t{0};
  made.view.head().details = ~0u;
  made.view.head().threads = ~0u;
  made.view.detail(5).object = ~0u;
  made.view.detail(6).object = 3000;
  made.at(2999).detail = 7;
  made.at(2999).key = ~std::uint64_t{0};
  made.at(2999).depth_and_kind = 255;
  made.view.detail(7).object = 3001;
  made.at(3000).detail = 8;
  made.at(3000).key = contract::key_of(60000, 0x1000);
  made.at(3000).depth_and_kind = int(kind::rwlock);
  made.at(3000).place = ~0u;
  made.at(3000).waiting = contract::arrival(5);
  sampler.sample(50 * ms);
  EXPECT_EQ(sampler.windows().all.size(), 2u);
  EXPECT_LE(waited(0), 100 * ms);
  EXPECT_LE(waited(1), 100 * ms);
}

TEST_F(windows_of_a_record, AreLimitedInNumber) {
  contract::capacities room = synthetic::small();
  room.objects = 8192;
  room.details = 8192;
  synthetic big(room);
  for (std::uint32_t i = 0; i < 6000; i++) big.detail(big.object(kind::mutex, 0x1000 + i * 64));
  window_sampler all(contract::live(big.view), 0);
  all.sample(50 * ms);
  EXPECT_EQ(all.windows().all.size(), window_sampler::most_series);
}

TEST_F(windows_of_a_record, TheReportHasThem) {
  made_up_names names(made.view);
  names.variable(0x1000, "hot", 40);
  const std::uint32_t m = mutex(0x1000);
  made.object(kind::mutex, 0x2000);
  made.at(m).acquisitions = 9;
  made.at(m).contended = 1;
  made.at(m).waited = 30 * ms;
  sampler.sample(50 * ms);
  sampler.sample(100 * ms);
  const waiting_windows w = sampler.windows();
  const report r = read_report(made.view, {0, 100 * ms, 1e-9}, names, 100, nullptr, &w);
  ASSERT_TRUE(r.windows);
  ASSERT_EQ(r.rows.size(), 1u);
  EXPECT_EQ(r.rows[0].windows.size(), 2u);
  EXPECT_NEAR(r.rows[0].windows[0], 0.03, 1e-9);
  const auto j = as_json(r);
  EXPECT_EQ(j["windows"]["ends"].size(), 2u);
  EXPECT_EQ(j["rows"][0]["windows"].size(), 2u);
  EXPECT_TRUE(as_json(read_report(made.view, {0, 100 * ms, 1e-9}, names, 100))["windows"].is_null());
}

}  // namespace
}  // namespace usher::reader
