// A point of a figure: one run of a benchmark program on this computer, and its results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/bench/programs/program.hpp"
#include "support/measure/metrics.hpp"

namespace usher::bench {

struct point {
  std::string workload, lock;
  unsigned threads = 1;
  std::uint64_t seed = 1;  ///< of the threads' generators
  std::map<std::string, long> parameters;
  std::uint64_t run_ns = 1000000000;
  bool pinned = false;  ///< pins each thread to a CPU, by the program's placement
};

using support::group;

struct result {
  std::string lock;       ///< the lock's name; for pthread locks under a preloaded libusher.so, also the library's lock
  double seconds = 0;     ///< measured
  double throughput = 0;  ///< operations a microsecond, all threads
  std::vector<std::uint64_t> operations;  ///< of each thread
  std::vector<unsigned> sockets;          ///< of each thread, if it is pinned
  std::optional<bool> exclusive;          ///< the lock admitted one thread at a time; nullopt: the program cannot tell
  bool metered = false;
  support::durations holds;
  double utilisation = 0;  ///< part of the time in which the lock was held
  std::vector<group> groups;
  std::uint64_t voluntary = 0, involuntary = 0;  ///< context switches
  double cpus_used = 0;
  double others = 0;  ///< part of the machine's CPU time that other processes took
  double cpu_seconds = 0;
};

/// The programs that can be run.
std::span<const workloads::description> programs();

/// Throws std::runtime_error with a message of one line if the point cannot be run: an unknown program or lock, a
/// parameter out of bounds.
void check_point(const point& p);

/// Runs the point in this process, which should do nothing else: its CPU time and context switches count as the
/// program's. Does not return if the lock hangs. Throws the exceptions of check_point(), workloads::bad_program, and
/// the first exception of a thread.
result run_point(const point& p);

}  // namespace usher::bench
