// Usher's library in a process that runs, as /proc shows it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace usher::cli {

struct address_range {
  std::uint64_t begin, end;
};

struct loaded_library {
  std::uint64_t begin = 0;  ///< where its file's first byte is mapped
  std::string path;         ///< as the process sees it
  bool is_deleted = false;  ///< since: what has that path now, if anything, is another file
  std::vector<address_range> data;
};

/// Our library in a process, by its name, with its code. Nothing, too, where the maps may not be read.
std::optional<loaded_library> library_of(pid_t pid);

/// A file that the process has by that path, as we see it.
std::string path_in(pid_t pid, const std::string& path);

}  // namespace usher::cli
