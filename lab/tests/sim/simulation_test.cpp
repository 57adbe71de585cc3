// Tests the parts of the machine by programs so small that their costs are known.
#include "lab/sim/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "lab/sim/runtime.hpp"
#include "plain_machine.hpp"

namespace usher::sim {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto seq_cst = std::memory_order_seq_cst;
machine plain() {
  return plain_machine();
}

machine with_scheduler() {
  machine m = plain();
  m.os = machine::scheduler{
      .slice = 10000, .context_switch = 100, .syscall = 50, .wake = 20, .latency_least = 500, .latency_mean = 500};
  return m;
}

/// Returns a machine whose timer interrupts each CPU for 500 of 10000 cycles.
machine with_timer() {
  machine m = with_scheduler();
  m.os->tick_period = 10000;
  m.os->tick = 500;
  return m;
}

TEST(simulation, a_line_is_fetched_once_and_then_hit) {
  simulation s(plain(), 1);
  word& w = shared_word(s);
  cycles first = 0, second = 0;
  s.add_thread(0, [&] {
    const cycles begin = s.now();
    w.load(relaxed);
    first = s.now() - begin;
    w.load(relaxed);
    second = s.now() - begin - first;
  });
  s.run();
  EXPECT_EQ(first, 300u);
  EXPECT_EQ(second, 1u);
}

TEST(simulation, misses_of_loads_before_stores_overlap) {
  for (const bool at_once : {false, true}) {
    machine m = plain();
    m.load_then_store_at_once = at_once;
    simulation s(m, 1);
    simulated_plain<std::uint32_t>* words[3];
    for (auto*& w : words) w = ::new (s.shared().allocate(128, 128)) simulated_plain<std::uint32_t>();
    cycles loads = 0, stores = 0;
    // The first two lines are in a cache of the second thread's socket, the third is in its core's own cache.
    s.add_thread(0, [&] {
      for (int i : {0, 1}) words[i]->set(7);
    });
    s.add_thread(2, [&] {
      words[2]->set(7);
      s.compute(10000);
      const void* const places[]{words[0]->place(), words[1]->place(), words[2]->place()};
      const cycles begin = s.now();
      s.load_to_store(places, sizeof(std::uint32_t));
      loads = s.now() - begin;
      for (auto* w : words) w->set(w->peek() + 1);
      stores = s.now() - begin - loads;
      for (auto* w : words) EXPECT_EQ(w->peek(), 8u);
    });
    s.run();
    EXPECT_EQ(loads, 2000u) << "one journey, not two";
    EXPECT_EQ(stores < 100, at_once) << "otherwise the stores ask for the lines once more";
  }
}

TEST(simulation, a_waiter_may_poll_less_often_than_the_machine) {
  const auto latest = [](cycles period) {
    cycles most = 0;
    for (std::uint64_t seed = 1; seed <= 20; seed++) {
      simulation s(plain(), seed);
      word& w = shared_word(s);
      cycles seen = 0;
      s.add_thread(0, [&] {
        s.compute(5000 - s.now());
        w.store(1, release);
      });
      s.add_thread(1, [&] {
        s.spin({[](void*, const void* at) { return *static_cast<const std::uint32_t*>(at) == 1; }, nullptr, w.place(),
                sizeof(std::uint32_t), period},
               0);
        seen = s.now();
      });
      s.run();
      most = std::max(most, seen);
    }
    return most;
  };
  EXPECT_GT(latest(1000), latest(0) + 500);
}

TEST(simulation, what_another_core_wrote_costs_by_distance) {
  for (const auto& [reader, costs] : {std::pair{1u, 200u}, std::pair{2u, 2000u}}) {
    simulation s(plain(), 1);
    word& w = shared_word(s);
    cycles took = 0;
    s.add_thread(0, [&] { w.fetch_add(1, relaxed); });
    s.add_thread(reader, [&] {
      s.compute(10000);
      const cycles begin = s.now();
      EXPECT_EQ(w.load(relaxed), 1u);
      took = s.now() - begin;
    });
    s.run();
    EXPECT_EQ(took, costs);
  }
}

TEST(simulation, a_store_is_seen_by_its_thread_at_once_and_by_others_later) {
  simulation s(plain(), 1);
  word &mine = shared_word(s), &theirs = shared_word(s);
  std::array<std::uint32_t, 2> seen{};
  // The store-buffer litmus test: each thread stores to its word and loads the other one, and both may read 0.
  for (unsigned t = 0; t < 2; t++)
    s.add_thread(t, [&, t] {
      word &a = t == 0 ? mine : theirs, &b = t == 0 ? theirs : mine;
      a.load(relaxed), b.load(relaxed);
      s.compute(20000 - s.now());
      a.store(1, release);
      EXPECT_EQ(a.load(relaxed), 1u);
      seen[t] = b.load(relaxed);
    });
  s.run();
  EXPECT_EQ(seen[0], 0u);
  EXPECT_EQ(seen[1], 0u);
}

TEST(simulation, sequentially_consistent_stores_are_not_so_delayed) {
  simulation s(plain(), 1);
  word &mine = shared_word(s), &theirs = shared_word(s);
  std::array<std::uint32_t, 2> seen{};
  for (unsigned t = 0; t < 2; t++)
    s.add_thread(t, [&, t] {
      word &a = t == 0 ? mine : theirs, &b = t == 0 ? theirs : mine;
      a.load(relaxed), b.load(relaxed);
      s.compute(20000 - s.now());
      a.store(1);
      seen[t] = b.load();
    });
  s.run();
  EXPECT_EQ(seen[0] + seen[1] >= 1, true);
}

TEST(simulation, a_spinner_sees_the_write_and_costs_no_events_meanwhile) {
  simulation s(plain(), 1);
  word& w = shared_word(s);
  cycles written = 0, seen = 0;
  s.add_thread(0, [&] {
    s.compute(1000000);
    w.store(1, release);
    written = s.now();
  });
  s.add_thread(1, [&] {
    EXPECT_EQ(simulated::await(
                  w, [](std::uint32_t v) { return v == 1; }, acquire, pacing::polling),
              1u);
    seen = s.now();
  });
  s.run();
  EXPECT_GE(seen, written);
  EXPECT_LT(seen, written + 1000);
  EXPECT_LT(s.counted().events, 30u);
}

TEST(simulation, a_limit_of_spinning_is_kept) {
  simulation s(plain(), 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] {
    const cycles begin = s.now();
    EXPECT_FALSE(simulated::await(
                     w, [](std::uint32_t v) { return v == 1; }, acquire, pacing::polling.within(5000))
                     .has_value());
    EXPECT_NEAR(double(s.now() - begin), 5300, 10);  // the first look is a miss
  });
  s.run();
}

