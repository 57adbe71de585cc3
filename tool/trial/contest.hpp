// The sequential method of `usher try`: which of several candidates is better than a reference, decided round by round.
//
// A round runs the reference and all remaining candidates. A candidate's *speed-up* in a round is its figure relative to the
// reference's figure of the same round, above 1 (neutral) if it is better. The only assumption: under "no better" a candidate wins at
// most as many rounds as it loses, which the random order of the runs ensures (random_order). No distribution or variance is assumed.
//
//  * *Better*, *worse*: a bet on the signs (betting.hpp) has multiplied its stake by 1/error. For *better* the error is divided
//    among all candidates (Bonferroni), so that the chance of *any* false "better" is at most `error`, after any number of looks and
//    whichever candidates were dropped before. A false "worse" recommends nothing, so there each candidate has the whole error. A
//    speed-up of exactly 1 counts as a loss for both bets.
//  * The interval is a confidence sequence: all medians that the same two bets have never rejected, between two order
//    statistics (Howard and Ramdas, "Sequential estimation of quantiles with applications to A/B testing and best-arm
//    identification", Bernoulli 28, 2022, with these bets in place of their boundary). It therefore excludes neutral exactly if
//    the verdict is better or worse. A limit is infinite if the rounds are too few for it.
//  * A candidate is dropped if it is *worse*; *level*: its whole interval is near neutral; *behind* the leader (the highest median), by
//    the same bet on the rounds that both ran; *hopeless*: even if it won all rounds that fit into the budget, they could not show that
//    it is better. Of several hopeless candidates the one with the lowest median is dropped first, and its runs are divided among the
//    others before these are examined. Dropping depends on past rounds only, and under "no better" the next round is a fair toss
//    whatever the past was: no rule for dropping makes a false "better" likelier.
//  * If all candidates are dropped, the rest of the budget goes to the best hopeless one (the highest median), until it is worse or level;
//    then to the next. These rounds narrow the interval. A choice needs room for the rounds after it, so they hardly ever lead to one.
//  * The leader is chosen as soon as it is better and has lost to none of the others in more rounds than it won, or when the budget has
//    no room for another round of all. The following rounds run only the reference and the chosen candidate. Its figure is the median
//    of these rounds, since the median of the rounds that it was chosen by is too good on average (the winner's curse). If that median
//    is not on the same side of neutral, there is no winner.
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include "support/measure/statistics.hpp"
#include "tool/trial/betting.hpp"

namespace usher::tool {

/// `hopeless` and `in` are both undecided; `behind` may be better than the reference.
enum class standing { in, better, worse, level, hopeless, behind, chosen };

struct contest_rules {
  double error = 0.05;
  std::size_t least_rounds = 5;
  std::size_t confirming = 3, confirming_wanted = 5;
  double level_low = 0.97, level_high = 1.03;  ///< chosen, not measured: a smaller difference is of no use
  bool uses_rest = true;  ///< false: a contest whose candidates are all dropped is over, though the budget has room
};

/// `reference` and `failed` are no verdicts of a contest.
enum class verdict { reference, better, worse, level, undecided, failed };

/// Returns the verdict of an interval. It is `level` if the whole interval is so near neutral that the difference has no
/// practical value.
verdict verdict_of(const support::interval& i, double neutral, const contest_rules& rules = {});

class contest {
 public:
  explicit contest(std::size_t candidates, contest_rules rules = {})
      : contest(std::vector<bool>(candidates, true), rules) {}
  /// The candidates that take part, by number. The others are never in a round, and the error is not divided among them.
  explicit contest(const std::vector<bool>& takes_part, contest_rules rules = {});

  /// The candidates of the next round, which the reference runs in, too; empty: the contest is over. `rounds_left`: the number of
  /// rounds, with its fraction, that fit into the budget with the candidates of the last round less those given up since.
  std::vector<std::size_t> next(double rounds_left);
  /// The result of a round, by candidate; nullopt if it did not run or failed. `neutral`: 1 for ratios, 0 for differences.
  void add(const std::vector<std::optional<double>>& speed_ups, double neutral = 1);
  /// Replaces all rounds by the same rounds in another unit. The winners of a round must be the same.
  void restate(const std::vector<std::vector<std::optional<double>>>& rounds, double neutral);
  /// Drops a candidate that failed.
  void give_up(std::size_t candidate);

