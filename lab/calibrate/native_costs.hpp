// The costs of operations on this computer. Each is measured many times and its median is used, since other
// programs may use the CPUs meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lab/calibrate/native_machine.hpp"

namespace usher::calibrate {

/// Statistics of several values, mostly nanoseconds.
struct measured {
  double median = 0, low = 0, high = 0;
  std::size_t count = 0;
};
measured over(std::vector<double> values);

struct core_costs {
  measured cycle;          ///< a dependent addition; count 0: no code for this processor
  measured hit;            ///< a load that depends on the one before and hits the first-level cache
  measured store;          ///< to a line that the core owns
  measured modify;         ///< a read-modify-write of such a line
  measured poll;           ///< an iteration of a loop that waits for a word
  measured step;           ///< of std::mt19937
  measured misprediction;  ///< of a branch
  measured memory;         ///< a line that no cache has; count 0: no code for this processor
};
core_costs costs_of_core(unsigned cpu);

/// The costs of accesses to lines that another CPU has in its caches. costs_of_lines() returns nullopt if the kernel
/// does not permit pinning threads to CPUs.
struct line_costs {
  measured dirty, clean, memory;
  measured invalidate;  ///< includes the read-modify-write that causes it
  measured round_trip;  ///< of a word that both CPUs write in turns
};
std::optional<line_costs> costs_of_lines(unsigned cpu, unsigned other);

/// The factors by which a computation takes longer on a CPU while another CPU computes, and while it polls a word.
struct neighbour_costs {
  measured works, spins;
};
std::optional<neighbour_costs> costs_of_neighbour(unsigned cpu, unsigned other);

struct scheduler_costs {
  measured syscall;         ///< FUTEX_WAKE without a waiter
  measured context_switch;  ///< from one thread of a CPU to another one; count 0: could not be measured
  /// The cost of a FUTEX_WAKE if the woken thread has to wait in the run queue of the caller's CPU.
  std::optional<measured> wake_queued;
  /// The costs of waking a thread on another CPU, which is idle.
  struct waking {
    measured syscall;  ///< FUTEX_WAKE
    measured after;    ///< from before the call until the thread runs, without the longest tenth of the values
    double least = 0;  ///< the 2nd percentile of `after`
  };
  std::optional<waking> wake;
  /// How long a thread runs while another one waits for its CPU.
  std::optional<measured> slice;
};
scheduler_costs costs_of_scheduler(unsigned cpu, std::optional<unsigned> other);

struct array_costs {
  /// The size in bytes of the largest array that is read much faster than larger ones. In a virtual machine it is the
  /// part of the last-level cache that this machine gets; other machines may have the rest.
  std::uint64_t last_level = 0;
  // The cost of a load at a random place of an array, together with the computation of the random number. The array
  // fits into the core's own cache (`own`), into the last-level cache (`last`, of `last_bytes`), or into no cache
  // (`memory`, of `memory_bytes`).
  measured own, last, memory;
  std::uint64_t last_bytes = 0, memory_bytes = 0;
  measured channel;  ///< a line, while all cores of a socket read memory sequentially
};
array_costs costs_of_arrays(const native_machine& m);

struct tlb_costs {
  unsigned entries = 0;
  measured miss;
};
/// Returns nullopt if the time of a load shows no step as the number of pages grows.
std::optional<tlb_costs> costs_of_pages(unsigned cpu);

}  // namespace usher::calibrate
