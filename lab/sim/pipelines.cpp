#include "lab/sim/pipelines.hpp"

#include <algorithm>

namespace usher::sim {

/// Fills the tables of slow-downs. Their indices are the numbers of hardware threads of the core that work (including
/// the thread itself) and that spin.
pipelines::pipelines(const machine& m) : machine_(m), working_(m.all_cores()), spinning_(m.all_cores()) {
  for (unsigned work = 0; work < paces_.size(); work++)
    for (unsigned spin = 0; spin < paces_.size(); spin++) {
      unsigned& pace = paces_[work][spin] = 1024;
      const unsigned others = work == 0 ? 0 : work - 1;
      if (m.pipelines == 1) {
        if (others != 0)
          pace = m.slowed_by_work;
        else if (spin != 0)
          pace = m.slowed_by_spin;
      } else {
        pace = std::max(pace, (1024 * (1 + others) + m.weight_of_spin * spin) / m.pipelines);
      }
      instruction_paces_[work][spin] = m.hardware_threads_slow_all ? pace : 1024;
    }
}

}  // namespace usher::sim
