// Metrics of a run besides its throughput: durations, and fairness in the long and the short term.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace usher::support {

/// Times, in nanoseconds.
struct durations {
  std::uint64_t count = 0;
  double mean = 0;
  std::uint64_t median = 0, p99 = 0, longest = 0;
};

/// Results of the threads of one kind.
struct group {
  std::string name;  ///< empty: all
  unsigned threads = 0;
  double throughput = 0;  ///< operations a microsecond
  durations waits;
  unsigned waiting_at_end = 0;
};

/// Gini coefficient: 0 if all shares are equal, near 1 if one thread has everything.
double gini(std::span<const std::uint64_t> shares);

/// Standard deviation relative to the mean.
double relative_deviation(std::span<const std::uint64_t> shares);

/// The smallest share, relative to an equal share. 0 if all shares are 0.
double smallest_share(std::span<const std::uint64_t> shares);

/// Average lock working set size (Malthusian Locks, §1): the number of different threads in a window of the admission
/// history, averaged over adjacent windows that do not overlap. If the history is shorter than a window, all of it is
/// one window.
double working_set(std::span<const std::uint16_t> history, std::size_t window = 1000);

/// Median time to reacquire (Malthusian Locks, §1): the number of admissions of other threads between two admissions of
/// the same thread. It is 31 if 32 threads take turns.
double median_reacquire(std::span<const std::uint16_t> history);

/// The percentile `part` (0 to 1) of the values, which are reordered. 0 if there are no values.
std::uint64_t percentile(std::vector<std::uint64_t>& values, double part);

}  // namespace usher::support
