// Makes a machine file for this computer. Each number in it is measured or assumed, and has its source beside it.
#pragma once

#include <string>

#include "lab/calibrate/native_machine.hpp"

namespace usher::calibrate {

/// Measures the computer, for up to 20 seconds, and returns the text of a machine file (docs/simulation.md).
/// `processor`: the processor's name. If threads cannot be pinned to CPUs, most numbers are assumed. Throws
/// sim::bad_machine for a computer with more cores than can be simulated.
std::string machine_file(const native_machine& m, const std::string& processor);

}  // namespace usher::calibrate
