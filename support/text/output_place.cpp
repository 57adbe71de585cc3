#include "support/text/output_place.hpp"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "support/text/words.hpp"

namespace usher::support {
namespace {

constexpr unsigned most_links = 40;  // as Linux has it

bool is_ours(uid_t owner) {
  return owner == 0 || owner == geteuid();
}

bool is_in_proc(int folder) {
  struct statfs s {};
  return fstatfs(folder, &s) == 0 && s.f_type == PROC_SUPER_MAGIC;
}

bool is_folder_at(const struct stat& folder, const char* path) {
  struct stat other {};
  return stat(path, &other) == 0 && other.st_dev == folder.st_dev && other.st_ino == folder.st_ino;
}

/// Whether only root and we can make names in the folder. / and /dev count as private even in a user namespace, where
/// their owner may have no id.
bool is_private(int folder) {
  struct stat s {};
  if (fstat(folder, &s) != 0) return false;
  return (is_ours(s.st_uid) && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0) || is_folder_at(s, "/") ||
         is_folder_at(s, "/dev");
}

/// Follows a path name by name. Each name is opened without following links and examined by its descriptor, so that it
/// cannot be exchanged between the two steps.
class path_walk {
 public:
  std::string run(const std::string& path, output_place& place) {
    if (path.back() == '/') return std::strerror(EISDIR);
    if (!begin(path)) return std::strerror(errno);
    while (!names_.empty()) {
      const std::string name = std::move(names_.back());
      names_.pop_back();
      const bool in_proc = is_in_proc(folder_.get());
      const bool private_folder = in_proc || is_private(folder_.get());
      owned_descriptor at = open_unfollowed(name);
      struct stat s {};
      const bool exists = at.is_open() && fstat(at.get(), &s) == 0;
      if (!exists && (errno != ENOENT || !names_.empty())) return std::strerror(errno);
      const bool is_link = exists && S_ISLNK(s.st_mode);
      if (names_.empty() && (in_proc || !is_link || !private_folder)) {
        place = {std::move(folder_), name, private_folder, in_proc};
        return "";
      }
      if (!is_link) {
        folder_ = std::move(at);
      } else if (in_proc) {
        folder_ = owned_descriptor(openat(folder_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!folder_.is_open()) return std::strerror(errno);
      } else if (!private_folder && !is_ours(s.st_uid)) {
        return "the symbolic link " + name + " in its path belongs to another user";
      } else if (!follow(at.get())) {
        return std::strerror(errno);
      }
    }
    return std::strerror(EISDIR);  // "." alone
  }

 private:
  bool begin(const std::string& path) {
    if (path.front() == '/' || !folder_.is_open())
      folder_ = owned_descriptor(open(path.front() == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto parts = parts_of(path, "/");
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      if (*part != ".") names_.emplace_back(*part);
    return folder_.is_open();
  }

  /// Opens a name without following links. Folders are opened with O_DIRECTORY, which makes the kernel mount a folder
  /// of an automounter.
  owned_descriptor open_unfollowed(const std::string& name) const {
    constexpr int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    const int folder = names_.empty() ? -1 : openat(folder_.get(), name.c_str(), flags | O_DIRECTORY);
    return owned_descriptor(folder >= 0 ? folder : openat(folder_.get(), name.c_str(), flags));
  }

  bool follow(int link) {
    char target[PATH_MAX];
    const ssize_t length = readlinkat(link, "", target, sizeof target);
    if (length <= 0 || length == sizeof target || ++links_ > most_links) {
      errno = length < 0 ? errno : ELOOP;
      return false;
    }
    return begin(std::string(target, static_cast<std::size_t>(length)));
  }

  owned_descriptor folder_;
  std::vector<std::string> names_;  // still to be followed, the next one last
  unsigned links_ = 0;
};

}  // namespace

std::string find_place(const std::string& path, output_place& place) {
  return path_walk().run(path, place);
}

}  // namespace usher::support
