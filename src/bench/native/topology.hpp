// The CPUs of this computer, and which of them a program's threads are pinned to.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "bench/programs/program.hpp"

namespace usher::bench {

struct cpu {
  unsigned id = 0;
  unsigned socket = 0;           ///< counted from 0 on, without gaps
  unsigned core = 0;             ///< of the socket
  unsigned hardware_thread = 0;  ///< of the core
  bool operator==(const cpu&) const = default;
};

/// These CPUs as a folder like /sys/devices/system/cpu describes them. One of which nothing is said there is a core of the first
/// socket.
std::vector<cpu> cpus_of(const std::filesystem::path& folder, std::span<const unsigned> ids);

/// Those that this process may use.
std::vector<cpu> usable_cpus();

/// One CPU for each thread. Where there are more threads, CPUs get several in turn.
std::vector<cpu> places(std::vector<cpu> cpus, workloads::placement where, unsigned threads);

}  // namespace usher::bench
