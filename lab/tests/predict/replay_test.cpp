// Tests of the replay on a simulated machine.
#include <gtest/gtest.h>

#include <numeric>

#include "lab/predict/prediction.hpp"
#include "made_recording.hpp"

namespace usher::predict {
namespace {

sim::machine machine() {
  return sim::read_machine(USHER_MACHINES "/x5-2.toml");
}

sim::point point(unsigned threads, const std::string& lock = "futex", std::uint64_t seed = 1) {
  sim::point p;
  p.lock = lock;
  p.threads = threads;
  p.seed = seed;
  p.run_ns = 2000000;
  return p;
}

prediction predicted(const recording::recording& r, const sim::point& p, const plan_changes& changes = {}) {
  return predict_point(machine(), make_plan(r, changes), changes, p, {});
}

recording::recording one_mutex(std::uint64_t outside, std::uint64_t inside) {
  made_recording r;
  const auto m = r.mutex();
  r.window();
  for (unsigned t = 0; t < 2; t++) r.thread(t).sections(m, 50, outside, inside);
  return r.get();
}

TEST(replay, one_thread_makes_the_recorded_operations) {
  const prediction p = predicted(one_mutex(9000, 1000), point(1));
  EXPECT_NEAR(p.operations_per_second, 100000, 2000);
  EXPECT_NEAR(p.run.cpus_used, 1, 0.01);
  ASSERT_EQ(p.locks.size(), 1u);
  EXPECT_NEAR(p.locks[0].utilisation, 0.1, 0.01);
  EXPECT_EQ(p.working_set, 1);
}

TEST(replay, a_mutex_limits_many_threads) {
  const prediction p = predicted(one_mutex(9000, 1000), point(32));
  EXPECT_GT(p.locks.at(0).wanted, 0.95);
  EXPECT_LT(p.operations_per_second, 1e6);
  EXPECT_GT(p.waiting_share, 0.5);
  EXPECT_GT(p.longest_wait, 1000u);
  EXPECT_GT(p.working_set, 20);
}

TEST(replay, halved_sections_and_split_mutexes_let_more_pass) {
  const recording::recording r = one_mutex(9000, 1000);
  const double before = predicted(r, point(32)).operations_per_second;
  plan_changes changes;
  changes.halved_objects = {0};
  EXPECT_GT(predicted(r, point(32), changes).operations_per_second, 1.4 * before);
  changes = {};
  changes.split[0] = 16;
  const prediction split = predicted(r, point(32), changes);
  EXPECT_GT(split.operations_per_second, 2 * before);
  EXPECT_NE(split.locks.at(0).part, split.locks.at(1).part);
}

TEST(replay, a_seed_determines_it) {
  const recording::recording r = one_mutex(900, 300);
  for (const char* lock : {"futex", "mcs", "steady"}) {
    const prediction a = predicted(r, point(8, lock, 3)), b = predicted(r, point(8, lock, 3)),
                     other = predicted(r, point(8, lock, 4));
    EXPECT_EQ(a.run.operations, b.run.operations) << lock;
    EXPECT_EQ(a.run.events, b.run.events) << lock;
    EXPECT_EQ(a.longest_wait, b.longest_wait) << lock;
    EXPECT_NE(a.run.events, other.run.events) << lock;
  }
}

TEST(replay, time_off_the_cpu_needs_no_cpu) {
  made_recording r;
  const auto m = r.mutex();
  r.window().thread(0);
  for (unsigned i = 0; i < 10; i++)
    r.event(contract::verb::lock, m, 10000, 0, 0, 90000).event(contract::verb::unlock, m, 100);
  const prediction p = predicted(r.get(), point(4));
  EXPECT_NEAR(p.operations_per_second, 40000, 3000);
  EXPECT_LT(p.run.cpus_used, 1);
}

/// A recording of a slow producer and of consumers that wait for each item.
recording::recording producer_and_consumer(unsigned consumers) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window();
  r.thread(0, "producer");
  for (unsigned i = 0; i < 100; i++)
    r.event(contract::verb::lock, m, 9000).event(contract::verb::signal, c, 500).event(contract::verb::unlock, m, 500);
  for (unsigned t = 1; t <= consumers; t++) {
    r.thread(t, "consumer");
    for (unsigned i = 0; i < 100 / consumers; i++)
      r.event(contract::verb::lock, m, 100)
          .event(contract::verb::wait, c, 0, consumers * 10000 - 300, m)
          .event(contract::verb::unlock, m, 200);
  }
  return r.get();
}

TEST(replay, consumers_go_no_faster_than_the_producer) {
  for (const char* lock : {"futex", "mcs", "steady"}) {
    const prediction p = predicted(producer_and_consumer(1), point(2, lock));
    // For each item the producer and a consumer lock once; an item takes 10 µs and a wake-up.
    EXPECT_NEAR(p.operations_per_second, 170000, 20000) << lock;
    EXPECT_GT(p.token_share, 0.2) << lock;
    EXPECT_EQ(p.stalls, 0u) << lock;
  }
}

TEST(replay, threads_that_all_wait_for_each_other_go_on_and_are_counted) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window();
  // Thread 0 waits more often than thread 1 signals.
  r.thread(0)
      .event(contract::verb::lock, m, 10)
      .event(contract::verb::wait, c, 0, 500, m)
      .event(contract::verb::wait, c, 100, 500, m)
      .event(contract::verb::unlock, m, 1);
  r.thread(1)
      .event(contract::verb::signal, c, 300)
      .event(contract::verb::lock, m, 500)
      .event(contract::verb::signal, c, 1)
      .event(contract::verb::unlock, m, 1);
  auto& waits = r.get().windows[0].streams[0].events;
  for (unsigned i = 0; i < 3; i++) waits.insert(waits.end(), waits.begin(), waits.begin() + 4);
  const prediction p = predicted(r.get(), point(2));
  EXPECT_GT(p.operations_per_second, 1000);
}

