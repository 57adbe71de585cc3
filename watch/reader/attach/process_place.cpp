#include "watch/reader/attach/process_place.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>

#include "support/process/files.hpp"

namespace usher::reader {
namespace {

struct rights {
  uid_t uid = 0;
  gid_t gid = 0;
  std::uint64_t capabilities = 0;
  bool operator==(const rights&) const = default;
};

/// The effective ids and capabilities in the text of /proc/PID/status.
std::optional<rights> rights_in(const std::string& status) {
  rights r;
  int found = 0;
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string field;
    unsigned real = 0;
    words >> field;
    if (field == "Uid:" && words >> real >> r.uid) found++;
    if (field == "Gid:" && words >> real >> r.gid) found++;
    if (field == "CapEff:" && words >> std::hex >> r.capabilities) found++;
  }
  return found == 3 ? std::optional(r) : std::nullopt;
}

std::optional<rights> rights_of(int process) {
  return rights_in(support::content_of(process, "status"));
}

/// The id inside a user namespace that corresponds to the id `outside`. `map` is the content of the namespace's uid_map
/// or gid_map: lines of "first inside, first outside, count".
std::optional<unsigned> id_inside(const std::string& map, unsigned outside) {
  std::istringstream in(map);
  for (std::uint64_t inside = 0, first = 0, count = 0; in >> inside >> first >> count;)
    if (outside >= first && outside - first < count) return static_cast<unsigned>(inside + (outside - first));
  return std::nullopt;
}

/// Device and inode of a file, from the kernel's cache. Without AT_STATX_DONT_SYNC the call could block for ever, since
/// the root may be the process's own file system (FUSE).
std::pair<std::uint64_t, std::uint64_t> identity_of(int fd) {
  struct statx s {};
  if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &s) != 0) return {0, 0};
  return {std::uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor, s.stx_ino};
}

bool is_same_file(const shared_descriptor& a, const char* path, int flags) {
  const shared_descriptor b(open(path, flags | O_CLOEXEC));
  const auto identity = identity_of(a.get());
  return identity.second != 0 && identity == identity_of(b.get());
}

/// Opens the process's root and namespaces. A descriptor stays empty if this process has the same root or namespace.
/// False if an open fails.
bool open_place(int process, process_place& p) {
  const auto opened = [process](const char* name, int flags) {
    return shared_descriptor(openat(process, name, flags | O_CLOEXEC));
  };
  p.root = opened("root", O_PATH | O_DIRECTORY);
  p.mount_namespace = opened("ns/mnt", O_RDONLY);
  p.user_namespace = opened("ns/user", O_RDONLY);
  if (!p.root || !p.mount_namespace || !p.user_namespace) return false;
  if (is_same_file(p.user_namespace, "/proc/self/ns/user", O_RDONLY)) p.user_namespace = {};
  if (is_same_file(p.mount_namespace, "/proc/self/ns/mnt", O_RDONLY) && is_same_file(p.root, "/", O_PATH | O_DIRECTORY))
    p.root = p.mount_namespace = {};
  const auto root = identity_of(p.root.get());
  p.inodes = {root.first, root.second, identity_of(p.mount_namespace.get()).second,
              identity_of(p.user_namespace.get()).second};
  return true;
}

bool may_read_all(const rights& r) {
  return (r.capabilities >> CAP_DAC_READ_SEARCH & 1) != 0;
}

process_place refused(std::string why) {
  process_place p;
  p.refusal = std::move(why);
  return p;
}

}  // namespace

shared_descriptor::shared_descriptor(int fd) {
  if (fd >= 0 && fd < 3) {
    const int low = fd;
    fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
    close(low);
  }
  if (fd < 0) return;
  fd_ = std::shared_ptr<const int>(new int(fd), [](const int* held) {
    close(*held);
    delete held;
  });
}

process_place process_place::own() {
  process_place p;
  p.uid = p.uid_inside = geteuid();
  p.gid = p.gid_inside = getegid();
  const auto ours = rights_in(support::content_of(AT_FDCWD, "/proc/self/status"));
  p.reads_all = ours && may_read_all(*ours);
  return p;
}

process_place place_of(pid_t pid) {
  const shared_descriptor process(open(fmt::format("/proc/{}", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!process) return refused(fmt::format("process {} has ended", pid));
  constexpr int tries = 5;  // chosen: a process rarely changes its ids
  for (int i = 0; i < tries; i++) {
    const std::optional<rights> before = rights_of(process.get());
    process_place p;
    const bool is_open = open_place(process.get(), p);
    const int error = errno;
    const std::optional<rights> after = rights_of(process.get());
    if (!before || !after) return refused(fmt::format("process {} has ended", pid));
    if (!is_open)
      return refused(fmt::format("the root directory of process {} may not be opened: {}", pid, std::strerror(error)));
    if (before != after) continue;
    p.uid = p.uid_inside = before->uid;
    p.gid = p.gid_inside = before->gid;
    p.reads_all = !p.user_namespace && may_read_all(*before);
    if (!p.user_namespace) return p;
    const auto uid = id_inside(support::content_of(process.get(), "uid_map"), p.uid);
    const auto gid = id_inside(support::content_of(process.get(), "gid_map"), p.gid);
    if (uid && gid) {
      p.uid_inside = *uid;
      p.gid_inside = *gid;
    } else {
      p.user_namespace = {};  // this process has no id there, so it can only look from outside
    }
    return p;
  }
  return refused(fmt::format("process {} changes its user while it is looked at", pid));
}

}  // namespace usher::reader
