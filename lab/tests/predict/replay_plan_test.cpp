// Tests of the plan: roles, tapes, slots, and recordings that contradict themselves.
#include "lab/predict/replay_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "lab/predict/thin_out.hpp"
#include "made_recording.hpp"

namespace usher::predict {
namespace {

std::vector<step_kind> kinds(const role& r) {
  std::vector<step_kind> all;
  for (const step& s : r.tape) all.push_back(s.what);
  return all;
}

TEST(plan, threads_are_divided_in_the_recorded_proportion) {
  made_recording r;
  const auto m = r.mutex();
  r.window();
  for (unsigned t = 0; t < 3; t++) r.thread(t, "worker").sections(m, 2, 100, 10);
  r.thread(3, "listener").sections(m, 1, 100, 10);
  const replay_plan p = make_plan(r.get());
  ASSERT_EQ(p.roles.size(), 2u);
  EXPECT_EQ(p.threads, 4u);
  EXPECT_EQ(threads_of_roles(p, {}, 4), (std::vector<unsigned>{3, 1}));
  EXPECT_EQ(threads_of_roles(p, {}, 16), (std::vector<unsigned>{12, 4}));
  EXPECT_EQ(threads_of_roles(p, {}, 2), (std::vector<unsigned>{1, 1})) << "each role has a thread";
  EXPECT_EQ(threads_of_roles(p, {}, 1), (std::vector<unsigned>{1, 0})) << "the larger one";
  for (unsigned n = 1; n < 100; n++) {
    const auto all = threads_of_roles(p, {}, n);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0u), n);
  }
  plan_changes fixed;
  fixed.fixed_roles[1] = 1;
  EXPECT_EQ(threads_of_roles(p, fixed, 16), (std::vector<unsigned>{15, 1}));
  fixed.fixed_roles[1] = 17;
  EXPECT_THROW(threads_of_roles(p, fixed, 16), bad_recording);
  fixed.fixed_roles = {{0, 2}, {1, 2}};
  EXPECT_THROW(threads_of_roles(p, fixed, 16), bad_recording);
  EXPECT_EQ(threads_of_roles(p, fixed, 4), (std::vector<unsigned>{2, 2}));
}

TEST(plan, threads_begin_where_they_hold_nothing) {
  made_recording r;
  const auto a = r.mutex(), b = r.mutex();
  r.window()
      .thread(0)
      .event(contract::verb::lock, a, 5)
      .event(contract::verb::lock, b, 5)
      .event(contract::verb::unlock, b, 5);
  r.event(contract::verb::unlock, a, 5).event(contract::verb::lock, b, 5).event(contract::verb::unlock, b, 5);
  const replay_plan p = make_plan(r.get());
  EXPECT_EQ(p.roles[0].starts, (std::vector<std::uint32_t>{0, 4}));
  EXPECT_EQ(p.roles[0].start_times, (std::vector<std::uint64_t>{0, 20}));
}

TEST(plan, recursive_locking_is_flattened) {
  made_recording r;
  const auto m = r.add(contract::kind::recursive_mutex);
  r.window()
      .thread(0)
      .event(contract::verb::lock, m, 1)
      .event(contract::verb::lock, m, 2)
      .event(contract::verb::unlock, m, 4);
  r.event(contract::verb::unlock, m, 8).event(contract::verb::lock, m, 16).event(contract::verb::unlock, m, 32);
  const replay_plan p = make_plan(r.get());
  EXPECT_EQ(kinds(p.roles[0]),
            (std::vector<step_kind>{step_kind::lock, step_kind::unlock, step_kind::lock, step_kind::unlock}));
  EXPECT_EQ(p.roles[0].tape[1].work, 14u) << "the work of the inner section is not lost";
  EXPECT_EQ(p.left.recursive, 1u);
}

TEST(plan, the_edges_of_a_window_are_mended) {
  made_recording r;
  const auto a = r.mutex(), b = r.mutex();
  r.window()
      .thread(0)
      .event(contract::verb::unlock, a, 7)
      .event(contract::verb::lock, b, 1)
      .event(contract::verb::end, 0, 3);
  const replay_plan p = make_plan(r.get());
  EXPECT_EQ(kinds(p.roles[0]), (std::vector<step_kind>{step_kind::lock, step_kind::unlock}));
  EXPECT_EQ(p.roles[0].tape[0].work, 8u);
  EXPECT_EQ(p.roles[0].tape[1].work, 3u);
  EXPECT_EQ(p.left.unlocks_without_lock, 1u);
  EXPECT_EQ(p.left.held_at_end, 1u);
}

