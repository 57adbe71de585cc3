// What recording a call costs on this machine, and what its CPUs need for a hand-over: measured before `usher record` starts
// its command.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace usher::cli::stat {

struct call_cost {
  double call_ns = 0;           ///< by which a recorded call takes longer than an unrecorded one; 0: not known
  double between_calls_ns = 0;  ///< from a recorded call's end to the next one's beginning, if nothing is between
};

/// Runs this program again with these environment variables and the word that makes it call run_calls(), and records it.
call_cost measure_call_cost(const std::vector<std::pair<std::string, std::string>>& variables);

/// In that process: locks and unlocks a mutex until the standard input ends. Prints the nanoseconds of an unrecorded call.
int run_calls();

struct hand_over_cost {
  double transfer_ns = 0;  ///< one transfer of a cache line; 0: not known
  double wake_ns = 0;      ///< from a wake-up to the woken thread's return
};
hand_over_cost measure_hand_over();

}  // namespace usher::cli::stat
