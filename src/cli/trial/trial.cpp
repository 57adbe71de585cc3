#include "cli/trial/trial.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "cli/duration.hpp"
#include "cli/messages.hpp"
#include "cli/provenance.hpp"
#include "cli/statistics.hpp"
#include "cli/trial/conclusion.hpp"
#include "cli/trial/quantities.hpp"
#include "cli/trial/stat_pass.hpp"

namespace usher::cli::trial {
namespace {

constexpr std::size_t reference = 0;  // among the candidates
constexpr std::size_t most_rounds =
    200;  // chosen: by then a gain of a few per cent is decided, or of no use to anybody
constexpr std::size_t fewest_failures = 2;  // once may be chance
/// A candidate that takes so much longer than the reference, and is so much worse in each of two rounds, costs others their rounds.
constexpr double slow = 2, far_behind = 0.5;

/// Why the contest has no more use for a candidate; empty: that is no matter of its own.
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

/// Whether all that the figure can be is of no use to anybody.
bool is_level(const limits_seen& l, bool has_ratios) {
  const contest_rules rules;
  return has_ratios ? l.low >= rules.level_low && l.high <= rules.level_high : l.low == 0 && l.high == 0;
}

/// The candidates of a trial, of which nothing has been seen yet.
trial_seen unseen(const options& o, const std::vector<std::string>& command, const std::vector<choice>& candidates) {
  trial_seen t;
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
  t.candidates[reference].name = t.candidates[reference].lock = c_library;
  t.candidates[reference].said = verdict::reference;
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
      seen_(unseen(o, command, candidates)),
      entries_(1 + candidates.size()),
      metric_(std::move(metric)),
      bar_(static_cast<std::size_t>(o.warmup + o.rounds) * (1 + candidates.size()), o.quiet),
      runner_(o, command, library, metric_, [this] { bar_.clear(); }),
      least_rounds_(contest_rules{}.least_rounds) {
  // The C library's own under a second name runs without a library of ours, as the reference does.
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
  seen_.interrupted = interrupted() != 0;
  find_differences();
  sum_up();
  if (status == 0 || seen_.interrupted) conclude(status);
  bar_.clear();
  seen_.others_cpu_share = foreign_.share();
  seen_.seconds = elapsed();
  forget_those_never_tried();
  return status;
}

// ---- runs -------------------------------------------------------------------------------------------------------

/// The last of the warm-ups counts the calls; what is timed does not pay for that. The reference's first run says how long a run
/// takes, and so what there is time for.
void trial::warm_up() {
  for (int left = options_.warmup; left > 0; --left)
    for (std::size_t c = 0; c < entries_.size() && !nothing_to_gain_; ++c) run_one(c, 0, left == 1);
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
  seen_.order.emplace_back();
  try {
    for (const std::size_t place : order_of(rounds_run_ - 1, all.size())) {
      const std::size_t c = all[place];
      if (!entries_[c].in) continue;
      run_one(c, rounds_run_, false);
      seen_.order.back().push_back(seen_.candidates[c].name);
    }
  } catch (const stopped&) {
    tell_contest();  // what there is
    throw;
  }
  tell_contest();
}

/// `round` 0 is a warm-up.
void trial::run_one(std::size_t candidate, std::size_t round, bool counted) {
  if (!entries_[candidate].in) return;
  bar_.show(fmt::format("{}, {}", seen_.candidates[candidate].name,
                        round == 0 ? std::string("warm-up") : fmt::format("round {}", round)));
  attempt a = attempt_of(candidate, counted);
  bar_.one_done();
  note(candidate, round, a);
  if (candidate == reference && reference_has_run_ && entries_[reference].seconds.size() == 1) plan();
}

attempt trial::attempt_of(std::size_t candidate, bool counted) {
  const entry& e = entries_[candidate];
  const std::string& name = seen_.candidates[candidate].name;
  attempt a = runner_.run(e.lock, name, counted);
  // Once may be chance; twice, at the very beginning, is not.
  if (candidate != reference || reference_has_run_ || a.seen.trouble.empty() || a.costly) return a;
  note_failure(candidate, a);
  return runner_.run(e.lock, name, counted);
}

void trial::note(std::size_t candidate, std::size_t round, attempt& a) {
  candidate_seen& c = seen_.candidates[candidate];
  if (!a.seen.trouble.empty()) {
    note_failure(candidate, a);
    if (candidate == reference) note_reference_failure(a);
    const bool is_enough = a.costly || (options_.by_budget() && c.failed_runs + 1 >= fewest_failures);
    if (candidate != reference && is_enough) drop(candidate, "failed");
  } else {
    entries_[candidate].seconds.push_back(a.seconds);
    if (candidate == reference) {
      reference_has_run_ = true;
      runner_.limit_by(a.seen.seconds);
    }
  }
  if (a.output) compare_output(candidate, std::move(*a.output));
  if (a.calls) c.calls = a.calls;
  c.cut = std::max(c.cut, a.cut);
  if (round == 0) return;
  a.seen.round = round;
  c.failed_runs += a.seen.trouble.empty() ? 0 : 1;
  c.runs.push_back(std::move(a.seen));
}

/// Each kind of failure once, with what the program said the first time.
void trial::note_failure(std::size_t candidate, const attempt& a) {
  std::vector<std::string>& known = seen_.candidates[candidate].troubles;
  if (std::none_of(known.begin(), known.end(), [&](const std::string& t) { return t.starts_with(a.failure); }))
    known.push_back(a.seen.trouble);
}

void trial::note_reference_failure(const attempt& a) {
  reference_hangs_ += a.costly ? 1 : 0;
  if (reference_has_run_ && reference_hangs_ <= 1) return;
  bar_.clear();
  complain("without any lock of Usher's: {}; there is nothing to compare with",
           seen_.candidates[reference].troubles.back());
  if (!a.last_lines.empty()) fmt::print(stderr, "{}", a.last_lines);
  throw stopped{1};
}

/// What fits what the reference printed is not kept.
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
    std::size_t& first = seen_.candidates[candidate].first_difference;
    if (const std::size_t line = expected_.first_difference(output); line != 0 && first == 0) first = line;
  }
}

// ---- the plan, once it is known how long a run takes ------------------------------------------------------------------

void trial::plan() {
  if (options_.default_candidates()) choose_sensible();
  if (options_.by_budget() && !nothing_to_gain_) fit_into_budget();
}

void trial::choose_sensible() {
  const std::optional<calls_seen>& calls = seen_.candidates[reference].calls;
  // Nobody has asked for certain locks, and none can change anything.
  nothing_to_gain_ = calls && (!calls->loaded || calls->all() < fewest_calls);
  if (nothing_to_gain_) return;
  std::vector<choice> all;
  for (std::size_t c = 1; c < entries_.size(); ++c) all.push_back({seen_.candidates[c].name, entries_[c].lock});
  const sensible_choice s = sensible(all, calls ? calls->threads : 0, seen_.place.cpus);
  for (std::size_t c = 1; c < entries_.size(); ++c) {
    const auto is_this = [&](const auto& other) { return other.name == seen_.candidates[c].name; };
    const auto left_out = std::find_if(s.left_out.begin(), s.left_out.end(), is_this);
    if (left_out != s.left_out.end())
      leave_out(c, left_out->why);
    else if (std::none_of(s.taken.begin(), s.taken.end(), is_this))
      entries_[c].in = false;
  }
}

void trial::leave_out(std::size_t candidate, const std::string& why) {
  entries_[candidate].in = false;
  seen_.left_out.push_back({seen_.candidates[candidate].name, why});
}

/// For an answer: warm-ups, the fewest rounds that decide, and those after the choice, of two.
double trial::seconds_needed(std::size_t candidates) const {
  const std::size_t confirming = contest_rules{}.confirming, deciding = fewest_rounds(candidates) - confirming;
  const std::size_t runs = seen_.warmup * candidates + deciding * (candidates + 1) + 2 * confirming;
  return static_cast<double>(runs) * seconds_of_run(reference);
}

/// Of the default candidates so many as there is time for; and if there is time for none, as few as make sense.
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
  const std::string budget = duration_text(options_.budget), takes = "usher: a run takes " + duration_text(a_run);
  if (fits) {
    const double left = options_.budget - elapsed() - static_cast<double>(seen_.warmup * in.size()) * a_run;
    const auto rounds = std::min(static_cast<std::size_t>(left / seconds_of_round()), most_rounds);
    fmt::print(stderr, "{}: about {} rounds of {} fit into {}, fewer if the answer is there before\n", takes, rounds,
               with_noun(in.size(), "candidate"), budget);
  } else {
    std::string names;
    for (const std::size_t c : in) names += (names.empty() ? "" : ", ") + seen_.candidates[c].name;
    fmt::print(stderr,
               "{}, too long for an answer in {}: the fewest rounds that can give one, {} of {}, take about {}; "
               "a shorter run, or ^C, which shows what is known by then, ends it sooner\n",
               takes, budget, least_rounds_, names, duration_text(seconds_needed(in.size())));
  }
  for (const std::string& line : left_out_lines(seen_)) fmt::print(stderr, "usher: {}\n", line);
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

/// What a run of it takes; of one that has not run, what the reference's does.
double trial::seconds_of_run(std::size_t candidate) const {
  const std::vector<double>& own = entries_[candidate].seconds;
  return median(own.empty() ? entries_[reference].seconds : own);
}

double trial::seconds_of_round() const {
  double sum = seconds_of_run(reference);
  for (const std::size_t c : present()) sum += seconds_of_run(c);
  return sum;
}

/// Of the present candidates. What `usher stat` takes, if it is to be asked at the end, is kept back.
double trial::rounds_left() const {
  if (entries_[reference].seconds.empty()) return static_cast<double>(most_rounds);  // nobody knows yet
  const double kept = can_ask_stat() ? seconds_of_run(reference) : 0;
  const double by_time = std::max(options_.budget - elapsed() - kept, 0.0) / std::max(seconds_of_round(), 1e-6);
  const double most = static_cast<double>(most_rounds - std::min(most_rounds, rounds_run_));
  const double least = rounds_run_ < least_rounds_ ? static_cast<double>(least_rounds_ - rounds_run_) : 0;
  return std::max(std::min(by_time, most), least);
}

/// The candidates of the next round; none: it is over.
std::vector<std::size_t> trial::next_round() {
  if (!options_.by_budget())
    return rounds_run_ < static_cast<std::size_t>(options_.rounds) ? present() : std::vector<std::size_t>();
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

/// What the contest does not want any more is not run any more.
void trial::note_drops(const std::vector<std::size_t>& wanted) {
  const bool is_over = wanted.empty();
  for (std::size_t i = 0; i < contestants_.size(); ++i) {
    const std::size_t c = contestants_[i];
    if (!entries_[c].in || std::find(wanted.begin(), wanted.end(), c) != wanted.end()) continue;
    const standing s = contest_->of(i);
    if (s == standing::chosen) continue;
    entries_[c].in = false;
    const std::string why = why_dropped(s);
    if (!why.empty() && !seen_.candidates[c].dropped) seen_.candidates[c].dropped = dropped_seen{rounds_run_, why};
    // Another has been chosen, and this one is as good, as far as can be seen.
    if (why.empty() && !is_over) seen_.candidates[c].dropped = dropped_seen{rounds_run_, "another was chosen"};
  }
}

void trial::drop(std::size_t candidate, const std::string& why) {
  entries_[candidate].in = false;
  seen_.candidates[candidate].dropped = dropped_seen{std::max<std::size_t>(rounds_run_, 1), why};
  if (!contest_) return;
  const auto at = std::find(contestants_.begin(), contestants_.end(), candidate);
  if (at != contestants_.end()) contest_->give_up(static_cast<std::size_t>(at - contestants_.begin()));
}

trial::speed_ups trial::speed_ups_of(std::size_t round) const {
  const auto metric_in = [&](std::size_t candidate) -> std::optional<double> {
    for (const run_seen& r : seen_.candidates[candidate].runs)
      if (r.round == round && r.trouble.empty()) return r.metric;
    return std::nullopt;
  };
  const std::optional<double> theirs = metric_in(reference);
  speed_ups all;
  for (const std::size_t c : contestants_) {
    const std::optional<double> mine = metric_in(c);
    if (!mine || !theirs)
      all.emplace_back();
    else if (seen_.has_ratios)
      all.emplace_back(seen_.lower_is_better ? *theirs / *mine : *mine / *theirs);
    else
      all.emplace_back(seen_.lower_is_better ? *theirs - *mine : *mine - *theirs);
  }
  return all;
}

/// The round that has been run. If it has a figure that no ratio can be made of, all rounds are compared by differences.
void trial::tell_contest() {
  if (!contest_) {
    contestants_ = present();
    // One that failed at once is no candidate for a false "better", but the count must not depend on what was seen.
    for (std::size_t c = 1; c < entries_.size(); ++c)
      if (!entries_[c].in && !seen_.candidates[c].runs.empty()) contestants_.push_back(c);
    std::sort(contestants_.begin(), contestants_.end());
    contest_.emplace(contestants_.size());
    for (std::size_t i = 0; i < contestants_.size(); ++i)
      if (!entries_[contestants_[i]].in) contest_->give_up(i);
  }
  const auto is_unfit = [](const candidate_seen& c) {
    return std::any_of(c.runs.begin(), c.runs.end(),
                       [](const run_seen& r) { return r.trouble.empty() && r.metric <= 0; });
  };
  if (seen_.has_ratios && std::any_of(seen_.candidates.begin(), seen_.candidates.end(), is_unfit)) {
    seen_.has_ratios = false;
    std::vector<speed_ups> rounds;
    for (std::size_t round = 1; round <= rounds_run_; ++round) rounds.push_back(speed_ups_of(round));
    contest_->restate(rounds, seen_.neutral());
  } else {
    contest_->add(speed_ups_of(rounds_run_), seen_.neutral());
  }
  if (options_.by_budget()) drop_slow_and_far_behind();
}

/// To drop a candidate makes no other's false victory likelier.
void trial::drop_slow_and_far_behind() {
  if (!seen_.has_ratios) return;
  for (std::size_t i = 0; i < contestants_.size(); ++i) {
    const std::size_t c = contestants_[i];
    if (!entries_[c].in || contest_->rounds(i) < 2 || contest_->of(i) == standing::chosen) continue;
    if (seconds_of_run(c) < slow * seconds_of_run(reference)) continue;
    bool is_far_behind = true;
    for (std::size_t round = 1; round <= rounds_run_; ++round)
      if (const auto s = speed_ups_of(round)[i]) is_far_behind = is_far_behind && *s < far_behind;
    if (is_far_behind) drop(c, "far behind, and slow");
  }
}

/// Default candidates that made no sense here have no row. Nothing is numbered by candidates after this.
void trial::forget_those_never_tried() {
  std::vector<candidate_seen> tried;
  for (std::size_t c = 0; c < entries_.size(); ++c) {
    candidate_seen& one = seen_.candidates[c];
    if (entries_[c].in || one.calls || !one.runs.empty() || !one.troubles.empty()) tried.push_back(std::move(one));
  }
  seen_.candidates = std::move(tried);
}

// ---- what came of it ----------------------------------------------------------------------------------------------

void trial::sum_up() {
  seen_.rounds = rounds_run_;
  if (!entries_[reference].seconds.empty()) seen_.run_seconds = seconds_of_run(reference);
  if (contest_) {
    for (std::size_t i = 0; i < contestants_.size(); ++i) sum_up_candidate(contestants_[i], i);
    seen_.confirming_rounds = contest_->rounds_after_choice();
  }
  for (candidate_seen& c : seen_.candidates)
    if (c.said != verdict::reference && (!c.is_clean() && (!c.speed_up || c.first_difference != 0)))
      c.said = verdict::failed;
  if (const auto best = best_of_better()) seen_.winner = seen_.candidates[*best].name;
}

void trial::sum_up_candidate(std::size_t candidate, std::size_t contestant) {
  candidate_seen& c = seen_.candidates[candidate];
  c.rounds = contest_->rounds(contestant);
  if (c.rounds == 0) return;
  c.speed_up = contest_->middle(contestant);
  const interval limits = contest_->between(contestant);
  c.limits = {limits.low, limits.high};
  const double neutral = seen_.neutral();
  if (limits.low > neutral)
    c.said = verdict::better;
  else if (limits.high < neutral)
    c.said = verdict::worse;
  else if (is_level(c.limits, seen_.has_ratios))
    c.said = verdict::level;
}

/// The one that was chosen; where the number of rounds was given there is no choice, and it is the one with the highest median.
std::optional<std::size_t> trial::best_of_better() const {
  const auto is_fit = [&](std::size_t c) {
    return entries_[c].lock != nullptr && seen_.candidates[c].said == verdict::better && seen_.candidates[c].is_clean();
  };
  if (!contest_) return std::nullopt;
  if (options_.by_budget()) {
    const auto chosen = contest_->winner();
    return chosen && is_fit(contestants_[*chosen]) ? std::optional(contestants_[*chosen]) : std::nullopt;
  }
  std::optional<std::size_t> best;
  for (const std::size_t c : contestants_)
    if (is_fit(c) && (!best || *seen_.candidates[c].speed_up > *seen_.candidates[*best].speed_up)) best = c;
  return best;
}

bool trial::can_ask_stat() const {
  const std::optional<calls_seen>& calls = seen_.candidates[reference].calls;
  return options_.by_budget() && calls && calls->waiting_share.value_or(0) >= much_waiting && has_stat();
}

/// What `usher stat` says of one run, if that is of use and the budget has room for it; else empty.
std::string trial::ask_stat() {
  if (seen_.winner || seen_.interrupted || !can_ask_stat()) return "";
  if (options_.budget - elapsed() < seconds_of_run(reference)) return "";
  bar_.expect(1);
  bar_.show("usher stat");
  try {
    return stat_verdict(runner_);
  } catch (const stopped&) {
    return "";
  }
}

/// How many rounds decide in a trial of this candidate alone, if it goes on to win as often.
std::optional<std::size_t> trial::rounds_alone(std::size_t contestant) const {
  contest alone(1);
  for (std::size_t round = 1; round <= rounds_run_; ++round)
    alone.add({speed_ups_of(round)[contestant]}, seen_.neutral());
  const auto more = alone.rounds_to_decide(0);
  const std::size_t rounds = more ? alone.rounds(0) + *more : 0;
  return more && rounds + contest_rules{}.confirming <= most_rounds ? std::optional(rounds) : std::nullopt;
}

void trial::conclude(int status) {
  if (status != 0 && !seen_.has_values()) return;
  outlook o;
  o.stat_says = ask_stat();
  o.nothing_to_gain = nothing_to_gain_;
  for (std::size_t i = 0; i < contestants_.size(); ++i) {
    const candidate_seen& c = seen_.candidates[contestants_[i]];
    if (contest_->of(i) == standing::chosen && !contest_->winner()) o.contradicted = c.name;
    if (c.said != verdict::undecided || !c.speed_up || !c.is_clean()) continue;
    if (o.best_undecided && *c.speed_up <= o.best_speed_up) continue;
    o.best_undecided = c.name;
    o.best_speed_up = *c.speed_up;
    o.rounds_alone = rounds_alone(i);
  }
  o.rounds_wanted = contest_ ? fewest_rounds(contestants_.size()) - contest_rules{}.confirming : 0;
  seen_.others_cpu_share = foreign_.share();
  seen_.conclusion = conclusion_of(seen_, o);
}

}  // namespace usher::cli::trial
