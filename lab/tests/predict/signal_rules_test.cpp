// Tests of the rules by which waits take the tokens of signals.
#include "lab/predict/signal_rules.hpp"

#include <gtest/gtest.h>

#include "made_recording.hpp"

namespace usher::predict {
namespace {

std::vector<mark> marks_of(const signal_facts& f, std::size_t stream) {
  return f.of_events.at(0).at(stream);
}

TEST(event_times, the_parts_of_an_event_follow_each_other) {
  made_recording r;
  const auto m = r.mutex();
  r.window(1000).thread(0).event(contract::verb::lock, m, 100, 20, 0, 30).event(contract::verb::unlock, m, 50, 10);
  r.get().windows[0].streams[0].begins = 5;
  r.get().windows[0].streams[0].events[1].aside = 7;
  const auto times = times_of(r.get().windows[0]);
  EXPECT_EQ(times[0][0].called, 135u);
  EXPECT_EQ(times[0][0].returned, 155u);
  EXPECT_EQ(times[0][1].called, 212u);
  EXPECT_EQ(times[0][1].returned, 222u);
}

TEST(signal_rules, a_wait_takes_the_token_of_the_signal_that_came_while_it_lasted) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window();
  r.thread(0)
      .event(contract::verb::lock, m, 10)
      .event(contract::verb::wait, c, 0, 500, m)
      .event(contract::verb::unlock, m);
  r.thread(1)
      .event(contract::verb::signal, c, 5)
      .event(contract::verb::signal, c, 400)
      .event(contract::verb::signal, c, 300);
  const signal_facts f = find_signals(r.get());
  EXPECT_EQ(f.conditions[c].rule, signal_rule::matched);
  EXPECT_EQ(f.conditions[c].mutex, m);
  EXPECT_EQ(f.conditions[c].unknown, 0u);
  EXPECT_EQ(marks_of(f, 0)[1].how, mark::wait::takes);
  EXPECT_EQ(marks_of(f, 1)[0].posts, 0u) << "before the wait";
  EXPECT_EQ(marks_of(f, 1)[1].posts, 1u);
  EXPECT_EQ(marks_of(f, 1)[2].posts, 0u) << "after the wait";
}

TEST(signal_rules, a_broadcast_posts_a_token_for_each_waiting_thread) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window();
  for (unsigned t = 0; t < 3; t++)
    r.thread(t)
        .event(contract::verb::lock, m, 10)
        .event(contract::verb::wait, c, 0, 500, m)
        .event(contract::verb::unlock, m);
  r.thread(3).event(contract::verb::broadcast, c, 200);
  EXPECT_EQ(marks_of(find_signals(r.get()), 3)[0].posts, 3u);
}

TEST(signal_rules, a_wait_without_a_signal_is_unknown) {
  made_recording r;
  const auto m = r.mutex(), c = r.add(contract::kind::condition);
  r.window()
      .thread(0)
      .event(contract::verb::lock, m, 10)
      .event(contract::verb::wait, c, 0, 500, m)
      .event(contract::verb::unlock, m);
  const signal_facts f = find_signals(r.get());
  EXPECT_EQ(f.conditions[c].rule, signal_rule::none);
  EXPECT_EQ(f.conditions[c].unknown, 1u);
  EXPECT_EQ(marks_of(f, 0)[1].how, mark::wait::unknown);
}

/// A consumer that waits for every tenth item, and a producer that signals each item. The clocks of both threads are
/// exact.
made_recording queue(std::uint32_t& m, std::uint32_t& c) {
  made_recording r;
  m = r.mutex();
  c = r.add(contract::kind::condition);
  r.window();
  r.thread(0, "producer");
  // Items at 100, 200, 300, …
  for (unsigned i = 0; i < 200; i++)
    r.event(contract::verb::lock, m, 90).event(contract::verb::signal, c, 10).event(contract::verb::unlock, m);
  r.thread(1, "consumer");
  // The consumer takes nine items within 100 ns, just before the tenth is made, and waits for the tenth.
  std::uint64_t now = 0;
  for (unsigned i = 0; i < 20; i++) {
    const std::uint64_t last = (i + 1) * 1000;
    for (unsigned k = 0; k < 9; k++) {
      const std::uint64_t at = last - 90 + 9 * k;
      r.event(contract::verb::lock, m, at - now).event(contract::verb::unlock, m, 1);
      now = at + 1;
    }
    r.event(contract::verb::lock, m, last - 5 - now)
        .event(contract::verb::wait, c, 0, 10, m)
        .event(contract::verb::unlock, m, 1);
    now = last + 6;
  }
  return r;
}

TEST(signal_rules, a_number_that_is_the_same_at_all_waits_is_counted) {
  std::uint32_t m = 0, c = 0;
  made_recording r = queue(m, c);
  const signal_facts f = find_signals(r.get());
  EXPECT_EQ(f.conditions[c].rule, signal_rule::counted);
  EXPECT_EQ(f.conditions[c].at_first, 0u);
  EXPECT_EQ(marks_of(f, 0)[1].posts, 1u) << "each signal posts, also where no thread waits";
  EXPECT_EQ(marks_of(f, 1)[0].takes, c) << "each section takes, also without a wait";
  EXPECT_EQ(marks_of(f, 1)[18].takes, none) << "the wait of the section takes";
  EXPECT_EQ(marks_of(f, 1)[19].how, mark::wait::takes);
}

