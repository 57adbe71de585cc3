// keymap (Malthusian Locks §6.8): a map from integers to integers under one lock. Each thread uses a set of keys
// repeatedly; the sets of many threads compete for the last-level cache. The map has the layout of libstdc++'s
// std::unordered_map, filled in the order of the keys: an array with a pointer for each bucket, and a linked node of 32
// bytes for each key. A bucket points to the node before its own first node, which is here the node of the next key.
// The program only reads, even where the paper's program also writes, because the simulator's cache model distinguishes
// hits from misses and not reads from writes.
#pragma once

#include "lab/bench/programs/keyset.hpp"
#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class keymap {
 public:
  static description about() {
    return {.name = "keymap",
            .summary = "updates a large map inside, each thread with a set of keys",
            .source = "Malthusian Locks, section 6.8, figure 11",
            .parameters = {{"keys", 1000000, 1000, 10000000, "in the map; the paper's: 10000000"},
                           {"keyset", 1000, 1, 100000, "keys in the set of a thread"},
                           {"fresh", 10, 0, 100, "percentage of accesses with a new key"},
                           {"ncs", 1000, 0, 1000000, "PRNG steps outside"},
                           {"page", 8192, 4096, 524288, "bytes, a multiple of 64"}},
            .arrays = true};
  }

  explicit keymap(W& w)
      : lock_(w.make_lock()),
        keys_(static_cast<std::uint32_t>(w.parameter("keys"))),
        fresh_(static_cast<std::uint32_t>(w.parameter("fresh"))),
        ncs_(static_cast<std::size_t>(w.parameter("ncs"))),
        buckets_(block_of(w, std::size_t{keys_} * bucket)),
        nodes_(block_of(w, (std::size_t{keys_} + 1) * node)) {
    const auto used = static_cast<std::size_t>(w.parameter("keyset"));
    for (unsigned i = 0; i < w.threads(); i++)
      mine_.push_back({keyset(used), block_of(w, used * sizeof(std::uint32_t))});
  }

  void operator()(typename W::thread& t) {
    own_keys& mine = mine_[t.index()];
    mine.keys.fill(t, keys_);
    lock_.lock();
    t.steps(2);
    const std::uint32_t at = mine.keys.place(t);
    t.fetch(mine.memory, at * sizeof(std::uint32_t));
    update(t, mine.keys.key(t, at, fresh_, keys_));
    lock_.unlock();
    t.count();
    t.steps(ncs_);
  }

 private:
  static constexpr std::size_t bucket = 8, node = 32, line = 64;

  struct own_keys {
    keyset keys;
    typename W::block memory;
  };

  static typename W::block block_of(W& w, std::size_t bytes) {
    const auto page = static_cast<std::size_t>(w.parameter("page"));
    if (page % line != 0) throw bad_program("keymap: page must be a multiple of 64");
    return w.make_block((bytes + page - 1) / page * page, page);
  }

  void update(typename W::thread& t, std::uint32_t key) {
    t.overhead(40, 8);  // the hash: a division by the number of buckets
    t.fetch(buckets_, key * bucket);
    t.fetch(nodes_, (key + 1) * node);
    if ((key + 1) * node / line != key * node / line) t.fetch(nodes_, key * node);
  }

  typename W::lock lock_;
  std::uint32_t keys_, fresh_;
  std::size_t ncs_;
  typename W::block buckets_, nodes_;
  std::vector<own_keys> mine_;
};

}  // namespace usher::workloads
