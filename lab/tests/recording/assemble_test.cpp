// Tests recordings that are made from the calls that threads wrote in a window: work and time off the CPU, calls that
// the window's edges cut, objects, roles. One tick is a nanosecond here.
#include "lab/recordings/assemble.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace usher::recording {
namespace {

using contract::kind;
using contract::verb;

constexpr std::uint64_t opened = 1'000'000, closed = 2'000'000;
constexpr std::uint64_t m = 0x1000, other_mutex = 0x1040, condition = 0x2000, here = 0x400100, there = 0x400200;

raw_call call(verb what, std::uint64_t object, std::uint64_t begin, std::uint64_t end, std::uint64_t other = here) {
  raw_call c;
  c.what = what;
  c.object = object;
  c.other = other;
  c.begin = begin;
  c.end = end;
  c.slow = what == verb::wait || end - begin >= 1000;
  return c;
}
raw_call cpu(std::uint64_t at, std::uint64_t ns, std::uint64_t takes = 0) {
  return call(verb::cpu_clock, 0, at, at + takes, ns);
}

raw_thread thread(std::uint32_t number, std::vector<raw_call> calls) {
  raw_thread t;
  t.slot = t.thread = number;
  t.process = 1;
  t.self = 0x7000 + number;
  t.name = "thread";
  t.calls = std::move(calls);
  return t;
}

raw_window window(std::vector<raw_thread> threads) {
  raw_window w;
  w.opened = opened;
  w.closed = closed;
  w.threads = std::move(threads);
  return w;
}

recording made(const raw_window& w, assembling how = {}) {
  assembler a(std::move(how));
  a.add(w);
  return a.finish();
}

/// A second thread that uses the mutex: objects of one thread only would be dropped.
raw_thread other_user(std::uint64_t object = m) {
  return thread(9, {call(verb::lock, object, 1'900'000, 1'900'010), call(verb::unlock, object, 1'900'100, 1'900'110)});
}

TEST(assemble, every_call_has_its_length) {
  const recording r =
      made(window({thread(0, {call(verb::lock, m, 1'001'000, 1'001'020), call(verb::unlock, m, 1'001'120, 1'001'140),
                              call(verb::lock, m, 1'001'640, 1'004'640), call(verb::unlock, m, 1'004'645, 1'004'650)}),
                   other_user()}));
  ASSERT_EQ(r.windows.size(), 1u);
  EXPECT_EQ(r.windows[0].length, closed - opened);
  const stream& s = r.windows[0].streams[0];
  EXPECT_EQ(s.begins, 1'000u);  // nothing is known of the time before the first call
  ASSERT_EQ(s.events.size(), 5u);
  EXPECT_EQ(s.events[0].work, 0u);
  EXPECT_EQ(s.events[0].wait, 20u);
  EXPECT_EQ(s.events[1].work, 100u);
  EXPECT_EQ(s.events[2].work, 500u);
  EXPECT_EQ(s.events[2].wait, 3'000u);
  EXPECT_EQ(s.events[3].work, 5u);
  EXPECT_EQ(s.events[3].wait, 5u);
  EXPECT_EQ(s.events[4].what, verb::end);
  ASSERT_EQ(r.objects.size(), 1u);
  EXPECT_EQ(r.objects[0].kind, kind::mutex);
}

TEST(assemble, time_off_the_cpu) {
  // The time of 500 us between two calls has 20 us of CPU time; another one, of 300 us, is all work. Reading the clock
  // takes 3 us.
  const recording r =
      made(window({thread(0, {cpu(1'100'000, 5'000'000), call(verb::lock, m, 1'100'010, 1'100'020),
                              call(verb::unlock, m, 1'101'020, 1'101'030), cpu(1'601'030, 5'021'030, 3'000),
                              call(verb::lock, m, 1'604'030, 1'604'040), cpu(1'901'040, 5'318'040),
                              call(verb::unlock, m, 1'901'040, 1'901'050)}),
                   other_user()}));
  const stream& s = r.windows[0].streams[0];
  ASSERT_EQ(s.events.size(), 5u);
  EXPECT_EQ(s.events[2].work, 20'000u);
  EXPECT_EQ(s.events[2].away, 480'000u);
  EXPECT_EQ(s.events[2].aside, 3'000u);
  EXPECT_EQ(s.events[3].work, 297'000u);
  EXPECT_EQ(s.events[3].away, 0u);
}

TEST(assemble, a_thread_that_did_not_give_up_its_cpu_was_preempted) {
  const auto gap = [](std::uint64_t switches) {
    raw_call before = cpu(1'100'000, 5'000'000), after = cpu(1'600'000, 5'020'000);
    before.object = 7;
    after.object = switches;
    return made(window({thread(0, {before, call(verb::lock, m, 1'100'000, 1'100'000), after,
                                   call(verb::unlock, m, 1'600'000, 1'600'010)}),
                        other_user()}))
        .windows[0]
        .streams[0]
        .events[1];
  };
  EXPECT_EQ(gap(7).work, 20'000u);
  EXPECT_EQ(gap(7).away, 0u);
  EXPECT_EQ(gap(7).aside, 480'000u);
  for (const std::uint64_t n : {8, 0}) EXPECT_EQ(gap(n).away, 480'000u);  // 0: not known
}

TEST(assemble, the_edges_have_the_kernels_times) {
  raw_thread t = thread(0, {cpu(1'400'000, 100'000), call(verb::lock, m, 1'400'000, 1'400'010),
                            call(verb::unlock, m, 1'400'110, 1'400'120)});
  t.before = thread_state{40'000, false};  // 60 us of work in the 400 us before the first call
  t.after = thread_state{130'120, false};  // 30 us in the 600 us after the last one
  const recording r = made(window({t, other_user()}));
  const stream& s = r.windows[0].streams[0];
  EXPECT_EQ(s.begins, 0u);
  EXPECT_EQ(s.events[0].work, 60'000u);
  EXPECT_EQ(s.events[0].away, 340'000u);
  EXPECT_EQ(s.events[2].what, verb::end);
  EXPECT_EQ(s.events[2].work, 30'000u);
  EXPECT_EQ(s.events[2].work + s.events[2].away, closed - 1'400'120u);
}

TEST(assemble, the_kernels_times_may_be_of_another_time) {
  // The reading after the window is of 300 us later; of the 300 us of CPU time since the last call the same share is within.
  raw_thread t = thread(
      0, {cpu(1'699'000, 0), call(verb::lock, m, 1'699'000, 1'699'500), call(verb::unlock, m, 1'699'900, 1'700'000)});
  t.after = thread_state{301'000, false, 0, closed + 300'000};
  const recording r = made(window({t, other_user()}));
  EXPECT_EQ(r.windows[0].streams[0].events[2].work, 150'000u);
  EXPECT_EQ(r.windows[0].streams[0].events[2].away, 150'000u);
}

TEST(assemble, one_thread_of_a_cpu_runs) {
  // Both are ready, and the kernel's figures may lack a tick. Thread 1 has made calls on their CPU until shortly before the end.
  raw_thread ready = thread(
      0, {cpu(1'100'000, 0), call(verb::lock, m, 1'100'000, 1'100'010), call(verb::unlock, m, 1'100'010, 1'100'020)});
  raw_thread runs = thread(1, {call(verb::lock, m, 1'989'000, 1'989'010), call(verb::unlock, m, 1'989'990, 1'990'000)});
  ready.after = thread_state{20, true, 3, closed};
  const auto last = [&](std::uint32_t processor) {
    runs.after = thread_state{20, true, processor, closed};
    return made(window({ready, runs})).windows[0].streams[0].events.back();
  };
  EXPECT_EQ(last(3).work, 10'000u);
  EXPECT_EQ(last(3).aside, 889'980u) << "it is ready, and has not slept";
  EXPECT_EQ(last(2).work, 899'980u);
}

TEST(assemble, a_thread_without_calls) {
  raw_thread t = thread(0, {});
  t.before = thread_state{0, true};
  t.after = thread_state{800'000, false};
  const recording r = made(window({t}));
  ASSERT_EQ(r.windows[0].streams.size(), 1u);
  const stream& s = r.windows[0].streams[0];
  ASSERT_EQ(s.events.size(), 1u);
  EXPECT_EQ(s.events[0].work, 800'000u);
  EXPECT_EQ(s.events[0].away, 200'000u);
}

TEST(assemble, a_mutex_that_was_held_before) {
  // Nobody else gives it up before: the thread held it when the window opened.
  const recording r = made(window({thread(0, {call(verb::unlock, m, 1'001'000, 1'001'010)}), other_user()}));
  const stream& s = r.windows[0].streams[0];
  EXPECT_FALSE(s.begins_in_call);
  EXPECT_EQ(s.events[0].what, verb::unlock);
}

TEST(assemble, a_lock_call_that_began_before) {
  // Thread 1 gives the mutex up at 1'200'000; thread 0 unlocks it later, and no lock call of it was seen.
  raw_thread waiter = thread(0, {call(verb::unlock, m, 1'203'000, 1'203'010)});
  waiter.before = thread_state{0, false};
  const recording r = made(window({waiter, thread(1, {call(verb::unlock, m, 1'199'990, 1'200'000)})}));
  const stream& s = r.windows[0].streams[0];
  EXPECT_TRUE(s.begins_in_call);
  ASSERT_EQ(s.events.size(), 3u);
  EXPECT_EQ(s.events[0].what, verb::lock);
  EXPECT_EQ(s.events[0].wait, 200'000u);
  EXPECT_EQ(s.events[1].what, verb::unlock);
  EXPECT_EQ(s.events[1].work, 3'000u);
}

TEST(assemble, a_lock_call_that_began_before_and_a_signal_first) {
  const recording r = made(window(
      {thread(0,
              {call(verb::signal, condition, 1'203'000, 1'203'010), call(verb::lock, other_mutex, 1'203'020, 1'203'030),
               call(verb::unlock, other_mutex, 1'203'040, 1'203'050), call(verb::unlock, m, 1'203'100, 1'203'110)}),
       thread(1, {call(verb::unlock, m, 1'199'990, 1'200'000), call(verb::signal, condition, 1'300'000, 1'300'010)})}));
  const stream& s = r.windows[0].streams[0];
  EXPECT_TRUE(s.begins_in_call);
  EXPECT_EQ(s.events[0].what, verb::lock);
  EXPECT_EQ(s.events[0].wait, 200'000u);
  EXPECT_EQ(s.events[1].what, verb::signal);
  EXPECT_EQ(s.events[1].work, 3'000u);
}

TEST(assemble, a_wait_that_began_before_and_one_that_goes_on) {
  raw_thread t =
      thread(0, {call(verb::wait, condition, 500'000, 1'300'000, m), call(verb::unlock, m, 1'300'100, 1'300'110)});
  raw_call sleeping = call(verb::wait, condition, 1'900'000, 0, m);
  sleeping.end = closed;
  t.sleeping = sleeping;
  const recording r = made(window({t, thread(1, {call(verb::signal, condition, 1'299'000, 1'299'100)})}));
  const stream& s = r.windows[0].streams[0];
  EXPECT_TRUE(s.begins_in_call);
  EXPECT_EQ(s.begins, 0u);
  EXPECT_EQ(s.events[0].what, verb::wait);
  EXPECT_EQ(s.events[0].wait, 300'000u);  // the part within
  EXPECT_EQ(s.events[0].work, 0u);
  ASSERT_EQ(s.unfinished.size(), 1u);
  EXPECT_EQ(s.unfinished[0].what, verb::wait);
  EXPECT_EQ(s.unfinished[0].wait, 100'000u);
  EXPECT_EQ(s.unfinished[0].work, 599'890u);
  EXPECT_EQ(s.events.back().what, verb::end);
  EXPECT_EQ(s.events.back().work, 0u);
  ASSERT_EQ(r.objects.size(), 2u);  // the mutex is of one thread, but the wait needs it
  EXPECT_EQ(r.objects[s.events[0].other].kind, kind::mutex);
}

TEST(assemble, objects_of_one_thread_become_work) {
  assembling how;
  how.between_calls_ns = 15;
  how.within_call_ns = 4;
  const recording r = made(
      window({thread(0, {call(verb::lock, m, 1'001'000, 1'001'010), call(verb::lock, other_mutex, 1'001'110, 1'001'120),
                         call(verb::unlock, other_mutex, 1'001'220, 1'001'230),
                         call(verb::unlock, m, 1'001'330, 1'001'340)}),
              other_user()}),
      how);
  const stream& s = r.windows[0].streams[0];
  ASSERT_EQ(s.events.size(), 3u);
  EXPECT_EQ(s.events[1].what, verb::unlock);
  EXPECT_EQ(s.events[1].work, 320u - 2 * (15 + 4));  // both calls and what lies between, less what recording took
  EXPECT_EQ(s.events[1].aside, 2u * (15 + 4));
  EXPECT_EQ(r.objects.size(), 1u);
}

TEST(assemble, sites_and_roles) {
  const auto works_at = [](std::uint32_t number, std::uint64_t object, std::uint64_t caller) {
    std::vector<raw_call> calls;
    for (std::uint64_t t = 1'001'000; t < 1'100'000; t += 1'000) {
      calls.push_back(call(verb::lock, object, t, t + 10, caller));
      calls.push_back(call(verb::unlock, object, t + 100, t + 110, caller));
    }
    return thread(number, calls);
  };
  const std::vector<raw_thread> threads = {works_at(0, m, here),           works_at(1, m, here),
                                           works_at(2, other_mutex, here), works_at(3, other_mutex, here),
                                           works_at(4, 0x3000, there),     works_at(5, 0x3000, there)};
  recording r = made(window(threads));
  ASSERT_EQ(r.objects.size(), 3u);
  EXPECT_EQ(r.objects[0].site, r.objects[1].site);
  EXPECT_NE(r.objects[0].site, r.objects[2].site);
  EXPECT_EQ(r.objects[0].name, "");
  ASSERT_EQ(r.roles.size(), 6u);
  for (const int i : {1, 2, 3}) EXPECT_EQ(r.roles[i].role, r.roles[0].role);
  EXPECT_EQ(r.roles[4].role, r.roles[5].role);
  EXPECT_NE(r.roles[4].role, r.roles[0].role);
  assembling how;
  how.role = [](const std::string& name) {
    return name == "thread" ? std::optional<std::string>("all") : std::nullopt;
  };
  how.site_name = [](std::uint32_t, std::uint64_t address) { return address == there ? "there" : "here"; };
  r = made(window(threads), how);
  for (const thread_role& t : r.roles) EXPECT_EQ(t.role, "all");
  EXPECT_EQ(r.objects[2].name, "there");
}

TEST(assemble, every_second_window) {
  assembler a(assembling{});
  for (std::uint64_t i = 0; i < 7; i++) {
    raw_window w = window({other_user()});
    w.opened += i * 10;
    a.add(w);
  }
  a.thin_out();
  EXPECT_EQ(a.windows(), 4u);
  const recording r = a.finish();
  EXPECT_EQ(r.windows[1].begins, 20u);
}

// ---- what the program's threads wrote -------------------------------------------------------------------------

struct written {
  std::unique_ptr<contract::stream_chunk[]> chunks = std::make_unique<contract::stream_chunk[]>(2);
  std::unique_ptr<contract::stream_slot[]> slots = std::make_unique<contract::stream_slot[]>(2);

  written() {
    for (unsigned i = 0; i < 2; i++) {
      slots[i].tid = 100 + i;
      slots[i].process = 1;
      chunks[i].window = 5;
      chunks[i].thread = i + 1;
    }
  }
  void put(unsigned chunk, unsigned at, verb what, std::uint64_t begin, std::uint64_t end, std::uint64_t flags = 0) {
    contract::stream_call& c = chunks[chunk].calls[at];
    c.word = contract::word_of_call(what, m) | flags;
    c.other = here;
    c.begin = begin;
    c.end = end;
  }
  std::optional<raw_window> read() {
    raw_window w;
    w.opened = opened;
    w.closed = closed;
    w.threads = threads_of({slots.get(), 2});
    if (!add_calls(w, {chunks.get(), 2}, 5)) return std::nullopt;
    return w;
  }
};

TEST(raw_window, calls_are_cut_at_the_end) {
  written x;
  x.put(0, 0, verb::lock, 1'000'100, 1'000'200, contract::recursive_call);
  x.put(0, 1, verb::unlock, 1'999'000, 2'000'001);
  x.put(0, 2, verb::lock, 2'000'002, 2'000'003);
  x.put(1, 0, verb::lock, 1'999'000, 2'000'001, contract::slow_call);
  const auto w = x.read();
  ASSERT_TRUE(w);
  ASSERT_EQ(w->threads[0].calls.size(), 1u);
  EXPECT_TRUE(w->threads[0].calls[0].recursive);
  EXPECT_EQ(w->threads[0].calls[0].object, m);
  EXPECT_FALSE(w->threads[0].sleeping);
  ASSERT_TRUE(w->threads[1].sleeping);  // the lock was waited for at the end
  EXPECT_EQ(w->threads[1].sleeping->end, closed);
}

TEST(raw_window, a_call_in_the_slot) {
  written x;
  x.slots[0].call = contract::word_of_call(verb::wait, condition);
  x.slots[0].call_other = m;
  x.slots[0].call_since = 500'000;
  x.put(1, 0, verb::lock, 1'500'000, 1'600'000);
  x.slots[1].call = contract::word_of_call(verb::lock, m);  // it returned before the slot was read
  x.slots[1].call_since = 1'500'000;
  const auto w = x.read();
  ASSERT_TRUE(w);
  ASSERT_TRUE(w->threads[0].sleeping);
  EXPECT_EQ(w->threads[0].sleeping->what, verb::wait);
  EXPECT_FALSE(w->threads[1].sleeping);
}

TEST(raw_window, what_cannot_be_is_refused) {
  const auto with = [](auto change) {
    written x;
    x.put(0, 0, verb::lock, 1'000'100, 1'000'200);
    x.put(0, 1, verb::unlock, 1'000'300, 1'000'400);
    change(x);
    return x.read().has_value();
  };
  EXPECT_TRUE(with([](written&) {}));
  EXPECT_FALSE(with([](written& x) { x.chunks[0].calls[0].word = 0; }));
  EXPECT_FALSE(with([](written& x) { x.chunks[0].calls[0].word = contract::word_of_call(static_cast<verb>(99), m); }));
  EXPECT_FALSE(with([](written& x) { x.chunks[0].calls[1].begin = ~std::uint64_t{0}; }));
  EXPECT_FALSE(with([](written& x) { x.chunks[0].calls[1].end = 1'000'150; }));  // before the call before
  EXPECT_FALSE(with([](written& x) { x.put(0, 0, verb::lock, 10, 20); }));       // a window before
  // Chunks of other windows and of threads without a slot are not read.
  EXPECT_TRUE(with([](written& x) { x.chunks[1].window = 3, x.chunks[1].calls[0].end = 1; }));
  EXPECT_TRUE(with([](written& x) { x.chunks[1].thread = 77, x.chunks[1].calls[0].end = 1; }));
  // A call of a signal handler lies within the one that it interrupted.
  EXPECT_TRUE(with([](written& x) { x.put(0, 1, verb::unlock, 1'000'150, 1'000'400); }));
}

TEST(raw_window, names_have_no_control_characters) {
  written x;
  char name[16] = "a\x1b[31m\n";
  std::uint64_t words[2];
  std::memcpy(words, name, sizeof words);
  x.slots[0].name[0] = words[0];
  x.slots[0].name[1] = words[1];
  EXPECT_EQ(x.read()->threads[0].name, "a?[31m?");
}

}  // namespace
}  // namespace usher::recording
