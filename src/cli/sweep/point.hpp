// A point of a sweep: one run of a benchmark program under one lock with one number of threads, and its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/metrics.hpp"
#include "cli/sweep/machine_settings.hpp"

namespace usher::cli {

// Limits of the options and of the keys of a point.
inline constexpr std::uint64_t most_threads = 9999, longest_run_ns = 100'000'000'000'000;
inline constexpr double most_jitter = 10;
inline constexpr std::uint64_t most_spin_ns = 1'000'000'000;
inline constexpr double most_warm_up_ms = 100000;
inline constexpr unsigned most_others = 1000;

/// The parameters of a run.
struct sweep_point {
  std::string workload, machine, lock;
  std::string
      machine_hash;  ///< of the simulated machine's file, which another of that name does not have; empty: unknown
  unsigned threads = 1;
  /// The number of the repetition: a simulated point has a seed, a measured one a round.
  std::optional<std::uint64_t> seed, round;
  std::uint64_t run_ns = 0;
  bool pinned = false;
  std::map<std::string, long> parameters;
  // Of the simulated machine.
  std::optional<double> jitter;  ///< instead of the machine's
  machine_settings settings;
  std::optional<varied_number> varied;
  unsigned others = 0;
  std::optional<std::uint64_t> spin_ns;
  std::string placement;
  bool together = false;
  std::optional<std::uint64_t> warm_up_ns;
};

/// Measurements of all threads, or of a group of them.
struct group_result {
  std::optional<double> throughput;  ///< operations a microsecond
  std::optional<workloads::durations> waits;
};

/// A measurement is absent if the program, the lock or the kind of run does not have it.
struct point_result {
  sweep_point point;
  std::size_t file = 0;       ///< of --merge: its index
  std::string usher, commit;  ///< the build that made it, if the result itself says so
  group_result all;
  std::map<std::string, group_result> groups;
  double operations = 0;  ///< of all threads
  bool settled = true;
  std::optional<bool> exclusive;  ///< whether the lock admitted one thread at a time
  std::optional<double> gini, smallest_share, lwss, mttr, utilisation, cpus_used;
  std::optional<double> voluntary_switches, involuntary_switches, misses;
  std::optional<workloads::durations> hand_overs;
  std::string json;  ///< as read, with all other measurements: result files contain it unchanged
};

/// A point before and after its run.
struct planned_point {
  sweep_point point;
  std::optional<point_result> result;
  std::string error;
};

/// The results of those that have one.
inline std::vector<point_result> results_of(const std::vector<planned_point>& points) {
  std::vector<point_result> results;
  for (const planned_point& p : points)
    if (p.result) results.push_back(*p.result);
  return results;
}

}  // namespace usher::cli
