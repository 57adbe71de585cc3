// Inter-lock interference (TWA, extended, §4.1): threads take locks of a pool at random. Do the locks disturb each other where
// they share an array?
#pragma once

#include "bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class interlock {
 public:
  static description about() {
    return {.name = "interlock",
            .summary = "a pool of locks: do they disturb each other in a shared array",
            .source = "TWA (extended), section 4.1, figure 2",
            .parameters = {{"locks", 1, 1, 8192, "in the pool"},
                           {"cs", 50, 0, 1000000, "PRNG steps inside"},
                           {"ncs", 100, 0, 1000000, "PRNG steps outside"}},
            .one_lock = false};
  }

  explicit interlock(W& w)
      : cs_(static_cast<std::size_t>(w.parameter("cs"))), ncs_(static_cast<std::size_t>(w.parameter("ncs"))) {
    for (long i = 0; i < w.parameter("locks"); i++) pool_.push_back(w.make_lock());
  }

  void operator()(typename W::thread& t) {
    typename W::lock& lock = pool_[t.uniform(static_cast<std::uint32_t>(pool_.size()))];
    lock.lock();
    t.steps(cs_);
    lock.unlock();
    t.count();
    t.steps(ncs_);
  }

 private:
  std::vector<typename W::lock> pool_;
  std::size_t cs_, ncs_;
};

}  // namespace usher::workloads
