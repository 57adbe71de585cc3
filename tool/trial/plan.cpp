#include "tool/trial/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "support/locks.hpp"
#include "support/text/duration.hpp"
#include "tool/trial/conclusion.hpp"
#include "tool/trial/quantities.hpp"

namespace usher::tool::trial {
namespace {

constexpr std::size_t most_candidates = 4;  // a clear gain is decided and confirmed after ten rounds
/// Every trial has this many default candidates: the default lock, and a lock whose waiters sleep at once.
constexpr std::size_t fewest_candidates = 2;

/// Whether threads wait so much for some kind of locks that other locks may save something.
bool is_much(double share, const first_runs& seen) {
  const double gain = seen.counted_cpu_s > 0
                          ? speed_up_without(share, seen.calls->threads, seen.counted_seconds, seen.counted_cpu_s)
                          : 1;
  return !is_little(share, gain);
}

/// The kinds of locks that the default candidates replace.
struct replaced_kinds {
  bool mutexes = true, rwlocks = false;
};

/// Read-write locks only if threads wait for them; mutexes unless threads wait for read-write locks only.
replaced_kinds kinds_of(const first_runs& seen) {
  if (!seen.calls) return {};
  const bool rwlocks = is_much(seen.calls->rwlock_waiting_share.value_or(0), seen);
  return {!rwlocks || is_much(seen.calls->waiting_share.value_or(0), seen), rwlocks};
}

bool replaces_mutex_only(const choice& c) {
  return c.locks.mutex != nullptr && c.locks.rwlock.empty();
}

/// Takes the default candidates that replace the mutex only and suit the program.
void take_sensible(plan& p, const std::vector<choice>& candidates, const std::optional<call_counts>& calls,
                   unsigned cpus) {
  const std::uint64_t threads = calls ? calls->threads : 0;  // 0: not known
  // One thread more than CPUs is not too many: the first thread of most programs only waits until the others end.
  const bool too_many = threads > std::uint64_t{cpus} + 1;
  for (const choice& c : candidates) {
    if (!replaces_mutex_only(c)) continue;
    if (calls && calls->parks_threads && support::waits_for_parked(*c.locks.mutex))
      p.left_out.push_back({c.name,
                            "as the program has the signal handlers of a collector that parks threads, and under such "
                            "a lock the others may wait for a parked thread"});
    else if (too_many && support::hands_over(*c.locks.mutex))
      p.left_out.push_back(
          {c.name, fmt::format("as it hands the lock to one certain thread, which with {} threads on {} "
                               "CPU{} is often not running",
                               threads, cpus, cpus == 1 ? "" : "s")});
    else if (p.taken.size() < most_candidates)
      p.taken.push_back(c);
  }
}

/// Takes the default candidates with other read-write locks. If threads wait for mutexes, too, these are the locks of
/// both kinds, then one lock of each kind alone, so that the result shows which of them matters.
void take_read_write(plan& p, const std::vector<choice>& candidates, bool mutexes, bool uses_mutexes) {
  std::vector<choice> of_mutexes = std::exchange(p.taken, {}), alone;
  for (const choice& c : candidates) {
    if (c.locks.rwlock.empty()) continue;
    if (c.locks.mutex == nullptr)
      alone.push_back(c);
    else if (mutexes)
      p.taken.push_back(c);
  }
  const char* why = "as threads hardly wait for mutexes";
  if (mutexes) {
    why = "in favour of read-write locks";
    const auto keep_first = [&](std::vector<choice>& from) {
      if (!from.empty()) p.taken.push_back(from.front());
      if (!from.empty()) from.erase(from.begin());
    };
    keep_first(of_mutexes);
    keep_first(alone);
    of_mutexes.insert(of_mutexes.end(), alone.begin(), alone.end());
  } else {
    p.taken = alone;
    p.left_out.clear();
  }
  if (!uses_mutexes) return;
  for (const choice& c : of_mutexes) p.left_out.push_back({c.name, why});
}

/// The time until a trial has a result: warm-ups, the fewest rounds that decide, and the rounds after the choice, which
/// have two runs each.
double seconds_needed(std::size_t candidates, const options& o, double a_run) {
  const std::size_t confirming = contest_rules{}.confirming, deciding = fewest_rounds(candidates) - confirming;
  const std::size_t warm_ups = static_cast<std::size_t>(o.warmup) * candidates;
  return static_cast<double>(warm_ups + deciding * (candidates + 1) + 2 * confirming) * a_run;
}

std::string rounds_that_fit(const plan& p, const options& o, const first_runs& seen) {
  const std::size_t n = p.taken.size();
  const double left = seen.seconds_left - static_cast<double>(static_cast<std::size_t>(o.warmup) * n) * seen.seconds;
  const auto rounds = static_cast<std::size_t>(left / (static_cast<double>(n + 1) * seen.seconds));
  return fmt::format("a run takes {}: about {} rounds of {} fit into {}, fewer if the answer is certain before",
                     support::duration_text(seen.seconds), std::min(rounds, most_rounds), with_noun(n, "candidate"),
                     support::duration_text(o.budget));
}

std::string too_long(const plan& p, const options& o, const first_runs& seen) {
  constexpr std::size_t few = 4;
  std::string names;
  for (const choice& c : p.taken) names += (names.empty() ? "" : ", ") + c.name;
  if (p.taken.size() > few) names = with_noun(p.taken.size(), "candidate");
  return fmt::format(
      "a run takes {}, too long for an answer in {}: the fewest rounds that can give one, {} of {}, take about {}; "
      "shorter runs or a longer --budget can give one",
      support::duration_text(seen.seconds), support::duration_text(o.budget), fewest_rounds(p.taken.size()), names,
      support::duration_text(p.seconds_wanted));
}

/// Leaves out default candidates until the trial fits into the budget or has only `fewest_candidates`.
void fit_into_budget(plan& p, const options& o, const first_runs& seen) {
  const auto fits = [&] { return seconds_needed(p.taken.size(), o, seen.seconds) <= seen.seconds_left; };
  for (; o.default_candidates() && p.taken.size() > fewest_candidates && !fits(); p.taken.pop_back())
    p.left_out.push_back({p.taken.back().name, "for lack of time"});
  if (!fits()) p.seconds_wanted = seconds_needed(p.taken.size(), o, seen.seconds);
  p.notes.push_back(fits() ? rounds_that_fit(p, o, seen) : too_long(p, o, seen));
}

/// Adds a line for each reason: the candidates that were left out, the reason, and the option that includes them.
void note_left_out(plan& p) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const left_out_lock& l : p.left_out) {
    auto at = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == l.why; });
    if (at == reasons.end()) at = reasons.insert(at, {l.why, {}});
    at->second.push_back(l.name);
  }
  for (const auto& [why, names] : reasons)
    p.notes.push_back(fmt::format("left out, {}: {} (--locks {} tries {})", why, fmt::join(names, ", "),
                                  fmt::join(names, ","), names.size() > 1 ? "them" : "it"));
}

}  // namespace

plan plan_of(const options& o, const std::vector<choice>& candidates, const first_runs& seen, unsigned cpus) {
  plan p;
  const auto& calls = seen.calls;
  const replaced_kinds kinds = kinds_of(seen);
  const bool uses_mutexes = !calls || calls->of_mutexes() >= fewest_calls;
  p.nothing_to_gain = o.default_candidates() && calls && (!calls->loaded || !(uses_mutexes || kinds.rwlocks));
  if (p.nothing_to_gain) {
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(p.taken), replaces_mutex_only);
    return p;
  }
  if (o.default_candidates())
    take_sensible(p, candidates, calls, cpus);
  else
    p.taken = candidates;
  if (o.default_candidates() && kinds.rwlocks) take_read_write(p, candidates, kinds.mutexes, uses_mutexes);
  if (o.by_budget()) fit_into_budget(p, o, seen);
  note_left_out(p);
  return p;
}

}  // namespace usher::tool::trial
