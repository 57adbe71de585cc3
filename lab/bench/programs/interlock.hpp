// Inter-lock interference (TWA, extended, §4.1): threads acquire random locks of a pool, which shows how much locks
// that share a waiting array disturb each other. If the threads are entrained (§2), each acquires the locks in the same
// cyclic order, beginning with another lock: then all locks have equally many waiters, and their tickets advance in
// unison.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class interlock {
 public:
  static description about() {
    return {.name = "interlock",
            .summary = "a pool of locks that share a waiting array",
            .source = "TWA (extended), section 4.1, figure 2",
            .parameters = {{"locks", 1, 1, 8192, "in the pool"},
                           {"cs", 50, 0, 1000000, "PRNG steps inside"},
                           {"ncs", 100, 0, 1000000, "PRNG steps outside"},
                           {"entrained", 0, 0, 1, "1: each thread acquires the locks in turn"}},
            .one_lock = false};
  }

  explicit interlock(W& w)
      : cs_(static_cast<std::size_t>(w.parameter("cs"))),
        ncs_(static_cast<std::size_t>(w.parameter("ncs"))),
        entrained_(w.parameter("entrained") != 0),
        at_(w.threads()) {
    for (std::size_t i = 0; i < at_.size(); i++) at_[i].lock = i;
    for (long i = 0; i < w.parameter("locks"); i++) pool_.push_back(w.make_lock());
  }

  void operator()(typename W::thread& t) {
    typename W::lock& lock =
        pool_[entrained_ ? at_[t.index()].lock++ % pool_.size() : t.uniform(static_cast<std::uint32_t>(pool_.size()))];
    lock.lock();
    t.steps(cs_);
    lock.unlock();
    t.count();
    t.steps(ncs_);
  }

 private:
  struct alignas(128) position {
    std::size_t lock = 0;
  };

  std::vector<typename W::lock> pool_;
  std::size_t cs_, ncs_;
  bool entrained_;
  std::vector<position> at_;
};

}  // namespace usher::workloads
