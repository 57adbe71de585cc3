// What is said of a run besides its throughput: how fair it was, over the long and the short term.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace usher::workloads {

/// Times, in nanoseconds.
struct durations {
  std::uint64_t count = 0;
  double mean = 0;
  std::uint64_t median = 0, p99 = 0, longest = 0;
};

/// What was seen of threads that do the same.
struct group {
  std::string name;  ///< empty: all
  unsigned threads = 0;
  double throughput = 0;  ///< operations a microsecond
  durations waits;
  unsigned waiting_at_end = 0;
};

/// Gini coefficient: 0 where all have the same, near 1 where one has all.
double gini(std::span<const std::uint64_t> shares);

/// Standard deviation relative to the mean.
double relative_deviation(std::span<const std::uint64_t> shares);

/// What the thread that got least has, relative to an equal part. 0 where nobody has anything.
double smallest_share(std::span<const std::uint64_t> shares);

/// Average lock working set size (Malthusian Locks, §1): how many threads occur in a window of the admission history, over disjoint
/// abutting windows. Fewer admissions than a window: of what there are.
double working_set(std::span<const std::uint16_t> history, std::size_t window = 1000);

/// Median time to reacquire (§1): admissions of others between two of a thread. 31 where 32 take turns.
double median_reacquire(std::span<const std::uint16_t> history);

/// The value that so large a part (0 to 1) does not exceed. Reorders. 0 of none.
std::uint64_t percentile(std::vector<std::uint64_t>& values, double part);

}  // namespace usher::workloads
