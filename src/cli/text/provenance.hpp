// Where, when and by what a result was made, for files that are read again: as other results of this tree say it.
#pragma once

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <ctime>
#include <string>

#include "cli/process/this_computer.hpp"

extern const char* const workloads_commit;  // of a source file that the build writes: cmake/commit.cmake

namespace usher::cli {

/// "unknown" where it was built from no repository.
inline std::string commit_of_build() {
  return workloads_commit;
}

/// "Linux 6.1.0"
inline std::string kernel_name() {
  utsname system{};
  return uname(&system) == 0 ? std::string(system.sysname) + " " + system.release : "";
}

/// "glibc 2.36"
inline std::string libc_name() {
  return std::string("glibc ") + gnu_get_libc_version();
}

/// "2026-11-22T22:42:31Z"
inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace usher::cli