TEST(simulation, a_deadlock_is_found_and_says_who_waits) {
  simulation s(plain(), 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] {
    simulated::await(
        w, [](std::uint32_t v) { return v == 7; }, acquire, pacing::polling);
  });
  s.add_thread(1, [&] { s.compute(10); });
  try {
    s.run();
    FAIL() << "the expected exception was not thrown";
  } catch (const deadlock& d) {
    EXPECT_NE(std::string(d.what()).find("thread 0 spins on word"), std::string::npos) << d.what();
    EXPECT_EQ(std::string(d.what()).find("thread 1"), std::string::npos) << d.what();
  }
}

TEST(simulation, a_lost_wake_up_is_a_deadlock) {
  simulation s(with_scheduler(), 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] { simulated::park(w, 0u, every_sleeper); });
  EXPECT_THROW(s.run(), deadlock);
}

TEST(simulation, what_a_thread_throws_ends_the_run) {
  simulation s(plain(), 1);
  s.add_thread(0, [&] { throw std::logic_error("thrown"); });
  s.add_thread(1, [&] { s.compute(10); });
  EXPECT_THROW(s.run(), std::logic_error);
}

TEST(simulation, sleepers_are_woken_in_order_by_key_and_mask) {
  simulation s(with_scheduler(), 1);
  word &w = shared_word(s), &other = shared_word(s);
  std::vector<unsigned> woken;
  for (unsigned t = 0; t < 3; t++)
    s.add_thread(t, [&, t] {
      s.compute(5000 * (t + 1));
      simulated::park(t == 1 ? other : w, 0u, t == 2 ? 2u : 1u);
      woken.push_back(t);
    });
  s.add_thread(3, [&] {
    s.compute(50000);
    simulated::wake(simulated::key_of(w), 2, all);
    s.compute(50000);
    simulated::wake(simulated::key_of(w), every_sleeper, all);
    s.compute(50000);
    simulated::wake(simulated::key_of(other), every_sleeper, 1);
  });
  s.run();
  EXPECT_EQ(woken, (std::vector<unsigned>{2, 0, 1}));
  EXPECT_EQ(s.counted().voluntary, 3u);
}

