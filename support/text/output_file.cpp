#include "support/text/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "support/text/messages.hpp"

namespace usher::support {
namespace {

std::string path_of(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

/// A name that another user cannot predict.
std::string random_name() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return "";
  return fmt::format(".usher-{:016x}", number);
}

/// Whether the error means that the file system has no files without a name. NFS and FUSE are such file systems.
bool needs_name(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOENT;
}

/// A new file in the folder. It has no name, if the file system allows that, so that a killed command leaves no file
/// behind.
struct new_file {
  owned_descriptor descriptor;
  std::string name;  ///< empty: it has none yet

  bool create(int folder, bool with_name) {
    if (!with_name) {
      descriptor = owned_descriptor(openat(folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
      if (descriptor.is_open() || !needs_name(errno)) return descriptor.is_open();
    }
    name = random_name();
    descriptor =
        owned_descriptor(openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!descriptor.is_open()) name.clear();
    return descriptor.is_open();
  }

  bool get_name(int folder) {
    if (!name.empty()) return true;
    const std::string wanted = random_name();
    if (linkat(AT_FDCWD, path_of(descriptor.get()).c_str(), folder, wanted.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return false;
    name = wanted;
    return true;
  }

  void remove(int folder) {
    const int error = errno;
    if (!name.empty()) unlinkat(folder, name.c_str(), 0);
    errno = error;
  }
};

/// Writes the file's data to the disk: some file systems report a full disk or an exceeded quota only then.
bool reaches_the_disk(int descriptor) {
  return fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS || errno == ENOSYS;
}

/// Copies the permissions of the replaced file, if it is ours and has only this name. If the new file cannot get the
/// old one's group, the permissions of the group are removed, because they would be given to another group.
void take_permissions(int descriptor, const struct stat& old) {
  if (!S_ISREG(old.st_mode) || old.st_uid != geteuid() || old.st_nlink != 1) return;
  struct stat now {};
  mode_t mode = old.st_mode & 0777;
  if (fstat(descriptor, &now) != 0) return;
  if (now.st_gid != old.st_gid && fchown(descriptor, static_cast<uid_t>(-1), old.st_gid) != 0) mode &= ~mode_t{S_IRWXG};
  fchmod(descriptor, mode);
}

bool is_same_content(const std::optional<struct stat>& a, const std::optional<struct stat>& b) {
  return a && b && a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

}  // namespace

bool output_file::failed(const std::string& reason) const {
  report_error("cannot write to {}: {}", name_, reason);
  return false;
}

/// A duplicate of a descriptor of this process, if the place names a writable one: /dev/stdout, /dev/fd/3. So the text
/// is appended to the output of other writers and overwrites nothing.
owned_descriptor output_file::own_descriptor() const {
  struct stat folder {
  }, ours{};
  if (!place_.is_kernels || fstat(place_.folder.get(), &folder) != 0 || stat("/proc/self/fd", &ours) != 0 ||
      folder.st_dev != ours.st_dev || folder.st_ino != ours.st_ino)
    return {};
  int number = -1;
  const char* const end = place_.name.data() + place_.name.size();
  if (std::from_chars(place_.name.data(), end, number).ptr != end) return {};
  const int flags = fcntl(number, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_RDONLY) return {};
  return owned_descriptor(fcntl(number, F_DUPFD_CLOEXEC, 3));
}

/// The state of the file that has the name now. A symbolic link is not followed.
std::optional<struct stat> output_file::named() const {
  struct stat s {};
  if (fstatat(place_.folder.get(), place_.name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return s;
}

bool write_all(int descriptor, const std::string& content) {
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::write(descriptor, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool output_file::open(const std::string& name) {
  if (name.empty()) return true;
  name_ = name;
  if (const std::string reason = find_place(name, place_); !reason.empty()) return failed(reason);
  before_ = named();
  if (place_.is_kernels || (before_ && !S_ISREG(before_->st_mode) && !S_ISLNK(before_->st_mode)))
    return open_in_place();
  const int folder = place_.folder.get();
  if (before_ && S_ISREG(before_->st_mode) && faccessat(folder, place_.name.c_str(), W_OK, AT_EACCESS) != 0)
    return failed(std::strerror(errno));
  if (new_file trial; trial.create(folder, false)) {
    trial.remove(folder);
    return can_be_replaced(before_) || failed("it belongs to another user, in a folder that several may write");
  }
  if (before_ && (errno == EACCES || errno == EPERM)) return open_in_place();
  return failed(std::strerror(errno));
}

/// Whether a file may be replaced by renaming another one. In a folder with the sticky bit, such as /tmp, only the
/// owner of the file or of the folder may do that.
bool output_file::can_be_replaced(const std::optional<struct stat>& old) {
  struct stat folder {};
  return !old || geteuid() == 0 || old->st_uid == geteuid() || fstat(place_.folder.get(), &folder) != 0 ||
         (folder.st_mode & S_ISVTX) == 0 || folder.st_uid == geteuid();
}

/// Opens the file that has the name now. The file is examined by its descriptor, so that no other file can take its
/// place before it is opened.
bool output_file::open_in_place() {
  in_place_ = own_descriptor();
  is_duplicate_ = in_place_.is_open();
  if (is_duplicate_) return true;
  const int link = place_.is_kernels ? 0 : O_NOFOLLOW;
  const owned_descriptor found(openat(place_.folder.get(), place_.name.c_str(), O_PATH | O_CLOEXEC | link));
  struct stat s {};
  if (!found.is_open() || fstat(found.get(), &s) != 0) return failed(std::strerror(errno));
  const bool is_file = S_ISREG(s.st_mode);
  if (!place_.is_kernels) {
    if (S_ISLNK(s.st_mode)) return failed("it is a symbolic link, in a folder that others may write");
    if (is_file && s.st_nlink != 1) return failed("it has other names (hard links), and its folder cannot be written");
    if (!is_file && !S_ISDIR(s.st_mode) && !place_.is_private && s.st_uid != geteuid())
      return failed("it is no regular file, and another user's");
  }
  in_place_ = owned_descriptor(::open(path_of(found.get()).c_str(), O_WRONLY | O_CLOEXEC));
  return in_place_.is_open() || failed(std::strerror(errno));
}

bool output_file::write(const std::string& content) {
  const bool written = in_place_.is_open() ? write_in_place(content) : write_beside(content);
  return written || failed(std::strerror(errno));
}

bool output_file::write_in_place(const std::string& content) {
  const int to = in_place_.get();
  const auto size = static_cast<off_t>(content.size());
  struct stat s {};
  if (is_duplicate_ || fstat(to, &s) != 0 || !S_ISREG(s.st_mode)) return write_all(to, content);
  // If the file system can reserve space, a full disk is noticed before the old content is overwritten.
  if (size > 0 && fallocate(to, FALLOC_FL_KEEP_SIZE, 0, size) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    return false;
  return lseek(to, 0, SEEK_SET) == 0 && write_all(to, content) && ftruncate(to, size) == 0 && reaches_the_disk(to);
}

/// Writes a new file in the same folder. The file has no name at first, unless the file system needs one, or there is
/// no /proc, by which a file gets a name later.
bool output_file::write_beside(const std::string& content) {
  const int folder = place_.folder.get();
  for (const bool with_name : {false, true}) {
    new_file file;
    if (!file.create(folder, with_name)) return false;
    const auto old = named();
    if (old) take_permissions(file.descriptor.get(), *old);
    if (!write_all(file.descriptor.get(), content) || !reaches_the_disk(file.descriptor.get())) {
      file.remove(folder);
      return false;
    }
    if (!file.get_name(folder)) continue;
    if (file.descriptor.close_now() && publish(file.name)) return true;
    file.remove(folder);
    return false;
  }
  return false;
}

bool output_file::publish(const std::string& temporary) {
  const auto old = named();
  // Whether the file is the result of another command that ended in the meantime: it is not the file that was there
  // when this command began.
  const bool is_anothers_result =
      old && S_ISREG(old->st_mode) && old->st_uid == geteuid() && !is_same_content(old, before_);
  const int folder = place_.folder.get();
  if (!is_anothers_result && renameat(folder, temporary.c_str(), folder, place_.name.c_str()) == 0) {
    before_ = named();
    return true;
  }
  return publish_with_number(temporary);
}

bool output_file::publish_with_number(const std::string& temporary) {
  constexpr unsigned most = 1000;
  const int folder = place_.folder.get();
  for (unsigned number = 2; number <= most; ++number) {
    const std::string other = fmt::format(".{}", number);
    if (linkat(folder, temporary.c_str(), folder, (place_.name + other).c_str(), 0) == 0) {
      unlinkat(folder, temporary.c_str(), 0);
      warn("{} has changed meanwhile and is left: these results are in {}{}", name_, name_, other);
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

}  // namespace usher::support
