#include "tool/trial/judge.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "tool/trial/plan.hpp"

namespace usher::tool::trial {
namespace {

using speed_ups = std::vector<std::optional<double>>;  // by candidate; none for the reference

std::optional<double> metric_in(const candidate_result& c, std::size_t round) {
  for (const run_result& r : c.runs)
    if (r.round == round && r.error.empty()) return r.metric;
  return std::nullopt;
}

speed_ups speed_ups_of(const trial_results& t, std::size_t round) {
  speed_ups all(t.candidates.size());
  const std::optional<double> theirs = metric_in(t.reference(), round);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::optional<double> mine = metric_in(t.candidates[i], round);
    if (!mine || !theirs) continue;
    const double better = t.lower_is_better ? *theirs : *mine, worse = t.lower_is_better ? *mine : *theirs;
    all[i] = t.has_ratios ? better / worse : better - worse;
  }
  return all;
}

bool has_no_ratio(const candidate_result& c) {
  const std::vector<double> values = c.values(metric_of);
  return std::any_of(values.begin(), values.end(), [](double v) { return v <= 0; });
}

void judge_candidate(trial_results& t, std::size_t i, const contest& c) {
  candidate_result& one = t.candidates[i];
  one.rounds = c.rounds(i);
  if (one.rounds > 0) {
    one.speed_up = c.middle(i);
    one.limits = c.between(i);
    one.judged = verdict_of(one.limits, t.neutral());
  }
  if (!one.is_clean() && (!one.speed_up || one.first_difference != 0)) one.judged = verdict::failed;
}

/// The winner, or null. With a budget it is the chosen candidate. A trial of a given number of rounds chooses none: its
/// winner is the usable candidate with the highest median.
const candidate_result* winner(const trial_results& t, const contest& c) {
  if (!t.budget) return t.best_usable();
  const auto chosen = c.winner();
  return chosen && t.candidates[*chosen].is_usable() ? &t.candidates[*chosen] : nullptr;
}

/// The number of rounds that a trial of this candidate alone would take if it goes on to win at the same rate; 0 if
/// there are too many.
std::size_t rounds_alone(const std::vector<double>& speed_ups_so_far, double neutral) {
  contest alone(1);
  for (const double s : speed_ups_so_far) alone.add({s}, neutral);
  const auto more = alone.rounds_to_decide(0);
  const std::size_t rounds = more ? alone.rounds(0) + *more : 0;
  return rounds + contest_rules{}.confirming <= most_rounds ? rounds : 0;
}

outlook outlook_of(const trial_results& t, const contest& c) {
  outlook o;
  o.rounds_wanted = fewest_rounds(c.candidates()) - contest_rules{}.confirming;
  for (std::size_t i = 1; i < c.size(); ++i) {
    const candidate_result& one = t.candidates[i];
    if (!one.is_clean()) continue;
    const standing s = c.of(i);
    if (s == standing::chosen && !c.winner()) o.contradicted = &one;
    if (one.judged != verdict::undecided || !one.speed_up) continue;
    if (s == standing::behind) continue;  // it lost to another; its median may be of better rounds
    if (o.best_undecided != nullptr && one.figure() <= o.best_undecided->figure()) continue;
    o.best_undecided = &one;
    o.rounds_alone = rounds_alone(c.speed_ups(i), t.neutral());
  }
  return o;
}

}  // namespace

void add_last_round(trial_results& t, contest& c) {
  if (t.has_ratios && std::any_of(t.candidates.begin(), t.candidates.end(), has_no_ratio)) {
    t.has_ratios = false;
    std::vector<speed_ups> rounds;
    for (std::size_t round = 1; round <= t.rounds; ++round) rounds.push_back(speed_ups_of(t, round));
    c.restate(rounds, t.neutral());
  } else {
    c.add(speed_ups_of(t, t.rounds), t.neutral());
  }
}

outlook judge(trial_results& t, const contest& c) {
  t.confirming_rounds = c.rounds_after_choice();
  for (std::size_t i = 1; i < c.size(); ++i) judge_candidate(t, i, c);
  outlook o = outlook_of(t, c);
  o.winner = winner(t, c);
  if (o.winner != nullptr) t.winner = o.winner->name;
  return o;
}

}  // namespace usher::tool::trial
