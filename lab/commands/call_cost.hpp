// Measures on this machine the cost of recording a call and the cost of a hand-over between CPUs, before `usher record`
// starts its command.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace usher::lab {

struct call_cost {
  double call_ns = 0;           ///< additional ns of a recorded call; 0: not known
  double between_calls_ns = 0;  ///< ns between two recorded calls in direct succession
};

/// Starts this program with these environment variables and the argument that makes it call run_calls(), records that
/// process, and returns the costs.
call_cost measure_call_cost(const std::vector<std::pair<std::string, std::string>>& variables);

/// Runs in that process: locks and unlocks a mutex until standard input ends, and prints the ns of an unrecorded call.
int run_calls();

struct hand_over_cost {
  double transfer_ns = 0;  ///< one transfer of a cache line; 0: not known
  double wake_ns = 0;      ///< from a wake-up to the woken thread's return
};
hand_over_cost measure_hand_over();

}  // namespace usher::lab
