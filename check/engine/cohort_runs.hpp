// A cohort lock that fails if it stays within a NUMA node for too long: two acquisitions in a row are allowed, a third
// is a failure. An acquisition of the global lock begins a new row.
#pragma once

#include "check/engine/checked_platform.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::check {

inline unsigned run_length;  ///< not atomic: one system thread runs all threads of an execution

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
    if (++run_length > 2)
      fail("the lock is passed within a NUMA node more often than allowed", rl::test_result_user_assert_failed, p);
  }
};

}  // namespace usher::check
