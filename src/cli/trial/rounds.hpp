// The trial: runs the program under the reference and the candidates, round by round, until the contest (contest.hpp) is over or the
// budget is used up.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cli/trial/candidates.hpp"
#include "cli/trial/contest.hpp"
#include "cli/trial/metric.hpp"
#include "cli/trial/output_pattern.hpp"
#include "cli/trial/runner.hpp"
#include "cli/trial/trial_options.hpp"
#include "cli/trial/trial_results.hpp"
#include "support/process/foreign_cpu.hpp"
#include "support/process/preload.hpp"
#include "support/process/process.hpp"
#include "support/text/progress.hpp"

namespace usher::cli::trial {

/// rounds.cpp runs the rounds, plan.cpp selects the candidates and the number of rounds, judge.cpp evaluates the results.
class trial {
 public:
  trial(const options& o, const std::vector<std::string>& command, std::vector<choice> candidates,
        const preload_library& library, std::optional<metric_pattern> metric);
  trial(const trial&) = delete;
  trial& operator=(const trial&) = delete;

  /// Runs everything. The exit status so far: 0, unless the trial could not go on.
  int run_all();
  const trial_results& results() const { return results_; }

 private:
  static constexpr std::size_t reference = 0;  // among the candidates
  /// Chosen, not measured: a gain that is not decided by then has no practical value.
  static constexpr std::size_t most_rounds = 200;

  /// State of a candidate beside its results. The reference is the first.
  struct entry {
    const lock_table* lock = nullptr;  ///< null: the program as it is
    std::vector<double> seconds;       ///< of its runs, with preparation and server
    bool in = true;                    ///< false: no longer run
  };
  using speed_ups = std::vector<std::optional<double>>;  ///< by candidate, as the contest numbers them

  void warm_up();
  void go_through_rounds();
  void run_round(const std::vector<std::size_t>& present);
  std::vector<std::size_t> order(std::size_t runs);
  void run_one(std::size_t candidate, std::size_t round, bool counted);
  attempt attempt_of(std::size_t candidate, bool counted);
  void note(std::size_t candidate, std::size_t round, attempt& a);
  void note_failure(std::size_t candidate, const attempt& a);
  void note_reference_failure(const attempt& a);
  void compare_output(std::size_t candidate, printed output);
  void find_differences();

  void plan();
  void choose_sensible();
  void fit_into_budget();
  double seconds_needed(std::size_t candidates) const;
  void announce(bool fits) const;
  void leave_out(std::size_t candidate, const std::string& why);

  std::vector<std::size_t> next_round();
  double rounds_left() const;
  double seconds_of_run(std::size_t candidate) const;
  double seconds_of_round() const;
  double elapsed() const;
  std::vector<std::size_t> present() const;
  void tell_contest();
  speed_ups speed_ups_of(std::size_t round) const;
  void drop(std::size_t candidate, const std::string& why);
  void drop_slow_and_far_behind();
  void note_drops(const std::vector<std::size_t>& wanted);

  void forget_those_never_tried();
  void sum_up();
  void sum_up_candidate(std::size_t candidate, std::size_t contestant);
  std::optional<std::size_t> best_of_better() const;
  std::size_t rounds_alone(std::size_t contestant) const;
  void conclude(int status);
  bool can_ask_stat() const;
  std::string ask_stat();

  const options& options_;
  trial_results results_;  ///< candidates: the reference first
  std::vector<entry> entries_;
  std::optional<metric_pattern> metric_;
  progress bar_;
  std::string now_;  ///< the candidate and the round that run
  runner runner_;
  std::unique_ptr<contest> contest_;      ///< from the first round on
  std::vector<std::size_t> contestants_;  ///< candidates, by their numbers in the contest
  output_pattern expected_;
  std::vector<std::pair<std::size_t, printed>>
      outputs_;  ///< that do not fit yet; they may fit when the reference has run again
  bool reference_has_run_ = false;
  bool planned_ = false;
  bool nothing_to_gain_ = false;  ///< the program has no locks, or the library is not loaded
  int reference_hangs_ = 0;
  std::size_t rounds_run_ = 0;
  std::size_t least_rounds_ = 0;  ///< even if the budget is used up
  std::mt19937_64 random_;        ///< for the order of the runs
  foreign_cpu foreign_;
  steady::time_point start_ = steady::now();
};

}  // namespace usher::cli::trial
