// Decides whether a run had settled when it was measured, from the distribution of its operations over the measured
// time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace usher::sim {

/// Counts the operations in each of twenty equal parts of the measured time. The noise of the throughput is estimated
/// from the differences between the parts of a half (batch means; Law and Kelton, Simulation Modeling and Analysis).
/// The number of operations alone does not give the noise: operations under a queue lock are more regular than
/// independent ones, and those of threads that sleep come in bursts.
class settling {
 public:
  static constexpr unsigned parts = 20;

  settling(std::uint64_t time, unsigned threads)
      : threads_(threads), a_part_(std::max<std::uint64_t>(1, (time + parts - 1) / parts)) {}

  /// Counts an operation. `after`: its time since the beginning of the measured time, from 1 to the length of that
  /// time.
  void note(std::uint64_t after) {
    if (after - part_begin_ - 1 >= a_part_) [[unlikely]]  // also if this thread's clock is behind another's
      find(after);
    counts_[part_]++;
  }

  std::uint64_t first_half() const { return sum(0, parts / 2); }
  std::uint64_t second_half() const { return sum(parts / 2, parts); }

  /// Returns false in three cases: the throughputs of the halves differ by more than a tenth and by four standard
  /// errors; the throughputs before and after any other place differ by more than a tenth and by seven standard errors;
  /// or the operations are fewer than the threads, because then the whole run may be its beginning. The halves alone
  /// would not show a change of the lock's state in the middle of a half: it would count as noise.
  bool settled() const;

 private:
  /// A run with fewer operations than this, or than threads, has not settled. Chosen, not measured.
  static constexpr std::uint64_t fewest = 10;

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
