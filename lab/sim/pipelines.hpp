// The pipelines of the cores: how many hardware threads of each core work and how many spin, and by how much they slow
// each other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lab/sim/machine.hpp"

namespace usher::sim {

class pipelines {
 public:
  explicit pipelines(const machine& m);

  void add(unsigned core, bool spins) { ++(spins ? spinning_ : working_)[core]; }
  void remove(unsigned core, bool spins) { --(spins ? spinning_ : working_)[core]; }
  /// Called when one of the core's hardware threads changes from working to spinning, or back.
  void now_spins(unsigned core) {
    remove(core, false);
    add(core, true);
  }
  void now_works(unsigned core) {
    remove(core, true);
    add(core, false);
  }
  /// The number of the core's hardware threads that run a thread.
  unsigned busy(unsigned core) const { return working_[core] + spinning_[core]; }

  /// The time that n cycles of the program's work take on this core.
  cycles slowed(unsigned core, cycles n) const {
    cycles slow = paces_[working_[core]][spinning_[core]];
    if (machine_.pipelines > 1 && busy(core) <= 1) slow = cycles{1024} * 1024 / machine_.alone;
    return n * slow / 1024;
  }
  /// The time that n cycles of a lock's instructions take while other hardware threads of the core use its pipelines.
  cycles paced(unsigned core, cycles n) const { return n * instruction_paces_[working_[core]][spinning_[core]] / 1024; }
  /// Like paced(), for n cycles of a spinning thread.
  cycles paced_spinning(unsigned core, cycles n) const {
    return n * instruction_paces_[working_[core] + 1][spinning_[core] - 1] / 1024;
  }

 private:
  const machine& machine_;
  std::vector<unsigned> working_, spinning_;  // how many hardware threads of each core do so
  static constexpr unsigned most_hardware_threads = 16;
  // Slow-down in 1/1024, indexed by the numbers of working and of spinning hardware threads.
  std::array<std::array<std::uint32_t, most_hardware_threads + 2>, most_hardware_threads + 2> paces_{};
  decltype(paces_) instruction_paces_{};
};

}  // namespace usher::sim