TEST(replay, semaphores_barriers_and_read_write_locks) {
  made_recording r;
  const auto m = r.mutex(), s = r.add(contract::kind::semaphore), b = r.add(contract::kind::barrier),
             w = r.add(contract::kind::rwlock);
  r.window();
  for (unsigned t = 0; t < 2; t++) {
    r.thread(t);
    for (unsigned i = 0; i < 20; i++) {
      r.event(contract::verb::semaphore_wait, s, 500, 2000).event(contract::verb::semaphore_post, s, 1000);
      r.event(i % 4 != 0 ? contract::verb::read_lock : contract::verb::write_lock, w, 100)
          .event(contract::verb::read_write_unlock, w, 300);
      r.event(contract::verb::lock, m, 100).event(contract::verb::unlock, m, 100);
      if (i % 5 == 4) r.event(contract::verb::barrier_wait, b, 10, 100);
    }
  }
  for (const unsigned threads : {1u, 2u, 7u, 80u}) {
    const prediction p = predicted(r.get(), point(threads, "steady"));
    EXPECT_GT(p.operations_per_second, 10000) << threads;
    EXPECT_EQ(p.not_acquired, 0u);
  }
}

TEST(replay, hostile_recordings_end) {
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  made_recording r;
  const auto a = r.mutex(), b = r.mutex(), c = r.add(contract::kind::condition);
  r.window(huge);
  // Never unlocks; locks in both orders; works and sleeps for ever; no time at all.
  r.thread(0, "x").event(contract::verb::lock, a).event(contract::verb::lock, b).event(contract::verb::lock, a);
  r.thread(1, "x").event(contract::verb::lock, b).event(contract::verb::lock, a);
  r.thread(2, "y").event(contract::verb::lock, a, huge, huge, 0, huge).event(contract::verb::wait, c, huge, huge, a);
  r.thread(3, "z").event(contract::verb::lock, b).event(contract::verb::unlock, b);
  for (const char* lock : {"futex", "mcs", "steady", "c-bo-mcs"}) {
    const prediction p = predicted(r.get(), point(8, lock));
    EXPECT_EQ(p.run.operations.size(), 8u) << lock;
  }
}

TEST(replay, sleeps_need_a_scheduler) {
  sim::machine m = machine();
  m.os.reset();
  made_recording r;
  const auto mutex = r.mutex();
  r.window().thread(0).event(contract::verb::lock, mutex, 10, 0, 0, 10).event(contract::verb::unlock, mutex, 5);
  EXPECT_THROW(check_prediction(m, make_plan(r.get()), {}, point(2, "mcs-spin")), bad_recording);
  EXPECT_NO_THROW(check_prediction(m, make_plan(one_mutex(10, 10)), {}, point(2, "mcs-spin")));
  EXPECT_THROW(check_prediction(m, make_plan(one_mutex(10, 10)), {}, point(2, "mcs")), std::runtime_error);
}

}  // namespace
}  // namespace usher::predict
