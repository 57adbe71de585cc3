// Benchmark programs on the simulated machine: what a point of a figure is, how it is run, what it says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/lock_table.hpp"
#include "sim/machine.hpp"
#include "sim/process.hpp"
#include "sim/random.hpp"
#include "sim/simulation.hpp"

namespace usher::sim {

/// Which CPU the n-th thread begins on.
enum class placement {
  scattered,  ///< round the sockets, every core's first strand before any second: as a scheduler spreads threads
  compact,    ///< socket after socket
};

struct parameter {
  const char* name;
  long value;  ///< unless another is asked for
  long least, most;
  const char* meaning;
};

struct point {
  std::string workload, lock;
  unsigned threads = 1;
  std::uint64_t seed = 1;
  std::map<std::string, long> parameters;
  std::uint64_t run_ns = 2000000;
  bool watch = true;  ///< admissions, too: fairness in the short term, waits
};

struct result {
  double throughput = 0;                  ///< operations a microsecond, all threads
  std::vector<std::uint64_t> operations;  ///< of each thread
  double gini = 0, relative_deviation = 0;
  // of the workload's one lock, if it has one
  double working_set = 0, reacquire = 0;
  std::uint64_t admissions = 0, between_sockets = 0, bypasses = 0;
  std::uint64_t wait_median_ns = 0, wait_99_ns = 0, wait_longest_ns = 0;
  // of the whole run
  std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
  std::uint64_t events = 0, looks = 0;
  double simulated_ms = 0, cpu_seconds = 0;
};

/// A lock of the catalogue in the run's memory, at the beginning of a sector of its own.
class bench_lock {
 public:
  bench_lock(const simulated_lock& table, arena& a);
  void lock() { table_->lock(state_); }
  void unlock() { table_->unlock(state_); }
  void lock_as_guest() { table_->lock_as_guest(state_); }
  const void* state() const { return state_; }

 private:
  const simulated_lock* table_;
  void* state_;
};

/// A run, as a workload's code sees it.
class bench {
 public:
  bench(machine m, const point& p, const simulated_lock& lock);

  simulation& sim() { return simulation_; }
  const point& asked() const { return point_; }
  long parameter(const char* name) const;
  const simulated_lock& table() const { return lock_; }
  /// A lock; the first is the one whose admissions are watched.
  bench_lock make_lock();

  /// Is the measured time over?
  bool over() { return simulation_.now() >= end_; }
  /// The calling thread has done one operation.
  void count() {
    const cycles now = simulation_.now();
    if (now > begin_ && now <= end_) operations_[simulation_.thread()]++;
  }

  // ---- what threads compute ----

  /// So many steps of a std::mt19937: 9 cycles each. (Measured for the prototype; twisting is spread over the steps.)
  void steps(std::uint64_t n) { simulation_.compute(n * 9); }
  std::uint32_t uniform(std::uint32_t n) { return n == 0 ? 0 : simulation_.chance().below(n); }

 private:
  friend result run_point(const machine&, const point&);

  struct watcher;

  point point_;
  const simulated_lock& lock_;
  simulation simulation_;
  process process_;
  cycles begin_, end_;
  std::vector<std::uint64_t> operations_;
  const void* watched_ = nullptr;
};

struct workload {
  const char* name;
  const char* summary;
  const char* source;  ///< paper, section
  std::vector<parameter> parameters;
  placement where;
  bool one_lock;  ///< whose admissions are of interest
  /// Called once for each run. Returns what each thread does, again and again, until the time is over.
  std::function<std::function<void()>(bench&)> make;
};

std::span<const workload> workloads();
const workload* find_workload(std::string_view name);

/// Whether the point can be run on the machine. Throws std::runtime_error, one line: an unknown workload or lock, a parameter
/// out of bounds, no room for so many threads.
void check_point(const machine& m, const point& p);

/// Throws what check_point() does; deadlock.
result run_point(const machine& m, const point& p);

}  // namespace usher::sim
