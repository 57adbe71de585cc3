// Runs a trial: the reference, for the plan (plan.hpp); the warm-ups; then round by round, until the contest (contest.hpp) is over or the
// budget is used up. No run begins after the budget's time.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/process/foreign_cpu.hpp"
#include "support/process/preload.hpp"
#include "support/process/process.hpp"
#include "support/text/progress.hpp"
#include "tool/trial/contest.hpp"
#include "tool/trial/metric.hpp"
#include "tool/trial/output_pattern.hpp"
#include "tool/trial/plan.hpp"
#include "tool/trial/runner.hpp"
#include "tool/trial/trial_options.hpp"
#include "tool/trial/trial_results.hpp"

namespace usher::tool::trial {

/// Runs the rounds. A candidate has the same number here, in the results and in the contest.
class rounds {
 public:
  rounds(const options& o, const std::vector<std::string>& command, std::vector<choice> candidates,
         const support::preload_library& library, std::optional<metric_pattern> metric);
  rounds(const rounds&) = delete;
  rounds& operator=(const rounds&) = delete;

  /// Runs the whole trial. Returns 0, or another exit status if the trial could not continue.
  int run_all();
  const trial_results& results() const { return results_; }

 private:
  static constexpr std::size_t reference = 0;  // among the candidates

  /// What the trial keeps about a candidate while it runs, without the results.
  struct entry {
    run_locks locks = {};                 ///< the C library's: the program as it is
    std::vector<double> seconds = {};     ///< of its runs, with preparation and server
    std::vector<printed> unmatched = {};  ///< outputs that do not fit yet; they may when the reference has run again
    bool in = true;                       ///< false: no longer run
  };

  void run_reference_first();
  void follow_plan();
  void warm_up(std::size_t candidate);
  void compare();
  void run_round(const std::vector<std::size_t>& wanted);
  void end_round();
  void run_one(std::size_t candidate, std::size_t round, bool counted = false);
  attempt attempt_of(std::size_t candidate, bool counted);
  void note(std::size_t candidate, std::size_t round, attempt& a);
  void note_failure(std::size_t candidate, const attempt& a);
  void note_reference_failure(const attempt& a);
  void compare_output(std::size_t candidate, printed output);
  void find_differences();

  std::vector<std::size_t> next_round();
  double rounds_left() const;
  double seconds_of_run(std::size_t candidate) const;
  double seconds_of_round() const;
  double elapsed() const;
  bool has_time() const;
  std::vector<std::size_t> present() const;
  void drop(std::size_t candidate, const std::string& why);
  void drop_slow_and_far_behind();
  void note_drops(const std::vector<std::size_t>& wanted);

  void sum_up(int status);
  bool can_ask_stat() const;
  std::string ask_stat();

  const options& options_;
  std::vector<choice> choices_;  ///< from which the plan takes the candidates
  plan plan_;
  trial_results results_;
  std::vector<entry> entries_;  ///< by candidate, the reference first
  std::optional<metric_pattern> metric_;
  support::progress bar_;
  std::string now_;  ///< the candidate and the round that run
  runner runner_;
  std::optional<contest> contest_;  ///< from the first round on
  output_pattern expected_;
  run_result counted_;  ///< of the reference: the run whose calls were counted
  bool reference_has_run_ = false;
  int reference_hangs_ = 0;
  std::mt19937_64 random_;  ///< for the order of the runs
  support::foreign_cpu foreign_;
  support::steady::time_point start_ = support::steady::now();
};

}  // namespace usher::tool::trial
