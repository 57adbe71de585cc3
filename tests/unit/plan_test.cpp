// Tests the choice of candidates by `usher try`: those of --locks and --rwlocks, and without these options the
// candidates that suit the measured waiting.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tool/trial/candidates.hpp"
#include "tool/trial/plan.hpp"

namespace {

using namespace usher::tool::trial;
using names = std::vector<std::string>;

template <class T>
names names_of(const std::vector<T>& all) {
  names found;
  for (const auto& one : all) found.push_back(one.name);
  return found;
}

names chosen(const std::string& locks, const std::string& rwlocks) {
  options o;
  o.locks = locks;
  o.rwlocks = rwlocks;
  return names_of(choose(o));
}

/// Returns the values that the environment variables USHER_LOCK and USHER_RWLOCK have for a candidate.
std::string variables(const choice& c) {
  return std::string(c.locks.mutex == nullptr ? "" : c.locks.mutex->name) + "," + c.locks.rwlock;
}

TEST(choice, names_say_which_locks) {
  options o;
  o.locks = "mcs,steady+bravo,phase-fair,pthread+bravo-mcs,mine=mcs+phase-fair,again=pthread";
  const std::vector<choice> all = choose(o);
  ASSERT_EQ(names_of(all), (names{"mcs", "steady+bravo", "phase-fair", "pthread+bravo-mcs", "mine", "again"}));
  EXPECT_EQ(variables(all[0]), "mcs,");
  EXPECT_EQ(variables(all[1]), "steady,bravo");
  EXPECT_EQ(variables(all[2]), ",phase-fair");
  EXPECT_EQ(variables(all[3]), ",bravo-mcs");
  EXPECT_EQ(variables(all[4]), "mcs,phase-fair");
  EXPECT_TRUE(all[5].locks.are_c_librarys());
}

TEST(choice, read_write_locks_are_tried_with_each_lock) {
  EXPECT_EQ(chosen("", "phase-fair,bravo"), (names{"phase-fair", "bravo"}));
  EXPECT_EQ(chosen("steady,mine=mcs", "bravo"), (names{"steady+bravo", "mine+bravo"}));
  EXPECT_EQ(chosen("pthread,steady", "pthread,bravo"), (names{"bravo", "steady", "steady+bravo"}));
  EXPECT_EQ(chosen("steady", "pthread"), names{"steady"});
}

TEST(choice, errors) {
  for (const auto& [locks, rwlocks] : {std::pair{"steady+brave", ""},
                                       {"steadi+bravo", ""},
                                       {"steady+", ""},
                                       {"+bravo", ""},
                                       {"steady+bravo+bravo", ""},
                                       {"bravo=mcs", ""},
                                       {"steady+bravo=mcs+bravo", ""},
                                       {"bravo,bravo", ""},
                                       {"", "mcs"},
                                       {"", "pthread"},
                                       {"", ","},
                                       {"", "bravo,bravo"},
                                       {"bravo", "phase-fair"},
                                       {"pthread", "pthread"}})
    EXPECT_EQ(chosen(locks, rwlocks), names{}) << locks << " " << rwlocks;
}

/// Data of a first run that took 1 s on two CPUs. 1000 s are left for further runs. `mutexes` and `rwlocks` are the
/// shares of the threads' time that were spent waiting.
first_runs seen(double mutexes, double rwlocks, std::uint64_t mutex_calls = 1000) {
  call_counts calls{mutex_calls, 10, 0, 0, 4, true, mutexes};
  if (rwlocks >= 0) {
    calls.rwlocks = 1000;
    calls.rwlock_waiting_share = rwlocks;
  }
  return {calls, 1, 1000, 1, 2};
}

plan default_plan(const first_runs& s, unsigned cpus = 8, double budget = 1000) {
  options o;
  o.budget = budget;
  return plan_of(o, choose(o), s, cpus);
}

const names of_mutexes = {"steady", "loiter-park", "mcscr", "twa"};

TEST(default_candidates, without_waiting_for_read_write_locks_are_locks) {
  for (const double mutexes : {0.0, 0.005, 0.3})
    for (const double rwlocks : {-1.0, 0.0, 0.009}) {
      const plan p = default_plan(seen(mutexes, rwlocks));
      EXPECT_EQ(names_of(p.taken), of_mutexes);
      EXPECT_EQ(names_of(p.left_out), names{});
    }
  options o;
  const plan not_counted = plan_of(o, choose(o), {std::nullopt, 0.01, 100}, 8);
  EXPECT_EQ(names_of(not_counted.taken), of_mutexes);
  EXPECT_EQ(names_of(default_plan(seen(0.3, 0), 2).taken), (names{"steady", "loiter-park", "ttas"}));
}

TEST(default_candidates, where_a_collector_parks_threads_are_locks_that_go_past_them) {
  first_runs s = seen(0.3, 0);
  s.calls->parks_threads = true;
  const plan p = default_plan(s, 2);
  EXPECT_EQ(names_of(p.taken), (names{"steady", "ttas"}));
  EXPECT_EQ(names_of(p.left_out), (names{"loiter-park", "mcscr", "twa"}));
  EXPECT_NE(p.notes.at(1).find("a collector that parks threads"), std::string::npos) << p.notes.at(1);
}

TEST(default_candidates, where_only_read_write_locks_wait) {
  for (const double mutexes : {0.0, 0.009}) {
    const plan p = default_plan(seen(mutexes, 0.3));
    EXPECT_EQ(names_of(p.taken), (names{"phase-fair", "bravo"}));
    EXPECT_EQ(names_of(p.left_out), of_mutexes);
    ASSERT_EQ(p.notes.size(), 2U);
    EXPECT_EQ(p.notes[1],
              "left out, as threads hardly wait for mutexes: steady, loiter-park, mcscr, twa (--locks "
              "steady,loiter-park,mcscr,twa tries them)");
    for (const choice& c : p.taken) EXPECT_EQ(c.locks.mutex, nullptr);
  }
  const plan p = default_plan(seen(0, 0.3, 3));
  EXPECT_EQ(names_of(p.taken), (names{"phase-fair", "bravo"}));
  EXPECT_EQ(names_of(p.left_out), names{});
}

TEST(default_candidates, where_both_wait) {
  const names both = {"steady+phase-fair", "steady+bravo", "steady", "phase-fair"};
  const plan p = default_plan(seen(0.1, 0.3));
  EXPECT_EQ(names_of(p.taken), both);
  EXPECT_EQ(names_of(p.left_out), (names{"loiter-park", "mcscr", "twa", "bravo"}));
  EXPECT_EQ(names_of(default_plan(seen(0.1, 0.3), 2).taken), both);
  // A decision among four candidates takes at least 45 runs, among two candidates 26. The 30 s that are left are enough
  // for 30 runs of 1 s.
  first_runs s = seen(0.1, 0.3);
  s.seconds_left = 30;
  EXPECT_EQ(names_of(default_plan(s).taken), (names{"steady+phase-fair", "steady+bravo"}));
}

TEST(default_candidates, idle_threads_do_not_hide_waiting) {
  first_runs s = seen(0, 0.004);
  s.calls->threads = 252;
  EXPECT_EQ(names_of(default_plan(s, 300).taken), (names{"phase-fair", "bravo"}));
  s.calls->waiting_share = 0.004;
  EXPECT_EQ(names_of(default_plan(s, 300).taken).front(), "steady+phase-fair");
  s.counted_cpu_s = 0;  // not known
  EXPECT_EQ(names_of(default_plan(s, 300).taken), of_mutexes);
}

TEST(default_candidates, nothing_to_gain) {
  EXPECT_TRUE(default_plan(seen(0, 0.001, 3)).nothing_to_gain);
  EXPECT_FALSE(default_plan(seen(0, 0.3, 3)).nothing_to_gain);
  EXPECT_FALSE(default_plan(seen(0, 0.001)).nothing_to_gain);
  options o;
  o.rwlocks = "bravo";
  const plan by_hand = plan_of(o, choose(o), seen(0, 0.001, 3), 8);
  EXPECT_FALSE(by_hand.nothing_to_gain);
  EXPECT_EQ(names_of(by_hand.taken), names{"bravo"});
}

}  // namespace
