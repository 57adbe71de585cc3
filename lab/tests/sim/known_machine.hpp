// Reads a machine file of the source tree, given the machine's name.
#pragma once

#include <map>
#include <string>

#include "lab/sim/machine.hpp"

namespace usher::sim {

/// `changes` has the form that read_machine() takes.
inline machine known_machine(const std::string& name, const std::map<std::string, std::string>& changes = {}) {
  return read_machine(std::string(USHER_MACHINES "/") + name + ".toml", changes);
}

}  // namespace usher::sim
