// A lock of the catalogue on a simulated machine, to which the waiters of conditions are requeued. The lock is followed
// by the words of wait morphing (core/wait_morphing.hpp), as in libusher.so. basic_condition_variable uses this class
// as its mutex.
//
// The lock is known only as a table of functions. So the unlock of a lock that restricts concurrency cannot ask whether
// the lock has a certain successor, and always wakes a requeued thread at once.
#pragma once

#include "lab/sim/arena.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "lab/sim/simulated_platform.hpp"
#include "usher/core/wait_morphing.hpp"

namespace usher::predict {

class requeueing_lock {
  using P = sim::simulated;

 public:
  /// If `has_condition` is false, the words of wait morphing are absent, and all operations are the lock's own.
  requeueing_lock(sim::arena& a, const sim::simulated_lock& table, bool has_condition);
  void lock();
  bool try_lock();
  void unlock();
  requeue_words<P>& words_beside() { return *words_; }

 private:
  struct erased;
  struct view;
  using operations = morphing_mutex<P, view>;
  view seen() const;

  const sim::simulated_lock* table_;
  void* state_;
  requeue_words<P>* words_ = nullptr;
};

}  // namespace usher::predict
