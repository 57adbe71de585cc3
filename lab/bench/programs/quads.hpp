// The test of the Fairlocks paper (§6.1, §6.2): threads on the CPUs of a few NUMA nodes, the same number on each,
// acquire and release one lock, and each counts its operations. The loop has no other work, so it measures lock and
// unlock alone (§6.1, table 3).
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class quads {
 public:
  static description about() {
    return {.name = "quads",
            .summary = "grab and release one lock, each thread counts for itself",
            .source = "Fairlocks, sections 6.1 and 6.2, tables 1 to 3, figures 7 and 8",
            .parameters = {{"cs", 0, 0, 1000000, "iterations of a loop inside, besides the counting"},
                           {"ncs", 0, 0, 1000000, "at most so many iterations outside"},
                           {"bare", 0, 0, 1, "1: the loop of table 3, which only counts its rounds"}},
            .where = placement::even};
  }

  explicit quads(W& w)
      : lock_(w.make_lock()),
        cs_(w.parameter("cs")),
        ncs_(static_cast<std::uint32_t>(w.parameter("ncs"))),
        bare_(w.parameter("bare") != 0) {
    for (unsigned i = 0; i < w.threads(); i++) counters_.push_back(&w.template make<counter>());
  }

  void operator()(typename W::thread& t) {
    counter& mine = *counters_[t.index()];
    lock_.lock();
    if (bare_) {
      lock_.unlock();
      t.count();
      t.overhead(2, 1);
      return;
    }
    mine.set(mine.get() + 1);
    t.overhead(0, 4);
    t.delay(static_cast<std::size_t>(cs_));
    lock_.unlock();
    t.count();
    t.overhead(5, 16);
    t.delay(t.uniform(ncs_));
  }

 private:
  using counter = typename W::platform::template plain<std::uint64_t>;

  typename W::lock lock_;
  long cs_;
  std::uint32_t ncs_;
  bool bare_;
  std::vector<counter*> counters_;
};

}  // namespace usher::workloads
