// LevelDB's stress_latency (TWA, extended, §4.5; Malthusian Locks §6.3): delay loops in the critical and the
// non-critical section. The lock is the only shared memory.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class stress_latency {
 public:
  static description about() {
    return {.name = "stress-latency",
            .summary = "delay loops inside and outside",
            .source = "TWA (extended), section 4.5, figure 7; Malthusian Locks, section 6.3, figure 6",
            .parameters = {{"cs", 200, 0, 1000000, "iterations of the loop inside"},
                           {"ncs", 5000, 0, 10000000, "iterations outside"}}};
  }

  explicit stress_latency(W& w)
      : lock_(w.make_lock()),
        cs_(static_cast<std::size_t>(w.parameter("cs"))),
        ncs_(static_cast<std::size_t>(w.parameter("ncs"))) {}

  void operator()(typename W::thread& t) {
    lock_.lock();
    t.overhead(0, 4);
    t.delay(cs_);
    lock_.unlock();
    t.count();
    t.overhead(0, 4);
    t.delay(ncs_);
  }

 private:
  typename W::lock lock_;
  std::size_t cs_, ncs_;
};

}  // namespace usher::workloads
