// The plan of a trial: the candidates that suit the program, and the number of rounds that fit into the budget.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/trial/conclusion.hpp"
#include "cli/trial/quantities.hpp"
#include "cli/trial/rounds.hpp"
#include "cli/trial/statistics.hpp"
#include "support/text/duration.hpp"
#include "support/text/messages.hpp"

namespace usher::cli::trial {

/// Called once, after the reference's counted run; without warm-ups, after its first run, whose calls are not counted.
void trial::plan() {
  planned_ = true;
  if (options_.default_candidates()) choose_sensible();
  if (nothing_to_gain_) return;
  if (options_.by_budget()) fit_into_budget();
  if (options_.quiet) return;
  bar_.clear();
  for (const std::string& line : left_out_lines(results_)) print_note(line);
}

void trial::choose_sensible() {
  const std::optional<call_counts>& calls = results_.candidates[reference].calls;
  // The user has named no locks, and no lock can change anything.
  nothing_to_gain_ = calls && (!calls->loaded || calls->all() < fewest_calls);
  if (nothing_to_gain_) return;
  std::vector<choice> all;
  for (std::size_t c = 1; c < entries_.size(); ++c) all.push_back({results_.candidates[c].name, entries_[c].lock});
  const sensible_choice s = sensible(all, calls ? calls->threads : 0, results_.place.cpus);
  for (std::size_t c = 1; c < entries_.size(); ++c) {
    const auto is_this = [&](const auto& other) { return other.name == results_.candidates[c].name; };
    const auto left_out = std::find_if(s.left_out.begin(), s.left_out.end(), is_this);
    if (left_out != s.left_out.end())
      leave_out(c, left_out->why);
    else if (std::none_of(s.taken.begin(), s.taken.end(), is_this))
      entries_[c].in = false;
  }
}

void trial::leave_out(std::size_t candidate, const std::string& why) {
  entries_[candidate].in = false;
  results_.left_out.push_back({results_.candidates[candidate].name, why});
}

/// The time that an answer takes: warm-ups, the fewest rounds that decide, and the rounds of two after the choice.
double trial::seconds_needed(std::size_t candidates) const {
  const std::size_t confirming = contest_rules{}.confirming, deciding = fewest_rounds(candidates) - confirming;
  const std::size_t runs = results_.warmup * candidates + deciding * (candidates + 1) + 2 * confirming;
  return static_cast<double>(runs) * seconds_of_run(reference);
}

/// Leaves out default candidates that do not fit into the budget, down to the fewest candidates of a trial.
void trial::fit_into_budget() {
  const double left = options_.budget - elapsed();
  std::vector<std::size_t> in = present();
  if (options_.default_candidates())
    for (; in.size() > fewest_candidates && seconds_needed(in.size()) > left; in.pop_back())
      leave_out(in.back(), "for lack of time");
  const bool fits = seconds_needed(in.size()) <= left;
  if (!fits) least_rounds_ = std::max(least_rounds_, fewest_rounds(in.size()));
  if (!options_.quiet) announce(fits);
}

void trial::announce(bool fits) const {
  bar_.clear();
  const std::vector<std::size_t> in = present();
  const double a_run = seconds_of_run(reference);
  const std::string budget = duration_text(options_.budget), takes = "a run takes " + duration_text(a_run);
  if (fits) {
    const double left = options_.budget - elapsed() - static_cast<double>(results_.warmup * in.size()) * a_run;
    const auto rounds = std::min(static_cast<std::size_t>(left / seconds_of_round()), most_rounds);
    print_note(fmt::format("{}: about {} rounds of {} fit into {}, fewer if the answer is certain before", takes,
                           rounds, with_noun(in.size(), "candidate"), budget));
  } else {
    constexpr std::size_t few = 4;
    std::string names;
    for (const std::size_t c : in) names += (names.empty() ? "" : ", ") + results_.candidates[c].name;
    if (in.size() > few) names = with_noun(in.size(), "candidate");
    print_note(
        fmt::format("{}, too long for an answer in {}: the fewest rounds that can give one, {} of {}, take about {}; "
                    "a shorter run, or ^C, which shows the results so far, ends it sooner",
                    takes, budget, least_rounds_, names, duration_text(seconds_needed(in.size()))));
  }
}

}  // namespace usher::cli::trial
