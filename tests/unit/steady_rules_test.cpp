// Tests the pure functions of the lock `steady` with all of their arguments: the next step of the standby, the first
// waiter in the queue (steady_standby), and the memory of hold times (hold_memory). Times are tested on both sides of
// each limit.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "usher/locks/steady.hpp"

namespace usher {
namespace {

using word = steady_word;

constexpr std::array states = {word::free, word::held, word::held_by_queue, word::handed_over};
constexpr std::array all_marks = {0u,
                                  word::asleep,
                                  word::impatient,
                                  word::marks,
                                  word::arrival_asleep,
                                  word::asleep | word::arrival_asleep,
                                  word::impatient | word::arrival_asleep,
                                  word::marks | word::arrival_asleep};

std::vector<std::uint32_t> words_that_a_standby_may_see() {
  std::vector<std::uint32_t> words;
  for (const std::uint32_t s : states)
    for (const std::uint32_t m : all_marks)
      for (const std::uint32_t urgent_node : {0u, 1u, 0xffffffu})
        if (urgent_node == 0 || !word::is_free(s)) words.push_back(s | m | urgent_node << 8);
  return words;
}

TEST(steady_word, states_differ_and_marks_are_no_part_of_them) {
  for (const std::uint32_t a : states)
    for (const std::uint32_t b : states)
      for (const std::uint32_t m : all_marks) {
        EXPECT_EQ(word::state_of(a | m) == word::state_of(b), a == b);
        EXPECT_EQ(word::is_free(a | m), a == word::free);
        EXPECT_EQ(word::may_enter(a | m), a == word::free || a == word::handed_over);
      }
}

template <bool Parks>
struct rules {
  using standby = steady_standby<Parks>;
  using step = typename standby::step;

  static std::vector<std::uint64_t> times() {
    std::vector<std::uint64_t> t = {0, 1, ~std::uint64_t{0}};
    for (const std::uint64_t limit : {standby::ask_after, standby::hand_off_after})
      for (const std::uint64_t around : {limit - 1, limit, limit + 1}) t.push_back(around);
    return t;
  }

  /// Calls `test` with every state of a standby, every word of the lock that keeps a standby out, and each duration in
  /// times().
  template <class F>
  static void in_each_case(F test) {
    for (const bool may_ask : {false, true})
      for (const bool may_nap : {false, true})
        for (const std::uint32_t w : words_that_a_standby_may_see())
          for (const std::uint64_t waited : times())
            if (word::state_of(w) != word::handed_over && (Parks || (!may_ask && !may_nap))) {
              SCOPED_TRACE(testing::Message() << "word " << w << ", waited " << waited << ", may ask " << may_ask
                                              << ", may nap " << may_nap);
              test(standby{may_ask, may_nap}, w, waited);
            }
  }

  /// The standby sleeps without a time limit only if an unlock will hand the lock over to it. A standby that parks
  /// sleeps only while the word has the mark `asleep`, so that the next unlock wakes it.
  static void sleeps_only_where_it_is_woken() {
    in_each_case([](standby s, std::uint32_t w, std::uint64_t waited) {
      if (s.next_step(w, waited) != step::sleep) return;
      EXPECT_FALSE(word::is_free(w));
      EXPECT_TRUE(!Parks || (w & word::asleep) != 0);
      EXPECT_EQ((w & word::impatient) != 0, s.is_due(waited));
      EXPECT_EQ(s.sleep_for(waited) == 0, s.is_due(waited));
      if (!s.is_due(waited)) {
        const std::uint64_t end = waited + s.sleep_for(waited);
        EXPECT_EQ(end, waited < s.ask_after ? s.ask_after : s.hand_off_after);
        EXPECT_GT(end, waited);
      }
    });
  }

  /// A standby that has waited so long that a hand-over is due always sets the mark `impatient` or keeps it, and does
  /// not nap.
  static void insists_once_it_is_due() {
    in_each_case([](standby s, std::uint32_t w, std::uint64_t waited) {
      if (!s.is_due(waited)) return;
      const step next = s.next_step(w, waited);
      EXPECT_TRUE(next == step::set_marks || next == step::sleep || next == step::look_again);
      if ((w & word::impatient) == 0) {
        EXPECT_EQ(next, step::set_marks);
      }
    });
  }

