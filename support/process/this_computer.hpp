// This computer and the present time, as text for results.
#pragma once

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>

namespace usher::support {

/// The kernel's name of the CPU without trademarks and the word "CPU".
inline std::string cpu_name() {
  std::string name;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; name.empty() && std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) name = line.substr(std::min(line.find(": ") + 2, line.size()));
  for (const char* dull : {"(R)", "(TM)", "(tm)", " CPU", " Processor"})
    if (const std::size_t at = name.find(dull); at != std::string::npos) name.erase(at, std::string(dull).size());
  utsname system{};
  if (name.empty() && uname(&system) == 0) name = system.machine;
  return name;
}

/// The number of CPUs that this process may run on.
inline unsigned usable_cpus() {
  cpu_set_t set;
  const long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<unsigned>(std::max(n, 1L));
}

/// The local time with minutes.
inline std::string now_in_words() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

}  // namespace usher::support
