// The provenance of a measurement: machine, compiler, commit, date, and the share of the CPU time that other processes
// took.
#pragma once

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

/// The commit that the program was built from; defined in a source file that the build writes.
extern const char* const workloads_commit;

namespace usher::support {

/// The value of the first line `key : value` of a file; empty when there is none.
inline std::string colon_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.compare(0, key.size(), key) != 0 || colon == line.npos) continue;
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == line.npos ? "" : line.substr(first);
  }
  return "";
}

inline std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

/// Seconds since 1970 as "2031-01-02T03:04:05Z".
inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

inline nlohmann::json machine() {
  utsname system{};
  uname(&system);
  return {{"cpu", colon_value("/proc/cpuinfo", "model name")},
          {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
          {"hypervisor", colon_value("/proc/cpuinfo", "flags").find(" hypervisor") != std::string::npos},
          {"kernel", std::string(system.sysname) + " " + system.release},
          {"architecture", system.machine}};
}

inline double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}
inline double cpu_seconds(const rusage& usage) {
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

/// The CPU time of all CPUs since the start of the machine, in seconds, from /proc/stat.
struct cpu_times {
  double busy = 0, total = 0;

  static cpu_times now() {
    std::ifstream in("/proc/stat");
    std::string name;
    in >> name;
    // The columns are user nice system idle iowait irq softirq steal. `user` already includes the time of guests.
    double ticks[8] = {};
    for (double& t : ticks) in >> t;
    cpu_times times;
    for (const double t : ticks) times.total += t;
    times.busy = times.total - ticks[3] - ticks[4];
    const auto rate = static_cast<double>(sysconf(_SC_CLK_TCK));
    times.total /= rate;
    times.busy /= rate;
    return times;
  }
};

/// The share of the CPU time between two readings that was neither idle nor `ours`, the seconds that this program used.
inline double others_share(const cpu_times& before, const cpu_times& after, double ours) {
  const double total = after.total - before.total;
  return total > 0 ? std::clamp((after.busy - before.busy - ours) / total, 0.0, 1.0) : 0.0;
}

}  // namespace usher::support
