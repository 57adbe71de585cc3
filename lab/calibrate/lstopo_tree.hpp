// The parts of hwloc's XML that a machine file can use, as flat lists.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace usher::calibrate {

/// The message is one line of printable characters, without the file's name.
struct bad_topology : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The limits of a file. Chosen, not measured: lstopo writes about 700 bytes for a hardware thread.
inline constexpr std::size_t most_xml_bytes = std::size_t{16} << 20, most_objects = 1 << 16, deepest_element = 64;

struct lstopo_cache {
  std::uint64_t bytes = 0;  ///< 0: not known
  unsigned ways = 0, line = 0;
};

enum class object_kind : std::uint8_t { package, numa_node, memory_cache, cache, core, hardware_thread, other };

struct lstopo_object {
  object_kind kind = object_kind::other;
  int parent = -1;  ///< an index; -1: none. A parent precedes its children
  std::optional<std::uint64_t> os_index;
  unsigned level = 0;  ///< of a cache
  lstopo_cache cache;
};

/// A matrix of relative distances between NUMA nodes, row by row.
struct lstopo_distances {
  std::size_t count = 0;
  bool by_os_index = false;  ///< else in the order of the nodes
  std::vector<std::uint64_t> indexes, values;
};

struct lstopo_tree {
  std::vector<lstopo_object> objects;
  std::vector<lstopo_distances> distances;
  std::vector<std::optional<unsigned>> base_mhz, most_mhz;  ///< of each kind of CPUs
  std::string vendor, model, architecture;
};

/// Throws bad_topology.
lstopo_tree parse_lstopo(std::string_view xml);

/// The text without characters other than ASCII's printable ones, quotes and backslashes, cut to a length.
std::string harmless(std::string_view text, std::size_t most = 100);

}  // namespace usher::calibrate