TEST(plan, a_wait_that_cannot_be_inferred_is_a_sleep_and_is_counted) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window()
      .thread(0)
      .event(contract::verb::lock, m, 1)
      .event(contract::verb::wait, c, 2, 500, m)
      .event(contract::verb::unlock, m, 3);
  const replay_plan p = make_plan(r.get());
  EXPECT_EQ(kinds(p.roles[0]), (std::vector<step_kind>{step_kind::lock, step_kind::sleep, step_kind::unlock}));
  EXPECT_EQ(p.roles[0].tape[1].asleep, 500u);
  EXPECT_EQ(p.left.unknown_waits, 1u);
}

TEST(plan, a_signal_after_the_section_posts_its_token_within_it) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window();
  r.thread(0)
      .event(contract::verb::lock, m, 10)
      .event(contract::verb::wait, c, 0, 500, m)
      .event(contract::verb::unlock, m);
  r.thread(1)
      .event(contract::verb::lock, m, 200)
      .event(contract::verb::unlock, m, 10)
      .event(contract::verb::signal, c, 10);
  const replay_plan p = make_plan(r.get());
  const role& both = p.roles[0];
  ASSERT_EQ(both.tape.size(), 6u);
  EXPECT_EQ(both.tape[1].what, step_kind::wait);
  EXPECT_NE(both.tape[4].tokens, none) << "the unlock";
  EXPECT_EQ(both.tape[5].tokens, none) << "the signal";
  EXPECT_EQ(p.tokens.at(both.tape[4].tokens).condition, c);
}

TEST(plan, halve_and_split) {
  made_recording r;
  const auto a = r.mutex(1), b = r.mutex(2);
  r.window().thread(0).sections(a, 1, 100, 40).sections(b, 1, 100, 60);
  plan_changes changes;
  changes.halved_objects = {a};
  EXPECT_EQ(make_plan(r.get(), changes).roles[0].tape[1].work, 20u);
  EXPECT_EQ(make_plan(r.get(), changes).roles[0].tape[3].work, 60u);
  EXPECT_EQ(make_plan(r.get(), changes).roles[0].tape[2].work, 100u) << "work outside";
  changes = {};
  changes.halved_sites = {2};
  EXPECT_EQ(make_plan(r.get(), changes).roles[0].tape[3].work, 30u);
  changes = {};
  changes.split[b] = 16;
  const replay_plan p = make_plan(r.get(), changes);
  EXPECT_EQ(p.slots[p.roles[0].tape[2].on].objects.size(), 16u);
  EXPECT_EQ(p.slots[p.roles[0].tape[0].on].objects.size(), 1u);
  changes.split = {{7, 2}};
  EXPECT_THROW(make_plan(r.get(), changes), bad_recording);
}

TEST(plan, a_mutex_with_a_condition_is_not_split) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window()
      .thread(0)
      .event(contract::verb::lock, m, 1)
      .event(contract::verb::wait, c, 2, 500, m)
      .event(contract::verb::unlock, m, 3);
  plan_changes changes;
  changes.split[m] = 2;
  EXPECT_THROW(make_plan(r.get(), changes), bad_recording);
}

TEST(plan, mutexes_of_one_site_that_few_threads_use_are_drawn) {
  made_recording r;
  std::vector<std::uint32_t> all;
  for (unsigned i = 0; i < 8; i++) all.push_back(r.mutex(5));
  const auto hot = r.mutex(6);
  r.window();
  for (unsigned t = 0; t < 8; t++)
    r.thread(t).sections(all[t], 3 + t, 10, 10).sections(all[(t + 1) % 8], 1, 10, 10).sections(hot, 1, 10, 10);
  const replay_plan p = make_plan(r.get());
  const slot& drawn = p.slots[p.roles[0].tape[0].on];
  EXPECT_EQ(drawn.objects.size(), 8u);
  EXPECT_EQ(drawn.up_to.front(), 4u) << "3 + 0 of its thread, 1 of the neighbour";
  EXPECT_EQ(std::count_if(p.slots.begin(), p.slots.end(), [](const slot& s) { return s.objects.size() == 1; }), 1);
}

TEST(plan, nesting_against_the_order_of_most_only_tries) {
  made_recording r;
  const auto a = r.mutex(), b = r.mutex();
  r.window().thread(0);
  const auto nest = [&](std::uint32_t outer, std::uint32_t inner) {
    r.event(contract::verb::lock, outer, 1)
        .event(contract::verb::lock, inner, 1)
        .event(contract::verb::unlock, inner, 1)
        .event(contract::verb::unlock, outer, 1);
  };
  nest(a, b);
  nest(a, b);
  nest(b, a);
  const replay_plan p = make_plan(r.get());
  std::vector<bool> tries;
  for (const step& s : p.roles[0].tape)
    if (s.what == step_kind::lock) tries.push_back(s.tries);
  EXPECT_EQ(tries, (std::vector<bool>{false, false, false, false, false, true}));
  EXPECT_EQ(p.left.against_order, 1u);
}

