// A lock's guarantees as data: read by the tests, the command line and the tables in the docs.
#pragma once

#include "usher/core/ways_of_waiting.hpp"

namespace usher::inline v2 {

/// `bypass` of a lock in which a waiter may be overtaken without bound.
inline constexpr int unbounded = -1;

/// One record per lock: `static constexpr lock_traits traits` of the lock's class.
///
/// The guarantees of order and progress have two parts, divided by the *doorway*, the operation that gives a thread its
/// place. Each lock's header says which operation that is.
///
/// From the doorway on: `fifo`, `bypass`, `starvation_free`. A thread past its doorway is admitted after finitely many
/// admissions of other threads, for certain or with probability one (over the lock's own random numbers, not over
/// schedules), if every owner unlocks and every thread goes on running. So other threads must not be able to keep a
/// thread past its doorway in an unbounded loop.
///
/// Up to and including the doorway: `bounded_doorway`. A thread completes its doorway in a bounded number of its own
/// operations, or of nanoseconds, whatever other threads do. A compare-and-swap that is repeated until it succeeds is
/// not bounded: its failure means that another thread has succeeded, so the lock makes progress, but this thread may
/// make none.
///
/// "Operations" are those of the platform. Both parts hold for threads that get from the platform the resources that
/// the lock needs: a queue node, a record. Nothing is guaranteed for `try_lock()` and for attempts with a deadline:
/// they have no place in the lock's order.
struct lock_traits {
  const char* summary;           ///< one line for `usher list`
  const char* paper;             ///< where the algorithm comes from: paper, section, listing
  bool fifo = false;             ///< admission in order of arrival (at the doorway)
  int bypass = unbounded;        ///< how often a waiter past the doorway may be overtaken, or `unbounded`
  bool fifo_leaders = false;     ///< the leaders of several groups are admitted in the order of their tickets
  bool starvation_free = false;  ///< every waiter past the doorway is admitted, for certain or with probability one
  bool bounded_doorway = false;  ///< a thread reaches its doorway in bounded time, whatever others do
  bool by_priority = false;      ///< sleeping threads with a real-time priority are admitted first, by priority
  bool restricts = false;        ///< restricts concurrency: parks threads that would not raise the lock's throughput
  bool context = false;          ///< lock() needs a queue node
  unsigned words = 1;            ///< 32-bit words of state, without the owner's node handle
  unsigned kinds = every_waiting_kind;  ///< ways of waiting that the lock can have: a set of `waiting_kind`
  bool native_only = false;             ///< cannot be simulated or checked (the C library's own)
  bool excludes = true;                 ///< false: lock() excludes nothing; for measurements only
  /// The least number of threads with which `usher check` runs the lock. 4 if a third waiter can affect two others, as
  /// in a list or in a slot that waiters share, and the members above do not imply it.
  unsigned checker_threads = 3;
};

}  // namespace usher::inline v2
