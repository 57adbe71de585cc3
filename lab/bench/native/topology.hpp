// The CPUs of this computer, and the CPUs that a program's threads are pinned to.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "lab/bench/programs/program.hpp"

namespace usher::bench {

struct cpu {
  unsigned id = 0;
  unsigned socket = 0;           ///< counted from 0 on, without gaps
  unsigned core = 0;             ///< of the socket
  unsigned hardware_thread = 0;  ///< of the core
  bool operator==(const cpu&) const = default;
};

/// Reads the topology of these CPUs from a folder like /sys/devices/system/cpu. A CPU without an entry counts as a core
/// of the first socket.
std::vector<cpu> cpus_of(const std::filesystem::path& folder, std::span<const unsigned> ids);

/// The CPUs that this process may use.
std::vector<cpu> usable_cpus();

/// A CPU for each thread, by the placement. If threads outnumber CPUs, several threads get the same CPU.
std::vector<cpu> places(std::vector<cpu> cpus, workloads::placement where, unsigned threads);

}  // namespace usher::bench
