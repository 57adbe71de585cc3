// The scheduler of the simulated operating system decides which thread runs on which hardware thread, and when.
//
// If the machine file has a section [scheduler], threads share CPUs: there are time slices, run queues, sleeping,
// wake-ups with a random latency, and migration to idle CPUs. Without this section, each thread has a CPU of its own
// and cannot sleep.
//
// With time_sharing in that section, threads have priorities (time_sharing.hpp), and a CPU's queue is sorted by
// priority. The rules for queues are those of illumos (usr/src/uts/common/disp/disp.c): which CPU's queue a thread
// joins, when it preempts the running thread, from which queue an idle CPU takes a thread. Two rules are simplified: a
// woken thread always goes to an idle CPU if there is one, and preemption takes effect at once.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "lab/sim/access.hpp"
#include "lab/sim/engine.hpp"
#include "lab/sim/machine.hpp"
#include "lab/sim/pipelines.hpp"
#include "lab/sim/thread.hpp"
#include "lab/sim/time_sharing.hpp"

namespace usher::sim {

class trace;

class scheduler {
 public:
  scheduler(const machine& m, engine& e, access& a, pipelines& p)
      : machine_(m), engine_(e), access_(a), pipelines_(p), cpus_(m.cpus()), idle_cpus_(m.cpus()) {
    if (m.os && m.os->time_sharing) sharing_.emplace(m);
  }

  void set_trace(trace* t) { trace_ = t; }

  /// Throws bad_machine if no thread can be added on this CPU.
  void check(unsigned cpu) const;
  /// Places a new thread on a CPU; see simulation::add_thread().
  void place(simulated_thread& t, unsigned cpu, bool urgent, cycles begin);

  // ---- called by the running thread; simulation.hpp describes these functions ----

  void sleep(const condition& c, std::uint32_t mask, cycles limit);
  void wake(const void* key, std::uint32_t mask, int most);
  void nap(cycles n);
  void yield();

  // ---- at events ----

  /// Gives a new or woken thread a CPU, or queues it for one.
  void make_ready(simulated_thread& t, cycles at);
  /// Ends the sleep of a thread whose time limit is over.
  void time_out(simulated_thread& t, cycles at);
  void end_slice(unsigned cpu, cycles at);
  /// Takes the CPU from the thread that runs there for the time of an interrupt or of another process.
  void interrupt(unsigned cpu, event_kind by, cycles at);
  /// A tick of the time-sharing class.
  void clock();
  /// The running thread has ended.
  void end(simulated_thread& t);

  struct counts {
    std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
  };
  const counts& counted() const { return counts_; }
  cycles cpu_time(cycles now) const;

 private:
  struct processor {
    simulated_thread* runs = nullptr;
    std::deque<simulated_thread*> queue;
    bool slice_ends = false;              ///< the event for the slice's end is queued
    bool ticks = false, daemons = false;  ///< the event for the next interruption is queued
    cycles slice_end = 0;
    cycles idle_since = 0;
  };

  void start(processor& p, simulated_thread& t, cycles at);
  void run(simulated_thread& t, cycles at, cycles delay);
  void watch_interrupts(unsigned cpu, cycles at);
  void stop(simulated_thread& t, cycles at);
  void release_cpu(simulated_thread& t, cycles at);
  void put_on(simulated_thread& t, unsigned cpu) const;
  void move(simulated_thread& t, unsigned cpu);
  void preempt(processor& p, cycles at);
  void watch_slice(unsigned cpu);
  processor* idle_for(const simulated_thread& t);
  processor* queue_to_take_from(unsigned cpu);

  // ---- the time-sharing class ----

  enum class end_of_queue { front, back };  ///< among the threads of a priority

  static int best(const processor& p) { return p.queue.empty() ? -1 : p.queue.front()->share.priority; }
  unsigned cpus_of_socket() const { return machine_.cores * machine_.hardware_threads; }
  cycles next_tick() const { return (ticks_ + 1) * machine_.os->clock_tick; }
  void count_ticks_until(cycles at);
  bool count_tick();
  std::uint64_t ticks(cycles at) const { return at / machine_.os->clock_tick; }
  unsigned least_important(unsigned socket, unsigned from) const;
  unsigned choose(const simulated_thread& t, cycles at) const;
  unsigned balance(unsigned cpu, int priority) const;
  void queue_up(simulated_thread& t, cycles at);
  void queue_on(unsigned cpu, simulated_thread& t, end_of_queue where, cycles at);
  void choose_again(processor& p, cycles at);
  void make_room(processor& p, end_of_queue where, cycles at);
  void update(cycles at);
  bool update(simulated_thread& t, cycles at);

  cycles to_awake(const simulated_thread& t, cycles now);

  const machine& machine_;
  engine& engine_;
  access& access_;
  pipelines& pipelines_;
  std::vector<processor> cpus_;
  unsigned idle_cpus_;
  std::optional<time_sharing> sharing_;
  std::uint64_t ticks_ = 0;  // counted
  bool clock_runs_ = false;
  unsigned updated_first_ = 0;
  std::vector<simulated_thread*> sleepers_;  // woken in this order
  cycles cpu_time_ = 0;
  trace* trace_ = nullptr;
  counts counts_;
};

}  // namespace usher::sim
