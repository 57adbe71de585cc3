#include "support/process/running_process.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "support/process/files.hpp"
#include "support/process/library_names.hpp"

namespace usher::support {
namespace {

constexpr std::string_view deleted = " (deleted)";  // the kernel appends it

std::string user_name(uid_t id) {
  const passwd* const known = getpwuid(id);
  return known != nullptr ? known->pw_name : fmt::format("number {}", id);
}

/// Takes the next word off the text; empty if there is none.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  text.remove_prefix(word.size());
  return word;
}

bool is_hexadecimal(std::string_view word, std::uint64_t& to) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), to, 16);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace

std::optional<mapping> read_mapping(std::string_view line) {
  mapping m;
  line = line.substr(0, line.find('\n'));
  const std::string_view range = next_word(line), rights = next_word(line), offset = next_word(line);
  next_word(line);  // device
  const std::string_view inode = next_word(line);
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos || rights.size() < 3 || !is_hexadecimal(range.substr(0, dash), m.range.begin) ||
      !is_hexadecimal(range.substr(dash + 1), m.range.end) || m.range.begin >= m.range.end ||
      !is_hexadecimal(offset, m.offset) || inode.empty())
    return std::nullopt;
  m.rights.assign(rights);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  m.path.assign(line);
  m.is_of_file = line.starts_with('/') && inode != "0";
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

bool is_library_file(std::string_view path) {
  if (path.ends_with(deleted)) path.remove_suffix(deleted.size());
  return is_library_name(file_name(path));
}

std::optional<loaded_library> library_of(pid_t pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  std::optional<loaded_library> found;
  std::string mapped_as;
  bool has_code = false;
  for (std::string line; std::getline(maps, line);) {
    const auto m = read_mapping(line);
    if (!m) continue;
    if (!found && m->offset == 0 && is_library_file(m->path)) {
      mapped_as = m->path;
      found = loaded_library{m->range.begin, mapped_as, m->path.ends_with(deleted), {}};
      if (found->is_deleted) found->path.resize(m->path.size() - deleted.size());
    }
    if (!found || m->path != mapped_as) continue;
    if (m->rights.starts_with("rw")) found->data.push_back(m->range);
    has_code = has_code || m->rights[2] == 'x';
  }
  // A file without mapped code is not loaded: if code may not be mapped (noexec, NoExecPaths=), the loader fails and
  // may leave the file's first part mapped.
  return has_code ? found : std::nullopt;
}

std::string path_in(pid_t pid, const std::string& path) {
  return fmt::format("/proc/{}/root{}", pid, path);
}

}  // namespace usher::support
