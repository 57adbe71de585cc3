// Confines a child process before it opens files whose names and contents an attacker chooses.
#pragma once

#include <span>
#include <string>

#include "watch/reader/attach/process_place.hpp"

namespace usher::reader {

/// The resources that a confined process may use.
struct confinement_limits {
  std::uint64_t more_address_space = std::uint64_t{3} << 30;  ///< bytes, in addition to the present address space
  unsigned cpu_seconds = 150;  ///< a second limit, in case the parent is stopped: its own time limits are shorter
  unsigned descriptors = 4096;
};

/// To be called in a child with a single thread. The child gives up, in this order: all descriptors except `kept`, the
/// environment, all files outside the place's root, supplementary groups, ids, capabilities, the ability to gain
/// capabilities, and all system calls except those for reading files, writing to `channel` and memory. Returns an empty
/// string on success; else the reason, as a part of a sentence, and the child must end.
///
/// The root is entered by chroot() on a descriptor, because elfutils itself opens further files (separate debug files,
/// split DWARF) by absolute paths. The child enters neither the mount nor the process namespace. chroot() needs
/// CAP_SYS_CHROOT: root's child has it; another user's child gets it in the target's user namespace, if that user owns
/// it (rootless containers), or in a new user namespace (a sidecar with the same user).
std::string confine(const process_place& place, int channel, std::span<const int> kept, pid_t parent,
                    const confinement_limits& limits = {});

}  // namespace usher::reader
