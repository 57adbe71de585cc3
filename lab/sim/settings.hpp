// The settings of a simulated run: how its threads are placed, begin and wait, and which other load the machine has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace usher::sim {

/// A new setting needs a member here, the code that uses it, and a row of the table in
/// lab/sweep/point_settings.hpp; then `make man`, docs/schema/sim.json and `settings` in lab/tests/commands/test_sim.py.
/// Its default is 0, false, empty or absent, because the JSON omits these values. An optional integer is a duration.
struct settings {
  bool pinned = false;  ///< threads stay on their CPUs
  /// The number of threads of other processes. Each needs a CPU for a quarter of the time, in pieces of 2 ms.
  unsigned others = 0;
  std::optional<std::uint64_t> spin_ns;  ///< how long waiters poll before they park; else as the machine says
  std::string placement;  ///< where threads begin, as read_placement() takes it; empty: the program's placement
  bool together = false;  ///< all threads begin at once, as from a barrier; else one after another, as they are created
  std::optional<std::uint64_t> warm_up_ns;  ///< the time before the measured time; else usual_warm_up_ns()
};

}  // namespace usher::sim
