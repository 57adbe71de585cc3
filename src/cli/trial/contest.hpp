// The sequential method of `usher try`: which of several candidates is better than a reference, decided round by round.
//
// A round runs the reference and all candidates that are still in; a candidate's *speed-up* of the round is its figure
// against the reference's of that round, above 1 (neutral) if it is better. Nothing else is assumed of the figures than that
// under "no better" a round is won at most as often as lost: no distribution, no variance. The random order of the runs
// (random_order) makes it so.
//
//  * *Better*, *worse*: a bet on the signs (betting.hpp) has multiplied its stake by 1/error. For *better* the error is shared
//    out among all candidates (Bonferroni), so that the chance of *any* false "better" is at most `error`, however often
//    one looks and whatever was dropped meanwhile. A false "worse" recommends nothing: there each candidate has all of the
//    error. A speed-up of exactly 1 counts as lost for either side.
//  * The interval is a confidence sequence: all medians that the same two bets have never rejected, between two order
//    statistics (Howard and Ramdas, "Sequential estimation of quantiles with applications to A/B testing and best-arm
//    identification", Bernoulli 28, 2022, with these bets in place of their boundary). So it excludes neutral exactly if
//    the verdict is better or worse. It is infinite on a side on which the rounds are too few.
//  * Candidates leave: *worse*; *level*, the whole interval near neutral; *behind* the leader (the highest median), by the same
//    bet on the rounds that both ran; *hopeless*, if it could not be shown to be better in the rounds that the budget has room
//    for, even if it won them all. Of several hopeless ones the lowest median goes first, and its runs are shared out among
//    the others before these are looked at. Leaving depends on the past only, and the next round is a fair toss under "no
//    better" whatever the past was: so no way of leaving makes a false "better" likelier.
//  * The choice: the leader, as soon as it is better and has lost to none of the others more often than it won; or once there is
//    no room for another round of all. Then rounds with only the reference and it: its figure is the median of these,
//    since the median of the rounds that it was chosen for is too good on average (the winner's curse). If that median is
//    not on the same side of neutral, there is no winner.
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include "cli/trial/betting.hpp"
#include "cli/trial/statistics.hpp"

namespace usher::cli {

/// `hopeless` and `in` are both undecided; `behind` may be better than the reference.
enum class standing { in, better, worse, level, hopeless, behind, chosen };

struct contest_rules {
  double error = 0.05;
  std::size_t least_rounds = 5;
  std::size_t confirming = 3, confirming_wanted = 5;
  double level_low = 0.97, level_high = 1.03;  ///< chosen, not measured: what is within is of no use to anybody
};

class contest {
 public:
  explicit contest(std::size_t candidates, contest_rules rules = {});

  /// Which candidates the next round is to run, beside the reference; empty: it is over. `rounds_left`: how many rounds, with
  /// the fraction, the budget has room for, of those that the last round was to run and that were not given up since.
  std::vector<std::size_t> next(double rounds_left);
  /// What the round saw, by candidate; nullopt if it did not run or failed. `neutral`: 1 for ratios, 0 for differences.
  void add(const std::vector<std::optional<double>>& speed_ups, double neutral = 1);
  /// The same rounds, all of them, in other units. Who wins a round must be as before.
  void restate(const std::vector<std::vector<std::optional<double>>>& rounds, double neutral);
  /// It failed, and is no longer run.
  void give_up(std::size_t candidate);

  /// `better` and `worse` follow from the interval at any time, whether or not next() was asked since.
  standing of(std::size_t candidate) const;
  /// The one that was chosen, if the rounds since do not contradict.
  std::optional<std::size_t> winner() const;
  /// The highest median of those that are better, chosen or not.
  std::optional<std::size_t> leader() const;
  /// The figure to show: the median speed-up of all its rounds; of the chosen one, of those after the choice if they are enough.
  double middle(std::size_t candidate) const;
  /// The limits of its median speed-up. Each is wrong with a chance of at most `error`, the lower ones of all candidates
  /// together. Of the chosen one they include the figure that is shown.
  interval between(std::size_t candidate) const;
  /// How many it ran.
  std::size_t rounds(std::size_t candidate) const;
  std::size_t rounds_after_choice() const;
  /// How many rounds more would show that it is better, if it goes on to win as often; nullopt if that is no more than half of
  /// them, or would take over a thousand.
  std::optional<std::size_t> rounds_to_decide(std::size_t candidate) const;

 private:
  struct entry {
    std::vector<double> values;  ///< in the order of the rounds
    std::vector<double> sorted;
    interval limits;
    bool contradictory = false;  ///< no median is left that the bets have not rejected
    bool given_up = false;
    standing dropped = standing::in;
  };

  struct score {
    std::size_t rounds = 0, won = 0, lost = 0;
  };

  bool is_present(std::size_t c) const { return !entries_[c].given_up && entries_[c].dropped == standing::in; }
  bool is_better(std::size_t c) const { return entries_[c].limits.low > neutral_; }
  bool is_worse(std::size_t c) const { return entries_[c].limits.high < neutral_; }
  bool is_level(std::size_t c) const;
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
  std::size_t room(std::size_t runs_left, std::size_t candidates) const;
  bool choose_leader();
  void choose(std::size_t c);

  contest_rules rules_;
  wins_needed for_better_, for_worse_;
  double neutral_ = 1;
  std::vector<entry> entries_;
  std::vector<std::vector<std::optional<double>>> rounds_;
  std::optional<std::size_t> chosen_;
  std::size_t rounds_at_choice_ = 0;  ///< of the chosen one
};

/// How many rounds decide if one of so many candidates wins each of them; those after the choice included.
std::size_t fewest_rounds(std::size_t candidates, const contest_rules& rules = {});

/// A round's order of `n` runs, each order equally likely and independent of all rounds before. So under "no better" the chance
/// to win a round is at most one half whatever else the machine does and whenever: also if it keeps time with the rounds.
std::vector<std::size_t> random_order(std::size_t n, std::mt19937_64& bits);

}  // namespace usher::cli
