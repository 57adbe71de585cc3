#include "cli/trial/rounds.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "cli/commands/provenance.hpp"
#include "cli/trial/statistics.hpp"
#include "support/text/duration.hpp"
#include "support/text/messages.hpp"

namespace usher::cli::trial {
namespace {

constexpr std::size_t fewest_failures = 2;  // a single one may be chance
/// A candidate is dropped if it takes so many times as long as the reference, such a share of the budget for a run, and is so much
/// worse in each of two rounds or more: it would use up the rounds of the others. Chosen, not measured.
constexpr double slow = 2, much_of_budget = 0.02, far_behind = 0.5;

/// The candidate's own reason for which the contest has dropped it; empty: there is none.
std::string why_dropped(standing s) {
  switch (s) {
    case standing::worse:
      return "worse";
    case standing::level:
      return "no different";
    case standing::hopeless:
      return "no time to decide";
    case standing::behind:
      return "behind another";
    case standing::in:
    case standing::better:
    case standing::chosen:
      return "";
  }
  return "";
}

/// The results of a trial before its first run.
trial_results unseen(const options& o, const std::vector<std::string>& command, const std::vector<choice>& candidates) {
  trial_results t;
  t.usher = USHER_VERSION;
  t.commit = commit_of_build();
  t.date = utc_now();
  t.place = {cpu_name(), kernel_name(), libc_name(), usable_cpus()};
  t.command = command;
  t.metric = o.metric;
  t.lower_is_better = o.lower_is_better();
  t.before = o.before;
  t.until = o.until;
  t.ready = o.ready;
  if (o.by_budget()) t.budget = o.budget;
  t.warmup = static_cast<std::size_t>(o.warmup);
  t.candidates.resize(1 + candidates.size());
  t.candidates.front().name = t.candidates.front().lock = c_library;
  t.candidates.front().judged = verdict::reference;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    t.candidates[1 + i].name = candidates[i].name;
    t.candidates[1 + i].lock = candidates[i].lock->name;
  }
  return t;
}

}  // namespace

trial::trial(const options& o, const std::vector<std::string>& command, std::vector<choice> candidates,
             const preload_library& library, std::optional<metric_pattern> metric)
    : options_(o),
      results_(unseen(o, command, candidates)),
      entries_(1 + candidates.size()),
      metric_(std::move(metric)),
      bar_(static_cast<std::size_t>(o.warmup + o.rounds) * (1 + candidates.size()), o.quiet),
      runner_(o, command, library, metric_, [this] { bar_.clear(); }),
      least_rounds_(contest_rules{}.least_rounds),
      random_(o.seed ? *o.seed : std::random_device{}()) {
  // The C library's mutex under another name runs without Usher's library, as the reference does.
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].lock != find_lock(c_library)) entries_[1 + i].lock = candidates[i].lock;
}

int trial::run_all() {
  int status = 0;
  try {
    warm_up();
    if (!nothing_to_gain_) go_through_rounds();
  } catch (const stopped& s) {
    status = s.status;
  }
  bar_.clear();
  results_.interrupted = interrupted() != 0;
  if (status != 0 && results_.interrupted && !results_.has_values())
    report_error("interrupted after {} ({}): {} was stopped, with all that it has started, and nothing was measured",
                 duration_text(elapsed()), now_, results_.command.front());
  find_differences();
  sum_up();
  if (status == 0 || results_.interrupted) conclude(status);
  bar_.clear();
  if (status == 0 && interrupted() != 0) {  // during the run under usher stat
    status = 128 + interrupted();
    results_.interrupted = true;
  }
  results_.others_cpu_share = foreign_.share();
  results_.seconds = elapsed();
  forget_those_never_tried();
  return status;
}

// ---- runs -------------------------------------------------------------------------------------------------------

