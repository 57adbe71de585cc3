// The executables that carry out some subcommands, and the reason why one of them is missing.
#pragma once

#include <string>

namespace usher::support {

/// An executable that is an optional part of a build of Usher.
struct component {
  const char* executable;
  const char* option;  ///< of the build
  bool is_built;       ///< with this command
  const char* needs;
  const char* packages;               ///< Debian packages that contain them
  const char* own_package = nullptr;  ///< the package of a release that has the executable, if not the command's
};

extern const component simulator, recorder, checker;

/// Returns an error message without a full stop: whether the component was not built or is not installed, and how to
/// get it.
std::string why_missing(const component& c);

}  // namespace usher::support
