// What happened at one lock in the measured time: who came, who waited for how long, who got in, who held it. Whoever looks on
// costs no simulated time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "bench/metrics.hpp"
#include "sim/machine.hpp"
#include "sim/runtime.hpp"
#include "sim/waiting_line.hpp"

namespace usher::sim {

using workloads::durations;

class meter : public observer {
 public:
  meter(const machine& m, unsigned threads, cycles begin, cycles end);

  /// Threads of two kinds, told before anybody comes: overtakings are also counted among those of one.
  void kinds(std::vector<bool> is_one_of_some) { is_one_of_some_ = std::move(is_one_of_some); }

  void watch(const void* lock) { lock_ = lock; }
  bool watches(const void* lock) const { return lock == lock_; }

  // ---- from around the lock ----
  void arrived(unsigned thread, cycles now);
  void admitted(unsigned thread, unsigned socket, cycles now);
  void released(cycles now);
  void has_unlocked(cycles began, cycles now) {
    if (measured(now)) unlocks_.push_back(now - began);
  }

  // ---- from within: the thread has its place in the order; not every lock says so ----
  void doorway(const void* lock, unsigned thread, cycles now) override;
  void leader_too_late(cycles now) override { leaders_too_late_ += measured(now) ? 1 : 0; }

  // ---- afterwards ----

  const std::vector<std::uint16_t>& history() const { return history_; }
  std::uint64_t between_sockets() const { return between_sockets_; }
  /// Admissions while somebody waited who had come 5 µs earlier or more: a doorway takes its time, and who begins it first need not be
  /// first.
  std::uint64_t bypasses() const { return bypasses_; }
  /// Of those, of somebody of the same kind.
  std::uint64_t bypasses_among(bool some) const { return bypasses_among_[some ? 1 : 0]; }
  /// Leaders of groups who had to queue up behind another regular (MCSg, Fig 9).
  std::uint64_t leaders_too_late() const { return leaders_too_late_; }
  /// Of these threads. Includes what those have waited who were not in at the end: a lower bound of the longest.
  durations waits(const std::function<bool(unsigned)>& of) const;
  durations holds() const { return of(holds_); }
  /// What unlock() takes.
  durations unlocks() const { return of(unlocks_); }
  /// From the beginning of unlock() to the next admission, where somebody waits.
  durations hand_overs() const { return of(hand_overs_); }
  unsigned waiting_at_end(const std::function<bool(unsigned)>& of) const;
  /// Admissions of threads that came when nobody held the lock, and were the next to get in.
  std::uint64_t found_free() const { return found_free_; }
  /// Part of the measured time in which the lock was held.
  double utilisation() const;

 private:
  static constexpr cycles nobody = waiting_line::nobody;

  void count_bypass(unsigned thread, cycles order);
  unsigned kind_of(unsigned thread) const { return thread < is_one_of_some_.size() && is_one_of_some_[thread] ? 1 : 0; }
  durations of(std::vector<std::uint64_t> cycles) const;  // a copy: finding percentiles reorders
  bool measured(cycles t) const { return t > begin_ && t <= end_; }

  struct visitor {
    cycles arrived = nobody, order = nobody;
  };

  const machine& machine_;
  const cycles begin_, end_, order_known_;
  const void* lock_ = nullptr;
  std::vector<visitor> visitors_;
  std::vector<bool> is_one_of_some_;
  waiting_line by_coming_;                ///< all who wait
  std::array<waiting_line, 2> by_order_;  ///< those of each kind
  unsigned last_socket_ = 0;
  cycles held_since_ = 0, held_ = 0, free_since_ = 0;
  std::uint64_t between_sockets_ = 0, bypasses_ = 0, found_free_ = 0, leaders_too_late_ = 0;
  std::array<std::uint64_t, 2> bypasses_among_{};
  std::vector<std::uint16_t> history_;
  std::vector<std::uint64_t> waits_;  // of each admission
  std::vector<std::uint64_t> holds_, unlocks_, hand_overs_;
  std::vector<std::pair<unsigned, cycles>> late_;  // who got in after the end, and when it had come
};

}  // namespace usher::sim
