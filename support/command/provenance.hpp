// Place, date and version of a result, in the form that all result files of this tree have.
#pragma once

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <string>

#include "support/measure/host.hpp"
#include "support/process/this_computer.hpp"

namespace usher::support {

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

}  // namespace usher::support