/// The last warm-up of each candidate counts the lock calls, so that timed runs have no overhead. The reference is
/// the first: its warm-ups determine which candidates suit the program and how many rounds fit into the budget.
void trial::warm_up() {
  for (std::size_t c = 0; c < entries_.size() && !nothing_to_gain_; ++c)
    for (int left = options_.warmup; left > 0; --left) run_one(c, 0, left == 1);
}

void trial::go_through_rounds() {
  for (;;) {
    const std::vector<std::size_t> wanted = next_round();
    if (wanted.empty()) return;
    run_round(wanted);
  }
}

void trial::run_round(const std::vector<std::size_t>& wanted) {
  ++rounds_run_;
  std::vector<std::size_t> all = {reference};
  all.insert(all.end(), wanted.begin(), wanted.end());
  results_.order.emplace_back();
  try {
    for (const std::size_t place : order(all.size())) {
      const std::size_t c = all[place];
      if (!entries_[c].in) continue;
      run_one(c, rounds_run_, false);
      results_.order.back().push_back(results_.candidates[c].name);
    }
  } catch (const stopped&) {
    tell_contest();  // of the incomplete round
    throw;
  }
  tell_contest();
}

/// Without warm-ups, the first round begins with the reference: the plan is made from its run.
std::vector<std::size_t> trial::order(std::size_t runs) {
  std::vector<std::size_t> all = random_order(runs, random_);
  if (!planned_) std::iter_swap(all.begin(), std::find(all.begin(), all.end(), reference));
  return all;
}

/// `round` 0 is a warm-up.
void trial::run_one(std::size_t candidate, std::size_t round, bool counted) {
  if (!entries_[candidate].in) return;
  now_ = fmt::format("{}, {}", results_.candidates[candidate].name,
                     round == 0 ? std::string("warm-up") : fmt::format("round {}", round));
  bar_.show(now_);
  attempt a = attempt_of(candidate, counted);
  bar_.one_done();
  note(candidate, round, a);
  if (candidate == reference && !planned_ && (counted || round > 0)) plan();
}

attempt trial::attempt_of(std::size_t candidate, bool counted) {
  const entry& e = entries_[candidate];
  const std::string& name = results_.candidates[candidate].name;
  attempt a = runner_.run(e.lock, name, counted);
  // A failure of the first run may be chance, a second one is not.
  if (candidate != reference || reference_has_run_ || a.run.error.empty() || a.costly) return a;
  note_failure(candidate, a);
  return runner_.run(e.lock, name, counted);
}

void trial::note(std::size_t candidate, std::size_t round, attempt& a) {
  candidate_result& c = results_.candidates[candidate];
  if (!a.run.error.empty()) {
    note_failure(candidate, a);
    if (candidate == reference) note_reference_failure(a);
    const bool is_enough = a.costly || (options_.by_budget() && c.failed_runs + 1 >= fewest_failures);
    if (candidate != reference && is_enough) drop(candidate, "failed");
  } else {
    entries_[candidate].seconds.push_back(a.seconds);
    if (candidate == reference) {
      reference_has_run_ = true;
      runner_.limit_by(a.run.seconds);
    }
  }
  if (a.output) compare_output(candidate, std::move(*a.output));
  // The plan depends on the reference's calls, and a run that failed has not made all of them.
  if (a.calls && (candidate != reference || a.run.error.empty())) c.calls = a.calls;
  c.cut = std::max(c.cut, a.cut);
  if (round == 0) return;
  a.run.round = round;
  c.failed_runs += a.run.error.empty() ? 0 : 1;
  c.runs.push_back(std::move(a.run));
}

/// Keeps each kind of failure once, with the program's message of the first time.
void trial::note_failure(std::size_t candidate, const attempt& a) {
  std::vector<std::string>& known = results_.candidates[candidate].errors;
  if (std::none_of(known.begin(), known.end(), [&](const std::string& t) { return t.starts_with(a.failure); }))
    known.push_back(a.run.error);
}

