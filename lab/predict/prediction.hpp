// One run of a replay: its results, and how long it has to be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/predict/replay_plan.hpp"
#include "lab/sim/harness.hpp"

namespace usher::predict {

/// The number of lines that a section moves: one of the limits of the recording's estimates, or a number for all sections.
struct lines_option {
  bool most = false;
  int fixed = -1;  ///< -1: the estimates
};

/// Results for one lock of the program.
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
  double waiting_share = 0;        ///< of the threads' time: waits for locks
  double token_share = 0;          ///< the same: waits for signals, semaphores and barriers
  std::uint64_t longest_wait = 0;  ///< for a lock, ns
  double working_set = 0;          ///< of the busiest lock
  std::vector<lock_result> locks;  ///< the busiest first, at most most_locks
  std::uint64_t not_acquired = 0, stalls = 0;
  static constexpr std::size_t most_locks = 5;
};

/// The lines of a slot's section under the option.
double lines_under(const slot& s, const lines_option& o);

/// Returns how long a run should last: so that each thread has some operations, and several time slices if threads share CPUs.
std::uint64_t usual_prediction_ns(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                                  const sim::point& point);

/// Throws the exceptions of sim::check_point(), and bad_recording if the machine cannot replay the plan.
void check_prediction(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                      const sim::point& point);

/// The point's lock, number of threads, seed, length and settings count; its workload and parameters do not. Throws also what
/// sim::run_point() throws.
prediction predict_point(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                         const sim::point& point, const lines_option& lines);

}  // namespace usher::predict
