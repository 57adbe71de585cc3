// A machine so simple that the cost of a program on it is known, and a word that its threads share.
#pragma once

#include "sim/engine.hpp"
#include "sim/platform.hpp"

namespace usher::sim {

/// Round numbers without a random part: a line of another core of the socket is 200 cycles away, of the other socket
/// 2000.
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
