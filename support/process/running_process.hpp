// Usher's library in a running process, as /proc shows it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace usher::support {

struct address_range {
  std::uint64_t begin, end;
};

/// A line of /proc/PID/maps.
struct mapping {
  address_range range{};
  std::string rights;  ///< "rw-p"
  std::uint64_t offset = 0;
  std::string path;         ///< or a name as "[stack]", or empty
  bool is_of_file = false;  ///< `path` is a file's
};
/// Parses a line of /proc/PID/maps. Nullopt if the line, up to its path, is not in the kernel's format, or if the range
/// is empty. The attacker is the process, which chooses the names of its files.
std::optional<mapping> read_mapping(std::string_view line);

struct loaded_library {
  std::uint64_t begin = 0;  ///< address of the first byte of its file
  std::string path;         ///< as the process sees it
  bool is_deleted = false;  ///< the path is now that of another file or of none
  std::vector<address_range> data;
};

/// Whether a path of a mapping is that of Usher's library, which may have been deleted since.
bool is_library_file(std::string_view path);

/// Finds Usher's library in a process, by its name; its code must be mapped. Nullopt if it is not there or the maps may
/// not be read.
std::optional<loaded_library> library_of(pid_t pid);

/// A field of /proc/PID/status; empty if there is none. `process`: a number, or "self".
std::string status_field(const std::string& process, std::string_view name);

std::string name_of_process(pid_t pid);

/// The message for a process that /proc does not show to this user. It names the users that may look into the process.
std::string refusal(pid_t pid);

/// Returns the path by which this process reaches the file that has the path `path` in the other process.
std::string path_in(pid_t pid, const std::string& path);

}  // namespace usher::support
