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

namespace usher::cli::stat {

/// A descriptor that is closed when its last copy is gone.
class shared_descriptor {
 public:
  shared_descriptor() = default;
  /// Takes the descriptor over. It gets a number above those of the standard streams, one of which may be closed.
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
  /// Its root directory; none: that of this process, in the same mount namespace.
  shared_descriptor root;
  /// Keeps the mounts below the root alive when the process has ended. Nothing enters it: a path that begins at the root descriptor meets
  /// the mounts of that namespace.
  shared_descriptor mount_namespace;
  /// If it is not that of this process; with the ids as they are there.
  shared_descriptor user_namespace;
  uid_t uid_inside = 0;
  gid_t gid_inside = 0;
  /// It has CAP_DAC_READ_SEARCH in the user namespace of this process, so it may read all files already.
  bool reads_all = false;
  /// The reason why the place is not known, as a part of a sentence; empty: it is known.
  std::string refusal;

  /// Equal places need one process only. Inodes of the descriptors above; 0: none.
  std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t> inodes;
  auto key() const { return std::tuple(uid, gid, uid_inside, gid_inside, reads_all, inodes, refusal); }

  /// That of this process.
  static process_place own();
};

/// The place of a running process. To be called when it is attached: afterwards the process may end.
process_place place_of(pid_t pid);

}  // namespace usher::cli::stat
