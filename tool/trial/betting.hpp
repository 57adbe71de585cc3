// Testing by betting on signs: is one thing better than another more often than not?
//
// A bettor starts with 1 and bets on wins, round by round. If a win is at most as likely as a loss, whatever has
// happened before, no strategy makes money on average: the wealth is a non-negative supermartingale, and by Ville's
// inequality the chance that it *ever* reaches F is at most 1/F. The test may therefore be examined after each round
// and stopped at any time; a wealth of F is evidence at the level 1/F. (Shafer, "Testing by betting", J. R. Stat. Soc.
// A 184, 2021; Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe anytime-valid inference", Stat.
// Sci. 38, 2023.)
//
// The strategy: a bettor who is sure that a win has the chance p multiplies the stake by 2p at a win and by 2(1 - p) at
// a loss. The stake is spread over all p between 1/2 and 1, with a density in proportion to p^11. That prior was
// chosen, before any data, for trials of 5 to 40 rounds: five wins in a row make more than 20; seven make more than 80,
// which is 20 for each of four candidates, and so do twelve rounds with one loss and sixteen with two. (Instead of 7,
// 12 and 16 rounds, an even spread needs 9, 13 and 17; half of the stake on p = 1 and half spread evenly needs 8, 15
// and 18.)
#pragma once

#include <cstddef>
#include <vector>

namespace usher::tool {

/// The wealth after `tosses` rounds with `wins` wins.
double wealth(std::size_t wins, std::size_t tosses);

/// Computes how many tosses must be won to multiply the stake by a factor.
class wins_needed {
 public:
  explicit wins_needed(double factor);

  /// The fewest wins that suffice in so many tosses; more than `tosses` if winning all of them does not suffice.
  std::size_t of(std::size_t tosses) const;

 private:
  static constexpr std::size_t known_beforehand = 64;

  void find_next() const;

  double factor_;
  mutable std::vector<std::size_t> known_;  ///< by number of tosses
};

}  // namespace usher::tool