void trial::note_reference_failure(const attempt& a) {
  reference_hangs_ += a.costly ? 1 : 0;
  if (reference_has_run_ && reference_hangs_ <= 1) return;
  bar_.clear();
  report_error("without any lock of Usher's: {}; there is nothing to compare with",
               results_.candidates[reference].errors.back());
  if (!a.last_lines.empty()) fmt::print(stderr, "{}", a.last_lines);
  throw stopped{1};
}

/// Outputs that fit the reference's are not kept.
void trial::compare_output(std::size_t candidate, printed output) {
  if (candidate == reference) {
    expected_.learn(output);
    if (expected_.is_settled())
      std::erase_if(outputs_, [&](const auto& o) { return expected_.first_difference(o.second) == 0; });
    return;
  }
  if (expected_.is_settled() && expected_.first_difference(output) == 0) return;
  const auto same = [&](const auto& o) { return o.first == candidate && o.second == output; };
  if (std::none_of(outputs_.begin(), outputs_.end(), same)) outputs_.emplace_back(candidate, std::move(output));
}

void trial::find_differences() {
  for (const auto& [candidate, output] : outputs_) {
    std::size_t& first = results_.candidates[candidate].first_difference;
    if (const std::size_t line = expected_.first_difference(output); line != 0 && first == 0) first = line;
  }
}

// ---- rounds -----------------------------------------------------------------------------------------------------

std::vector<std::size_t> trial::present() const {
  std::vector<std::size_t> in;
  for (std::size_t c = 1; c < entries_.size(); ++c)
    if (entries_[c].in) in.push_back(c);
  return in;
}

double trial::elapsed() const {
  return std::chrono::duration<double>(steady::now() - start_).count();
}

/// The median duration of its runs; of the reference's if it has not run.
double trial::seconds_of_run(std::size_t candidate) const {
  const std::vector<double>& own = entries_[candidate].seconds;
  return median(own.empty() ? entries_[reference].seconds : own);
}

double trial::seconds_of_round() const {
  double sum = seconds_of_run(reference);
  for (const std::size_t c : present()) sum += seconds_of_run(c);
  return sum;
}

/// The number of rounds of the remaining candidates that fit into the budget, less a run under `usher stat` if the end may need one.
double trial::rounds_left() const {
  if (entries_[reference].seconds.empty()) return static_cast<double>(most_rounds);  // not known yet
  const double kept = can_ask_stat() ? seconds_of_run(reference) : 0;
  const double by_time = std::max(options_.budget - elapsed() - kept, 0.0) / std::max(seconds_of_round(), 1e-6);
  const double most = static_cast<double>(most_rounds - std::min(most_rounds, rounds_run_));
  const double least = rounds_run_ < least_rounds_ ? static_cast<double>(least_rounds_ - rounds_run_) : 0;
  return std::max(std::min(by_time, most), least);
}

/// The candidates of the next round; none: the trial is over.
std::vector<std::size_t> trial::next_round() {
  if (!options_.by_budget()) {
    const std::size_t left = static_cast<std::size_t>(options_.rounds) - rounds_run_;
    bar_.expect(left * (present().size() + 1));
    return left > 0 ? present() : std::vector<std::size_t>();
  }
  std::vector<std::size_t> wanted = present();
  double left = rounds_left();
  if (contest_) {
    wanted.clear();
    for (const std::size_t contestant : contest_->next(left)) wanted.push_back(contestants_[contestant]);
    note_drops(wanted);
    left = rounds_left();
  }
  if (wanted.empty()) return {};
  bar_.expect(static_cast<std::size_t>(std::max(left, 1.0)) * (wanted.size() + 1));
  return wanted;
}

/// Drops the candidates that the contest has dropped.
void trial::note_drops(const std::vector<std::size_t>& wanted) {
  const bool is_over = wanted.empty();
  for (std::size_t i = 0; i < contestants_.size(); ++i) {
    const std::size_t c = contestants_[i];
    if (!entries_[c].in || std::find(wanted.begin(), wanted.end(), c) != wanted.end()) continue;
    const standing s = contest_->of(i);
    if (s == standing::chosen) continue;
    entries_[c].in = false;
    const std::string why = why_dropped(s);
    if (!why.empty() && !results_.candidates[c].dropped) results_.candidates[c].dropped = drop_reason{rounds_run_, why};
    // Another candidate has been chosen, and the rounds show no difference between the two.
    if (why.empty() && !is_over) results_.candidates[c].dropped = drop_reason{rounds_run_, "another was chosen"};
  }
}

