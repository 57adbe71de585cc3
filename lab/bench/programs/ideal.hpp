// Ideal scalability (TWA, extended, figure 13): every thread steps a random number generator of its own, without a
// lock. Only cores, caches and pipelines limit the throughput.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class ideal {
 public:
  static description about() {
    return {.name = "ideal",
            .summary = "independent threads without a lock: the limit of cores and pipelines",
            .source = "TWA (extended), figure 13",
            .parameters = {},
            .one_lock = false};
  }

  explicit ideal(W&) {}

  void operator()(typename W::thread& t) {
    t.steps(100);
    t.count();
  }
};

}  // namespace usher::workloads
