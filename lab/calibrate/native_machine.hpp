// This computer: its CPUs and the caches that they share, as the kernel reports them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace usher::calibrate {

struct native_cache {
  std::uint64_t bytes = 0;
  unsigned ways = 0, line = 64;
};

struct native_cpu {
  unsigned number = 0;  ///< the kernel's
  unsigned package = 0;
  unsigned socket = 0;           ///< counted from 0
  unsigned core = 0;             ///< of the socket
  unsigned hardware_thread = 0;  ///< of the core
};

/// The CPUs that this process may use. A "socket" here is a set of CPUs that share a last-level cache; a package of
/// some processors has several such sets.
struct native_machine {
  std::vector<native_cpu> cpus;
  unsigned sockets = 1, cores = 1 /* a socket, the most */, hardware_threads = 1 /* a core, the most */, packages = 1;
  bool even = true;  ///< every socket has as many cores, every core as many hardware threads
  bool hypervisor = false;
  native_cache last, own;  ///< bytes 0: not known
  std::string vendor;
  std::string family, model;  ///< numbers, on x86; in virtual machines the processor's name is often generic

  /// Returns the distance of two CPUs: an index into the lists of costs in a machine file, like
  /// sim::machine::distance().
  unsigned distance(const native_cpu& a, const native_cpu& b) const {
    return a.socket == b.socket ? 0 : a.package == b.package ? 1 : packages < sockets ? 2 : 1;
  }
  /// Returns two CPUs of different cores at this distance; empty if there are none.
  std::vector<native_cpu> pair_at(unsigned distance) const;
  /// Returns two hardware threads of one core; empty if there are none.
  std::vector<native_cpu> siblings() const;
};

native_machine look_around();
/// Reads the topology of these CPUs from a folder like /sys/devices/system/cpu.
native_machine look_around(const std::string& sysfs, const std::vector<unsigned>& cpus);

/// Pins the calling thread to a CPU. Returns false if the kernel refuses.
bool pin_to(unsigned cpu);
/// Allows the calling thread to run on all CPUs of `m` again.
void unpin(const native_machine& m);
/// Whether the kernel permits pinning threads to CPUs. The calling thread is not pinned afterwards.
bool can_pin(const native_machine& m);

}  // namespace usher::calibrate