TEST(plan, credits_that_threads_use_in_pairs) {
  made_recording r;
  const auto m = r.mutex(), s = r.add(contract::kind::semaphore);
  r.window(100000);
  // Two credits for three threads, so one thread waits.
  for (unsigned t = 0; t < 3; t++) {
    r.thread(t);
    for (unsigned i = 0; i < 20; i++) {
      r.event(contract::verb::semaphore_wait, s, i == 0 ? 1000 * t + 10 : 500, i == 0 && t < 2 ? 0 : 1000);
      r.event(contract::verb::semaphore_post, s, 3000)
          .event(contract::verb::lock, m, 10)
          .event(contract::verb::unlock, m, 10);
    }
  }
  const replay_plan p = make_plan(r.get());
  EXPECT_TRUE(p.semaphores.at(s).in_pairs);
  EXPECT_EQ(p.semaphores.at(s).at_first, 2u);
  for (const std::uint32_t start : p.roles[0].starts)
    EXPECT_NE(p.roles[0].tape[start].what, step_kind::semaphore_post) << "no thread begins with a credit";
}

TEST(plan, hostile_recordings) {
  made_recording nothing;
  EXPECT_THROW(make_plan(nothing.get()), bad_recording);
  nothing.window();
  EXPECT_THROW(make_plan(nothing.get()), bad_recording);
  nothing.thread(0);
  EXPECT_THROW(make_plan(nothing.get()), bad_recording);
  nothing.event(contract::verb::lock, 17, 5);
  EXPECT_THROW(make_plan(nothing.get()), bad_recording) << "an object that does not exist";

  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition), s = r.add(contract::kind::semaphore);
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  r.window(huge).thread(0).event(contract::verb::lock, c, huge, huge).event(contract::verb::wait, m, huge, huge, 99);
  r.event(contract::verb::wait, c, 1, huge, m)
      .event(contract::verb::signal, s)
      .event(contract::verb::join, 1000, 1, huge)
      .event(contract::verb(77), m);
  r.event(contract::verb::lock, m, huge, huge, 0, huge)
      .event(contract::verb::lock, m)
      .event(contract::verb::semaphore_wait, s, 1, huge);
  r.get().windows.back().lost = huge;
  const replay_plan p = make_plan(r.get());
  EXPECT_EQ(p.left.impossible, 4u);
  EXPECT_EQ(p.left.held_at_end, 1u);
  EXPECT_EQ(p.roles[0].operations, 1u) << "the semaphore, which no thread posts, is a sleep";
  EXPECT_EQ(p.left.unknown_semaphore_waits, 1u);
}

TEST(plan, long_recordings_are_thinned_out) {
  made_recording r;
  const auto m = r.mutex();
  for (unsigned w = 0; w < 10; w++) {
    r.window(200000).thread(w).sections(m, 500, 200, 200);
    r.event(contract::verb::end, 0, 0);
  }
  const thinned_recording some = thin_out(r.get(), 3000);
  EXPECT_EQ(some.windows, 2u);
  EXPECT_EQ(some.share, 1);
  EXPECT_EQ(some.made.windows[1].streams[0].thread, 6u);
  const thinned_recording part = thin_out(r.get(), 250);
  EXPECT_EQ(part.windows, 1u);
  EXPECT_NEAR(part.share, 0.25, 0.01);
  const recording::stream& s = part.made.windows[0].streams[0];
  EXPECT_NEAR(double(s.events.size()), 250, 3);
  EXPECT_NEAR(double(part.made.windows[0].length), 50000, 500);
  EXPECT_EQ(times_of(part.made.windows[0])[0].back().returned, part.made.windows[0].length);
  EXPECT_NEAR(make_plan(part.made).operations_per_second, make_plan(r.get()).operations_per_second, 50000);
  EXPECT_EQ(thin_out(r.get(), 1000000).windows, 10u);
}

