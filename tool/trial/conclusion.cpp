#include "tool/trial/conclusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/measure/statistics.hpp"
#include "support/text/duration.hpp"
#include "support/text/words.hpp"
#include "tool/trial/contest.hpp"
#include "tool/trial/plan.hpp"
#include "tool/trial/quantities.hpp"
#include "tool/trial/trial_options.hpp"
#include "usher/catalog.hpp"

namespace usher::tool::trial {
namespace {

/// The share of the threads' time that they wait for process-shared read-write locks, as a sentence that follows another
/// one; empty if they hardly do.
std::string shared_sentence(const trial_results& t) {
  const std::optional<call_counts>& calls = t.reference().calls;
  const double share = calls ? calls->shared_rwlock_waiting_share.value_or(0) : 0;
  if (share < little_waiting) return "";
  return fmt::format(
      " Threads wait for process-shared read-write locks {} of their time: these stay the C library's, since no lock "
      "of "
      "Usher's serves them.",
      percent(share));
}

/// "Threads wait for mutexes 3.0 % of their time", with read-write locks if threads wait for some.
std::string waiting_text(const trial_results& t) {
  const call_counts& calls = *t.reference().calls;
  const double rwlocks = calls.rwlock_waiting_share.value_or(0);
  return fmt::format("Threads wait for mutexes {}{} of their time", percent(calls.waiting_share.value_or(0)),
                     rwlocks > 0 ? fmt::format(" and for read-write locks {}", percent(rwlocks)) : "");
}

/// A sentence with the share of time that threads wait, and advice; it follows another sentence. Empty if the share was
/// not measured.
std::string waiting_sentence(const trial_results& t, const std::string& advice = "") {
  if (!waiting_share(t)) return "";
  return fmt::format(" {}{}.", waiting_text(t), advice.empty() ? "" : ": " + advice);
}

/// The speed-up if threads ran during all the time that they wait for locks. nullopt: not measured, or the metric is no
/// rate (waiting may change a latency by any factor).
std::optional<double> most_by_waiting(const trial_results& t) {
  const auto share = waiting_share(t);
  if (!share || !t.has_ratios || (t.lower_is_better && !t.metric.empty())) return std::nullopt;
  const std::vector<double> cpu = t.reference().values(cpu_of),
                            seconds = t.reference().values([](const run_result& r) { return r.seconds; });
  if (cpu.empty() || support::median(cpu) <= 0) return std::nullopt;
  return speed_up_without(*share, t.reference().calls->threads, support::median(seconds), support::median(cpu));
}

/// A sentence for a speed-up that waiting cannot explain; it follows another sentence. Else empty.
std::string beyond_waiting_sentence(const trial_results& t, const candidate_result& c) {
  const auto most = most_by_waiting(t);
  if (!most || c.figure() <= contest_rules{}.level_high * *most) return "";
  return fmt::format(" The difference of {} is larger than this waiting: chance, or something else than waiting.",
                     c.name);
}

std::string busy_sentence(const trial_results& t) {
  if (t.others_cpu_share <= busy) return "";
  return fmt::format(" Others took {:.0f} % of the CPU time meanwhile, which may hide a difference.",
                     100 * t.others_cpu_share);
}

/// The reason why the rest of the budget was not used, as a sentence that follows another one; empty if it was used.
std::string unused_sentence(const trial_results& t, const outlook& o) {
  if (!t.budget || o.seconds_unused <= 0 || t.interrupted) return "";
  const bool all_settled = std::all_of(t.candidates.begin() + 1, t.candidates.end(), [](const candidate_result& c) {
    return c.judged != verdict::undecided || (c.dropped && c.dropped->why != no_time);
  });
  const std::string why = all_settled && o.contradicted == nullptr ? "each lock is decided, behind another or failed"
                          : t.rounds >= most_rounds ? fmt::format("a trial has at most {} rounds", most_rounds)
                          : has_little_waiting(t)   ? "threads wait so little"
                          : o.contradicted          ? "the later rounds contradict the earlier ones"
                                                    : "the rounds that fit were expected to decide nothing";
  return fmt::format(" {} of {} were not used: {}.", support::duration_text(o.seconds_unused),
                     support::duration_text(*t.budget), why);
}

/// Whether a further trial may be recommended.
bool may_recommend_trial(const trial_results& t) {
  return !has_little_waiting(t) && t.others_cpu_share <= busy;
}

/// The candidate as --locks takes it.
std::string option_of(const candidate_result& c) {
  const std::string own = name_of(c.lock, c.rwlock);
  return c.name == own ? c.name : c.name + "=" + own;
}

std::string how_much(const trial_results& t, const candidate_result& c) {
  const std::string limits = limits_text(c.limits, t.has_ratios);
  const std::string behind = limits.empty() ? "" : fmt::format(" ({})", limits);
  if (!t.has_ratios) return fmt::format("better by {}{}", quantity(std::fabs(c.figure())), behind);
  return fmt::format("{} times as {}{}", factor(c.figure()), t.metric.empty() ? "fast" : "good", behind);
}

/// The call counts of the candidate whose counted run had most calls.
call_counts most_calls(const trial_results& t) {
  call_counts most;
  for (const candidate_result& c : t.candidates) {
    if (!c.calls) continue;
    const bool loaded = most.loaded || c.calls->loaded;
    if (c.calls->all() > most.all()) most = *c.calls;
    most.loaded = loaded;
  }
  return most;
}

bool was_counted(const trial_results& t) {
  return std::any_of(t.candidates.begin(), t.candidates.end(),
                     [](const candidate_result& c) { return c.calls.has_value(); });
}

/// Warnings for a lock that is not starvation-free and for a read-write lock, as sentences that follow another one; else
/// empty.
std::string warning_sentences(const candidate_result& c) {
  std::string text;
  const lock_table* const lock = c.lock == c_library ? nullptr : find_lock(c.lock);
  if (lock != nullptr && !lock->traits->starvation_free)
    text = fmt::format(" {} promises no thread that it gets the lock (usher list {}).", c.name, c.lock);
  return text + (c.rwlock.empty() ? "" : " Usher's read-write locks are experimental.");
}

std::string run_command(const trial_results& t, const outlook& o, const candidate_result& c) {
  const std::string rwlock = c.rwlock.empty() && o.names_rwlock ? c_library : c.rwlock;
  return fmt::format("usher run --lock {}{} -- {}", c.lock, rwlock.empty() ? "" : " --rwlock " + rwlock,
                     support::shell_line(t.command));
}

/// The waiting, if it cannot explain the speed-up. Empty otherwise.
std::string waiting_and_beyond(const trial_results& t, const candidate_result& c) {
  const std::string beyond = beyond_waiting_sentence(t, c);
  return beyond.empty() ? "" : waiting_sentence(t) + beyond;
}

/// Names the winner, and warns if its gain is negligible.
trial_conclusion worth_it(const trial_results& t, const outlook& o, const candidate_result& c) {
  const contest_rules rules;
  const bool is_little = t.has_ratios && c.figure() < rules.level_high;
  const std::string rounds =
      t.confirming_rounds >= rules.confirming
          ? fmt::format("in the {} after it was chosen", with_noun(t.confirming_rounds, "round"))
          : fmt::format("in the {} that it was chosen by: expect a little less", with_noun(c.rounds, "round"));
  return {is_little ? "hardly-worth-it" : "worth-it",
          fmt::format("{}: {} is {} {} {}, {}.{}{}", is_little ? "Hardly worth it" : "Worth it", c.name, how_much(t, c),
                      t.has_ratios ? "as" : "than", t.reference_text(), rounds, waiting_and_beyond(t, c),
                      warning_sentences(c)),
          run_command(t, o, c)};
}

/// The conclusion if a candidate is better but the trial ended before it was chosen.
trial_conclusion unconfirmed(const trial_results& t, const outlook& o, const candidate_result& c) {
  std::string why = "no rounds were run after those that showed it";
  if (c.dropped)
    why = c.dropped->why == no_time ? "the budget had no time for that"
                                    : fmt::format("it was dropped in round {} ({})", c.dropped->round, c.dropped->why);
  else if (t.interrupted)
    why = "the trial was interrupted before that";
  return {
      "unconfirmed",
      fmt::format("{} is {}{} in {}, but it was not confirmed: {}.{}{}", c.name, t.has_ratios ? "better, " : "",
                  how_much(t, c), with_noun(c.rounds, "round"), why, waiting_and_beyond(t, c), warning_sentences(c)),
      run_command(t, o, c)};
}

/// The command line of the same trial with other candidates and another budget.
std::string trial_command(const trial_results& t, const outlook& o, const std::string& locks, double budget) {
  std::vector<std::string> words = {"usher", "try", "--locks", locks, "--budget", support::duration_option(budget)};
  const auto add = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(option);
    words.push_back(value);
  };
  if (t.warmup != default_warmup) add("--warmup", fmt::format("{}", t.warmup));
  if (o.timeout > 0) add("--timeout", fmt::format("{}", o.timeout));
  add("--before", t.before);
  add("--ready", t.ready);
  add("--until", t.until);
  add("--metric", t.metric);
  if (t.lower_is_better && !t.metric.empty()) words.emplace_back("--lower");
  if (!t.lower_is_better && t.metric.empty()) words.emplace_back("--higher");
  words.emplace_back("--");
  words.insert(words.end(), t.command.begin(), t.command.end());
  return support::shell_line(words);
}

/// "Undecided: NAME seems 1.30 times as fast (0.71–1.75), which 14 rounds cannot tell from chance."
std::string undecided_sentence(const trial_results& t, const outlook& o) {
  const candidate_result* const c = o.best_undecided;
  if (c == nullptr || c->figure() <= t.neutral())
    return fmt::format("Undecided: no lock is better by so much that {} would show it.", with_noun(t.rounds, "round"));
  return fmt::format("Undecided: {} seems {}, which {} cannot tell from chance.", c->name, how_much(t, *c),
                     with_noun(c->rounds, "round"));
}

/// The budget for a trial of this candidate alone. The estimate of its rounds uses the highest rate of wins of several
/// candidates, which is too good on average, so the budget has time for twice as many. It is at least twice a budget
/// that was used up. A trial that is decided ends earlier.
double budget_alone(const trial_results& t, const outlook& o) {
  const double runs = 2 * static_cast<double>(2 * o.rounds_alone + t.warmup + contest_rules{}.confirming_wanted);
  const double used_up = t.interrupted ? 0 : t.budget.value_or(0);
  return std::max({1.1 * runs * t.run_seconds, 2 * used_up, 10.0});
}

/// Recommends the same trial of one candidate.
trial_conclusion undecided(const trial_results& t, const outlook& o) {
  const candidate_result& c = *o.best_undecided;
  std::string text = undecided_sentence(t, o) + waiting_sentence(t) + beyond_waiting_sentence(t, c);
  text += unused_sentence(t, o);
  text += fmt::format(" If it goes on like this, a new trial of it alone decides after about {}.",
                      with_noun(o.rounds_alone, "round"));
  return {"undecided", text, trial_command(t, o, option_of(c), budget_alone(t, o))};
}

/// Whether the trial leaves open that some candidate is better by more than a negligible amount.
bool is_open(const trial_results& t) {
  const double negligible = t.has_ratios ? contest_rules{}.level_high : 0;
  return std::any_of(t.candidates.begin(), t.candidates.end(), [&](const candidate_result& c) {
    return c.judged == verdict::undecided && c.is_clean() && c.speed_up && c.limits.high > negligible;
  });
}

/// The conclusion if a candidate is better but must not be recommended: it failed, or it is the C library's mutex under
/// another name.
std::optional<trial_conclusion> better_and_useless(const trial_results& t) {
  for (const candidate_result& c : t.candidates) {
    if (verdict_of(c.limits, t.neutral()) != verdict::better) continue;
    if (!c.is_clean())
      return trial_conclusion{"unusable",
                              fmt::format("No winner: {} is {}, but failed or printed something else, as shown above.",
                                          c.name, how_much(t, c)),
                              ""};
    if (c.has_c_librarys_locks())
      return trial_conclusion{"keep",
                              fmt::format("No winner: {} is {} under another name. That it is {} is chance, or due to "
                                          "the machine.",
                                          c.name, t.reference_text(), how_much(t, c)),
                              ""};
  }
  return std::nullopt;
}

trial_conclusion nothing_better(const trial_results& t, const outlook& o) {
  if (const auto useless = better_and_useless(t)) return *useless;
  const auto share = waiting_share(t);
  const candidate_result* const best = o.best_undecided;
  if (has_little_waiting(t))
    return {
        "no-lock-helps",
        fmt::format("No lock was shown to make this faster. {}, and less waiting can save only that.{}{}",
                    waiting_text(t), best != nullptr ? beyond_waiting_sentence(t, *best) : "", unused_sentence(t, o)),
        ""};
  const bool open = is_open(t);
  const std::string rest = (open ? busy_sentence(t) : "") + unused_sentence(t, o);
  if (share && *share >= much_waiting) {
    const std::string said = open ? undecided_sentence(t, o) : "No lock that was tried was shown to be better.";
    const std::string says = o.ask_stat ? o.ask_stat() : "";
    const std::string where = says.empty() ? waiting_sentence(t, "look for the critical section to shorten")
                                           : fmt::format(" Where the time goes, of one run: {}.", says);
    return {open ? "undecided" : "shorten", said + where + rest, "usher stat -- " + support::shell_line(t.command)};
  }
  if (best != nullptr)
    return {"undecided", undecided_sentence(t, o) + waiting_sentence(t) + beyond_waiting_sentence(t, *best) + rest, ""};
  return {"keep",
          fmt::format("No lock that was tried was shown to be better than {}: keep {}.{}{}", t.reference_text(),
                      t.tries_read_write_locks() ? "them" : "it", waiting_sentence(t), rest),
          ""};
}

/// The conclusion if the rounds are so few that a lock could not be shown to be better even by winning all of them.
trial_conclusion too_few_rounds(const trial_results& t, const outlook& o, std::size_t went_well) {
  const char* const kind = "too-few-rounds";
  if (t.budget && !t.interrupted) {
    std::string locks;
    for (std::size_t i = 1; i < t.candidates.size(); ++i)
      locks += (locks.empty() ? "" : ",") + option_of(t.candidates[i]);
    constexpr double reserve = 1.5;  // runs may take longer than the first one, and more rounds may be needed
    return {kind,
            fmt::format("{} had room for {}: {} or more can show that a lock is better.",
                        support::duration_text(*t.budget), with_noun(went_well, "round"), o.rounds_wanted) +
                waiting_sentence(t) + busy_sentence(t),
            may_recommend_trial(t) ? trial_command(t, o, locks, std::max(reserve * o.seconds_wanted, 10.0)) : ""};
  }
  if (t.interrupted)
    return {kind,
            fmt::format("Interrupted after {}: {} or more can show that a lock is better.",
                        with_noun(went_well, "round"), o.rounds_wanted),
            ""};
  if (t.rounds < o.rounds_wanted)
    return {kind,
            fmt::format("With --rounds {} no lock can be shown to be better: --rounds {} or more can, or --budget.",
                        t.rounds, o.rounds_wanted),
            ""};
  return {
      kind,
      fmt::format("Runs failed: {} of {} could be compared, and no lock can be shown to be better by fewer than {}.",
                  went_well, with_noun(t.rounds, "round"), o.rounds_wanted),
      ""};
}

bool has_failures(const trial_results& t) {
  return std::any_of(t.candidates.begin(), t.candidates.end(), [](const auto& c) { return !c.is_clean(); });
}

/// Whether the candidate seems better by more than a negligible amount.
bool is_worth_a_trial(const trial_results& t, const candidate_result& c) {
  return c.figure() > (t.has_ratios ? contest_rules{}.level_high : 0);
}

/// The conclusion from the measurements, whether or not the lock calls could be counted.
trial_conclusion by_figures(const trial_results& t, const outlook& o) {
  if (o.winner != nullptr) return worth_it(t, o, *o.winner);
  if (o.contradicted != nullptr)
    return {"contradicted",
            fmt::format("No winner: {} was better in the rounds that it was chosen by, and was not in the {} after: "
                        "chance, or the machine or the program has changed meanwhile; longer runs may decide.{}",
                        o.contradicted->name, with_noun(t.confirming_rounds, "round"), unused_sentence(t, o)),
            ""};
  if (const candidate_result* const best = t.best_usable()) return unconfirmed(t, o, *best);
  std::size_t most = 0;
  for (const candidate_result& c : t.candidates) most = std::max(most, c.rounds);
  const bool no_room = o.seconds_wanted > 0 && most < o.rounds_wanted;
  if (no_room && (most == 0 || o.best_undecided != nullptr) && !has_failures(t)) return too_few_rounds(t, o, most);
  if (most == 0) return {"too-few-rounds", "No round succeeded: nothing can be concluded.", ""};
  if (!t.budget && most < o.rounds_wanted && o.best_undecided != nullptr) return too_few_rounds(t, o, most);
  if (o.rounds_alone > 0 && is_worth_a_trial(t, *o.best_undecided) && may_recommend_trial(t)) return undecided(t, o);
  return nothing_better(t, o);
}

}  // namespace

