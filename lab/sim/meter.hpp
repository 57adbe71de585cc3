// Measures one lock in the measured time: arrivals, waits, admissions, holds. The measurement takes no simulated time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "lab/sim/machine.hpp"
#include "lab/sim/runtime.hpp"
#include "lab/sim/waiting_line.hpp"
#include "support/measure/metrics.hpp"

namespace usher::sim {

using support::durations;

class meter : public observer {
 public:
  meter(const machine& m, unsigned threads, cycles begin, cycles end);

  /// Divides the threads into two kinds; bypasses are then also counted within each kind. To be called before the first
  /// arrival.
  void kinds(std::vector<bool> is_one_of_some) { is_one_of_some_ = std::move(is_one_of_some); }

  void watch(const void* lock) { lock_ = lock; }
  bool watches(const void* lock) const { return lock == lock_; }

  // ---- called by the program around lock() and unlock() ----
  void arrived(unsigned thread, cycles now);
  void admitted(unsigned thread, unsigned socket, cycles now);
  void released(cycles now);
  void has_unlocked(cycles began, cycles now) {
    if (measured(now)) unlocks_.push_back(now - began);
  }

  // ---- called from within the lock ----

  /// Records that the thread has its place in the order of admission. Only some locks report this.
  void doorway(const void* lock, unsigned thread, cycles now) override;
  void leader_too_late(cycles now) override { leaders_too_late_ += measured(now) ? 1 : 0; }

  // ---- results ----

  const std::vector<std::uint16_t>& history() const { return history_; }
  std::uint64_t between_sockets() const { return between_sockets_; }
  /// The number of admissions that bypassed a waiting thread which had arrived at least 5 µs earlier. Arrivals within 5
  /// µs count as simultaneous, because threads need not pass the doorway in the order in which they enter it.
  std::uint64_t bypasses() const { return bypasses_; }
  /// The number of admissions that bypassed a thread of the same kind.
  std::uint64_t bypasses_among(bool some) const { return bypasses_among_[some ? 1 : 0]; }
  /// The number of times that the leader of a group had to queue behind another group (MCSg, Fig 9).
  std::uint64_t leaders_too_late() const { return leaders_too_late_; }
  /// Returns the waits of the threads for which `of` is true. A thread that still waited at the end counts with its
  /// wait until then, so the longest wait is a lower bound.
  durations waits(const std::function<bool(unsigned)>& of) const;
  durations holds() const { return of(holds_); }
  /// Durations of unlock().
  durations unlocks() const { return of(unlocks_); }
  /// Returns the durations from the beginning of unlock() to the next admission, if a thread waited at its beginning.
  durations hand_overs() const { return of(hand_overs_); }
  unsigned waiting_at_end(const std::function<bool(unsigned)>& of) const;
  /// The number of admissions of threads that arrived while the lock was free and were the next to be admitted.
  std::uint64_t found_free() const { return found_free_; }
  /// The part of the measured time in which the lock was held.
  double utilisation() const;

 private:
  static constexpr cycles nobody = waiting_line::nobody;

  void count_bypass(unsigned thread, cycles order);
  unsigned kind_of(unsigned thread) const { return thread < is_one_of_some_.size() && is_one_of_some_[thread] ? 1 : 0; }
  durations of(std::vector<std::uint64_t> cycles) const;  // by value: percentile() reorders it
  bool measured(cycles t) const { return t > begin_ && t <= end_; }

  struct visitor {
    cycles arrived = nobody, order = nobody;
  };

  const machine& machine_;
  const cycles begin_, end_, order_known_;
  const void* lock_ = nullptr;
  std::vector<visitor> visitors_;
  std::vector<bool> is_one_of_some_;
  waiting_line by_arrival_;               ///< all waiting threads, by arrival
  std::array<waiting_line, 2> by_order_;  ///< those of each kind, by their place in the order of admission
  unsigned last_socket_ = 0;
  cycles held_since_ = 0, held_ = 0, free_since_ = 0;
  std::uint64_t between_sockets_ = 0, bypasses_ = 0, found_free_ = 0, leaders_too_late_ = 0;
  std::array<std::uint64_t, 2> bypasses_among_{};
  std::vector<std::uint16_t> history_;
  std::vector<std::uint64_t> waits_;  // of each admission
  std::vector<std::uint64_t> holds_, unlocks_, hand_overs_;
  std::vector<std::pair<unsigned, cycles>> late_;  // threads that were admitted after the end, and their arrivals
};

}  // namespace usher::sim
