// The load of this computer by other processes.
#pragma once

namespace usher::support {

/// Measures the CPU time that was neither idle nor used by this program and its children. It includes the time that the
/// hypervisor took.
class foreign_cpu {
 public:
  foreign_cpu() : from_(now()) {}
  /// The share of all CPU time since the object was made, 0 to 1. `also_own`: seconds of CPU time that are not counted
  /// either, used by a process that is no child of this program.
  double share(double also_own = 0) const;

 private:
  struct sample {
    double total, busy, own;
  };
  static sample now();
  sample from_;
};

}  // namespace usher::support
