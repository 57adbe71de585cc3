// The root directory and ids of a process: another process needs them to open the same files with the same rights.
// The attacker is the recorded process. It may end, change its ids, replace links and mounts, and have its number
// given to another process, all during the reading. So the descriptors are opened once, through one descriptor of
// /proc/PID, which stands for this process only, even if the number is reused; the ids are read before and after.
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
  /// Takes over the descriptor, moved to a number above the standard streams: one of these may be closed, and its
  /// number reused.
  explicit shared_descriptor(int fd);
  /// −1: none.
  int get() const { return fd_ ? *fd_ : -1; }
  explicit operator bool() const { return get() >= 0; }

 private:
  std::shared_ptr<const int> fd_;
};

struct process_place {
  uid_t uid = 0;  ///< the effective ids, with which it opens files, as this process sees them
  gid_t gid = 0;
  /// The process's root directory; empty if it is the root of this process, in the same mount namespace.
  shared_descriptor root;
  /// Keeps the mounts below the root alive after the process has ended. No process enters it: paths relative to the
  /// root descriptor see that namespace's mounts.
  shared_descriptor mount_namespace;
  /// The process's user namespace and its ids there; empty if the namespace is that of this process.
  shared_descriptor user_namespace;
  uid_t uid_inside = 0;
  gid_t gid_inside = 0;
  /// The process has CAP_DAC_READ_SEARCH in the user namespace of this process, so it may read all files anyway.
  bool reads_all = false;
  /// The reason why the place is not known, as a part of a sentence; empty: it is known.
  std::string refusal;

  /// Device and inode of the root, inodes of the two namespaces; 0: none. Processes with equal keys are served by one
  /// child.
  std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t> inodes;
  auto key() const { return std::tuple(uid, gid, uid_inside, gid_inside, reads_all, inodes, refusal); }

  /// That of this process.
  static process_place own();
};

/// The place of a running process. To be called when attaching: the process may end later.
process_place place_of(pid_t pid);

}  // namespace usher::reader