TEST(simulation, who_is_woken_for_a_cpu_that_is_taken_is_in_its_queue_at_once) {
  for (const cycles queued : {0u, 30u}) {
    machine m = with_scheduler();
    m.os->latency_least = m.os->latency_mean = 5000;
    m.os->wake_queued = queued;
    m.os->migrate = false;
    simulation s(m, 1);
    word& w = shared_word(s);
    cycles waking = 0, woken = 0, ran = 0;
    s.add_thread(0, [&] {
      simulated::park(w, 0u, every_sleeper);
      ran = s.now();
    });
    s.add_thread(0, [&] {  // begins when the other thread sleeps
      s.compute(3000);
      const cycles begin = s.now();
      simulated::wake(simulated::key_of(w), every_sleeper, 1);
      woken = s.now();
      waking = woken - begin;
      s.compute(100);
    });
    s.run();
    EXPECT_EQ(waking, 50 + (queued != 0 ? queued : 20));
    if (queued != 0)
      EXPECT_EQ(ran, woken + 100 + 100) << "the thread runs after the waker's end and one context switch";
    else
      EXPECT_GE(ran, woken + 4000);
  }
}

TEST(simulation, a_polite_waiter_lets_others_run) {
  for (const cycles polite : {0u, 10u}) {
    machine m = with_scheduler();
    m.os->yields_after = polite;
    m.os->migrate = false;
    simulation s(m, 1);
    word& w = shared_word(s);
    cycles seen = 0;
    s.add_thread(0, [&] {
      EXPECT_TRUE(simulated::await(
                      w, [](std::uint32_t v) { return v == 1; }, acquire, pacing::polling.within(100000))
                      .has_value());
      seen = s.now();
    });
    s.add_thread(0, [&] { w.store(1, relaxed); });  // on the same CPU
    s.run();
    if (polite != 0)
      EXPECT_LT(seen, 5000u);
    else
      EXPECT_GT(seen, 9000u) << "the slice is 10000";
  }
}

TEST(simulation, a_thread_does_not_sleep_if_the_word_has_changed) {
  simulation s(with_scheduler(), 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] {
    w.store(1, relaxed);
    simulated::park(w, 0u, every_sleeper);
  });
  s.run();
  EXPECT_EQ(s.counted().voluntary, 0u);
}

TEST(simulation, a_limited_sleep_ends) {
  simulation s(with_scheduler(), 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] {
    const cycles begin = s.now();
    simulated::park_for(w, 0u, every_sleeper, 100000);
    EXPECT_NEAR(double(s.now() - begin), 100000, 1000);
  });
  s.run();
}

TEST(simulation, two_threads_share_a_cpu_by_slices) {
  machine m = with_scheduler();
  m.os->migrate = false;
  simulation s(m, 1);
  word& w = shared_word(s);
  std::array<cycles, 2> ended{};
  for (unsigned t = 0; t < 2; t++)
    s.add_thread(0, [&, t] {
      for (int i = 0; i < 100; i++) {
        s.compute(1000);
        w.load(relaxed);
      }
      ended[t] = s.now();
    });
  s.run();
  // The threads share a CPU. Their work takes 200,000 cycles, and each context switch 100 more.
  EXPECT_NEAR(double(std::max(ended[0], ended[1])), 202000, 3000);
  EXPECT_GE(s.counted().involuntary, 15u);
}

/// Computes for `thousand` times 1000 cycles, so that other events can happen in between.
void works(simulation& s, word& w, int thousand) {
  for (int i = 0; i < thousand; i++) {
    s.compute(1000);
    w.load(relaxed);
  }
}

TEST(simulation, a_timer_interrupts_a_cpu_that_works_or_spins) {
  simulation s(with_timer(), 1);
  word& w = shared_word(s);
  std::array<cycles, 2> ended{};
  s.add_thread(0, [&] {
    works(s, w, 950);
    ended[0] = s.now();
    w.store(1, relaxed);
  });
  s.add_thread(1, [&] {
    simulated::await(
        w, [](std::uint32_t v) { return v == 1; }, acquire, pacing::polling);
    ended[1] = s.now();
  });
  s.run();
  EXPECT_NEAR(double(ended[0]), 1000000, 3000) << "the timer takes 500 cycles of 10000";
  EXPECT_GE(ended[1], ended[0]);
  EXPECT_LT(ended[1], ended[0] + 2000);
}

