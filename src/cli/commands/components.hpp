// The executables that carry out some subcommands, and why one of them is not there.
#pragma once

#include <string>

namespace usher::cli {

/// An executable that a build of Usher has or has not.
struct component {
  const char* executable;
  const char* option;  ///< of the build
  bool is_built;       ///< with this command
  const char* needs;
  const char* packages;  ///< Debian's, for what it needs
};

extern const component simulator, recorder, checker;

/// For people, without a full stop: whether it was left out of the build or lost since, and how to get it.
std::string why_missing(const component& c);

}  // namespace usher::cli
