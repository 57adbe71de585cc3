// How operations are spread over the measured time: whether a run had settled when it was measured.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace usher::sim {

/// Operations in each of twenty equal parts of the measured time. The noise of a run's throughput is estimated from how much the parts of
/// a half differ (batch means; Law and Kelton, Simulation Modeling and Analysis): a queue lock's operations come more evenly than
/// independent ones would, those of threads that sleep come in bursts, so that the count alone does not say how far it is off.
class settling {
 public:
  static constexpr unsigned parts = 20;

  settling(std::uint64_t time, unsigned threads)
      : threads_(threads), a_part_(std::max<std::uint64_t>(1, (time + parts - 1) / parts)) {}

  /// An operation, so long after the measured time began: from 1 to its length.
  void note(std::uint64_t after) {
    if (after - part_begin_ - 1 >= a_part_) [[unlikely]]  // also where a thread's clock is behind another's
      find(after);
    counts_[part_]++;
  }

  std::uint64_t first_half() const { return sum(0, parts / 2); }
  std::uint64_t second_half() const { return sum(parts / 2, parts); }

  /// False if the halves differ by more than a tenth and by four standard errors; if there is another place where what comes before
  /// differs from what follows, by seven; or if there is too little to tell: less than an operation for each thread may be of a
  /// beginning that is longer than the run. Two halves alone would not show that a lock fell into another state in the middle
  /// of one: it would pass for noise.
  bool settled() const;

 private:
  static constexpr std::uint64_t fewest =
      10;  ///< operations of which anything can be told, and one for each thread. Chosen

  void find(std::uint64_t after) {
    part_ = unsigned((after - 1) / a_part_);
    part_begin_ = part_ * a_part_;
  }
  std::uint64_t sum(unsigned from, unsigned to) const;
  double squares(unsigned from, unsigned to) const;
  bool changes_at(unsigned part, double errors) const;

  unsigned threads_;
  std::uint64_t a_part_;
  unsigned part_ = 0;
  std::uint64_t part_begin_ = 0;
  std::array<std::uint64_t, parts> counts_{};
};

}  // namespace usher::sim