TEST(simulation, only_some_cpus_have_a_timer) {
  machine m = with_timer();  // of four CPUs
  m.os->tick_cpus = 3;
  simulation s(m, 1);
  word& w = shared_word(s);
  std::array<cycles, 4> ended{};
  for (unsigned t = 0; t < 4; t++)
    s.add_thread(t, [&, t] {
      works(s, w, 500);
      ended[t] = s.now();
    });
  s.run();
  EXPECT_EQ(std::count_if(ended.begin(), ended.end(), [](cycles c) { return c > 515000; }), 3);
  EXPECT_EQ(std::count_if(ended.begin(), ended.end(), [](cycles c) { return c < 508000; }), 1);
}

TEST(simulation, other_processes_take_a_cpu_now_and_then) {
  machine m = with_scheduler();
  m.os->daemon_period = 100000;
  m.os->daemon = 2000;
  simulation s(m, 1);
  word& w = shared_word(s);
  cycles ended = 0;
  s.add_thread(0, [&] {
    works(s, w, 50000);
    ended = s.now();
  });
  s.run();
  // 500 times 2000 cycles of work and a context switch of 100 cycles.
  EXPECT_NEAR(double(ended), 50000000 + 500 * 2100, 0.15 * 500 * 2100);
}

TEST(simulation, interruptions_do_not_hide_a_deadlock) {
  machine m = with_timer();
  m.os->daemon_period = 100000;
  m.os->daemon = 2000;
  simulation s(m, 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] { simulated::park(w, 0u, every_sleeper); });
  s.add_thread(1, [&] {
    simulated::await(
        w, [](std::uint32_t v) { return v == 7; }, acquire, pacing::polling);
  });
  EXPECT_THROW(s.run(), deadlock);
}

TEST(simulation, a_long_sleep_is_no_deadlock) {
  simulation s(with_timer(), 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] {
    simulated::park_for(w, 0u, every_sleeper, 500000000);
    w.store(7, release);
  });
  s.add_thread(1, [&] {
    simulated::await(
        w, [](std::uint32_t v) { return v == 7; }, acquire, pacing::polling);
  });
  s.run();
}

TEST(simulation, threads_move_to_idle_cpus) {
  simulation s(with_scheduler(), 1);
  word& w = shared_word(s);
  std::array<cycles, 2> ended{};
  for (unsigned t = 0; t < 2; t++)
    s.add_thread(0, [&, t] {
      simulated::park_for(w, 0u, every_sleeper, 100);
      s.compute(100000);
      w.load(relaxed);
      ended[t] = s.now();
    });
  s.run();
  EXPECT_LT(std::max(ended[0], ended[1]), 130000u) << "side by side";
  EXPECT_GE(s.counted().migrations, 1u);
}

TEST(simulation, hardware_threads_slow_each_other_down) {
  machine m = plain();
  m.hardware_threads = 2;
  m.slowed_by_work = 2048;
  for (const unsigned other : {1u, 2u}) {  // of the same core, and of another
    simulation s(m, 1);
    cycles took = 0;
    s.add_thread(0, [&] {
      word& w = shared_word(s);
      w.load(relaxed);
      const cycles begin = s.now();
      s.compute(1000);
      took = s.now() - begin;
    });
    s.add_thread(other, [&] { s.compute(100000); });
    s.run();
    EXPECT_EQ(took, other == 1 ? 2000u : 1000u);
  }
}

TEST(simulation, more_threads_than_cpus_need_a_scheduler) {
  simulation s(plain(), 1);
  s.add_thread(0, [] {});
  EXPECT_THROW(s.add_thread(0, [] {}), bad_machine);
  EXPECT_THROW(s.add_thread(4, [] {}), bad_machine);
}

TEST(simulation, machines_without_fetch_and_add_loop) {
  machine m = plain();
  m.fetch_add = false;
  simulation s(m, 1);
  word& w = shared_word(s);
  for (unsigned t = 0; t < 4; t++)
    s.add_thread(t, [&] {
      for (int i = 0; i < 50; i++) w.fetch_add(1, relaxed);
    });
  s.run();
  EXPECT_EQ(w.peek(), 200u);
}

