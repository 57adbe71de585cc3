// What things cost on the computer that this runs on, each measured many times. Others may use its CPUs meanwhile, so what
// counts is the median.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "calibrate/native_machine.hpp"

namespace usher::calibrate {

/// Of values, mostly nanoseconds.
struct measured {
  double median = 0, low = 0, high = 0;
  std::size_t count = 0;
};
measured over(std::vector<double> values);

struct core_costs {
  measured cycle;    ///< a dependent addition; count 0: not known how
  measured hit;      ///< a load that depends on the one before
  measured store;    ///< of a line that is there
  measured modify;   ///< a read-modify-write of it
  measured look;     ///< once round a loop that waits for a word
  measured step;     ///< of std::mt19937
  measured mistake;  ///< a branch that was predicted wrong
  measured memory;   ///< a line that nobody has; count 0: not known how
};
core_costs costs_of_core(unsigned cpu);

/// Of lines that a CPU asks for and another had. Nothing where the process may not be pinned.
struct line_costs {
  measured dirty, clean, memory;
  measured invalidate;  ///< with the read-modify-write that asks for it
  measured round_trip;  ///< of a word that both write in turns
};
std::optional<line_costs> costs_of_lines(unsigned cpu, unsigned other);

/// How much longer a CPU takes for computing while another one works, and while it only waits for a word: factors.
struct neighbour_costs {
  measured works, spins;
};
std::optional<neighbour_costs> costs_of_neighbour(unsigned cpu, unsigned other);

struct scheduler_costs {
  measured call;    ///< a futex call that has nothing to do
  measured change;  ///< from one thread of a CPU to another; count 0: could not be measured
  /// A futex call that wakes a thread of the own CPU, which has to wait for that.
  std::optional<measured> queue;
  /// A thread of another CPU, which has nothing to do, is woken.
  struct waking {
    measured call;     ///< the futex call
    measured after;    ///< from before it to when the thread runs; every tenth, the longest, left out
    double least = 0;  ///< of these, what one in fifty stays below
  };
  std::optional<waking> wake;
  /// For how long a thread runs while another waits for its CPU.
  std::optional<measured> slice;
};
scheduler_costs costs_of_scheduler(unsigned cpu, std::optional<unsigned> other);

struct array_costs {
  /// As far as it is there for us: arrays up to this size are read much faster than large ones. Others may have the rest.
  std::uint64_t last_level = 0;
  // Loads at random places of arrays of so many bytes, with the random number.
  measured own, last, memory;
  std::uint64_t last_bytes = 0, memory_bytes = 0;
  measured channel;  ///< a line, while all cores of a socket read memory one line after the other
};
array_costs costs_of_arrays(const native_machine& m);

struct tlb_costs {
  unsigned entries = 0;
  measured miss;
};
/// Nothing where no number of pages stands out.
std::optional<tlb_costs> costs_of_pages(unsigned cpu);

}  // namespace usher::calibrate
