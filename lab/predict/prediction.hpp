// One replay of a plan on a simulated machine: its results, and the length of the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/predict/replay_plan.hpp"
#include "lab/sim/harness.hpp"

namespace usher::predict {

/// The number of cache lines that a critical section moves from the previous owner's CPU: the lower or upper limit of
/// the estimates that are made from the recording, or one number for all sections.
struct lines_option {
  bool most = false;
  int fixed = -1;  ///< this number of lines in all sections; -1: the estimates
};

/// The results of one lock of the recorded program.
struct lock_result {
  std::uint32_t object = none;
  unsigned part = 0;
  std::uint64_t operations = 0;
  double utilisation = 0;  ///< the share of the time in which it was held
  double wanted = 0;       ///< the share of the time in which a thread held it or waited for it
};

struct prediction {
  sim::result run;
  double operations_per_second = 0;
  double waiting_share = 0;        ///< share of all threads' time spent waiting for locks
  double token_share = 0;          ///< share of all threads' time spent waiting for signals, semaphores and barriers
  std::uint64_t longest_wait = 0;  ///< for a lock, ns
  double working_set = 0;          ///< of the busiest lock
  std::vector<lock_result> locks;  ///< the busiest first, at most most_locks
  std::uint64_t not_acquired = 0, stalls = 0;
  static constexpr std::size_t most_locks = 5;
};

/// Returns the number of cache lines that a section of the slot moves under the option.
double lines_under(const slot& s, const lines_option& o);

/// Returns the default simulated time of a replay: long enough for some operations of each thread, and for several time
/// slices if threads share CPUs.
std::uint64_t usual_prediction_ns(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                                  const sim::point& point);

/// Throws what sim::check_point() throws, and bad_recording if the machine cannot replay the plan.
void check_prediction(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                      const sim::point& point);

/// Replays the plan once. Uses the point's lock, number of threads, seed, length and settings, but not its workload and
/// parameters. Also throws what sim::run_point() throws.
prediction predict_point(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                         const sim::point& point, const lines_option& lines);

}  // namespace usher::predict
