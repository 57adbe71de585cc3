// The root directory and ids of a process, which another process needs to open the same files with the same rights. The
// attacker is the recorded process: at any time it may end, change its ids, or replace links and mounts, and another
// process may get its process id. So the descriptors are opened once, through one descriptor of /proc/PID, which keeps
// referring to this process; the ids are read before and after.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

namespace usher::reader {

/// A descriptor that is closed when its last copy is gone.
class shared_descriptor {
 public:
  shared_descriptor() = default;
  /// Takes over the descriptor, and moves it to a number above the standard streams: one of these may be closed, and
  /// its number reused.
  explicit shared_descriptor(int fd);
  /// Returns −1 if there is no descriptor.
  int get() const { return fd_ ? *fd_ : -1; }
  explicit operator bool() const { return get() >= 0; }

 private:
  std::shared_ptr<const int> fd_;
};

struct process_place {
  uid_t uid = 0;  ///< the effective ids for opening files, in this process's user namespace
  gid_t gid = 0;
  /// The process's root directory; empty if it is the root of this process, in the same mount namespace.
  shared_descriptor root;
  /// Keeps the mounts below the root alive after the process has ended. No process enters the namespace: paths relative
  /// to the root descriptor resolve in that namespace's mounts.
  shared_descriptor mount_namespace;
  /// The process's user namespace and its ids there; empty if the namespace is also this process's.
  shared_descriptor user_namespace;
  uid_t uid_inside = 0;
  gid_t gid_inside = 0;
  /// The process has CAP_DAC_READ_SEARCH in the user namespace of this process, so it may read all files in any case.
  bool reads_all = false;
  /// The reason why the place is not known, as a part of a sentence; empty if it is known.
  std::string refusal;

  /// Device and inode of the root, inodes of the two namespaces; 0: none. One child serves all processes with equal
  /// keys.
  std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t> inodes;
  auto key() const { return std::tuple(uid, gid, uid_inside, gid_inside, reads_all, inodes, refusal); }

  /// The place of this process.
  static process_place own();
};

/// The place of a running process. To be called at the attach, since the process may end later.
process_place place_of(pid_t pid);

}  // namespace usher::reader
