// Tests of buffered stores: their order as other cores see it, the requests that overlap, and lines that arrive before
// a store's turn. Also tests the costs of complexes, hops and busy directories.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "known_machine.hpp"
#include "lab/sim/runtime.hpp"
#include "plain_machine.hpp"

namespace usher::sim {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release = std::memory_order_release;
machine plain() {
  machine m = plain_machine();
  m.store_entries = 8;
  return m;
}

/// Returns the time until `n` stores are written to lines that another core of the socket has. With `calls_between`,
/// each of these stores is followed by a store that hits a line of the own core.
cycles written_after(machine m, unsigned n, bool calls_between) {
  simulation s(m, 1);
  std::vector<word*> words;
  for (unsigned i = 0; i < n; i++) words.push_back(&shared_word(s));
  word& own = shared_word(s);
  cycles took = 0;
  s.add_thread(1, [&] {
    for (word* w : words) w->fetch_add(1, relaxed);
  });
  s.add_thread(0, [&] {
    own.fetch_add(1, relaxed);
    s.compute(50000);
    const cycles begin = s.now();
    for (word* w : words) {
      w->store(7, release);
      if (calls_between) s.stores_privately();
    }
    EXPECT_LE(s.now() - begin, 2 * n) << "the thread does not wait for its stores";
    own.fetch_add(1, relaxed);  // waits for the stores
    took = s.now() - begin;
    for (word* w : words) EXPECT_EQ(w->peek(), 7u);
  });
  s.run();
  return took;
}

TEST(stores, overlap_where_the_machine_asks_ahead) {
  machine m = plain();
  EXPECT_NEAR(written_after(m, 4, false), 4 * 200, 50) << "the stores are written one after another";
  m.asks = ownership::ahead;
  EXPECT_NEAR(written_after(m, 4, false), 200, 50);
  EXPECT_NEAR(written_after(m, 4, true), 200, 50);
  m.asks = ownership::ahead_until_a_hit;
  EXPECT_NEAR(written_after(m, 4, false), 200, 50);
  EXPECT_NEAR(written_after(m, 4, true), 4 * 200, 50) << "a store that hits ends the overlap";
}

TEST(stores, wait_where_the_buffer_is_full) {
  machine m = plain();
  m.store_entries = 2;
  simulation s(m, 1);
  std::array<word*, 4> words{};
  for (word*& w : words) w = &shared_word(s);
  std::array<cycles, 4> began{};
  s.add_thread(1, [&] {
    for (word* w : words) w->fetch_add(1, relaxed);
  });
  s.add_thread(0, [&] {
    s.compute(50000);
    for (std::size_t i = 0; i < words.size(); i++) {
      began[i] = s.now();
      words[i]->store(1, release);
    }
  });
  s.run();
  EXPECT_LE(began[2] - began[0], 10u);
  EXPECT_GE(began[3] - began[0], 190u) << "the store waits until the first is written";
}

/// Other cores must see stores in program order, even if the line of a later store arrives first. The line of the first
/// store comes from the other socket.
TEST(stores, are_seen_in_order_though_a_later_line_comes_first) {
  for (const ownership asks : {ownership::in_turn, ownership::ahead, ownership::ahead_until_a_hit})
    for (const unsigned reader : {0u, 1u, 2u, 3u}) {
      machine m = plain();
      m.asks = asks;
      m.jitter = 500;
      for (std::uint64_t seed = 1; seed <= 20; seed++) {
        simulation s(m, seed);
        word &far = shared_word(s), &near = shared_word(s), &again = shared_word(s);
        unsigned wrong = 0;
        s.add_thread(2, [&] { far.fetch_or(0, relaxed); });
        s.add_thread(reader == 1 ? 0 : 1, [&] {  // the reader or the writer of this pair
          near.fetch_or(0, relaxed);
          again.load(relaxed);
          s.compute(20000);
          far.store(1, release);
          near.store(1, release);
          again.store(1, release);
        });
        s.add_thread(reader == 0 || reader == 2 ? 3 : reader, [&] {
          for (unsigned i = 0; i < 400; i++) {
            s.compute(100 + s.chance().below(50));
            // Loads the words in the reverse order of the stores.
            const auto c = again.load(relaxed), b = near.load(relaxed), a = far.load(relaxed);
            wrong += (c > b || b > a) ? 1 : 0;
          }
        });
        s.run();
        EXPECT_EQ(wrong, 0u) << "seed " << seed;
        EXPECT_EQ(far.peek() + near.peek() + again.peek(), 3u);
      }
    }
}

TEST(stores, a_line_that_came_ahead_can_be_lost_again) {
  machine m = plain();
  m.asks = ownership::ahead;
  simulation s(m, 1);
  word &far = shared_word(s), &flag = shared_word(s);
  cycles written = 0, seen = 0;
  s.add_thread(2, [&] { far.fetch_or(0, relaxed); });
  s.add_thread(1, [&] {
    s.compute(10000);
    flag.load(relaxed);
    simulated::await(
        flag, [](std::uint32_t v) { return v == 1; }, std::memory_order_acquire, pacing::polling);
    seen = s.now();
  });
  s.add_thread(0, [&] {
    s.compute(20000);
    far.store(1, release);   // 2000 cycles
    flag.store(1, release);  // its line arrives at once, and its spinner fetches a copy meanwhile
    s.compute(1);
    far.fetch_or(0, relaxed);
    written = s.now();
  });
  s.run();
  EXPECT_EQ(s.counted().fetched_ahead, 1u);
  EXPECT_EQ(s.counted().lost_ahead, 1u);
  EXPECT_GE(seen, 22000u) << "the store is not visible before the one in front of it";
  EXPECT_GE(written, 22000u);
}

TEST(stores, a_thread_that_waits_for_its_own_store_sees_it) {
  simulation s(plain(), 1);
  word &far = shared_word(s), &own = shared_word(s);
  std::uint32_t seen = 0;
  s.add_thread(2, [&] {
    far.fetch_or(0, relaxed);
    own.store(9, release);
    s.compute(50000);
    own.fetch_add(1, relaxed);
  });
  s.add_thread(0, [&] {
    s.compute(20000);
    far.store(1, release);
    own.store(3, release);
    EXPECT_EQ(own.load(relaxed), 3u);
    seen = simulated::await(
        own, [](std::uint32_t v) { return v != 3; }, std::memory_order_acquire, pacing::polling);
  });
  s.run();
  EXPECT_EQ(seen, 4u) << "the load must not return the older 9";
}

TEST(stores, a_load_waits_for_a_store_to_a_part_of_its_word) {
  simulation s(plain(), 1);
  word& w = shared_word(s);
  std::uint32_t seen = 0;
  cycles took = 0;
  s.add_thread(1, [&] { w.fetch_add(0x500, relaxed); });
  s.add_thread(0, [&] {
    s.compute(20000);
    auto* const second = static_cast<unsigned char*>(const_cast<void*>(w.place())) + 1;
    if (!s.store(second, 7, 1)) *second = 7;
    const cycles begin = s.now();
    seen = w.load(relaxed);
    took = s.now() - begin;
  });
  s.run();
  EXPECT_EQ(seen, 0x700u);
  EXPECT_GE(took, 190u) << "the load cannot be forwarded";
}

// ---- topology ----

/// Returns the cost of a read by core `reader` of a line that core 0 has written.
cycles read_by(const machine& m, unsigned reader) {
  simulation s(m, 1);
  word& w = shared_word(s);
  cycles took = 0;
  s.add_thread(0, [&] { w.fetch_add(1, relaxed); });
  s.add_thread(reader, [&] {
    s.compute(50000);
    const cycles begin = s.now();
    w.load(relaxed);
    took = s.now() - begin;
  });
  s.run();
  return took;
}

/// Returns the ns of a hand-over between two threads that change a word in turn, each by a loop of compare-and-swap.
/// This is half of a round trip, as the tool core-to-core-latency measures it.
double hand_over_ns(machine m, unsigned first, unsigned second) {
  m.hardware_threads = 1;
  m.os.reset();  // no interruptions
  simulation s(m, 1);
  word& w = shared_word(s);
  constexpr int rounds = 2000;
  const auto player = [&](unsigned from, unsigned to) {
    for (int i = 0; i < rounds; i++)
      for (auto expected = from; !w.compare_exchange_strong(expected, to, relaxed, relaxed);) expected = from;
  };
  s.add_thread(first, [&] { player(0, 1); });
  cycles end = 0;
  s.add_thread(second, [&] {
    player(1, 0);
    end = s.now();
  });
  s.run();
  return static_cast<double>(m.to_ns(end)) / (2 * rounds);
}

// These figures were used to set `dirty` in the machine files: github.com/nviennot/core-to-core-latency.
TEST(topology, hand_overs_take_as_long_as_published) {
  const auto expect = [](const char* name, unsigned core, double published) {
    EXPECT_NEAR(hand_over_ns(known_machine(name), 0, core) / published, 1, 0.05) << name << ", cores 0 and " << core;
  };
  expect("x5-2", 1, 44);
  expect("x5-2", 18, 118);
  expect("xeon-8260-8", 1, 47);
  expect("xeon-8260-8", 24, 134);
  expect("epyc-7003", 1, 23);
  expect("epyc-7003", 8, 107);
  expect("graviton3", 1, 46.4);
  expect("t5", 1, 78);
}

// The figures are of an EPYC 7R13 whose word has its home in the first socket, from the same source.
TEST(topology, between_complexes_of_a_socket_the_socket_of_the_lines_home_counts) {
  machine m = known_machine("epyc-7003");
  m.home = 0;
  EXPECT_NEAR(hand_over_ns(m, 0, 8) / 107, 1, 0.05);
  EXPECT_NEAR(hand_over_ns(m, 64, 72) / 190, 1, 0.05) << "neither complex is in the socket of the home";
  EXPECT_NEAR(hand_over_ns(m, 64, 65) / 23, 1, 0.05) << "within a complex the home is not asked";
  EXPECT_NEAR(hand_over_ns(m, 0, 64) / 197, 1, 0.05);
  m.through_homes_socket = false;
  EXPECT_NEAR(hand_over_ns(m, 64, 72) / 107, 1, 0.05) << "without the rule";
}

/// Returns the median number of cycles of a compare-and-swap on a word that another core has changed just before, as
/// the tool mctop measures it: two threads take turns, and no other thread accesses the line.
double compare_and_swap_cycles(const char* name, unsigned core) {
  machine m = known_machine(name);
  m.os.reset();  // no interruptions
  m.hardware_threads = 1;
  simulation s(m, 1);
  word& w = shared_word(s);
  constexpr std::uint32_t rounds = 500;
  constexpr cycles turn = 20000;
  std::vector<cycles> took;
  const auto player = [&](std::uint32_t mine) {
    for (std::uint32_t i = mine; i < 2 * rounds; i += 2) {
      s.compute((i + 1) * turn - s.now());
      const cycles begin = s.now();
      std::uint32_t expected = i;
      EXPECT_TRUE(w.compare_exchange_strong(expected, i + 1, relaxed, relaxed));
      if (mine == 1) took.push_back(s.now() - begin);
    }
  };
  s.add_thread(0, [&] { player(0); });
  s.add_thread(core, [&] { player(1); });
  s.run();
  std::ranges::nth_element(took, took.begin() + rounds / 2);
  return static_cast<double>(took[rounds / 2]);
}

// These figures were used to set `dirty` in the machine files: github.com/LPD-EPFL/mctop, desc.
TEST(topology, a_compare_and_swap_takes_as_long_as_published) {
  const auto expect = [](const char* name, unsigned core, double published) {
    EXPECT_NEAR(compare_and_swap_cycles(name, core) / published, 1, 0.05) << name << ", cores 0 and " << core;
  };
  expect("t4-4", 1, 207);
  expect("t4-4", 8, 650);
  expect("opteron-6172", 1, 117);
  expect("xeon-e7-4830v3", 1, 127);
  expect("xeon-e7-4830v3", 12, 305);
}

TEST(topology, costs_go_by_complex_socket_and_hops) {
  machine m = plain();
  m.sockets = 3;
  m.cores = 4;
  m.complexes = 2;
  m.hops = {{0, 1, 2}, {1, 0, 1}, {2, 1, 0}};
  m.clean = {10, 20, 30, 40, 50};
  m.dirty = {100, 200, 300, 400, 500};
  m.invalidate = {10, 20, 30, 40, 50};
  m.memory = {100, 100, 100, 100, 100};
  EXPECT_EQ(m.farthest(), 3u);
  EXPECT_EQ(read_by(m, 1), 100u) << "the line is in the same complex";
  EXPECT_EQ(read_by(m, 2), 200u) << "the line is in the socket's other complex";
  EXPECT_EQ(read_by(m, 4), 300u);
  EXPECT_EQ(read_by(m, 8), 400u);
  EXPECT_EQ(m.node_of(2), 0u);
  m.nodes = 2;
  EXPECT_EQ(m.node_of(2), 1u);
}

TEST(topology, a_home_that_waits_takes_one_request_after_another) {
  machine m = plain();
  m.sockets = 8;
  m.cores = 1;
  m.group = 0;
  const auto last_of = [&](home_agent homes) {
    m.homes = homes;
    simulation s(m, 1);
    word& w = shared_word(s);
    cycles last = 0;
    s.add_thread(0, [&] { w.fetch_add(1, relaxed); });
    for (unsigned t = 1; t < 8; t++)
      s.add_thread(t, [&] {
        s.compute(50000 - s.now());
        w.load(relaxed);
        last = std::max(last, s.now() - 50000);
      });
    s.run();
    return last;
  };
  const cycles at_once = last_of(home_agent::none), in_turn = last_of(home_agent::until_answer);
  const unsigned far = m.farthest();
  EXPECT_GE(in_turn, at_once + 5 * m.clean[far]) << "the second to the seventh reader wait for those before";
  EXPECT_GE(last_of(home_agent::until_answers), in_turn);
}

}  // namespace
}  // namespace usher::sim
