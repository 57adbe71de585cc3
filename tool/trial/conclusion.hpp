// The conclusion of a trial for the user, with a command if there is something to do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {

/// Shares of the threads' time that is spent waiting for mutexes and read-write locks. Below the first, no further trial is recommended (`usher
/// stat` uses the same limit); above the second, an analysis is.
inline constexpr double little_waiting = 0.01, much_waiting = 0.05;
/// Waiting counts as little if the program, without any waiting, would be less than this factor faster. Chosen, not measured.
inline constexpr double little_gain = 1.05;
/// The speed-up if threads ran during this share of their time, in which they wait. Waiting is compared with CPU time, since
/// idle threads make the share small. The counted threads are the most that lived at the same time, so the result is
/// rather too high.
inline double speed_up_without(double waiting_share, std::uint64_t threads, double seconds, double cpu_s) {
  return 1 + waiting_share * static_cast<double>(threads) * seconds / cpu_s;
}
inline bool is_little(double waiting_share, double speed_up_without_it) {
  return waiting_share < little_waiting && speed_up_without_it < little_gain;
}
/// With fewer calls the program itself is assumed to make none: libraries lock a few mutexes while they are loaded.
inline constexpr std::uint64_t fewest_calls = 100;
/// If other processes took more than this share of the CPU time, no further trial is recommended.
inline constexpr double busy = 0.1;

/// Data for the conclusion that are not results of the trial.
struct outlook {
  bool nothing_to_gain = false;  ///< ended before any lock was tried
  /// Runs the program under `usher stat` and returns its verdict; empty: none. It costs a run, so it is called only if
  /// the conclusion contains the verdict.
  std::function<std::string()> ask_stat;
  const candidate_result* winner = nullptr;
  const candidate_result* contradicted = nullptr;    ///< was chosen, and the rounds after that say the opposite
  const candidate_result* best_undecided = nullptr;  ///< the undecided candidate with the highest speed-up
  std::size_t rounds_alone =
      0;  ///< that would decide in a trial of it alone, if it goes on to win at the same rate; 0: none would
  bool names_rwlock = false;      ///< the recommended command has --rwlock, whatever the environment has
  double timeout = 0;             ///< seconds, as given; 0: it was not
  double seconds_wanted = 0;      ///< for the fewest rounds that decide; 0: they fit into the budget
  double seconds_unused = 0;      ///< of the budget; 0: it had no room for another round
  std::size_t rounds_wanted = 0;  ///< the fewest that can show anything, of so many candidates
};

/// The share of the threads' time that they wait for mutexes, and for read-write locks that Usher's can replace.
/// nullopt: it was not measured.
std::optional<double> waiting_share(const trial_results& t);

/// Whether so little waiting was measured that no further trial is recommended.
bool has_little_waiting(const trial_results& t);

trial_conclusion conclusion_of(const trial_results& t, const outlook& o);

}  // namespace usher::tool::trial
