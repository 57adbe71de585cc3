// A lock of the catalogue on a simulated machine, to which the waiters of conditions are requeued: the lock with the words of wait
// morphing behind it (core/wait_morphing.hpp), as in libusher.so. basic_condition_variable takes it as a mutex.
//
// The lock is known only as a table of functions. So the unlock cannot ask a lock that restricts concurrency whether it has a
// certain successor, and wakes a requeued thread at once.
#pragma once

#include "lab/sim/arena.hpp"
#include "lab/sim/simulated_lock.hpp"
#include "lab/sim/simulated_platform.hpp"
#include "usher/core/wait_morphing.hpp"

namespace usher::predict {

class requeueing_lock {
  using P = sim::simulated;

 public:
  /// Without conditions there are no such words, and the operations are the lock's.
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
