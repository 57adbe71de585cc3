// The results of a trial: each candidate's figure and verdict, the winner, and the conclusion.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/trial/conclusion.hpp"
#include "cli/trial/rounds.hpp"
#include "cli/trial/stat_pass.hpp"

namespace usher::cli::trial {
namespace {

/// Whether the whole interval is so near neutral that the difference has no practical value.
bool is_level(const speed_up_limits& l, bool has_ratios) {
  const contest_rules rules;
  return has_ratios ? l.low >= rules.level_low && l.high <= rules.level_high : l.low == 0 && l.high == 0;
}

}  // namespace

/// Removes default candidates that did not suit the program. Indices of candidates are invalid afterwards.
void trial::forget_those_never_tried() {
  std::vector<candidate_result> tried;
  for (std::size_t c = 0; c < entries_.size(); ++c) {
    candidate_result& one = results_.candidates[c];
    if (entries_[c].in || one.calls || !one.runs.empty() || !one.errors.empty()) tried.push_back(std::move(one));
  }
  results_.candidates = std::move(tried);
}

void trial::sum_up() {
  results_.rounds = rounds_run_;
  if (!entries_[reference].seconds.empty()) results_.run_seconds = seconds_of_run(reference);
  if (contest_) {
    for (std::size_t i = 0; i < contestants_.size(); ++i) sum_up_candidate(contestants_[i], i);
    results_.confirming_rounds = contest_->rounds_after_choice();
  }
  for (candidate_result& c : results_.candidates)
    if (c.judged != verdict::reference && (!c.is_clean() && (!c.speed_up || c.first_difference != 0)))
      c.judged = verdict::failed;
  if (const auto best = best_of_better()) results_.winner = results_.candidates[*best].name;
}

void trial::sum_up_candidate(std::size_t candidate, std::size_t contestant) {
  candidate_result& c = results_.candidates[candidate];
  c.rounds = contest_->rounds(contestant);
  if (c.rounds == 0) return;
  c.speed_up = contest_->middle(contestant);
  const interval limits = contest_->between(contestant);
  c.limits = {limits.low, limits.high};
  const double neutral = results_.neutral();
  if (limits.low > neutral)
    c.judged = verdict::better;
  else if (limits.high < neutral)
    c.judged = verdict::worse;
  else if (is_level(c.limits, results_.has_ratios))
    c.judged = verdict::level;
}

/// The chosen candidate. A trial with a given number of rounds chooses none: there it is the one with the highest median.
std::optional<std::size_t> trial::best_of_better() const {
  const auto is_fit = [&](std::size_t c) {
    return entries_[c].lock != nullptr && results_.candidates[c].judged == verdict::better &&
           results_.candidates[c].is_clean();
  };
  if (!contest_) return std::nullopt;
  if (options_.by_budget()) {
    const auto chosen = contest_->winner();
    return chosen && is_fit(contestants_[*chosen]) ? std::optional(contestants_[*chosen]) : std::nullopt;
  }
  std::optional<std::size_t> best;
  for (const std::size_t c : contestants_)
    if (is_fit(c) && (!best || results_.candidates[c].figure() > results_.candidates[*best].figure())) best = c;
  return best;
}

bool trial::can_ask_stat() const {
  const std::optional<call_counts>& calls = results_.candidates[reference].calls;
  return options_.by_budget() && calls && calls->waiting_share.value_or(0) >= much_waiting && has_stat();
}

/// The verdict of `usher stat` on one run; empty if it cannot be asked or the budget has no room for the run.
std::string trial::ask_stat() {
  if (results_.interrupted || !can_ask_stat()) return "";
  if (options_.budget - elapsed() < seconds_of_run(reference)) return "";
  bar_.expect(1);
  bar_.show("usher stat");
  try {
    return stat_verdict(runner_);
  } catch (const stopped&) {
    return "";
  }
}

/// The number of rounds that a trial of this candidate alone would take if it goes on to win at the same rate; 0: too many.
std::size_t trial::rounds_alone(std::size_t contestant) const {
  contest alone(1);
  for (std::size_t round = 1; round <= rounds_run_; ++round)
    alone.add({speed_ups_of(round)[contestant]}, results_.neutral());
  const auto more = alone.rounds_to_decide(0);
  const std::size_t rounds = more ? alone.rounds(0) + *more : 0;
  return rounds + contest_rules{}.confirming <= most_rounds ? rounds : 0;
}

void trial::conclude(int status) {
  if (status != 0 && !results_.has_values()) return;
  outlook o;
  o.nothing_to_gain = nothing_to_gain_;
  o.timeout = options_.timeout;
  for (std::size_t i = 0; i < contestants_.size(); ++i) {
    const candidate_result& c = results_.candidates[contestants_[i]];
    if (contest_->of(i) == standing::chosen && !contest_->winner() && c.is_clean()) o.contradicted = c.name;
    if (c.judged != verdict::undecided || !c.speed_up || !c.is_clean()) continue;
    if (contest_->of(i) == standing::behind) continue;  // it lost to another; its median may be of better rounds
    if (!o.best_undecided.empty() && c.figure() <= o.best_speed_up) continue;
    o.best_undecided = c.name;
    o.best_speed_up = c.figure();
    o.rounds_alone = rounds_alone(i);
  }
  o.rounds_wanted = contest_ ? fewest_rounds(contestants_.size()) - contest_rules{}.confirming : 0;
  results_.others_cpu_share = foreign_.share();
  o.ask_stat = [this] { return ask_stat(); };
  results_.conclusion = conclusion_of(results_, o);
}

}  // namespace usher::cli::trial