TEST(signal_rules, a_wait_that_began_before_the_window_has_no_number) {
  std::uint32_t m = 0, c = 0;
  made_recording r = queue(m, c);
  // Two of the producer's items are taken by threads that have waited since before the window.
  for (unsigned t = 2; t < 4; t++) {
    r.thread(t, "consumer")
        .event(contract::verb::wait, c, 0, 95 + 100 * (t - 2), m)
        .event(contract::verb::unlock, m, 1);
    r.get().windows[0].streams[t].begins_in_call = true;
  }
  const signal_facts f = find_signals(r.get());
  EXPECT_EQ(f.conditions[c].rule, signal_rule::counted);
  EXPECT_EQ(f.conditions[c].at_first, 2u);
}

/// Thread 0 opens a round every 1000 ns. Threads 1 to 3 take part with two sections: one that waits for the opening,
/// and another one 300 to 500 ns after it. The last of the three threads signals the end of the round.
made_recording rounds_of_three(std::uint32_t& m, std::uint32_t& opened, std::uint32_t& ended) {
  made_recording r;
  m = r.mutex();
  opened = r.add(contract::kind::condition);
  ended = r.add(contract::kind::condition);
  r.window();
  constexpr unsigned n = 50;
  r.thread(0, "leader");
  for (unsigned i = 0; i < n; i++)
    r.event(contract::verb::lock, m, i == 0 ? 100 : 390)
        .event(contract::verb::broadcast, opened, 10)
        .event(contract::verb::wait, ended, 0, 590, m)
        .event(contract::verb::unlock, m, 10);
  for (unsigned t = 1; t < 4; t++) {
    r.thread(t, "worker");
    for (unsigned i = 0; i < n; i++) {
      // The first round opens at 110 ns. In every fifth round thread 1 arrives after the opening and does not wait.
      const bool late = t == 1 && i % 5 == 0;
      const std::uint64_t opens = 110 + 1000 * i, now = i == 0 ? 0 : opens - 1000 + 200 + 100 * t + 60;
      const std::uint64_t begins = late ? opens + 20 : opens - 5;
      r.event(contract::verb::lock, m, begins - now);
      if (!late) r.event(contract::verb::wait, opened, 0, 25 + t, m);
      const std::uint64_t has = late ? begins : opens + 20 + t;
      r.event(contract::verb::unlock, m, 2);
      r.event(contract::verb::lock, m, opens + 200 + 100 * t - has - 2)
          .event(contract::verb::unlock, m, t == 3 ? 50 : 60);
      if (t == 3) {
        auto& events = r.get().windows[0].streams[t].events;
        events.insert(events.end() - 1, {contract::verb::signal, ended, 0, 10, 0, 0});
      }
    }
  }
  return r;
}

TEST(signal_rules, rounds_that_all_threads_begin_together) {
  std::uint32_t m = 0, opened = 0, ended = 0;
  made_recording r = rounds_of_three(m, opened, ended);
  const signal_facts f = find_signals(r.get());
  ASSERT_EQ(f.conditions[opened].rule, signal_rule::rounds);
  ASSERT_EQ(f.conditions[ended].rule, signal_rule::rounds);
  EXPECT_EQ(f.conditions[ended].opened_by, opened);
  EXPECT_TRUE(marks_of(f, 0)[1].opens);
  EXPECT_EQ(marks_of(f, 0)[2].how, mark::wait::takes);
  EXPECT_EQ(marks_of(f, 1)[0].takes, opened) << "also a section that did not wait";
  EXPECT_EQ(marks_of(f, 1)[3].ends, ended) << "the section, also if its thread was not the last";
  EXPECT_EQ(marks_of(f, 3)[0].takes, opened);
  EXPECT_EQ(marks_of(f, 3)[3].takes, none);
  EXPECT_TRUE(marks_of(f, 3)[4].dropped);
}

TEST(signal_rules, no_rounds_without_an_order) {
  std::uint32_t m = 0, opened = 0, ended = 0;
  made_recording r = rounds_of_three(m, opened, ended);
  // Adds further sections of thread 2 in some of the rounds.
  auto& events = r.get().windows[0].streams[2].events;
  std::vector<recording::event> more;
  for (const auto& e : events) {
    more.push_back(e);
    if (e.what == contract::verb::unlock && more.size() % 3 == 0) {
      more.push_back({contract::verb::lock, m, 0, 1, 0, 0});
      more.push_back({contract::verb::unlock, m, 0, 1, 0, 0});
    }
  }
  events = more;
  EXPECT_NE(find_signals(r.get()).conditions[opened].rule, signal_rule::rounds);
}

TEST(signal_rules, a_number_that_differs_is_not_counted) {
  std::uint32_t m = 0, c = 0;
  made_recording r = queue(m, c);
  auto& producer = r.get().windows[0].streams[0].events;
  for (auto& e : producer)
    if (e.what == contract::verb::signal && &e - producer.data() > 300)
      e.what = contract::verb::try_lock_failed, e.object = m;
  EXPECT_EQ(find_signals(r.get()).conditions[c].rule, signal_rule::matched);
}

}  // namespace
}  // namespace usher::predict
