// MutexBench (TWA, extended, §4.2): the critical section makes a given number of steps of a random number generator,
// the non-critical section a random number of steps.
#pragma once

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class mutexbench {
 public:
  static description about() {
    return {.name = "mutexbench",
            .summary = "a critical and a non-critical section of PRNG steps",
            .source = "TWA (extended), section 4.2, figures 3 and 4",
            .parameters = {{"cs", 4, 0, 1000000, "PRNG steps inside"},
                           {"ncs", 200, 0, 1000000, "at most so many PRNG steps outside"},
                           {"shared", 0, 0, 1, "1: threads share the generator that is stepped inside"}}};
  }

  explicit mutexbench(W& w)
      : lock_(w.make_lock()),
        generator_(w.template make<typename W::generator>()),
        cs_(w.parameter("cs")),
        ncs_(w.parameter("ncs")),
        shared_(w.parameter("shared") != 0) {}

  void operator()(typename W::thread& t) {
    lock_.lock();
    t.overhead(0, 4);  // end of the loops, call and return; random, because their time varies
    if (shared_)
      t.steps(generator_, static_cast<std::size_t>(cs_));
    else
      t.steps(static_cast<std::size_t>(cs_));
    lock_.unlock();
    t.count();
    t.overhead(12, 1);
    t.steps(t.uniform(static_cast<std::uint32_t>(ncs_)));
  }

 private:
  typename W::lock lock_;
  typename W::generator& generator_;
  long cs_, ncs_;
  bool shared_;
};

}  // namespace usher::workloads