void trial::drop(std::size_t candidate, const std::string& why) {
  entries_[candidate].in = false;
  results_.candidates[candidate].dropped = drop_reason{std::max<std::size_t>(rounds_run_, 1), why};
  if (!contest_) return;
  const auto at = std::find(contestants_.begin(), contestants_.end(), candidate);
  if (at != contestants_.end()) contest_->give_up(static_cast<std::size_t>(at - contestants_.begin()));
}

trial::speed_ups trial::speed_ups_of(std::size_t round) const {
  const auto metric_in = [&](std::size_t candidate) -> std::optional<double> {
    for (const run_result& r : results_.candidates[candidate].runs)
      if (r.round == round && r.error.empty()) return r.metric;
    return std::nullopt;
  };
  const std::optional<double> theirs = metric_in(reference);
  speed_ups all;
  for (const std::size_t c : contestants_) {
    const std::optional<double> mine = metric_in(c);
    if (!mine || !theirs)
      all.emplace_back();
    else if (results_.has_ratios)
      all.emplace_back(results_.lower_is_better ? *theirs / *mine : *mine / *theirs);
    else
      all.emplace_back(results_.lower_is_better ? *theirs - *mine : *mine - *theirs);
  }
  return all;
}

/// Adds the last round to the contest. If it has a figure of zero or below, all rounds are compared by differences, not by ratios.
void trial::tell_contest() {
  if (!contest_) {
    contestants_ = present();
    // A candidate that failed at once cannot become a false "better", but the number of candidates must not depend on results.
    for (std::size_t c = 1; c < entries_.size(); ++c)
      if (!entries_[c].in && !results_.candidates[c].runs.empty()) contestants_.push_back(c);
    std::sort(contestants_.begin(), contestants_.end());
    contest_ = std::make_unique<contest>(contestants_.size());
    for (std::size_t i = 0; i < contestants_.size(); ++i)
      if (!entries_[contestants_[i]].in) contest_->give_up(i);
  }
  const auto is_unfit = [](const candidate_result& c) {
    return std::any_of(c.runs.begin(), c.runs.end(),
                       [](const run_result& r) { return r.error.empty() && r.metric <= 0; });
  };
  if (results_.has_ratios && std::any_of(results_.candidates.begin(), results_.candidates.end(), is_unfit)) {
    results_.has_ratios = false;
    std::vector<speed_ups> rounds;
    for (std::size_t round = 1; round <= rounds_run_; ++round) rounds.push_back(speed_ups_of(round));
    contest_->restate(rounds, results_.neutral());
  } else {
    contest_->add(speed_ups_of(rounds_run_), results_.neutral());
  }
  if (options_.by_budget()) drop_slow_and_far_behind();
}

/// Dropping a candidate does not make a false "better" of another likelier.
void trial::drop_slow_and_far_behind() {
  if (!results_.has_ratios) return;
  for (std::size_t i = 0; i < contestants_.size(); ++i) {
    const std::size_t c = contestants_[i];
    if (!entries_[c].in || contest_->rounds(i) < 2 || contest_->of(i) == standing::chosen) continue;
    if (seconds_of_run(c) < std::max(slow * seconds_of_run(reference), much_of_budget * options_.budget)) continue;
    bool is_far_behind = true;
    for (std::size_t round = 1; round <= rounds_run_; ++round)
      if (const auto s = speed_ups_of(round)[i]) is_far_behind = is_far_behind && *s < far_behind;
    if (is_far_behind) drop(c, "far behind, and slow");
  }
}

}  // namespace usher::cli::trial
