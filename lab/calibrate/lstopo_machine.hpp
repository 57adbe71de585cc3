// A machine file from a topology in hwloc's XML. Latencies are not in such a file: they are those of another machine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lab/calibrate/lstopo_xml.hpp"
#include "lab/sim/machine.hpp"

namespace usher::calibrate {

/// A machine whose numbers can be assumed.
struct known_machine {
  sim::machine machine;
  std::map<std::string, std::string> values;  ///< as of sim::machine_values()
};

/// The index of the machine that resembles the topology most, by these properties in turn: costs of another socket, if
/// there is one; the vendor (Intel or AMD, if the file names none); no virtual machine; costs of another complex, if
/// there is one; costs for as many hops; costs of hardware threads that share a core, if they do; the numbers of cores
/// in a complex and of sockets; the number of cores. `with_cache`: only machines whose files have the section [cache].
/// Throws bad_topology if there is none.
std::size_t nearest(const lstopo& t, const std::vector<known_machine>& machines, bool with_cache);

/// The text of the machine file. `file` is the name of the XML, for the sources of the numbers. Throws bad_topology if
/// the machine `like` has too few numbers for the topology, or the result is no machine.
std::string machine_file(const lstopo& t, const std::string& file, const known_machine& like,
                         const known_machine& with_cache);

}  // namespace usher::calibrate
