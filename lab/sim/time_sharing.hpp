// Solaris' time-sharing class (TS): how the priority and the time quantum of a thread change.
//
// A thread has a priority of 0 to 59, and a quantum of clock ticks that depends on it: long for a low priority. A
// thread that uses its quantum up sinks by ten. Once a second each thread that has not begun a new quantum since the
// last second is lifted to 50 or more: a thread that runs or sleeps as after a sleep, one that waits for a CPU as one
// that starves. CPUs choose the highest priority in their queues (scheduler.cpp).
//
// The facts are those of illumos (github.com/illumos/illumos-gate, usr/src/uts), of which Solaris 11 has the common
// ancestor: common/disp/ts_dptbl.c for the table, common/disp/ts.c for the rules. Oracle's System Administration Guide
// prints the same table (dispadmin -c TS -g), and Oracle's document 1001653.1 says that only large servers other than
// these machines have another one. Left out: interactive windows, nice values, preemption control (schedctl).
#pragma once

#include <cstdint>

#include "lab/sim/machine.hpp"

namespace usher::sim {

/// The standing of a thread in the class.
struct time_share {
  int priority = 0;
  int left = 0;          ///< ticks until its quantum is used up
  unsigned waited = 0;   ///< updates since it began a quantum
  bool to_back = false;  ///< preempted, it goes behind the threads of its priority
  bool in_class = true;  ///< false: another process, above all priorities of the class
  cycles left_cpu = 0;   ///< when it last left a CPU
};

class time_sharing {
 public:
  static constexpr int levels = 60;
  static constexpr int above = levels;  ///< the priority of a thread that is not in the class

  /// What the table says of a priority.
  struct level {
    unsigned quantum_ms;
    int after_quantum, after_sleep;
    unsigned most_waits;  ///< the thread is lifted when it has waited for more updates
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
  /// The CPU chooses again. Returns whether the thread that it ran goes behind the queued ones of its priority, with a
  /// new quantum. Else it goes before them, with what is left of its quantum.
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