  /// A standby asks for a hand-over at most once after each sleep, and only after `ask_after`. It naps at most once
  /// after each sleep, and only while the word has no marks, since no unlock wakes a napping standby.
  static void asks_and_naps_once() {
    in_each_case([](standby s, std::uint32_t w, std::uint64_t waited) {
      const step next = s.next_step(w, waited);
      if (next == step::ask) {
        EXPECT_TRUE(s.may_ask && waited >= s.ask_after && !word::is_free(w));
      } else if (next == step::take_nap) {
        EXPECT_TRUE(s.may_nap && !word::is_free(w) && (w & word::marks) == 0);
        // a nap begins before hand_off_after; stand_by() lets it end then
        EXPECT_LT(waited, s.hand_off_after);
      }
    });
  }

  /// If no other thread changes the word, a standby sleeps after at most four steps, whatever the word was.
  static void comes_to_rest() {
    in_each_case([](standby s, std::uint32_t w, std::uint64_t waited) {
      if (word::is_free(w)) return;  // then it enters
      for (int steps = 0;; steps++) {
        ASSERT_LT(steps, 4);
        switch (s.next_step(w, waited)) {
          case step::look_again:
            FAIL() << "the lock is not free";
          case step::ask:
            s.may_ask = false;
            w |= word::impatient;
            break;
          case step::stop_asking:
            w &= ~word::impatient;
            break;
          case step::set_marks:
            w |= s.marks_after(waited);
            break;
          case step::take_nap:
          case step::sleep:
            return;
        }
      }
    });
  }
};

TEST(standby, sleeps_only_where_it_is_woken) {
  rules<true>::sleeps_only_where_it_is_woken();
  rules<false>::sleeps_only_where_it_is_woken();
}
TEST(standby, insists_once_it_is_due) {
  rules<true>::insists_once_it_is_due();
  rules<false>::insists_once_it_is_due();
}
TEST(standby, asks_and_naps_once) {
  rules<true>::asks_and_naps_once();
  rules<false>::asks_and_naps_once();
}
TEST(standby, comes_to_rest) {
  rules<true>::comes_to_rest();
  rules<false>::comes_to_rest();
}

// ---- hold_memory -----------------------------------------------------------------------------------------------------

TEST(hold_memory, classes_are_powers_of_two_from_64_ns) {
  EXPECT_EQ(hold_memory::class_of(0), 0u);
  EXPECT_EQ(hold_memory::class_of(63), 0u);
  for (std::uint32_t c = 1; c < hold_memory::longest; c++) {
    EXPECT_EQ(hold_memory::class_of(std::uint64_t{64} << (c - 1)), c);
    EXPECT_EQ(hold_memory::class_of((std::uint64_t{64} << c) - 1), c);
  }
  EXPECT_EQ(hold_memory::class_of(~std::uint64_t{0}), hold_memory::longest);
}

hold_memory memory_of(std::uint32_t hold_class, std::uint32_t doubt, node_handle holder, std::uint32_t home) {
  hold_memory m{hold_class};
  for (std::uint32_t i = 0; i < doubt; i++) m = m.after_long_poll(false);
  return m.with_holder(holder, home);
}

constexpr node_handle highest_node = 0xfffff;

TEST(hold_memory, moves_by_one_class_and_keeps_the_other_fields) {
  for (std::uint32_t c = 0; c <= hold_memory::longest; c++)
    for (std::uint32_t its = 0; its <= hold_memory::longest; its++) {
      // of the NUMA node's number 0x35 only the low bits, 5, are kept
      const hold_memory before = memory_of(c, 11, highest_node, 0x35);
      const hold_memory after = before.after_hold(its == 0 ? 0 : std::uint64_t{64} << (its - 1));
      EXPECT_EQ(after.hold_class(), c + (its > c) - (its < c));
      EXPECT_EQ(after.holder(), highest_node);
      EXPECT_EQ(after.doubt(), 11u);
      EXPECT_TRUE(after.is_home(0x05) && after.is_home(0x35) && !after.is_home(0x04));
    }
}

TEST(hold_memory, the_least_hold_of_a_class_is_in_it) {
  for (std::uint32_t c = 0; c <= hold_memory::longest; c++) {
    EXPECT_EQ(hold_memory::class_of(hold_memory{c}.least_hold()), c);
    if (c != 0) {
      EXPECT_EQ(hold_memory::class_of(hold_memory{c}.least_hold() - 1), c - 1);
    }
  }
}

TEST(hold_memory, doubt_moves_by_one_within_its_bounds_and_keeps_the_other_fields) {
  for (std::uint32_t d = 0; d <= hold_memory::most_doubt; d++) {
    const hold_memory before = memory_of(hold_memory::longest, d, highest_node, hold_memory::homes);
    ASSERT_EQ(before.doubt(), d);
    const hold_memory more = before.after_long_poll(false), less = before.after_long_poll(true);
    EXPECT_EQ(more.doubt(), std::min(d + 1, hold_memory::most_doubt));
    EXPECT_EQ(less.doubt(), d == 0 ? 0 : d - 1);
    for (const hold_memory m : {more, less}) {
      EXPECT_EQ(m.hold_class(), hold_memory::longest);
      EXPECT_EQ(m.holder(), highest_node);
      EXPECT_TRUE(m.is_home(hold_memory::homes));
    }
  }
}

/// Returns how long, in nanoseconds, a thread on this NUMA node polls if its random number does not permit a poll
/// beyond the limit; one number in 32 does.
std::uint64_t poll_for(hold_memory m, std::uint64_t limit, std::uint64_t cost, std::uint32_t node) {
  return m.poll_for(limit, cost, node, [] { return 31u; });
}

TEST(hold_memory, polls_for_the_limit_up_to_its_class_if_a_sleep_costs_no_more) {
  for (std::uint32_t c = 0; c <= hold_memory::longest; c++)
    for (const std::uint64_t limit : {0, 100, 5600, 20000, 10000000}) {
      const hold_memory m = memory_of(c, 0, 7, 3);
      const std::uint64_t polled = limit != 0 && c <= hold_memory::class_of(limit) ? limit : 0;
      EXPECT_EQ(poll_for(m, limit, limit, 3), polled);
      EXPECT_EQ(poll_for(m, limit, limit, 4), m.is_brief() ? 0 : polled);
    }
}

TEST(hold_memory, polls_beyond_the_limit_while_that_succeeds) {
  constexpr std::uint64_t limit = 5555, cost = 30000;
  for (std::uint32_t c = 0; c <= hold_memory::longest; c++)
    for (std::uint32_t d = 0; d <= hold_memory::most_doubt; d++) {
      const hold_memory m = memory_of(c, d, 7, 3);
      const std::uint64_t polled = poll_for(m, limit, cost, 3),
                          by_chance = m.poll_for(limit, cost, 3, [] { return 0u; });
      const bool worth_it = c <= hold_memory::class_of(cost), short_enough = c <= hold_memory::class_of(limit);
      if (d < hold_memory::too_much_doubt) {
        EXPECT_EQ(polled != 0, worth_it);
        EXPECT_EQ(by_chance, polled);
      } else {
        EXPECT_EQ(polled, short_enough ? limit : 0);
        EXPECT_EQ(by_chance != 0, worth_it);
      }
      if (polled > limit) {
        EXPECT_LE(polled, cost);
        EXPECT_TRUE(polled == cost || polled == 8 * m.least_hold());
      }
      EXPECT_EQ(poll_for(m, 0, cost, 3), 0u);
    }
}

TEST(standby, naps_end_in_time) {
  using standby = steady_standby<true>;
  for (const std::uint64_t waited : rules<true>::times())
    for (const std::uint64_t hold : {std::uint64_t{0}, std::uint64_t{20000}, std::uint64_t{1} << 20})
      for (const std::uint64_t cost : {0, 5555, 30000, 50000, 1000000000})
        if (!standby::is_due(waited)) {
          const std::uint64_t nap = standby::nap_for(waited, hold, cost);
          EXPECT_GT(nap, 0u);
          EXPECT_LE(nap, standby::ask_after);
          EXPECT_LE(waited + nap, standby::hand_off_after);
        }
}

}  // namespace
}  // namespace usher
