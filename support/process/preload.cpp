#include "support/process/preload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "support/process/near.hpp"
#include "support/text/words.hpp"

namespace usher::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* library_name = "libusher.so";
constexpr const char* companion_name = "libusher-stat.so";

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
  if (name == library_name || name.starts_with("libusher.so.") || is_companion(entry)) return true;
  std::error_code none;
  return entry == library || fs::equivalent(fs::path(entry), library, none);
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

std::variant<preload_library, no_library> find_library() {
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
    found = library_near_us(library_name);
    if (found.empty())
      return no_library{fmt::format("cannot find libusher.so near {}: name it in USHER_LIBRARY", self.native())};
  }

  const std::string path = found.native();
  if (!can_be_preloaded(path))
    return no_library{
        fmt::format("LD_PRELOAD cannot hold a path with a space, a colon or a dollar sign: move {} to a path "
                    "without, or name a link to it in USHER_LIBRARY",
                    path)};
  const auto elf = read_elf(path);
  if (!elf) return no_library{fmt::format("{} cannot be read or is no library", path)};
  return preload_library{path, elf->target};
}

std::string companion_of(const std::string& library) {
  std::error_code none;
  for (const fs::path& beside : {fs::path(library), fs::canonical(library, none)})
    if (const fs::path file = beside.parent_path() / companion_name; is_file(file) && can_be_preloaded(file.native()))
      return file.native();
  return "";
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

}  // namespace usher::cli
