// Place, date and version of a result, in the form that all result files of this tree have.
#pragma once

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <ctime>
#include <string>

#include "support/process/this_computer.hpp"

extern const char* const workloads_commit;  // of a source file that the build writes: cmake/commit.cmake

namespace usher::cli {

/// The commit that was built; "unknown" if the build was not from a repository.
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
