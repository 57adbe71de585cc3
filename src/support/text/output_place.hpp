// The place that the name of an output file means: a folder, kept open, and a name in it.
//
// The attacker is a local user who may write a folder of the path, as /tmp, and puts there, before the command starts
// or while it runs: a symbolic link to a file or folder of ours, a hard link to a file of ours, a FIFO. If only root
// and we can make names in a folder, it is "private": links in it are followed and devices opened. Elsewhere a link
// at the end of the path is never followed, and one among its folders only if it is root's or ours, as Linux has it
// with fs.protected_symlinks.
#pragma once

#include <string>

#include "support/process/owned_descriptor.hpp"

namespace usher::cli {

struct output_place {
  owned_descriptor folder;
  std::string name;         ///< contains no slash
  bool is_private = false;  ///< only root and we can have made the name
  bool is_kernels = false;  ///< in /proc: a link there means an open file, which has perhaps no other name
};

/// Empty, or the reason why the path has no such place.
std::string find_place(const std::string& path, output_place& place);

}  // namespace usher::cli
