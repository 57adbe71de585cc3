// Solaris' time-sharing class (TS): how the priority and the time quantum of a thread change.
//
// A thread has a priority of 0 to 59, and a quantum of clock ticks that depends on the priority: the lower the
// priority, the longer the quantum. A thread that uses up its quantum sinks by ten. Once a second, the priority of each
// thread that has not begun a new quantum since the last second is raised to 50 or more. A thread that runs or sleeps
// gets the priority after a sleep, and a thread that waits for a CPU gets that of a starving thread. CPUs choose the
// thread with the highest priority in their queues (scheduler.cpp).
//
// The facts are those of illumos (github.com/illumos/illumos-gate, usr/src/uts), which has a common ancestor with
// Solaris 11: common/disp/ts_dptbl.c for the table, common/disp/ts.c for the rules. Oracle's System Administration
// Guide prints the same table (dispadmin -c TS -g), and Oracle's document 1001653.1 says that only large servers other
// than these machines have another table. Left out: interactive windows, nice values, preemption control (schedctl).
#pragma once

#include <cstdint>

#include "lab/sim/machine.hpp"

namespace usher::sim {

/// The state of a thread in the class.
struct time_share {
  int priority = 0;
  int left = 0;          ///< ticks until its quantum is used up
  unsigned waited = 0;   ///< updates since the thread began a quantum
  bool to_back = false;  ///< if preempted, the thread goes behind the others of its priority
  bool in_class = true;  ///< false: another process, above all priorities of the class
  cycles left_cpu = 0;   ///< when it last left a CPU
};

class time_sharing {
 public:
  static constexpr int levels = 60;
  static constexpr int above = levels;  ///< the priority of a thread that is not in the class

  /// The row of the dispatch table for a priority.
  struct level {
    unsigned quantum_ms;
    int after_quantum, after_sleep;
    unsigned most_waits;  ///< after more updates without a new quantum, the priority is raised
    int after_waiting;
  };
  static level of(int priority);

  explicit time_sharing(const machine& m);

  /// The quantum of a priority in ticks, rounded up.
  int quantum(int priority) const;

  void begin(time_share& s, bool urgent) const;
  /// To be called at each tick for a thread that has a CPU; `best` is the highest priority in its CPU's queue, -1 if the
  /// queue is empty. Returns whether the CPU has to choose a thread again.
  bool tick(time_share& s, int best) const;
  /// To be called when the CPU chooses a thread again. Returns true if the thread that it ran goes behind the queued
  /// threads of its priority, with a new quantum; false if it goes before them, with the rest of its quantum.
  bool give_way(time_share& s) const;
  void yield(time_share& s) const { s.to_back = false; }
  void wake(time_share& s) const;

  enum class place { has_cpu, queued, sleeps };
  /// To be called at each update for each thread. Returns whether its priority changed.
  bool update(time_share& s, place at) const;

 private:
  void lift(time_share& s, int priority) const;

  cycles tick_, ms_;
  int first_;
};

}  // namespace usher::sim
