// A machine on which the cost of a small program can be computed by hand, and a word that the program's threads share.
#pragma once

#include "lab/sim/simulated_platform.hpp"
#include "lab/sim/simulation.hpp"

namespace usher::sim {

/// Returns a machine with round costs and no randomness. A core needs 200 cycles to get a line that another core of its
/// socket owns, and 2000 cycles if the owner is in the other socket. To read a line that cores share, it needs half of
/// that.
inline machine plain_machine() {
  machine m;
  m.name = "plain";
  m.mhz = 1000;
  m.sockets = 2;
  m.cores = 2;
  m.hit = 1;
  m.modify = 10;
  m.clean = {100, 1000, 1000};
  m.dirty = {200, 2000, 2000};
  m.invalidate = {60, 600, 600};
  m.memory = {300, 3000, 3000};
  m.poll_period = 1;
  return m;
}

using word = simulated_atomic<std::uint32_t>;

inline word& shared_word(simulation& s) {
  return *::new (s.shared().allocate(128, 128)) word();
}

}  // namespace usher::sim
