// Coherence: what an access to a cache line costs, and who has the line afterwards.
//
// The model. A line has an owner that wrote it, or cores that share it, in some sockets. An access that misses travels to
// whoever supplies the line, is served there in the order of arrival, and travels back:
//
//     read, another core wrote it    dirty latency, not before that write is done. The owner keeps a copy
//     read, this socket has it       clean latency. Each read keeps the socket's supplier busy for per_read: refetches queue
//     read, other sockets have it    clean latency of the nearest (MESIF), of the home (MESI), of who wrote it last (MOESI)
//     read or write, nobody has it   memory latency
//     … on a machine with directories an owner in another socket is asked by way of the line's home
//     write, others share it         an invalidation to each socket that has it, after the reads that wait there, and
//                                    per_sharer for each copy; done when the last has answered
//
// A core has the line for all its strands, and a read that misses joins one of another strand that is under way.
//
// Callers go through an access in two steps, so that accesses are ordered by their arrival and not by their departure: first
// one_way(), after which they let the simulation come to that time; then read() or write() with the time of departure.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/arena.hpp"
#include "sim/machine.hpp"

namespace usher::sim {

struct line {
  static constexpr std::int32_t nobody = -1;

  std::array<std::uint64_t, most_cores / 64> sharers{};
  std::int32_t owner = nobody;   ///< the core that wrote it, as long as it has it alone
  std::int32_t writer = nobody;  ///< the socket of the last write
  std::int32_t fetched_by = nobody;  ///< the core that read it last of those that missed
  std::uint32_t sockets = 0;     ///< those that have it
  std::uint32_t home = ~0u;      ///< set at the first access
  cycles written = 0;            ///< when the last write was done
  std::array<cycles, most_sockets> supplier_free{};
  std::vector<std::uint32_t> watchers;  ///< threads that spin on it with a valid copy

  bool shared_by(unsigned core) const { return (sharers[core / 64] >> core % 64 & 1) != 0; }
  void share(unsigned core) { sharers[core / 64] |= std::uint64_t{1} << core % 64; }
};

class memory {
 public:
  memory(const machine& m, const arena& a);

  line& at(const void* word) {
    const std::size_t index = arena_.offset_of(word) / line_bytes, block = index / lines_a_block;
    if (block >= blocks_.size() || blocks_[block] == nullptr) [[unlikely]]
      grow(index);
    return blocks_[block][index % lines_a_block];
  }

  static bool has(const line& l, unsigned core) { return l.owner == std::int32_t(core) || l.shared_by(core); }

  /// From the core's socket to whoever decides when the access is served. 0 where nobody else is asked.
  cycles one_way(line& l, unsigned core, bool write);

  /// When the value is there. `t`: departure.
  cycles read(line& l, unsigned core, cycles t);

  struct written {
    cycles done;     ///< the writer goes on
    cycles visible;  ///< copies elsewhere are gone
  };
  written write(line& l, unsigned core, cycles t, bool modify);

  /// The core has a copy and gets the line for itself, at no cost: it asked for it before.
  void upgrade(line& l, unsigned core, cycles t);

  static constexpr std::size_t line_bytes = 64;

 private:
  static constexpr std::size_t lines_a_block = 256;

  struct fill {
    const line* which = nullptr;
    cycles done = 0;
  };

  void grow(std::size_t index);
  unsigned socket_of(unsigned core) const { return sockets_[core]; }
  unsigned distance(unsigned a, unsigned b) const { return distances_[a][b]; }
  unsigned supplier(const line& l, unsigned socket) const;
  cycles from_owner(const line& l, unsigned socket) const;
  unsigned copies(const line& l, unsigned socket) const;

  const machine& machine_;
  const arena& arena_;
  std::array<std::uint8_t, most_cores> sockets_{};  // asked at every access: not by division
  std::array<std::array<std::uint8_t, most_sockets>, most_sockets> distances_{};
  std::vector<std::unique_ptr<line[]>> blocks_;  // lines stay where they are
  std::vector<fill> fills_;
};

}  // namespace usher::sim
