// The topology of a computer in hwloc's XML, as `lstopo --of xml` writes it (formats 1.x and 2.x), in the terms of a
// machine file.
//
// The attacker is the file's author: users simulate machines whose XML another person sent. Nothing in a file may
// take memory or time without limit (sizes, depth, entities that expand to others), make this process open other files
// (external entities), or bring control characters or quotes into the machine file and onto the terminal. So the text,
// the objects and their depth have limits, entity declarations are refused, each number has a range, and texts keep
// only harmless characters. expat parses without recursion, and what it has parsed is kept in flat lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/calibrate/lstopo_tree.hpp"

namespace usher::calibrate {

/// A topology that the simulator can express: equal sockets of equal complexes of equal cores.
struct lstopo {
  unsigned sockets = 1, cores = 1 /* a socket */, hardware_threads = 1 /* a core */;
  unsigned complexes = 1, nodes = 1;                                    ///< per socket
  bool has_packages = false, has_complexes = false, has_nodes = false;  ///< whether the file gives them
  lstopo_cache last, own;                                               ///< of a complex and of a core
  std::optional<unsigned> mhz;
  std::string mhz_key;  ///< the name of the file's number
  /// Between sockets, from the file's relative distances; empty if it has none or they cannot be ranked.
  std::vector<std::vector<unsigned>> hops;
  std::vector<std::uint64_t> distances;  ///< the different values between sockets, in the order of the hops
  std::string vendor, model, architecture;
  std::vector<std::string> warnings;  ///< each a line about an approximation
};

/// Throws bad_topology.
lstopo read_lstopo(std::string_view xml);

}  // namespace usher::calibrate
