// A point of a sweep: one run of a benchmark program under one lock with one number of threads, and its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab/sim/settings.hpp"
#include "lab/sweep/machine_settings.hpp"
#include "support/measure/metrics.hpp"

namespace usher::lab {

/// The settings of a run. Each member has a row in the table of lab/sweep/point_settings.hpp. Of sim::settings, a run
/// on the hardware uses only `pinned`.
struct sweep_point : sim::settings {
  std::string workload, machine, lock;
  /// The hash of the simulated machine's file, which identifies it among files of one name. Empty: unknown.
  std::string machine_hash;
  unsigned threads = 1;
  /// The number of the repetition: a simulated point has a seed, a run on the hardware has a round.
  std::optional<std::uint64_t> seed, round;
  std::uint64_t run_ns = 0;
  std::map<std::string, long> parameters;
  // Only simulated points have the next three members.
  std::optional<double> jitter;  ///< instead of the machine's
  machine_settings settings;
  std::optional<varied_number> varied;
};

/// Measurements of all threads, or of a group of them.
struct group_result {
  std::optional<double> throughput;  ///< operations a microsecond
  std::optional<support::durations> waits;
};

/// A measurement is absent if the program, the lock or the kind of run does not have it.
struct point_result {
  sweep_point point;
  std::size_t file = 0;       ///< of --merge: its index
  std::string usher, commit;  ///< the build that made the result, if the result names it
  group_result all;
  std::map<std::string, group_result> groups;
  double operations = 0;  ///< of all threads
  bool settled = true;
  std::optional<bool> exclusive;  ///< whether the lock admitted one thread at a time
  std::optional<double> gini, smallest_share, lwss, mttr, utilisation, cpus_used;
  std::optional<double> voluntary_switches, involuntary_switches, misses;
  std::optional<support::durations> hand_overs;
  std::string json;  ///< as read, with all other measurements: result files contain it unchanged
};

/// A point with its result or error, which are empty before its run.
struct planned_point {
  sweep_point point;
  std::optional<point_result> result;
  std::string error;
};

/// The results of all points that have one.
inline std::vector<point_result> results_of(const std::vector<planned_point>& points) {
  std::vector<point_result> results;
  for (const planned_point& p : points)
    if (p.result) results.push_back(*p.result);
  return results;
}

}  // namespace usher::lab
