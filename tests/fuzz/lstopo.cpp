// Reads the input as the XML of hwloc's program lstopo, and makes a machine file from it.
#include "fuzz.hpp"
#include "lab/calibrate/lstopo_machine.hpp"

USHER_FUZZ_TARGET(lstopo) {
  // a machine file with all sections but [hardware_threads]
  static const std::string file = USHER_MACHINES "/epyc-zen4-vm-2.toml";
  static const calibrate::known_machine known{sim::read_machine(file), sim::machine_values(file)};
  const calibrate::lstopo topology = calibrate::read_lstopo(as_text(input));
  for (const std::string& w : topology.warnings) use(w);
  use(calibrate::machine_file(topology, "fuzzed.xml", known, known));
}
