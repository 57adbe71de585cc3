#include "support/process/preload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "library/catalog/read_write_names.hpp"
#include "support/command/lock_facts.hpp"
#include "support/process/library_names.hpp"
#include "support/process/near.hpp"
#include "support/text/words.hpp"

namespace usher::support {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view companion_name = "libusher-stat.so";

/// The loader splits LD_PRELOAD at spaces and colons and expands $LIB and the like; there is no quoting.
bool can_be_preloaded(const std::string& path) {
  return path.find_first_of(" :$") == std::string::npos;
}

bool is_companion(std::string_view entry) {
  return file_name(entry) == companion_name;
}

/// Whether an entry of LD_PRELOAD is a copy of Usher's library or of its companion. Two copies must not be loaded,
/// since the first would take the functions of the second for the C library's.
bool is_ours(std::string_view entry, const std::string& library) {
  const std::string_view name = file_name(entry);
  if (is_library_name(name) || is_companion(entry)) return true;
  std::error_code none;
  return entry == library || fs::equivalent(fs::path(entry), library, none) ||
         is_library_name(fs::canonical(entry, none).filename().native());
}

/// The name of a lock that libusher.so lacks; empty if it has both.
std::string_view unusual_one(const wanted_locks& wanted) {
  if (wanted.mutex != nullptr && is_unusual(wanted.mutex->family)) return wanted.mutex->name;
  return is_unusual_read_write_lock(wanted.rwlock) ? wanted.rwlock : std::string_view();
}

/// A file of this name beside the library, or beside the file to which the library's path leads; empty if there is none.
fs::path beside(const std::string& library, std::string_view name) {
  std::error_code none;
  for (const fs::path& there : {fs::path(library), fs::canonical(library, none)})
    if (fs::path file = there.parent_path() / name; is_file(file)) return file;
  return {};
}

/// Whether the library is libusher.so, which has the usual locks only. One of another name is used for all locks.
bool has_usual_only(const std::string& library) {
  std::error_code none;
  return file_name(library) == library_name || fs::canonical(library, none).filename() == library_name;
}

/// The ELF data of a library that can be preloaded; else the reason.
std::variant<elf_target, no_library> check(const std::string& path) {
  if (!can_be_preloaded(path))
    return no_library{
        fmt::format("LD_PRELOAD cannot hold a path with a space, a colon or a dollar sign: move {} to a path "
                    "without, or name a link to it in USHER_LIBRARY",
                    path)};
  const auto elf = read_elf(path);
  if (!elf) return no_library{fmt::format("{} cannot be read or is no library", path)};
  return elf->target;
}

/// The entries of LD_PRELOAD.
std::vector<std::string_view> entries(std::string_view list) {
  return parts_of(list, " :");
}

}  // namespace

bool is_sanitizer_runtime(std::string_view path) {
  static constexpr std::array prefixes = {"libasan.so",   "libtsan.so", "liblsan.so",  "libubsan.so",
                                          "libhwasan.so", "libmsan.so", "libclang_rt."};
  const std::string_view name = file_name(path);
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return name.starts_with(p); });
}

const std::string& preload_library::with(const wanted_locks& wanted) const {
  return unusual_one(wanted).empty() ? path : full;
}

std::variant<preload_library, no_library> find_library(const wanted_locks& run) {
  auto found = find_library(std::span(&run, 1));
  if (auto* const library = std::get_if<preload_library>(&found)) library->path = library->with(run);
  return found;
}

std::variant<preload_library, no_library> find_library(std::span<const wanted_locks> runs) {
  fs::path found;
  if (const std::string named = environment("USHER_LIBRARY"); !named.empty()) {
    // The path is made absolute, because the program may change its directory. Symbolic links are not resolved: a link
    // can give the library a path without spaces.
    found = fs::absolute(named);
    if (!is_file(found)) return no_library{fmt::format("USHER_LIBRARY names no file: {}", named)};
  } else {
    const fs::path self = own_path();
    if (self.empty())
      return no_library{"cannot tell where this program is, to find libusher.so: name it in USHER_LIBRARY"};
    found = library_near_us(library_name.data());
    if (found.empty())
      return no_library{fmt::format("cannot find libusher.so near {}: name it in USHER_LIBRARY", self.native())};
  }

  preload_library library{found.native(), {}, {}};
  const auto usual = check(library.path);
  if (const auto* none = std::get_if<no_library>(&usual)) return *none;
  library.target = std::get<elf_target>(usual);
  const auto other = std::find_if(runs.begin(), runs.end(), [](const auto& run) { return !unusual_one(run).empty(); });
  if (other == runs.end()) return library;
  library.full = has_usual_only(library.path) ? beside(library.path, full_library_name).native() : library.path;
  if (library.full.empty())
    return no_library{
        fmt::format("{} is not among the locks of {}, and libusher-all.so, which has it, is missing there",
                    unusual_one(*other), library.path)};
  const auto full = check(library.full);
  if (const auto* none = std::get_if<no_library>(&full)) return *none;
  return library;
}

std::string companion_of(const std::string& library) {
  const fs::path file = beside(library, companion_name);
  return can_be_preloaded(file.native()) ? file.native() : "";
}

bool has_usher(std::string_view preload, const std::string& library) {
  const auto all = entries(preload);
  return std::any_of(all.begin(), all.end(), [&](std::string_view e) { return is_ours(e, library); });
}

std::string without_usher(std::string_view existing, const std::string& library) {
  std::string list;
  for (const auto& entry : entries(existing))
    if (!is_ours(entry, library)) list.append(list.empty() ? "" : ":").append(entry);
  return list;
}

std::string preload_list(std::string_view existing, const std::string& library, bool with_companion) {
  std::vector<std::string_view> sanitizers;
  std::vector<std::string_view> others;
  for (const auto& entry : entries(existing)) {
    with_companion = with_companion || is_companion(entry);
    if (is_ours(entry, library)) continue;
    (is_sanitizer_runtime(entry) ? sanitizers : others).push_back(entry);
  }
  std::string list;
  for (const auto& entry : sanitizers) list.append(entry).append(":");
  list += library;
  if (const std::string companion = with_companion ? companion_of(library) : ""; !companion.empty())
    list.append(":").append(companion);
  for (const auto& entry : others) list.append(":").append(entry);
  return list;
}

}  // namespace usher::support
