// Reads the input as a machine file. If the first line contains an equals sign, it is a change as in the option
// --set-machine.
#include "lab/sim/machine.hpp"
#include "fuzz.hpp"

USHER_FUZZ_TARGET(machine) {
  const std::string text(as_text(input));
  const std::string line = text.substr(0, text.find('\n'));
  std::map<std::string, std::string> changes;
  if (const std::size_t at = line.find('='); line.starts_with("#!") && at != std::string::npos)
    changes[line.substr(2, at - 2)] = line.substr(at + 1);
  use(sim::read_machine_text(text, "fuzzed", changes).title);
}
