// Finds the place that the name of an output file means: a folder, kept open, and a name in it.
// The attacker is a local user who may write a folder of the path, such as /tmp. Before the command starts or while it
// runs, this user puts there a symbolic link to a file or folder of ours, a hard link to a file of ours, or a FIFO. A
// folder is "private" if only root and we can make names in it: there links are followed and devices opened. Elsewhere
// a link at the end of the path is never followed. A link among its folders is followed only if it is root's or ours,
// which is Linux's rule under fs.protected_symlinks.
#pragma once

#include <string>

#include "support/process/owned_descriptor.hpp"

namespace usher::support {

struct output_place {
  owned_descriptor folder;
  std::string name;         ///< contains no slash
  bool is_private = false;  ///< only root and we can have made the name
  bool is_kernels = false;  ///< in /proc: a link there means an open file, which has perhaps no other name
};

/// Sets `place`. Returns an empty text, or the reason why the path has no such place.
std::string find_place(const std::string& path, output_place& place);

}  // namespace usher::support
