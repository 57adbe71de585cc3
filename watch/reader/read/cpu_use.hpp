// Parses the kernel's files on the use of CPUs: /proc/PID/stat, /proc/PID/task/TID/schedstat, the quotas of a control
// group.
//
// The attacker is the recorded process: it chooses its name, which is a part of /proc/PID/stat, and perhaps the names
// of its control groups. So the parsers accept any bytes, and a group's path with ".." is refused.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "watch/reader/read/stat_report.hpp"

namespace usher::reader {

/// Fields of /proc/PID/stat or /proc/PID/task/TID/stat. Times are in clock ticks.
struct process_times {
  char state = '?';
  std::uint64_t own = 0;       ///< user and system time of all its threads, including ended ones
  std::uint64_t children = 0;  ///< of ended children that were waited for
  std::uint64_t started = 0;   ///< since boot
};
std::optional<process_times> parse_times(std::string_view text);

/// A thread's line of /proc/PID/task/TID/schedstat.
struct schedule_times {
  std::uint64_t ran = 0, waited = 0;  ///< ns; `waited`: ready to run, without a CPU
  std::uint64_t runs = 0;             ///< how often it got a CPU
};
std::optional<schedule_times> parse_schedule(std::string_view text);

/// The number of CPUs that a control group's cpu.max permits ("150000 100000"); nullopt: no limit, or unreadable.
std::optional<double> parse_quota(std::string_view text);

/// The path of a process's group in the text of /proc/PID/cgroup: of version 2 ("0::/a/b") if `controller` is empty,
/// else of this controller of version 1 ("4:cpu,cpuacct:/a"). Empty: not found, or the path has "..".
std::string_view group_of(std::string_view text, std::string_view controller);

/// The number of CPUs that the process may use, by the affinities of these threads and its control groups; nullopt: the
/// threads have ended. The first thread does not suffice: a program may pin each thread to a CPU. At most some hundreds
/// of threads are read.
std::optional<double> usable_cpus(pid_t pid, std::span<const pid_t> threads);

/// "used 1.9 of 2 CPUs; 3.2 threads on average were ready and waited for one"; empty: not known.
std::string cpu_text(const report& r);

}  // namespace usher::reader