  /// `better` and `worse` follow from the interval at any time, even if next() was not called since the last round.
  standing of(std::size_t candidate) const;
  /// The chosen candidate, if the rounds after the choice do not contradict it.
  std::optional<std::size_t> winner() const;
  /// The candidate with the highest median among those that are better, chosen or not.
  std::optional<std::size_t> leader() const;
  /// The figure to report: the median speed-up of all its rounds; for the chosen one, of the rounds after the choice if they suffice.
  double middle(std::size_t candidate) const;
  /// The limits of the candidate's median speed-up. The chance that a limit is wrong is at most `error`, and so is the
  /// chance that any of all candidates' lower limits is wrong. The limits of the chosen candidate include the reported
  /// figure.
  support::interval between(std::size_t candidate) const;
  /// The candidate's speed-ups, in the order of the rounds that it ran.
  const std::vector<double>& speed_ups(std::size_t candidate) const { return entries_[candidate].values; }
  std::size_t rounds(std::size_t candidate) const { return speed_ups(candidate).size(); }
  /// One more than the highest number of a candidate.
  std::size_t size() const { return entries_.size(); }
  /// The number of candidates that take part.
  std::size_t candidates() const { return candidates_; }
  std::size_t rounds_after_choice() const;
  /// The number of further rounds that would show that the candidate is better if it goes on to win at the same rate;
  /// nullopt if it wins at most half of its rounds, or if more than a thousand would be needed.
  std::optional<std::size_t> rounds_to_decide(std::size_t candidate) const;

 private:
  struct entry {
    std::vector<double> values, sorted;
    support::interval limits;
    verdict judged = verdict::undecided;  ///< of the limits
    bool contradictory = false;           ///< the bets have rejected every median
    bool given_up = false;
    standing dropped = standing::in;
    bool has_rest = false;  ///< was hopeless, and has the rest of the budget
  };

  struct score {
    std::size_t rounds = 0, won = 0, lost = 0;
  };

  bool is_present(std::size_t c) const { return !entries_[c].given_up && entries_[c].dropped == standing::in; }
  bool is_better(std::size_t c) const { return entries_[c].judged == verdict::better; }
  bool is_worse(std::size_t c) const { return entries_[c].judged == verdict::worse; }
  bool has_least_rounds(std::size_t c) const { return rounds(c) >= rules_.least_rounds; }
  std::vector<std::size_t> present() const;
  std::vector<std::size_t> chosen_again() const;
  std::size_t wins(std::size_t c) const;
  double middle_after_choice(std::size_t c) const;
  score against(std::size_t c, std::size_t other) const;
  bool is_behind(std::size_t c, std::size_t other) const;
  bool leads(std::size_t c, const std::vector<std::size_t>& others) const;
  std::size_t highest(const std::vector<std::size_t>& candidates) const;
  void add_values(const std::vector<std::optional<double>>& speed_ups);
  void narrow(entry& e) const;
  void drop_decided();
  void drop_hopeless(std::size_t runs_left);
  /// The runs that the budget keeps for the rounds after a choice.
  std::size_t runs_kept() const { return 2 * rules_.confirming; }
  std::size_t room(std::size_t runs_left, std::size_t candidates) const;
  bool choose_leader(std::size_t runs_left);
  void choose(std::size_t c);
  void give_rest_to_best();

  contest_rules rules_;
  std::size_t candidates_;
  wins_needed for_better_, for_worse_;
  double neutral_ = 1;
  std::vector<entry> entries_;
  std::vector<std::vector<std::optional<double>>> rounds_;
  std::optional<std::size_t> chosen_;
  std::size_t rounds_at_choice_ = 0;  ///< of the chosen one
};

/// The number of rounds, with those after the choice, that suffice if one of so many candidates wins all of them.
std::size_t fewest_rounds(std::size_t candidates, const contest_rules& rules = {});

/// The order of a round's `n` runs: each order is equally likely and independent of all earlier rounds. Under "no better" the chance
/// to win a round is then at most one half, whatever else the machine does and whenever, even in step with the rounds.
std::vector<std::size_t> random_order(std::size_t n, std::mt19937_64& bits);

}  // namespace usher::tool