TEST(plan, a_part_of_a_window_ends_within_waits_and_sleeps) {
  made_recording r;
  const auto m = r.mutex();
  r.window(2000000).thread(0).sections(m, 500, 200, 200).event(contract::verb::end);
  r.thread(1)
      .sections(m, 2, 200, 200)
      .event(contract::verb::lock, m, 300, 1900000)
      .event(contract::verb::unlock, m, 100)
      .event(contract::verb::end);
  r.thread(2).sections(m, 2, 200, 200).event(contract::verb::lock, m, 600000, 0, 0, 1200000).event(contract::verb::end);
  r.thread(3).sections(m, 2, 200, 200).event(contract::verb::end);  // it waits until the window's end
  r.get().windows[0].streams[3].unfinished.push_back(r.get().windows[0].streams[1].events[4]);
  r.get().windows[0].streams[3].unfinished[0].wait = 1998900;
  r.thread(4).sections(m, 2, 200, 200).event(contract::verb::end, 0, 50);  // it has ended
  const thinned_recording part = thin_out(r.get(), r.get().windows[0].streams[0].events.size() / 2);
  ASSERT_EQ(part.windows, 1u);
  const std::uint64_t length = part.made.windows[0].length;
  ASSERT_GT(length, 100000u);
  ASSERT_LT(length, 1900000u);
  const auto& streams = part.made.windows[0].streams;
  for (const unsigned t : {1, 3}) {
    EXPECT_EQ(streams[t].events.size(), 5u);
    EXPECT_EQ(streams[t].events.back().what, verb::end);
    EXPECT_EQ(streams[t].events.back().work, 0u);
    ASSERT_EQ(streams[t].unfinished.size(), 1u);
    EXPECT_EQ(streams[t].unfinished[0].what, verb::lock);
    EXPECT_EQ(streams[t].unfinished[0].work, 300u);
    EXPECT_EQ(streams[t].unfinished[0].wait, length - 1100);
  }
  ASSERT_EQ(streams[2].events.size(), 5u);
  const recording::event& last = streams[2].events.back();
  EXPECT_EQ(last.what, verb::end);
  EXPECT_EQ(last.work + last.away, length - 800);
  EXPECT_NEAR(double(last.work), double(length - 800) / 3, 1);
  EXPECT_TRUE(streams[2].unfinished.empty());
  ASSERT_EQ(streams[4].events.size(), 5u);
  EXPECT_EQ(streams[4].events.back().work, 50u);
}

TEST(plan, what_recording_takes_between_calls_is_no_work) {
  made_recording r;
  const auto m = r.mutex();
  // A clock with a resolution of 10 ns shows 24.5 ns as 20 or 30.
  r.window().thread(0);
  for (unsigned i = 0; i < 1000; i++)
    r.event(contract::verb::lock, m, 224).event(contract::verb::unlock, m, i % 2 == 0 ? 20 : 30);
  r.get().machine.between_ns = 24.5;
  const replay_plan p = make_plan(r.get());
  EXPECT_NEAR(double(p.roles[0].work), 1000 * (224 - 24.5 + 0.5), 200);
  r.get().machine.between_ns = 1e300;
  EXPECT_EQ(make_plan(r.get()).roles[0].work, 0u);
}

TEST(plan, a_thread_holds_at_most_eight_locks) {
  made_recording r;
  std::vector<std::uint32_t> all;
  for (unsigned i = 0; i < 12; i++) all.push_back(r.mutex(i));
  r.window().thread(0);
  for (const auto m : all) r.event(contract::verb::lock, m, 1);
  for (const auto m : all) r.event(contract::verb::unlock, m, 1);
  const replay_plan p = make_plan(r.get());
  EXPECT_EQ(p.left.too_deep, 4u);
  EXPECT_EQ(p.left.unlocks_without_lock, 0u);
  EXPECT_EQ(p.roles[0].tape.size(), 17u) << "eight locks, eight unlocks, and the rest of the work";
}

TEST(plan, the_lines_of_a_section_follow_from_hand_overs) {
  made_recording r;
  const auto m = r.mutex();
  r.get().machine.transfer_ns = 50;
  r.window(10000000);
  // Two threads take turns, with three sections in each turn. The first section of a turn, which follows a hand-over,
  // takes 100 ns longer.
  for (unsigned t = 0; t < 2; t++) {
    r.thread(t);
    for (unsigned i = 0; i < 200; i++)
      for (unsigned k = 0; k < 3; k++) {
        const std::uint64_t outside = k != 0 ? 100 : i == 0 ? 100 + t * 2000 : 4000 - 3 * 200 - 100 - 200;
        r.event(contract::verb::lock, m, outside).event(contract::verb::unlock, m, k == 0 ? 200 : 100);
      }
  }
  const replay_plan p = make_plan(r.get());
  ASSERT_TRUE(p.slots[0].lines_measured);
  EXPECT_NEAR(p.slots[0].least_lines, 2, 0.1);
  EXPECT_NEAR(p.slots[0].most_lines, 2, 0.1);
}

}  // namespace
}  // namespace usher::predict