/// Two threads execute a compare-and-swap that expects 0, on a word that contains 7. Returns how long each thread takes
/// after that to add 1.
std::array<cycles, 2> retries(const machine& m) {
  std::array<cycles, 2> took{};
  simulation s(m, 1);
  word& w = shared_word(s);
  s.add_thread(0, [&] { w.store(7, seq_cst); });
  for (const unsigned me : {0u, 1u})
    s.add_thread(2 + me, [&, me] {
      s.compute(10000 + me - s.now());
      std::uint32_t seen = 0;
      EXPECT_FALSE(w.compare_exchange_strong(seen, 1, relaxed, relaxed));
      const cycles failed = s.now();
      do {
        if (me == 0) {
          EXPECT_EQ(w.load(relaxed), seen) << "the load returns the value that the failed operation found";
        } else {
          w.load(relaxed);
        }
      } while (!w.compare_exchange_strong(seen, seen + 1, relaxed, relaxed));
      took[me] = s.now() - failed;
    });
  s.run();
  EXPECT_EQ(w.peek(), 9u);
  return took;
}

TEST(simulation, a_compare_and_swap_that_is_tried_again_at_once_hits) {
  machine m = plain();
  const auto [first, second] = retries(m);
  EXPECT_EQ(first, m.hit + m.modify);
  EXPECT_EQ(second, 2 * (m.hit + m.modify))
      << "the first attempt compares with the word's value at its arrival, the second with the present value";
  m.keeps_for_retry = false;
  EXPECT_GT(retries(m)[0], 200u) << "the other thread has the line by then";
}

/// Two hardware threads share a core, which owns both words. One thread's compare-and-swap fails because x is 1. The
/// other thread then writes 2 to x and announces that in y. When the first thread has read the announcement, it must
/// not read 1 from x again.
TEST(simulation, what_a_failed_compare_and_swap_found_is_not_read_after_what_is_newer) {
  machine m = plain();
  m.hardware_threads = 2;
  unsigned saw_it = 0;
  for (cycles after = 0; after < 60; after++) {
    simulation s(m, 1);
    word &x = shared_word(s), &y = shared_word(s);
    s.add_thread(0, [&] {
      x.store(1, seq_cst), y.load(relaxed);
      s.compute(10000 - s.now());
      std::uint32_t seen = 0;
      EXPECT_FALSE(x.compare_exchange_strong(seen, 9, relaxed, relaxed));
      if (y.load(acquire) != 1) return;
      saw_it++;
      EXPECT_EQ(x.load(acquire), 2u) << after;
    });
    s.add_thread(1, [&] {
      s.compute(9970 + after - s.now());
      x.store(2, seq_cst);
      y.store(1, release);
    });
    s.run();
  }
  EXPECT_GT(saw_it, 0u);
}

TEST(simulation, a_retry_that_comes_later_does_not_hit) {
  const machine m = plain();
  simulation s(m, 1);
  word& w = shared_word(s);
  cycles took = 0;
  for (const unsigned me : {0u, 1u})
    s.add_thread(1 + me, [&, me] {
      s.compute(10000 + me - s.now());
      std::uint32_t seen = 1;
      EXPECT_FALSE(w.compare_exchange_strong(seen, 2, relaxed, relaxed));
      if (me == 1) return;
      s.compute(5000);
      const cycles began = s.now();
      EXPECT_TRUE(w.compare_exchange_strong(seen, 2, relaxed, relaxed));
      took = s.now() - began;
    });
  s.run();
  EXPECT_GT(took, 200u);
}

TEST(events, come_in_the_order_of_time_and_then_of_their_ties) {
  random chance(5);
  event_queue q;
  std::vector<std::pair<cycles, std::uint32_t>> waiting;
  const auto take_first = [&] {
    const auto first = *std::ranges::min_element(waiting);
    std::erase(waiting, first);
    return first;
  };
  const auto make = [&](std::uint32_t n) {
    const event e{chance.below(50), n << 9, n, n, event_kind::poll};
    waiting.emplace_back(e.time, e.tie);
    return e;
  };
  const auto expect_first = [&](const event& e) {
    const auto [time, tie] = take_first();
    EXPECT_EQ(e.time, time);
    EXPECT_EQ(e.of << 9, tie);
    EXPECT_EQ(e.epoch, e.of);
    EXPECT_EQ(e.kind, event_kind::poll);
  };
  event e;
  EXPECT_FALSE(q.pop(e));
  for (std::uint32_t n = 0; n < 20000; n++) {
    const auto what = chance.below(n < 10000 ? 4 : 6);  // at first the table grows
    if (what < 2) {
      q.push(make(n));
    } else if (what < 4) {
      expect_first(q.exchange(make(n)));
    } else if (!waiting.empty()) {
      EXPECT_EQ(q.first_time(), std::ranges::min(waiting).first);
      ASSERT_TRUE(q.pop(e));
      expect_first(e);
    }
  }
  while (q.pop(e)) expect_first(e);
  EXPECT_TRUE(waiting.empty());
  EXPECT_THROW(q.push({cycles{1} << 40, 0, 0, 0, event_kind::poll}), std::length_error);
}

