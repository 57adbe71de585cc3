#include "tool/trial/contest.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace usher::tool {
namespace {

double factor_for_better(std::size_t candidates, const contest_rules& rules) {
  return static_cast<double>(std::max<std::size_t>(candidates, 1)) / rules.error;
}

}  // namespace

verdict verdict_of(const support::interval& i, double neutral, const contest_rules& rules) {
  // The verdict "level" needs limits around neutral. Ratios have such limits; differences have no scale for them.
  const support::interval level =
      neutral != 0 ? support::interval{rules.level_low, rules.level_high} : support::interval{0, 0};
  if (i.low > neutral) return verdict::better;
  if (i.high < neutral) return verdict::worse;
  return i.low >= level.low && i.high <= level.high ? verdict::level : verdict::undecided;
}

contest::contest(const std::vector<bool>& takes_part, contest_rules rules)
    : rules_(rules),
      candidates_(static_cast<std::size_t>(std::count(takes_part.begin(), takes_part.end(), true))),
      for_better_(factor_for_better(candidates_, rules)),
      for_worse_(1 / rules.error),
      entries_(takes_part.size()) {
  for (std::size_t c = 0; c < takes_part.size(); ++c) entries_[c].given_up = !takes_part[c];
}

std::vector<std::size_t> contest::next(double rounds_left) {
  const std::size_t running = chosen_ ? 1 : present().size();
  const auto runs_left = static_cast<std::size_t>(std::max(rounds_left, 0.0) * static_cast<double>(running + 1) + 1e-6);
  if (!chosen_ && rounds_.size() >= rules_.least_rounds) {
    drop_decided();
    if (!choose_leader(runs_left)) {
      drop_hopeless(runs_left);
      // If the budget has no room for another round of all candidates, only those that are better remain.
      if (!choose_leader(runs_left) && !present().empty() && room(runs_left, present().size()) == 0)
        choose(highest(present()));
    }
    if (!chosen_ && rules_.uses_rest && present().empty()) give_rest_to_best();
  }
  const std::vector<std::size_t> wanted = chosen_ ? chosen_again() : present();
  return runs_left > wanted.size() ? wanted : std::vector<std::size_t>();
}

std::vector<std::size_t> contest::chosen_again() const {
  if (!chosen_ || entries_[*chosen_].given_up || rounds_after_choice() >= rules_.confirming_wanted) return {};
  return {*chosen_};
}

bool contest::choose_leader(std::size_t runs_left) {
  const std::vector<std::size_t> left = present();
  if (left.empty()) return false;
  const std::size_t first = highest(left);
  if (!is_better(first) || !leads(first, left)) return false;
  if (entries_[first].has_rest && runs_left < runs_kept()) return false;
  choose(first);
  return true;
}

void contest::choose(std::size_t c) {
  chosen_ = c;
  rounds_at_choice_ = rounds(c);
}

void contest::add(const std::vector<std::optional<double>>& speed_ups, double neutral) {
  neutral_ = neutral;
  add_values(speed_ups);
}

void contest::add_values(const std::vector<std::optional<double>>& speed_ups) {
  rounds_.push_back(speed_ups);
  for (std::size_t c = 0; c < entries_.size() && c < speed_ups.size(); ++c) {
    const std::optional<double>& value = speed_ups[c];
    if (!value) continue;
    entry& e = entries_[c];
    e.values.push_back(*value);
    e.sorted.insert(std::upper_bound(e.sorted.begin(), e.sorted.end(), *value), *value);
    if (has_least_rounds(c)) narrow(e);
  }
}

void contest::restate(const std::vector<std::vector<std::optional<double>>>& rounds, double neutral) {
  neutral_ = neutral;
  rounds_.clear();
  for (entry& e : entries_) {
    e.values.clear();
    e.sorted.clear();
    e.limits = {};
    e.judged = verdict::undecided;
    e.contradictory = false;
  }
  for (const auto& round : rounds) add_values(round);
}

/// Narrows the interval by the last round. A value is below the lower limit if enough rounds are above it: the bet that
/// the candidate is better than this value has won.
void contest::narrow(entry& e) const {
  const std::size_t n = e.sorted.size(), above = for_better_.of(n), below = for_worse_.of(n);
  if (above <= n) e.limits.low = std::max(e.limits.low, e.sorted[n - above]);
  if (below <= n) e.limits.high = std::min(e.limits.high, e.sorted[below - 1]);
  e.contradictory = e.contradictory || e.limits.low > e.limits.high;
  if (e.contradictory) e.limits = {};
  e.judged = verdict_of(e.limits, neutral_, rules_);
}

void contest::give_up(std::size_t candidate) {
  entries_[candidate].given_up = true;
}

std::vector<std::size_t> contest::present() const {
  std::vector<std::size_t> all;
  for (std::size_t c = 0; c < entries_.size(); ++c)
    if (is_present(c)) all.push_back(c);
  return all;
}

std::size_t contest::wins(std::size_t c) const {
  const std::vector<double>& sorted = entries_[c].sorted;
  return static_cast<std::size_t>(sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), neutral_));
}

std::size_t contest::highest(const std::vector<std::size_t>& candidates) const {
  return *std::max_element(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
    return support::median_of_sorted(entries_[a].sorted) < support::median_of_sorted(entries_[b].sorted);
  });
}

/// Wins and losses against the other candidate in the rounds that both ran.
contest::score contest::against(std::size_t c, std::size_t other) const {
  score s;
  for (const auto& round : rounds_) {
    const std::optional<double>&mine = round[c], &theirs = round[other];
    if (!mine || !theirs) continue;
    ++s.rounds;
    s.won += *mine > *theirs ? 1 : 0;
    s.lost += *mine < *theirs ? 1 : 0;
  }
  return s;
}

