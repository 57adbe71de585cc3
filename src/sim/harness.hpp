// A point of a figure: one run of a benchmark program on a simulated machine, and what it says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/metrics.hpp"
#include "bench/programs/program.hpp"
#include "sim/machine.hpp"
#include "sim/meter.hpp"
#include "sim/trace.hpp"

namespace usher::sim {

struct point {
  std::string workload, lock;
  unsigned threads = 1;
  std::uint64_t seed = 1;
  std::map<std::string, long> parameters;
  std::uint64_t run_ns = 2000000;
  bool pinned = false;  ///< threads stay on their CPUs
  unsigned others =
      0;              ///< threads of other processes, each of which wants a CPU for a quarter of the time, 2 ms at once
  bool watch = true;  ///< the lock, too: fairness in the short term, waits
  std::optional<std::uint64_t> spin_ns;  ///< how long waiters that park spin first; else as the machine says
  std::string placement;  ///< where threads begin, as read_placement() takes it; empty: as the program has it
  bool together = false;  ///< all threads begin at once, as from a barrier; else as they are created, one by one
  std::optional<std::uint64_t> warm_up_ns;  ///< before what is measured; else usual_warm_up_ns()
};

/// What was seen of threads that do the same.
struct group : workloads::group {
  std::uint64_t bypasses = 0;  ///< of each other
};

struct result {
  double throughput = 0;                   ///< operations a microsecond, all threads
  std::vector<std::uint64_t> operations;   ///< of each thread
  double first_half = 0, second_half = 0;  ///< of the measured time: its throughput
  /// They differ by no more than chance explains, see settling.hpp; all threads had come; and where threads share CPUs, each had an
  /// operation (of programs with one lock).
  bool settled = true;
  std::vector<unsigned>
      sockets;  ///< of the CPU that is each thread's own at first; a late one may begin on an idle CPU
  // of the program's lock, if it has one
  std::uint64_t admissions = 0, between_sockets = 0, bypasses = 0, found_free = 0, leaders_too_late = 0;
  double working_set = 0, reacquire = 0, utilisation = 0;
  durations holds, unlocks, hand_overs;
  std::vector<group> groups;
  // of the measured time
  std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
  double cpus_used = 0, cpus_without_pipeline = 0;
  std::uint64_t loads = 0, private_hits = 0, misses = 0, own_displaced = 0, others_displaced = 0, tlb_misses = 0;
  // of the simulation
  std::uint64_t warm_up_ns = 0;  ///< before the measured time
  std::uint64_t events = 0, looks = 0;
  double cpu_seconds = 0;
};

/// "compact", "scattered", "even", or CPUs ("0,18,1..3"): the n-th of them is thread n's, and after the last comes the first again.
/// A thread begins as one that is woken: on an idle CPU if its own is not, unless threads stay on theirs.
struct placing {
  std::optional<workloads::placement> where;
  std::vector<unsigned> cpus;
};

/// Throws std::runtime_error, one line.
placing read_placement(const std::string& text);

/// What can be run.
std::span<const workloads::description> programs();

/// Whether the point can be run on the machine. Throws std::runtime_error, one line: an unknown program or lock, a parameter out of
/// bounds, no room for so many threads.
void check_point(const machine& m, const point& p);

/// How long a run must be to be told from how it began: 2 ms, or where threads share CPUs, the machine's or those of their placement,
/// many time slices. Throws what read_placement() does.
std::uint64_t usual_run_ns(const machine& m, const point& p);

/// What comes before the measured time where the point does not say: a fifth of it, and as long as threads take to come and have
/// their first turns: on the average, or where by the seed the last comes later, until it has had its own.
std::uint64_t usual_warm_up_ns(const point& p);

/// Throws what check_point() does, workloads::bad_program, deadlock. `by`: somebody who wants to know each step.
result run_point(const machine& m, const point& p, trace* by = nullptr);

}  // namespace usher::sim