std::optional<double> waiting_share(const trial_results& t) {
  const std::optional<call_counts>& calls = t.reference().calls;
  if (!calls || !calls->waiting_share) return std::nullopt;
  return *calls->waiting_share + calls->rwlock_waiting_share.value_or(0);
}

bool has_little_waiting(const trial_results& t) {
  // Idle threads make the share small even if all others wait.
  return is_little(waiting_share(t).value_or(1), most_by_waiting(t).value_or(1));
}

/// The conclusion of a trial whose program has no locks, or only read-write locks for which threads hardly wait.
static trial_conclusion no_locks(const trial_results& t, const call_counts& calls, bool nothing_compared) {
  const auto ended = [&](const char* option) {
    return nothing_compared ? fmt::format(" Nothing was compared; {} compares anyway.", option) : "";
  };
  if (calls.all() < fewest_calls)
    return {"no-locks",
            fmt::format("The program does not use pthread locks or semaphores ({} calls): other locks have nothing to "
                        "change.{}",
                        calls.all(), ended("--locks A,B")),
            ""};
  const std::string shared = shared_sentence(t);
  return {"no-locks",
          fmt::format("Of pthread's locks the program uses only read-write locks. Threads wait {} of their time for "
                      "those that Usher's can replace, and less waiting can save only that.{}{}",
                      percent(calls.rwlock_waiting_share.value_or(0)), shared,
                      shared.empty() ? ended("--rwlocks phase-fair,bravo") : ""),
          ""};
}

trial_conclusion conclusion_of(const trial_results& t, const outlook& o) {
  const call_counts calls = most_calls(t);
  if (was_counted(t) && !calls.loaded) {
    const std::string text =
        "Its lock calls could not be counted: the library was not loaded (a Go, static or set-user-ID program), or it "
        "runs as "
        "another user and closes what it inherits.";
    if (o.nothing_to_gain) return {"not-loaded", text + " Nothing was compared; --locks A,B compares anyway.", ""};
    trial_conclusion c = by_figures(t, o);
    c.text = text + "\n" + c.text;
    return c;
  }
  const bool uses_none = was_counted(t) && calls.all() < fewest_calls && t.reference().errors.empty();
  if (uses_none || o.nothing_to_gain) return no_locks(t, calls, o.nothing_to_gain);
  trial_conclusion c = by_figures(t, o);
  c.text += shared_sentence(t);
  return c;
}

}  // namespace usher::tool::trial
