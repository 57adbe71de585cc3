// Coherence: what an access to a cache line costs, and who has the line afterwards.
//
// The model. A complex is the cores behind one last-level cache: a socket, or a part of one. A line has an owner that wrote it, or
// cores that share it, in some complexes. An access that misses travels to whoever supplies the line, is served there in the order
// of arrival, and travels back:
//
//     read, another core wrote it     dirty latency, not before that write is done. The owner keeps a copy
//     read, this complex has it       clean latency. Each read keeps the complex's supplier busy for per_read: refetches queue
//     read, other complexes have it   clean latency of the nearest (MESIF), of the home (MESI), of who wrote it last (MOESI)
//     read or write, nobody has it    memory latency
//     … on a machine with directories an owner in another complex is asked by way of the line's home
//     … any request to another complex or to memory keeps the line's home busy for `directory`, an invalidation for each complex
//     write, others share it          an invalidation to each complex that has it, after the reads that wait there, and
//                                     per_sharer for each copy; done when the last has answered
//
// A core has the line for all its hardware threads, and a read that misses joins one of another hardware thread that is under way.
//
// Callers go through an access in two steps, so that accesses are ordered by their arrival and not by their departure: first
// one_way(), after which they let the simulation come to that time; then read() or write() with the time of departure.
#pragma once

#include <algorithm>
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
  std::int32_t owner = nobody;          ///< the core that wrote it, as long as it has it alone
  std::int32_t writer = nobody;         ///< the complex of the last write
  std::int32_t fetched_by = nobody;     ///< the core that read it last of those that missed
  std::uint32_t home = ~0u;             ///< the complex; set at the first access
  std::uint64_t complexes = 0;          ///< those that have it
  cycles written = 0;                   ///< when the last write was done
  cycles home_free = 0;                 ///< when its home can take the next request
  cycles* supplier_free = nullptr;      ///< of each complex
  std::vector<std::uint32_t> watchers;  ///< threads that spin on it with a valid copy

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

  /// From the core's socket to whoever decides when the access is served. 0 where nobody else is asked.
  cycles one_way(line& l, unsigned core, bool write);

  /// When the value is there. `t`: departure.
  cycles read(line& l, unsigned core, cycles t);

  struct written {
    cycles done;     ///< the writer goes on
    cycles visible;  ///< copies elsewhere are gone
  };
  written write(line& l, unsigned core, cycles t, bool modify);

  /// How many cores have a copy.
  static unsigned copies(const line& l) {
    unsigned n = 0;
    for (const std::uint64_t s : l.sharers) n += unsigned(std::popcount(s));
    return n;
  }

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
  unsigned complex_of(unsigned core) const { return complexes_of_[core]; }
  unsigned distance(unsigned a, unsigned b) const { return distances_[a][b]; }
  unsigned supplier(const line& l, unsigned complex) const;
  cycles from_owner(const line& l, unsigned complex) const;
  unsigned copies(const line& l, unsigned complex) const;
  /// When the line's home has taken a request that comes to it at that time; `messages`: that it sends for it.
  cycles at_home(line& l, cycles t, unsigned messages = 1) const {
    if (machine_.directory == 0) return t;
    t = std::max(t, l.home_free);
    l.home_free = t + machine_.directory * messages;
    return t;
  }

  const machine& machine_;
  const arena& arena_;
  std::array<std::uint8_t, most_cores> complexes_of_{};  // asked at every access: not by division
  std::array<std::array<std::uint8_t, most_complexes>, most_complexes> distances_{};
  std::vector<std::unique_ptr<line[]>> blocks_;  // lines stay where they are
  std::vector<std::unique_ptr<cycles[]>> suppliers_;
  std::vector<fill> fills_;
};

}  // namespace usher::sim
