// A team of threads that work for a time or for a number of operations, with counts of their operations.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

namespace workloads {

/// The limit of a team's work: the operations of all threads together or, if `operations` is 0, the time.
struct budget {
  long operations = 0;
  double seconds = 2;
};

struct team_result {
  long operations = 0;
  double seconds = 0;
  double rate() const { return seconds > 0 ? static_cast<double>(operations) / seconds : 0; }
};

/// Limits one worker: another() returns whether the worker is to do one more operation.
class allowance {
 public:
  allowance(long operations, const std::atomic<bool>& stop) : left_(operations), stop_(stop) {}
  bool another() {
    if (stop_.load(std::memory_order_relaxed) || left_ == 0) return false;
    --left_;
    ++done_;
    return true;
  }
  long done() const { return done_; }

 private:
  long left_;
  long done_ = 0;
  const std::atomic<bool>& stop_;
};

/// Runs `work(index, allowance)` in `threads` threads that start together. Uses no pthread object to wait, so that only
/// the program's own locks are measured and tested.
inline team_result run_team(long threads, const budget& limit,
                            const std::function<void(long index, allowance&)>& work) {
  using clock = std::chrono::steady_clock;
  std::atomic<bool> stop{false};
  std::atomic<long> total{0};
  std::latch ready(threads + 1);
  std::vector<std::thread> team;
  team.reserve(static_cast<std::size_t>(threads));
  for (long i = 0; i < threads; ++i) {
    const long share = limit.operations / threads + (i < limit.operations % threads ? 1 : 0);
    team.emplace_back([&, i, share] {
      allowance mine(limit.operations > 0 ? share : -1, stop);
      ready.arrive_and_wait();
      work(i, mine);
      total.fetch_add(mine.done(), std::memory_order_relaxed);
    });
  }
  ready.arrive_and_wait();
  const clock::time_point start = clock::now();
  if (limit.operations == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(limit.seconds));  // the measured time
    stop.store(true, std::memory_order_relaxed);
  }
  for (std::thread& t : team) t.join();
  return {total.load(), std::chrono::duration<double>(clock::now() - start).count()};
}

/// xorshift64*: small, and the same on every C library.
class random_source {
 public:
  explicit random_source(unsigned long seed) : state_(seed * 0x9e3779b97f4a7c15UL + 1) {}
  unsigned long next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dUL;
  }
  /// Uniform in [0, bound). The bias of a 32-bit bound is below one in four billion.
  unsigned long below(unsigned long bound) { return ((next() >> 32) * bound) >> 32; }

 private:
  unsigned long state_;
};

}  // namespace workloads
