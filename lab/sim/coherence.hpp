// Coherence: the cost of an access to a cache line, and the caches that have the line afterwards.
//
// The model. A complex is the set of cores behind one last-level cache: a socket, or a part of one. A line has an
// owner, the core that wrote it, or sharers, cores with a copy in one or several complexes. A line's home is a complex,
// usually that of the line's first access. An access that misses travels to the supplier of the line, is served there
// in order of arrival, and travels back. Latencies and other names below are fields of `machine`:
//
//     read, another core owns it        dirty latency, not before the owner's write is done. The owner keeps a copy
//     … and a write                     of these requests, one at a time is under way for each line
//     read, this complex shares it      clean latency. Each read keeps the complex busy for per_read: refetches queue
//     read, other complexes share it    clean latency from the nearest (MESIF), the home (MESI), the last writer's
//                                       (MOESI)
//     read or write, no cache has it    memory latency
//     … with directories (through_home) a request to an owner in another complex goes through the line's home
//     … by the home's socket (through_homes_socket) an access that leaves the complex takes as long as between the two
//                                       of requester, supplier and home that are the farthest apart
//     … where homes order the requests (home_agent) a request to another complex or to memory keeps the line's home busy
//     atomic operation, executed at the home (far_atomics): there, once the home has recalled all copies; one at a time
//     write, others share it            an invalidation to each complex with a copy, behind the reads that wait there,
//                                       and per_sharer for each copy; done when the last complex has answered
//
// The hardware threads of a core share its copy of a line. A read that misses while another hardware thread's read of
// the same line is under way waits for that read.
//
// Callers perform an access in two steps, so that accesses are ordered by arrival and not by departure. They call
// one_way() and let the simulation advance by that time; then they call read() or write() with the time of departure.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "lab/sim/arena.hpp"
#include "lab/sim/machine.hpp"

namespace usher::sim {

struct line {
  static constexpr std::int32_t nobody = -1;

  std::array<std::uint64_t, most_cores / 64> sharers{};
  std::int32_t owner = nobody;          ///< the only core with a copy, since its write or its fetch from memory
  std::int32_t writer = nobody;         ///< the complex that wrote the line last
  std::int32_t fetched_by = nobody;     ///< the core whose read of the line missed last
  std::uint32_t home = ~0u;             ///< a complex; set at the first access
  std::uint64_t complexes = 0;          ///< bit mask of the complexes with a copy
  cycles written = 0;                   ///< when the last write was done
  cycles home_free = 0;                 ///< when the home can take the next request
  cycles* supplier_free = nullptr;      ///< for each complex: when it can supply the line again; see at_owner()
  std::vector<std::uint32_t> watchers;  ///< threads that spin on the line with a valid copy

  bool shared_by(unsigned core) const { return (sharers[core / 64] >> core % 64 & 1) != 0; }
  void share(unsigned core) { sharers[core / 64] |= std::uint64_t{1} << core % 64; }
};

class coherence {
 public:
  coherence(const machine& m, const arena& a);

  line& at(const void* word) {
    const std::size_t index = arena_.offset_of(word) / line_bytes, block = index / lines_a_block;
    if (block >= blocks_.size() || blocks_[block] == nullptr) [[unlikely]]
      grow(index);
    return blocks_[block][index % lines_a_block];
  }

  static bool has(const line& l, unsigned core) { return l.owner == std::int32_t(core) || l.shared_by(core); }

  /// Returns the latency from the core to the cache or home that orders the access. 0 if the core's own copy suffices,
  /// or if no cache has a copy.
  cycles one_way(line& l, unsigned core, bool write);

  /// Returns the time at which the core has the value, if its request departs at time t.
  cycles read(line& l, unsigned core, cycles t);

  struct written {
    cycles done;     ///< the writer continues
    cycles visible;  ///< all other copies are invalid
  };
  written write(line& l, unsigned core, cycles t, bool modify);

  /// Returns the latency from the core to the home of a line that the core does not own.
  cycles way_to_home(line& l, unsigned core);

  /// Executes an atomic operation at the home of a line that the core does not own: the home recalls all copies, and
  /// has the only one afterwards. The request departs at time t.
  written modify_at_home(line& l, unsigned core, cycles t);

  /// The number of cores with a copy.
  static unsigned copies(const line& l) {
    unsigned n = 0;
    for (const std::uint64_t s : l.sharers) n += unsigned(std::popcount(s));
    return n;
  }

  /// Makes a core that has a copy the owner, at no cost: ownership was requested with the load.
  void upgrade(line& l, unsigned core, cycles t);

  static constexpr std::size_t line_bytes = 64;

 private:
  static constexpr std::size_t lines_a_block = 256;

  struct fill {
    const line* which = nullptr;
    cycles done = 0;
  };

  void grow(std::size_t index);
  unsigned complex_of(unsigned core) const { return complexes_of_[core]; }
  unsigned distance(unsigned a, unsigned b) const { return distances_[a][b]; }
  /// Returns the distance that determines the cost of an access to the line from complex `a` to complex `b`.
  unsigned apart(const line& l, unsigned a, unsigned b) const {
    const unsigned straight = distance(a, b);
    if (!machine_.through_homes_socket || straight == 0) return straight;
    return std::max({straight, distance(a, l.home), distance(b, l.home)});
  }
  unsigned supplier(const line& l, unsigned complex) const;
  cycles from_owner(const line& l, unsigned complex) const;
  cycles at_owner(line& l, unsigned complex, cycles t, cycles latency) const;
  unsigned copies(const line& l, unsigned complex) const;
  /// Returns the time at which the line's home accepts a request that arrives at time t. `latency`: the request's whole
  /// latency; `complexes`: the number of complexes to which the home forwards the request.
  cycles at_home(line& l, cycles t, cycles latency, unsigned complexes = 1) const {
    if (machine_.homes == home_agent::none) return t;
    t = std::max(t, l.home_free);
    l.home_free = t + (machine_.homes == home_agent::until_answer ? latency : farthest_ * complexes);
    return t;
  }

  const machine& machine_;
  const arena& arena_;
  std::array<std::uint8_t, most_cores> complexes_of_{};  // read at every access: a table is faster than a division
  std::array<std::array<std::uint8_t, most_complexes>, most_complexes> distances_{};
  cycles farthest_;                              // the longest latency of a line that a core owns
  std::vector<std::unique_ptr<line[]>> blocks_;  // blocks, so that the address of a line does not change
  std::vector<std::unique_ptr<cycles[]>> suppliers_;
  std::vector<fill> fills_;
};

}  // namespace usher::sim
