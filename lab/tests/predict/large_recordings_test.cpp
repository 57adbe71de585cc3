// Plans for recordings with many waits, conditions, semaphores, rounds or roles. Each plan takes seconds at most. Work
// that grew with the square of these numbers would exceed the time limit of the test.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "lab/predict/replay_plan.hpp"
#include "lab/predict/signal_rules.hpp"
#include "made_recording.hpp"

namespace usher::predict {
namespace {

std::vector<std::uint32_t> several(made_recording& r, contract::kind kind, unsigned n) {
  std::vector<std::uint32_t> all;
  for (unsigned i = 0; i < n; i++) all.push_back(r.add(kind));
  return all;
}

TEST(large_recordings, many_conditions_of_one_mutex) {
  made_recording r;
  const auto m = r.mutex();
  const auto conditions = several(r, contract::kind::condition, 100'000);
  r.window();
  r.thread(0);
  for (const auto c : conditions)
    for (int i = 0; i < 5; i++)
      r.event(contract::verb::lock, m, 1).event(contract::verb::wait, c, 1, 10, m).event(contract::verb::unlock, m, 1);
  r.thread(1);
  for (const auto c : conditions)
    for (int i = 0; i < 5; i++) r.event(contract::verb::signal, c, 13);
  const signal_facts f = find_signals(r.get());
  for (const auto c : conditions) ASSERT_NE(f.conditions[c].rule, signal_rule::none);
}

TEST(large_recordings, many_conditions_that_open_rounds) {
  made_recording r;
  const auto m = r.mutex();
  const auto conditions = several(r, contract::kind::condition, 40'000);
  const auto end = r.add(contract::kind::condition);
  r.window();
  r.thread(0);
  for (const auto c : conditions)
    for (int i = 0; i < 5; i++)
      r.event(contract::verb::lock, m, 100)
          .event(contract::verb::broadcast, c, 1)
          .event(contract::verb::wait, end, 1, 500, m)
          .event(contract::verb::unlock, m, 1);
  r.thread(1);
  for (const auto c : conditions)
    for (int i = 0; i < 5; i++)
      r.event(contract::verb::lock, m, 90)
          .event(contract::verb::wait, c, 1, 12, m)
          .event(contract::verb::unlock, m, 1)
          .event(contract::verb::signal, end, 1);
  const signal_facts f = find_signals(r.get());
  EXPECT_EQ(f.conditions[end].waits, 200'000u);
}

TEST(large_recordings, many_rounds_and_many_parties) {
  made_recording r;
  const auto m = r.mutex(), opened = r.add(contract::kind::condition), end = r.add(contract::kind::condition);
  r.window();
  r.thread(0).event(contract::verb::lock, m, 100);
  for (int i = 0; i < 200'000; i++) r.event(contract::verb::broadcast, opened, 1);
  for (int i = 0; i < 6; i++) r.event(contract::verb::wait, end, 1, 10, m);
  r.event(contract::verb::unlock, m, 1);
  for (unsigned t = 1; t <= 100'000; t++)
    r.thread(t)
        .event(contract::verb::lock, m, 1)
        .event(contract::verb::wait, opened, 1, 5, m)
        .event(contract::verb::unlock, m, 1);
  r.event(contract::verb::signal, end, 1);
  EXPECT_EQ(find_signals(r.get()).conditions[opened].signals, 200'000u);
}

TEST(large_recordings, many_semaphores_in_pairs) {
  made_recording r;
  const auto m = r.mutex();
  const auto semaphores = several(r, contract::kind::semaphore, 400'000);
  r.window().thread(0);
  for (const auto s : semaphores)
    r.event(contract::verb::semaphore_wait, s, 1, 10).event(contract::verb::semaphore_post, s, 1).sections(m, 1, 1, 1);
  const replay_plan p = make_plan(r.get());
  EXPECT_TRUE(p.semaphores.at(semaphores.front()).in_pairs);
  EXPECT_EQ(p.roles[0].starts.size(), 2 * semaphores.size()) << "before each wait, and before each section";
}

TEST(large_recordings, many_roles) {
  made_recording r;
  const auto m = r.mutex();
  r.window();
  constexpr unsigned n = 400'000;
  for (unsigned t = 0; t < n; t++) r.thread(t, std::to_string(t)).sections(m, 1, 1, 1);
  const replay_plan p = make_plan(r.get());
  for (const unsigned threads : {n / 2, n * 3 / 2}) {
    const auto all = threads_of_roles(p, {}, threads);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0u), threads);
  }
}

}  // namespace
}  // namespace usher::predict
