// Caches and TLBs as capacity: how often loads of large arrays miss, and what that costs. Who has which line of the words that
// threads share is another matter (memory.hpp): what lies in a block is only read.
//
// Every core has a private cache (if the machine describes one) and a TLB, every complex a last-level cache, every socket memory channels.
// Caches are set-associative and displace what was used longest ago. Where all loads are at random places of blocks on large
// pages, only every fourth set is simulated: loads are drawn from the lines of those sets, and each stands for four.
//
// A miss is a self-inflicted one or caused by others according to who displaces: a CPU displaces a line that itself had installed, or
// another's (Malthusian Locks §6.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "sim/machine.hpp"
#include "sim/random.hpp"

namespace usher::sim {

class caches {
 public:
  explicit caches(const machine& m);

  /// Throws bad_machine where the machine has no caches to compete for.
  static void check(const machine& m);

  struct block {
    std::size_t id = 0;
    std::uint64_t first = 0;  ///< line
    std::uint64_t lines = 0;
    std::uint64_t first_page = 0;
    std::uint64_t page = 0;  ///< bytes; 0: pages so large that they need no TLB
  };
  /// Pages of at least this size are large ones.
  static constexpr std::uint64_t large_page = std::uint64_t{1} << 20;
  block make_block(std::uint64_t bytes, std::uint64_t page);

  struct cost {
    cycles busy;   ///< keeps the core's pipeline
    cycles stall;  ///< the thread only waits
  };
  /// A load from a block on small pages.
  cost load(const block& b, std::uint64_t offset, unsigned cpu, cycles now);
  /// So many loads at random places.
  cost load_at_random(const block& b, std::uint64_t n, unsigned cpu, cycles now, random& chance);

  struct counts {
    std::uint64_t loads = 0, private_hits = 0, misses = 0, tlb_misses = 0;
    std::uint64_t own_displaced = 0, others_displaced = 0;  ///< lines of the last level
  };
  const counts& counted() const { return counts_; }

 private:
  /// The simulated sets of one cache, or a TLB: of one set, with pages for lines.
  class cache {
   public:
    cache(std::uint64_t sets, unsigned ways);

    /// False: it was not there, is now, and `displaced` says whose line had to go (the CPU; nobody's: below 0).
    bool look_up(std::uint64_t line, unsigned cpu, int& displaced);

   private:
    unsigned ways_;
    std::uint64_t sets_;
    bool power_of_two_;
    std::vector<std::uint32_t> tags_;  // of each set, used last first: line + 1; 0: empty
    std::vector<std::uint16_t> by_;
  };

  enum class level { own, last, memory };

  void make_caches();
  level look_up(std::uint64_t line, unsigned cpu);
  cost cost_of(std::uint64_t loads, std::uint64_t last, std::uint64_t misses, unsigned cpu, cycles now);

  static constexpr std::uint32_t every = 4;  // set, where a sample will do

  const machine& machine_;
  std::vector<cache> last_, private_, tlbs_;
  std::vector<cycles> channels_free_;
  std::uint32_t sample_ = every;
  std::vector<std::array<std::uint64_t, 2>>
      usual_;  // of each block: loads of 2^20 that the last level and memory answer
  std::uint64_t next_line_ = 0, next_page_ = 0;
  counts counts_;
};

}  // namespace usher::sim
