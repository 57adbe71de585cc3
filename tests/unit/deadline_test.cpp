// Deadlines in any unit on any clock. The clock of these tests stands still.
#include "usher/core/deadline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using namespace std::chrono_literals;
using std::chrono::days, std::chrono::duration, std::chrono::hours, std::chrono::microseconds, std::chrono::minutes,
    std::chrono::nanoseconds, std::chrono::seconds, std::chrono::steady_clock, std::chrono::time_point;

struct still_clock {
  using duration = nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<still_clock>;
  static time_point now() { return time_point(at); }
  static inline nanoseconds at{};
};

template <class Duration>
std::uint64_t until(Duration deadline) {
  return usher::nanoseconds_until(time_point<still_clock, Duration>(deadline));
}

constexpr std::uint64_t hour = 3600000000000;
constexpr auto today = 1800000000s;  // an arbitrary time of system_clock

TEST(deadlines, of_a_coarser_unit_than_the_clock_are_not_late) {
  still_clock::at = today + 900ms;
  EXPECT_EQ(until(seconds(today + 1s)), 100000000u);
  EXPECT_EQ(until(minutes(30000001)), 59100000000u);
  EXPECT_EQ(until(duration<double>(1800000001.0)), 100000000u);
  EXPECT_EQ(until(seconds(today)), 0u);
  EXPECT_EQ(until(minutes(30000000)), 0u);
  still_clock::at = today;
  EXPECT_EQ(until(seconds(today)), 0u);
}

TEST(deadlines, are_exact) {
  still_clock::at = today + 7ns;
  EXPECT_EQ(until(today + 8ns), 1u);
  EXPECT_EQ(until(today + 7ns), 0u);
  EXPECT_EQ(until(today + 6ns), 0u);
  still_clock::at = 7ns;
  EXPECT_EQ(until(duration<std::int64_t, std::pico>(7001)), 1u);
  EXPECT_EQ(until(duration<std::int64_t, std::pico>(8001)), 2u);
}

TEST(deadlines, that_are_far_away_do_not_overflow) {
  for (const auto now : {nanoseconds(today), nanoseconds(0), nanoseconds(-today), nanoseconds::min()}) {
    still_clock::at = now;
    EXPECT_EQ(until(hours::max()), hour);
    EXPECT_EQ(until(days::max()), hour);
    EXPECT_EQ(until(nanoseconds::max()), hour);
    EXPECT_EQ(until(duration<double>(HUGE_VAL)), hour);
    EXPECT_EQ(until(hours::min()), 0u);
    EXPECT_EQ(until(days::min()), 0u);
    EXPECT_EQ(until(nanoseconds::min()), 0u);
    EXPECT_EQ(until(duration<double>(std::numeric_limits<double>::quiet_NaN())), 0u);
  }
}

/// Checks that from_now(d) is at least `least`, and not much more.
template <class Duration>
void expect_about(Duration d, nanoseconds least) {
  const auto before = steady_clock::now();
  const auto at = usher::from_now(d);
  const auto after = steady_clock::now();
  EXPECT_GE(at, before + least);
  EXPECT_LE(at, after + least);
}

TEST(durations, from_now) {
  expect_about(10ms, 10ms);
  expect_about(duration<double>(0.25), 250ms);
  expect_about(duration<std::int8_t>(100), 100s);
  expect_about(duration<std::int64_t, std::pico>(1), 1ns);
  expect_about(0s, 0ns);
}

TEST(durations, that_are_long_do_not_overflow) {
  constexpr auto year = hours(24 * 365);
  expect_about(days::max(), year);
  expect_about(hours::max(), year);
  expect_about(nanoseconds::max(), year);
  expect_about(duration<double>(HUGE_VAL), year);
}

TEST(durations, that_are_negative_are_over) {
  expect_about(-1ns, 0ns);
  expect_about(microseconds::min(), 0ns);
  expect_about(microseconds(-9223372036854770), 0ns);
  expect_about(days::min(), 0ns);
  expect_about(duration<double>(-HUGE_VAL), 0ns);
  expect_about(duration<double>(std::numeric_limits<double>::quiet_NaN()), 0ns);
}

}  // namespace
