// mmicro (Malthusian Locks §6.4): each thread allocates and zeroes 1000 blocks, and then frees them. The allocator has
// one lock, and the structure of the allocator in Solaris' libc (splay_heap.hpp). The fewer blocks the program holds at
// a time, the fewer lines and pages it has in the caches.
//
// All blocks have one size, so the heap's unit is that size, rounded up to 16 bytes, and a header. In the simulator,
// the words of a header are shared between the cores. The line of the header and the lines of the block that are zeroed
// use cache capacity, but the transfer of the zeroed lines between cores is not simulated. A thread's first round has a
// random number of blocks, so that the threads do not allocate and free in step.
#pragma once

#include <algorithm>

#include "lab/bench/programs/program.hpp"
#include "lab/bench/programs/splay_heap.hpp"

namespace usher::workloads {

template <world W>
class mmicro {
 public:
  static description about() {
    return {.name = "mmicro",
            .summary = "allocates and zeroes blocks, then frees them: an allocator with one lock",
            .source = "Malthusian Locks, section 6.4, figure 7",
            .parameters = {{"blocks", 1000, 1, 100000, "that a thread allocates before it frees them"},
                           {"size", 1000, 16, 100000, "bytes of a block"},
                           {"page", 8192, 4096, 2097152, "bytes, a multiple of 64"}},
            .arrays = true,
            .guards = true};
  }

  explicit mmicro(W& w)
      : lock_(w.make_lock()),
        blocks_(static_cast<std::uint32_t>(w.parameter("blocks"))),
        size_(static_cast<std::size_t>(w.parameter("size"))),
        unit_((size_ + align - 1) / align * align + align),
        capacity_(w.threads() * blocks_ + 2 * growth),
        state_(w.template make<splay_state<word>>()),
        headers_(w.template make_spaced<header>(capacity_ + 2, unit_, page_of(w))),
        mine_(w.threads()) {}

  /// Allocates or frees one block.
  void operator()(typename W::thread& t) {
    own& mine = mine_[t.index()];
    if (mine.wanted == 0) mine.wanted = 1 + t.uniform(blocks_);
    if (!mine.frees)
      allocate(t, mine);
    else
      release(t, mine);
    t.count();
  }

 private:
  using word = typename W::platform::template plain<std::uint32_t>;
  using header = splay_header<word>;
  static constexpr std::size_t align = 16;
  static constexpr std::uint32_t growth = 16;

  /// Access to the heap's headers by one thread.
  struct view {
    typename W::template spaced<header>& all;
    typename W::thread& t;
    std::size_t unit;
    header& at(std::uint32_t b) { return all[b]; }
    void visit(std::uint32_t b) { t.touch(all, b * unit); }
    void visit_end(std::uint32_t b) { t.touch(all, b * unit - align); }
  };
  using heap = splay_heap<word, view>;

  /// A thread's blocks.
  struct alignas(128) own {
    std::vector<std::uint32_t> blocks;
    std::uint32_t wanted = 0, freed = 0;
    bool frees = false;
  };

  static std::size_t page_of(W& w) {
    const auto page = static_cast<std::size_t>(w.parameter("page"));
    if (page % 64 != 0) throw bad_program("mmicro: page must be a multiple of 64");
    return page;
  }

  void allocate(typename W::thread& t, own& mine) {
    view memory{headers_, t, unit_};
    heap h(state_, memory, capacity_);
    std::uint32_t b;
    {
      const held guard(lock_);
      t.overhead(20, 4);
      if (state_.end.get() == 0) h.begin();
      b = h.allocate(1);
    }
    // The block's first 16 bytes are its header. The next word identifies the thread that allocated the block.
    t.clear(headers_, b * unit_ + align, size_);
    headers_[b].right.set(t.index() + 1);
    mine.blocks.push_back(b);
    if (mine.blocks.size() < mine.wanted) return;
    mine.frees = true;
    mine.freed = 0;
  }

  void release(typename W::thread& t, own& mine) {
    view memory{headers_, t, unit_};
    heap h(state_, memory, capacity_);
    const std::uint32_t b = mine.blocks[mine.freed++];
    if (headers_[b].right.get() != t.index() + 1) throw std::logic_error("mmicro: two threads have one block");
    {
      const held guard(lock_);
      t.overhead(20, 4);
      h.release(b);
    }
    if (mine.freed < mine.blocks.size()) return;
    mine.blocks.clear();
    mine.wanted = blocks_;
    mine.frees = false;
  }

  typename W::lock lock_;
  std::uint32_t blocks_;
  std::size_t size_, unit_;
  std::uint32_t capacity_;
  splay_state<word>& state_;
  typename W::template spaced<header> headers_;
  std::vector<own> mine_;
};

}  // namespace usher::workloads
