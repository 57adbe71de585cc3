// A cohort lock that says when its hand-overs within a node do not come to an end: with two in a row at the most, a third
// is a failure. The global lock tells where a run begins.
#pragma once

#include "check/platform.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::check {

inline unsigned run_length;  ///< one thread of the machine runs all of an execution's

template <platform P, class W>
struct begins_a_run : ticket<P, W> {
  void lock() {
    ticket<P, W>::lock();
    run_length = 0;
  }
  bool try_lock() {
    if (!ticket<P, W>::try_lock()) return false;
    run_length = 0;
    return true;
  }
};

template <class Cohort>
struct counts_runs : Cohort {
  void lock() {
    Cohort::lock();
    count();
  }
  bool try_lock() {
    if (!Cohort::try_lock()) return false;
    count();
    return true;
  }

 private:
  static void count(place p = place::current()) {
    if (++run_length > 2) fail("passed within a node more often than it may be", rl::test_result_user_assert_failed, p);
  }
};

}  // namespace usher::check