TEST(chance, exponential_has_its_mean) {
  random r(3);
  double sum = 0;
  for (int i = 0; i < 100000; i++) sum += double(r.exponential(1000));
  EXPECT_NEAR(sum / 100000, 1000, 15);
}

TEST(simulation, a_waiter_is_given_the_value_that_it_waited_for) {
  // A spin loop returns the value that satisfied its condition, even if the word has changed before the waiter
  // continues.
  machine m = plain();
  m.exit_penalty = 500;
  m.home = 0;
  simulation s(m, 1);
  word& w = shared_word(s);
  std::uint32_t seen = 0;
  s.add_thread(0, [&] {
    seen = simulated::await(
        w, [](std::uint32_t v) { return v == 1; }, acquire, pacing::polling);
  });
  s.add_thread(1, [&] {
    s.compute(5000);
    w.fetch_add(1);
    s.compute(300);  // the waiter has read the word, and is leaving its loop
    w.fetch_add(1);
  });
  s.run();
  EXPECT_EQ(seen, 1u);
  EXPECT_EQ(w.peek(), 2u);
}

TEST(simulation, with_directories_an_owner_is_asked_by_way_of_the_home) {
  machine m = plain();
  m.sockets = 3;
  m.cores = 1;
  m.home = 2;
  const auto cost = [](const machine& with) {
    simulation s(with, 1);
    word& w = shared_word(s);
    cycles cost = 0;
    s.add_thread(0, [&] { w.store(1); });
    s.add_thread(1, [&] {
      s.compute(50000);
      const cycles begin = s.now();
      w.load(relaxed);
      cost = s.now() - begin;
    });
    s.run();
    return cost;
  };
  EXPECT_EQ(cost(m), 2000u);
  m.through_home = true;
  EXPECT_EQ(cost(m), 2300u) << "one more message, half of an invalidation's 600";
  m.home = 1;
  EXPECT_EQ(cost(m), 2000u) << "the reader's own socket is the home";
}

TEST(simulation, a_hardware_thread_alone_on_its_core_is_faster_where_pipelines_fuse) {
  machine m = plain();
  m.hardware_threads = 4;
  m.pipelines = 2;
  m.alone = 1536;
  const auto time = [&](unsigned hardware_threads) {
    simulation s(m, 1);
    cycles time = 0;
    for (unsigned i = 0; i < hardware_threads; i++)
      s.add_thread(i, [&] {
        const cycles begin = s.now();
        s.compute(3000);
        time = s.now() - begin;
        s.compute(30000);
      });
    s.run();
    return time;
  };
  EXPECT_NEAR(double(time(1)), 2000, 5);
  EXPECT_NEAR(double(time(2)), 3000, 5);
  EXPECT_NEAR(double(time(4)), 6000, 5) << "four hardware threads, two pipelines";
}

TEST(simulation, calls_come_at_their_time_and_see_how_long_cpus_were_used) {
  simulation s(with_scheduler(), 1);
  cycles at_1000 = 0, at_20000 = 0;
  word& w = shared_word(s);
  s.at(1000, [&] { at_1000 = s.cpu_time(1000); });
  s.at(20000, [&] { at_20000 = s.cpu_time(20000); });
  s.add_thread(0, [&] { s.compute(40000); });
  s.add_thread(1, [&] { simulated::park_for(w, 0, 1, 100000); });  // sleeps
  s.run();
  EXPECT_LE(at_1000, 2000u);
  EXPECT_GT(at_20000, 17000u);
  EXPECT_LT(at_20000, 24000u) << "a sleeping thread uses no CPU time";
}

}  // namespace
}  // namespace usher::sim
