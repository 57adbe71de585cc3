#include "tool/trial/rounds.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "support/command/provenance.hpp"
#include "support/measure/statistics.hpp"
#include "support/text/duration.hpp"
#include "support/text/messages.hpp"
#include "tool/trial/conclusion.hpp"
#include "tool/trial/judge.hpp"
#include "tool/trial/stat_pass.hpp"

namespace usher::tool::trial {
namespace {

constexpr std::size_t fewest_failures = 2;  // a single one may be chance
/// A candidate that would use up the other candidates' rounds is dropped after two or more rounds. It takes `slow`
/// times as long as the reference and `much_of_budget` of the budget for a run, and its speed-up was below `far_behind`
/// in every round. Chosen, not measured.
constexpr double slow = 2, much_of_budget = 0.02, far_behind = 0.5;
constexpr double runs_kept_for_stat = 1.25;  // the last round may take a little longer than the rounds before

/// The reason in the candidate's own results why the contest has dropped it; empty if there is none.
std::string why_dropped(standing s) {
  switch (s) {
    case standing::worse:
      return "worse";
    case standing::level:
      return "no different";
    case standing::hopeless:
      return no_time;
    case standing::behind:
      return behind_another;
    case standing::in:
    case standing::better:
    case standing::chosen:
      return "";
  }
  return "";
}

/// The results of a trial before its first run.
trial_results unseen(const options& o, const std::vector<std::string>& command) {
  trial_results t;
  t.usher = USHER_VERSION;
  t.commit = support::commit_of_build();
  t.date = support::utc_now();
  t.place = {support::cpu_name(), support::kernel_name(), support::libc_name(), support::usable_cpus()};
  t.command = command;
  t.metric = o.metric;
  t.lower_is_better = o.lower_is_better();
  t.before = o.before;
  t.until = o.until;
  t.ready = o.ready;
  if (o.by_budget()) t.budget = o.budget;
  t.warmup = static_cast<std::size_t>(o.warmup);
  t.candidates.resize(1);
  t.candidates.front().name = t.candidates.front().lock = c_library;
  t.candidates.front().judged = verdict::reference;
  return t;
}

}  // namespace

rounds::rounds(const options& o, const std::vector<std::string>& command, std::vector<choice> candidates,
               const support::preload_library& library, std::optional<metric_pattern> metric)
    : options_(o),
      choices_(std::move(candidates)),
      results_(unseen(o, command)),
      entries_(1),
      metric_(std::move(metric)),
      bar_(static_cast<std::size_t>(o.warmup + o.rounds) * (1 + choices_.size()), o.quiet),
      runner_(o, command, library, metric_, [this] { bar_.clear(); }),
      random_(o.seed ? *o.seed : std::random_device{}()) {}

int rounds::run_all() {
  int status = 0;
  try {
    run_reference_first();
    follow_plan();
    if (!plan_.nothing_to_gain) compare();
  } catch (const stopped& s) {
    status = s.status;
  }
  bar_.clear();
  results_.interrupted = support::interrupted() != 0;
  if (status != 0 && results_.interrupted && !results_.has_values())
    support::report_error(
        "interrupted after {} ({}): {} was stopped, with all that it has started, and nothing was measured",
        support::duration_text(elapsed()), now_, results_.command.front());
  results_.others_cpu_share = foreign_.share();
  sum_up(status);
  bar_.clear();
  if (status == 0 && support::interrupted() != 0) {  // during the run under usher stat
    status = 128 + support::interrupted();
    results_.interrupted = true;
  }
  results_.seconds = elapsed();
  return status;
}

// ---- runs -------------------------------------------------------------------------------------------------------

/// Runs the reference before the plan is made, which needs its lock calls and the duration of its runs. Without
/// warm-ups this run is that of the first round.
void rounds::run_reference_first() {
  if (options_.warmup > 0)
    warm_up(reference);
  else
    run_one(reference, 1);
}

void rounds::follow_plan() {
  const first_runs seen{results_.reference().calls, seconds_of_run(reference), options_.budget - elapsed(),
                        counted_.seconds, counted_.cpu_s()};
  plan_ = plan_of(options_, choices_, seen, results_.place.cpus);
  results_.left_out = plan_.left_out;
  for (const choice& c : plan_.taken) {
    candidate_result& one = results_.candidates.emplace_back();
    one.name = c.name;
    one.lock = c.locks.mutex == nullptr ? c_library : c.locks.mutex->name;
    one.rwlock = c.locks.rwlock;
    entries_.push_back({c.locks});
  }
  if (options_.quiet) return;
  bar_.clear();
  for (const std::string& line : plan_.notes) support::print_note(line);
}

/// Runs the candidate's warm-ups. The last one counts its lock calls, so that the timed runs need not.
void rounds::warm_up(std::size_t candidate) {
  for (int left = options_.warmup; left > 0 && entries_[candidate].in && has_time(); --left)
    run_one(candidate, 0, left == 1);
}

void rounds::compare() {
  for (std::size_t c = 1; c < entries_.size(); ++c) warm_up(c);
  // Candidates that were dropped in the warm-ups take no part. Later the number of participants must not change with
  // the results of rounds.
  std::vector<bool> takes_part(entries_.size());
  for (const std::size_t c : present()) takes_part[c] = true;
  contest_rules rules;
  // So little waiting leaves other locks little to save: more rounds than a decision needs are a waste of time.
  rules.uses_rest = !has_little_waiting(results_);
  contest_.emplace(takes_part, rules);
  for (std::vector<std::size_t> wanted; !(wanted = next_round()).empty();) run_round(wanted);
}

void rounds::run_round(const std::vector<std::size_t>& wanted) {
  ++results_.rounds;
  std::vector<std::size_t> all = {reference}, order = random_order(wanted.size() + 1, random_);
  all.insert(all.end(), wanted.begin(), wanted.end());
  const bool is_begun = results_.rounds == 1 && options_.warmup == 0;  // by the reference, see run_reference_first()
  if (is_begun) std::iter_swap(order.begin(), std::find(order.begin(), order.end(), reference));
  results_.order.emplace_back();
  try {
    for (const std::size_t place : order) {
      // Reference and candidate of a round are compared only if both have run. Under "no better" it is as likely that the
      // time is over after a slow run of one as of the other.
      if (!has_time() && !results_.order.back().empty()) break;
      const std::size_t c = all[place];
      if (!is_begun || c != reference) run_one(c, results_.rounds);
      results_.order.back().push_back(results_.candidates[c].name);
    }
  } catch (const stopped&) {
    end_round();  // an incomplete one
    throw;
  }
  end_round();
}

void rounds::end_round() {
  add_last_round(results_, *contest_);
  if (options_.by_budget()) drop_slow_and_far_behind();
}

/// `round` 0 is a warm-up.
void rounds::run_one(std::size_t candidate, std::size_t round, bool counted) {
  now_ = fmt::format("{}, {}", results_.candidates[candidate].name,
                     round == 0 ? std::string("warm-up") : fmt::format("round {}", round));
  bar_.show(now_);
  attempt a = attempt_of(candidate, counted);
  bar_.one_done();
  note(candidate, round, a);
}

attempt rounds::attempt_of(std::size_t candidate, bool counted) {
  const entry& e = entries_[candidate];
  const std::string& name = results_.candidates[candidate].name;
  attempt a = runner_.run(e.locks, name, counted);
  // The reference's first run is repeated once if it fails: the failure may be chance.
  if (candidate != reference || reference_has_run_ || a.run.error.empty() || a.costly) return a;
  note_failure(candidate, a);
  return runner_.run(e.locks, name, counted);
}

void rounds::note(std::size_t candidate, std::size_t round, attempt& a) {
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
  // The reference's calls are kept only if its run did not fail: the plan depends on them, and a failed run has not
  // made all its calls.
  if (a.calls && (candidate != reference || a.run.error.empty())) {
    c.calls = a.calls;
    if (candidate == reference) counted_ = a.run;
  }
  c.cut = std::max(c.cut, a.cut);
  if (round == 0) return;
  a.run.round = round;
  c.failed_runs += a.run.error.empty() ? 0 : 1;
  c.runs.push_back(std::move(a.run));
}

/// Adds the failure to the candidate's errors, unless there is one of the same kind.
void rounds::note_failure(std::size_t candidate, const attempt& a) {
  std::vector<std::string>& known = results_.candidates[candidate].errors;
  if (std::none_of(known.begin(), known.end(), [&](const std::string& t) { return t.starts_with(a.failure); }))
    known.push_back(a.run.error);
}

void rounds::note_reference_failure(const attempt& a) {
  reference_hangs_ += a.costly ? 1 : 0;
  if (reference_has_run_ && reference_hangs_ <= 1) return;
  bar_.clear();
  support::report_error("without any lock of Usher's: {}; there is nothing to compare with",
                        results_.candidates[reference].errors.back());
  if (!a.last_lines.empty()) fmt::print(stderr, "{}", a.last_lines);
  throw stopped{1};
}

/// Adds an output of the reference to the pattern. A candidate's output that does not fit the pattern is kept, and compared
/// again whenever the pattern has grown, until it fits.
void rounds::compare_output(std::size_t candidate, printed output) {
  const auto fits = [this](const printed& p) { return expected_.is_settled() && expected_.first_difference(p) == 0; };
  if (candidate == reference) {
    expected_.learn(output);
    for (entry& e : entries_) std::erase_if(e.unmatched, fits);
    return;
  }
  std::vector<printed>& known = entries_[candidate].unmatched;
  if (!fits(output) && std::find(known.begin(), known.end(), output) == known.end()) known.push_back(std::move(output));
}

void rounds::find_differences() {
  for (std::size_t c = 1; c < entries_.size(); ++c)
    for (const printed& output : entries_[c].unmatched)
      if (std::size_t& first = results_.candidates[c].first_difference; first == 0)
        first = expected_.first_difference(output);
}

// ---- rounds -----------------------------------------------------------------------------------------------------

std::vector<std::size_t> rounds::present() const {
  std::vector<std::size_t> in;
  for (std::size_t c = 1; c < entries_.size(); ++c)
    if (entries_[c].in) in.push_back(c);
  return in;
}

/// Whether another run may begin.
bool rounds::has_time() const {
  return !options_.by_budget() || elapsed() < options_.budget;
}

double rounds::elapsed() const {
  return std::chrono::duration<double>(support::steady::now() - start_).count();
}

/// The median duration of the candidate's runs; of the reference's runs if it has none.
double rounds::seconds_of_run(std::size_t candidate) const {
  const std::vector<double>& own = entries_[candidate].seconds;
  return support::median(own.empty() ? entries_[reference].seconds : own);
}

double rounds::seconds_of_round() const {
  double sum = seconds_of_run(reference);
  for (const std::size_t c : present()) sum += seconds_of_run(c);
  return sum;
}

/// The number of rounds with the remaining candidates that fit into the budget. The time of a run under `usher stat` is
/// kept back if it may be needed at the end.
double rounds::rounds_left() const {
  const double kept = can_ask_stat() ? runs_kept_for_stat * seconds_of_run(reference) : 0;
  const double by_time = std::max(options_.budget - elapsed() - kept, 0.0) / std::max(seconds_of_round(), 1e-6);
  return std::min(by_time, static_cast<double>(most_rounds - std::min(most_rounds, results_.rounds)));
}

/// The candidates of the next round. Empty if the trial is over.
std::vector<std::size_t> rounds::next_round() {
  std::vector<std::size_t> wanted;
  std::size_t left = 0;
  if (options_.by_budget()) {
    wanted = contest_->next(rounds_left());
    note_drops(wanted);
    left = static_cast<std::size_t>(std::max(rounds_left(), 1.0));
  } else {
    left = static_cast<std::size_t>(options_.rounds) - results_.rounds;
    if (left > 0) wanted = present();
  }
  bar_.expect(left * (wanted.size() + 1));
  return wanted;
}

/// Records why the contest has dropped candidates, and takes them out of later rounds. One of them may be wanted again.
void rounds::note_drops(const std::vector<std::size_t>& wanted) {
  for (const std::size_t c : wanted) {
    entries_[c].in = true;
    results_.candidates[c].dropped.reset();
  }
  for (const std::size_t c : present()) {
    const standing s = contest_->of(c);
    if (s == standing::chosen || std::find(wanted.begin(), wanted.end(), c) != wanted.end()) continue;
    entries_[c].in = false;
    std::string why = why_dropped(s);
    // The contest has chosen another candidate, and the rounds show no difference between the two.
    if (why.empty() && !wanted.empty()) why = "another was chosen";
    if (!why.empty()) results_.candidates[c].dropped = drop_reason{results_.rounds, why};
  }
}

void rounds::drop(std::size_t candidate, const std::string& why) {
  entries_[candidate].in = false;
  results_.candidates[candidate].dropped = drop_reason{std::max<std::size_t>(results_.rounds, 1), why};
  if (contest_) contest_->give_up(candidate);
}

/// Drops candidates that would use up the others' rounds. This makes a false "better" of another candidate no likelier.
void rounds::drop_slow_and_far_behind() {
  if (!results_.has_ratios) return;
  for (const std::size_t c : present()) {
    const std::vector<double>& all = contest_->speed_ups(c);
    if (all.size() < 2 || contest_->of(c) == standing::chosen) continue;
    if (seconds_of_run(c) < std::max(slow * seconds_of_run(reference), much_of_budget * options_.budget)) continue;
    if (std::all_of(all.begin(), all.end(), [](double s) { return s < far_behind; })) drop(c, "far behind, and slow");
  }
}

// ---- the end ----------------------------------------------------------------------------------------------------

void rounds::sum_up(int status) {
  find_differences();
  if (!entries_[reference].seconds.empty()) results_.run_seconds = seconds_of_run(reference);
  outlook o = judge(results_, contest_.value_or(contest(0)));
  if (status != 0 && !(results_.interrupted && results_.has_values())) return;
  o.nothing_to_gain = plan_.nothing_to_gain;
  o.seconds_wanted = plan_.seconds_wanted;
  if (options_.by_budget() && !entries_[reference].seconds.empty() &&
      options_.budget - elapsed() > (2 + runs_kept_for_stat) * results_.run_seconds)
    o.seconds_unused = options_.budget - elapsed();
  o.timeout = options_.timeout;
  o.names_rwlock = !support::environment("USHER_RWLOCK").empty();
  o.ask_stat = [this] { return ask_stat(); };
  results_.conclusion = conclusion_of(results_, o);
}

bool rounds::can_ask_stat() const {
  return options_.by_budget() && waiting_share(results_).value_or(0) >= much_waiting && has_stat();
}

/// The verdict of `usher stat` on one run; empty if it cannot be asked or the budget has no room for the run.
std::string rounds::ask_stat() {
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

}  // namespace usher::tool::trial
