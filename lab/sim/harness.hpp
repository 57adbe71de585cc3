// A point of a figure: one run of a benchmark program on a simulated machine, and its results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/bench/programs/program.hpp"
#include "lab/sim/machine.hpp"
#include "lab/sim/meter.hpp"
#include "lab/sim/settings.hpp"
#include "lab/sim/trace.hpp"
#include "support/measure/metrics.hpp"

namespace usher::sim {

struct point : settings {
  std::string workload, lock;
  unsigned threads = 1;
  std::uint64_t seed = 1;
  std::map<std::string, long> parameters;
  std::uint64_t run_ns = 2000000;
  bool watch = true;  ///< also measure the lock: waits, holds, short-term fairness
};

/// Results of the threads of one kind.
struct group : support::group {
  std::uint64_t bypasses = 0;  ///< within the group
};

struct result {
  double throughput = 0;                   ///< operations a microsecond, all threads
  std::vector<std::uint64_t> operations;   ///< of each thread
  double first_half = 0, second_half = 0;  ///< throughput in each half of the measured time
  /// False if the throughputs of the two halves of the measured time differ by more than noise explains (settling.hpp),
  /// if a thread began within the measured time, or if, in a program with one lock whose threads share CPUs, a thread
  /// may still wait for its first turn on a CPU.
  bool settled = true;
  /// By thread: the socket of the CPU on which the thread is placed. If that CPU is busy when the thread begins, the
  /// thread may begin on an idle CPU elsewhere.
  std::vector<unsigned> sockets;
  // Counts of the program's lock, if the program has exactly one.
  std::uint64_t admissions = 0, between_sockets = 0, bypasses = 0, found_free = 0, leaders_too_late = 0;
  double working_set = 0, reacquire = 0, utilisation = 0;
  support::durations holds, unlocks, hand_overs;
  std::vector<group> groups;
  // of the measured time
  std::uint64_t voluntary = 0, involuntary = 0, migrations = 0;
  double cpus_used = 0, cpus_without_pipeline = 0;
  std::uint64_t writes = 0;  ///< stores and atomic read-modify-writes of words
  std::uint64_t loads = 0, private_hits = 0, misses = 0, own_displaced = 0, others_displaced = 0, tlb_misses = 0;
  // of the simulation
  std::uint64_t warm_up_ns = 0;  ///< before the measured time
  std::uint64_t events = 0, polls = 0;
  double cpu_seconds = 0;
};

/// The CPUs on which threads begin: "compact", "scattered", "even", "random" (each seed gives another order of all
/// CPUs), or a list of CPUs ("0,18,1..3"). Thread n begins on the n-th CPU of the order or list, modulo the number of
/// CPUs. A beginning thread is scheduled like a woken one: if its CPU is busy, it gets an idle CPU, unless threads are
/// pinned.
struct placing {
  std::optional<workloads::placement> where;
  bool random = false;
  std::vector<unsigned> cpus;
};

/// Throws std::runtime_error with a message of one line.
placing read_placement(const std::string& text);

/// The programs that can be run.
std::span<const workloads::description> programs();

/// Checks that the point can be run on the machine. Otherwise throws std::runtime_error with one line: an unknown
/// program or lock, a parameter out of bounds, more threads than the machine can run.
void check_point(const machine& m, const point& p);

/// Checks the point likewise, for a program that is not in the list.
void check_point(const machine& m, const point& p, const workloads::description& about);

/// Returns the default length of a run, long enough that its beginning does not dominate: 2 ms, or many time slices if
/// threads share CPUs (those of the machine or of their placement). Throws the exceptions of read_placement().
std::uint64_t usual_run_ns(const machine& m, const point& p);

/// Returns the default warm-up: at least a fifth of the measured time, and long enough for all threads to begin and to
/// have their first turns, for an average seed. If the seed lets the last thread begin later than that, the warm-up
/// lasts until this thread has begun and all threads have had time for their turns.
std::uint64_t usual_warm_up_ns(const point& p);

/// Runs the point. `by`: a trace that records the run, or null. Throws the exceptions of check_point(),
/// workloads::bad_program, deadlock.
result run_point(const machine& m, const point& p, trace* by = nullptr);

}  // namespace usher::sim