/// Whether the bet on "the other candidate is better" has won.
bool contest::is_behind(std::size_t c, std::size_t other) const {
  const score s = against(c, other);
  return s.rounds >= rules_.least_rounds && s.lost >= for_worse_.of(s.rounds);
}

/// Whether the candidate has lost to none of the others in more rounds than it won.
bool contest::leads(std::size_t c, const std::vector<std::size_t>& others) const {
  return std::all_of(others.begin(), others.end(), [&](std::size_t other) {
    const score s = against(c, other);
    return s.won >= s.lost;
  });
}

void contest::drop_decided() {
  for (const std::size_t c : present()) {
    if (is_worse(c))
      entries_[c].dropped = standing::worse;
    else if (entries_[c].judged == verdict::level)
      entries_[c].dropped = standing::level;
  }
  const std::vector<std::size_t> left = present();
  if (left.empty()) return;
  const std::size_t first = highest(left);
  for (const std::size_t c : left)
    if (c != first && is_behind(c, first)) entries_[c].dropped = standing::behind;
}

/// The number of rounds with so many candidates that fit into the remaining runs. Runs for the rounds after a choice
/// are kept back.
std::size_t contest::room(std::size_t runs_left, std::size_t candidates) const {
  const std::size_t kept = runs_kept();
  return runs_left < kept ? 0 : (runs_left - kept) / (candidates + 1);
}

void contest::drop_hopeless(std::size_t runs_left) {
  for (;;) {
    std::vector<std::size_t> left = present();
    const std::size_t more = room(runs_left, left.size());
    std::erase_if(left, [&](std::size_t c) {
      if (is_better(c)) return !entries_[c].has_rest || runs_left >= runs_kept();
      return !entries_[c].contradictory && wins(c) + more >= for_better_.of(rounds(c) + more);
    });
    if (left.empty()) return;
    const auto lowest = std::min_element(left.begin(), left.end(), [&](std::size_t a, std::size_t b) {
      return support::median_of_sorted(entries_[a].sorted) < support::median_of_sorted(entries_[b].sorted);
    });
    entries_[*lowest].dropped = standing::hopeless;
  }
}

void contest::give_rest_to_best() {
  std::vector<std::size_t> open;
  for (std::size_t c = 0; c < entries_.size(); ++c)
    if (!entries_[c].given_up && !entries_[c].contradictory && entries_[c].dropped == standing::hopeless &&
        !is_better(c))
      open.push_back(c);
  if (open.empty()) return;
  entry& best = entries_[highest(open)];
  best.dropped = standing::in;
  best.has_rest = true;
}

standing contest::of(std::size_t candidate) const {
  if (chosen_ == candidate) return standing::chosen;
  if (entries_[candidate].dropped != standing::in) return entries_[candidate].dropped;
  return is_better(candidate) ? standing::better : is_worse(candidate) ? standing::worse : standing::in;
}

std::optional<std::size_t> contest::winner() const {
  if (!chosen_) return std::nullopt;
  const std::size_t c = *chosen_;
  const bool contradicted = !is_better(c) || (rounds_after_choice() > 0 && middle_after_choice(c) <= neutral_);
  return entries_[c].given_up || contradicted ? std::nullopt : std::optional(c);
}

std::optional<std::size_t> contest::leader() const {
  std::vector<std::size_t> better;
  for (std::size_t c = 0; c < entries_.size(); ++c)
    if (!entries_[c].given_up && is_better(c)) better.push_back(c);
  return better.empty() ? std::nullopt : std::optional(highest(better));
}

double contest::middle_after_choice(std::size_t c) const {
  const std::vector<double>& values = entries_[c].values;
  return support::median({values.begin() + static_cast<std::ptrdiff_t>(rounds_at_choice_), values.end()});
}

double contest::middle(std::size_t candidate) const {
  if (chosen_ == candidate && rounds_after_choice() >= rules_.confirming) return middle_after_choice(candidate);
  return support::median_of_sorted(entries_[candidate].sorted);
}

support::interval contest::between(std::size_t candidate) const {
  support::interval limits = entries_[candidate].limits;
  if (chosen_ != candidate || rounds_after_choice() == 0) return limits;
  const double shown = middle(candidate);
  return {std::min(limits.low, shown), std::max(limits.high, shown)};
}

std::size_t contest::rounds_after_choice() const {
  return chosen_ ? rounds(*chosen_) - rounds_at_choice_ : 0;
}

std::optional<std::size_t> contest::rounds_to_decide(std::size_t candidate) const {
  constexpr std::size_t most = 1000;
  const std::size_t won = wins(candidate), n = rounds(candidate);
  if (is_better(candidate)) return 0;
  if (2 * won <= n) return std::nullopt;
  for (std::size_t more = n < rules_.least_rounds ? rules_.least_rounds - n : 1; more <= most; ++more)
    if (won + won * more / n >= for_better_.of(n + more)) return more;
  return std::nullopt;
}

std::size_t fewest_rounds(std::size_t candidates, const contest_rules& rules) {
  const wins_needed needed(factor_for_better(candidates, rules));
  std::size_t n = rules.least_rounds;
  while (needed.of(n) > n) ++n;
  return n + rules.confirming;
}

std::vector<std::size_t> random_order(std::size_t n, std::mt19937_64& bits) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), bits);
  return order;
}

}  // namespace usher::tool
