// Compares a simulated machine with the computer that its machine file describes: the throughput of MutexBench under
// several locks, measured and simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/sim/harness.hpp"
#include "lab/sim/machine.hpp"
#include "usher/core/lock_table.hpp"

namespace usher::calibrate {

struct validation {
  std::vector<std::string> locks{"ticket-spin", "ttas-spin", "twa", "mcs", "steady", "futex"};
  bool locks_asked = false;       ///< else locks that this build lacks, or that cannot be compared, are left out
  std::vector<unsigned> threads;  ///< none: 1, 2, and one, two and four times the CPUs
  std::optional<std::uint32_t> spin_ns;
  unsigned rounds = 5, seeds = 3;
  double seconds = 0.3;
  bool pinned = false;
};

/// A lock with a number of threads, and the throughputs of its runs.
struct compared_point {
  const lock_table* lock;
  unsigned threads;
  std::vector<double> native{}, simulated{};  ///< operations a microsecond
  unsigned unsettled = 0;                     ///< simulated runs whose halves differ

  double native_median() const;
  double simulated_median() const;
  /// The error of the simulated throughput, relative to the native one.
  double error() const { return simulated_median() / native_median() - 1; }
};

/// Returns the points to compare, in ascending order of threads, without results. Throws std::runtime_error with a
/// message of one line for an unknown lock.
std::vector<compared_point> points_of(const validation& v, unsigned cpus);

/// Throws std::runtime_error with a message of one line if a point cannot be simulated on the machine.
void check_points(const sim::machine& m, const std::vector<compared_point>& points);

/// Simulates the point once and adds the throughput to it.
void simulate(const sim::machine& m, compared_point& c, const validation& v, unsigned seed);

struct agreement {
  std::size_t within_10 = 0, within_25 = 0;  ///< points with an error of at most so many percent
  /// `pairs`: the number of pairs of locks, with the same number of threads, whose native runs do not overlap.
  /// `pairs_in_order`: the number of those that the simulation puts into the same order.
  std::size_t pairs = 0, pairs_in_order = 0;
};
agreement agreement_of(const std::vector<compared_point>& points);

}  // namespace usher::calibrate
