#include "support/process/running_process.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "support/process/files.hpp"

namespace usher::cli {
namespace {

constexpr std::string_view deleted = " (deleted)";  // the kernel appends it

std::string user_name(uid_t id) {
  const passwd* const known = getpwuid(id);
  return known != nullptr ? known->pw_name : fmt::format("number {}", id);
}

}  // namespace

mapping read_mapping(const std::string& line) {
  std::istringstream words(line);
  std::string device, inode;
  char dash = '-';
  mapping m{};
  words >> std::hex >> m.range.begin >> dash >> m.range.end >> m.rights >> m.offset >> device >> inode >> std::ws;
  std::getline(words, m.path);
  return m;
}

std::string status_field(const std::string& process, std::string_view name) {
  std::ifstream in("/proc/" + process + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
      const std::size_t from = line.find_first_not_of(" \t", name.size() + 1);
      return from == std::string::npos ? "" : line.substr(from);
    }
  return "";
}

std::string name_of_process(pid_t pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return name;
}

std::string refusal(pid_t pid) {
  const std::string name = name_of_process(pid);
  const std::string process =
      fmt::format("process {}{} may not be looked into", pid, name.empty() ? "" : " (" + name + ")");
  if (geteuid() == 0) return process + ", not even by root here";
  unsigned owner = 0;
  std::istringstream ids(status_field(std::to_string(pid), "Uid"));
  if (!(ids >> owner)) return process + ": try as its user, or as root";
  if (owner == getuid()) return process + ": try as root";
  return fmt::format("{}: it is user {}'s; try as that user, or as root", process, user_name(owner));
}

std::optional<loaded_library> library_of(pid_t pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  std::optional<loaded_library> found;
  std::string mapped_as;
  bool has_code = false;
  for (std::string line; std::getline(maps, line);) {
    const mapping m = read_mapping(line);
    if (!found && m.offset == 0 && file_name(m.path).starts_with("libusher.so")) {
      mapped_as = m.path;
      found = loaded_library{m.range.begin, m.path, m.path.ends_with(deleted), {}};
      if (found->is_deleted) found->path.resize(m.path.size() - deleted.size());
    }
    if (!found || m.path != mapped_as) continue;
    if (m.rights.starts_with("rw")) found->data.push_back(m.range);
    has_code = has_code || m.rights.find('x') != std::string::npos;
  }
  // A file without mapped code is not loaded: if code may not be mapped (noexec, NoExecPaths=), the loader fails and
  // may leave the file's first part mapped.
  return has_code ? found : std::nullopt;
}

std::string path_in(pid_t pid, const std::string& path) {
  return fmt::format("/proc/{}/root{}", pid, path);
}

}  // namespace usher::cli
