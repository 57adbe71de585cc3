// RandArray (Malthusian Locks §6.1): the critical section loads from random places of a shared array, the non-critical
// section from random places of a private array. The arrays compete for the last-level cache.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class rand_array {
 public:
  static description about() {
    return {.name = "randarray",
            .summary = "random loads from a shared array inside, from a private one outside",
            .source = "Malthusian Locks, section 6.1, figures 3 and 4",
            .parameters = {{"cs", 100, 0, 1000000, "loads inside"},
                           {"ncs", 400, 0, 1000000, "loads outside"},
                           {"kib", 1024, 1, 1048576, "size of an array"}},
            .arrays = true};
  }

  explicit rand_array(W& w)
      : lock_(w.make_lock()),
        cs_(static_cast<std::size_t>(w.parameter("cs"))),
        ncs_(static_cast<std::size_t>(w.parameter("ncs"))) {
    const auto bytes = static_cast<std::size_t>(w.parameter("kib")) << 10;
    for (unsigned i = 0; i <= w.threads(); i++) arrays_.push_back(w.make_block(bytes, large_page));
  }

  void operator()(typename W::thread& t) {
    lock_.lock();
    t.fetch_at_random(arrays_.back(), cs_);
    lock_.unlock();
    t.count();
    t.fetch_at_random(arrays_[t.index()], ncs_);
  }

 private:
  static constexpr std::size_t large_page = std::size_t{2} << 20;

  typename W::lock lock_;
  std::size_t cs_, ncs_;
  std::vector<typename W::block> arrays_;
};

}  // namespace usher::workloads
