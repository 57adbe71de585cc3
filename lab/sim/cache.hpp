// Models caches and TLBs by their capacity: the rate at which loads from large arrays miss, and the cost of a miss.
// The arrays are only read; coherence.hpp models ownership of the words that threads share.
//
// Every core has a private cache (if the machine describes one) and a TLB, every complex a last-level cache, every
// socket memory channels. Caches are set-associative and evict the least recently used line. If all loads are at
// random places of blocks on large pages, only every fourth set is simulated: loads are drawn from the lines of those
// sets, and each stands for four.
//
// A displacement is self-inflicted if the CPU that misses had itself installed the evicted line, else it is caused by
// others (Malthusian Locks §6.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lab/sim/machine.hpp"
#include "lab/sim/random.hpp"

namespace usher::sim {

class caches {
 public:
  explicit caches(const machine& m);

  /// Throws bad_machine if the machine has no section [cache].
  static void check(const machine& m);

  struct block {
    std::size_t id = 0;
    std::uint64_t first = 0;  ///< number of the first line
    std::uint64_t lines = 0;
    std::uint64_t first_page = 0;
    std::uint64_t page = 0;  ///< bytes; 0: a large page, for which no TLB is modelled
  };
  /// Pages of at least this size are large.
  static constexpr std::uint64_t large_page = std::uint64_t{1} << 20;
  block make_block(std::uint64_t bytes, std::uint64_t page);

  struct cost {
    cycles busy;   ///< occupies the core's pipeline
    cycles stall;  ///< the thread waits, and the pipeline is free
  };
  /// Returns the cost of a load by this CPU from a block on small pages.
  cost load(const block& b, std::uint64_t offset, unsigned cpu, cycles now);
  /// n loads at random places.
  cost load_at_random(const block& b, std::uint64_t n, unsigned cpu, cycles now, random& chance);

  struct counts {
    std::uint64_t loads = 0, private_hits = 0, misses = 0, tlb_misses = 0;
    std::uint64_t own_displaced = 0, others_displaced = 0;  ///< lines of the last-level cache
  };
  const counts& counted() const { return counts_; }

 private:
  /// The simulated sets of one cache. A TLB is a cache with one set, whose lines are pages.
  class cache {
   public:
    cache(std::uint64_t sets, unsigned ways);

    /// Looks up a line, and returns whether it was a hit. On a miss the line is installed, and `displaced` is the CPU
    /// that installed the evicted line (below 0: an empty place).
    bool look_up(std::uint64_t line, unsigned cpu, int& displaced);

   private:
    unsigned ways_;
    std::uint64_t sets_;
    bool power_of_two_;
    std::vector<std::uint32_t> tags_;  // of each set, most recently used first: line + 1; 0: empty
    std::vector<std::uint16_t> by_;    // the CPU that installed the line
  };

  enum class level { own, last, memory };

  void make_caches();
  level look_up(std::uint64_t line, unsigned cpu);
  cost cost_of(std::uint64_t loads, std::uint64_t last, std::uint64_t misses, unsigned cpu, cycles now);

  static constexpr std::uint32_t every = 4;  // one set in four, where a sample suffices

  const machine& machine_;
  std::vector<cache> last_, private_, tlbs_;
  std::vector<cycles> channels_free_;
  std::uint32_t sample_ = every;
  // By block: moving averages of the shares of loads that the last-level cache answers and that memory answers, in
  // units of 2^-20.
  std::vector<std::array<std::uint64_t, 2>> usual_;
  std::uint64_t next_line_ = 0, next_page_ = 0;
  counts counts_;
};

}  // namespace usher::sim
