// Runs a program that is not in the list of lab/bench/programs/all.hpp on a simulated machine.
#pragma once

#include "lab/bench/programs/program.hpp"
#include "lab/sim/harness.hpp"
#include "lab/sim/world.hpp"

namespace usher::sim {

/// Like run_point(), which finds the program by its name.
result run_program(const machine& m, const point& p, const workloads::compiled_program<world>& program,
                   trace* by = nullptr);

}  // namespace usher::sim
