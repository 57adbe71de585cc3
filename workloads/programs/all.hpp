// All benchmark programs: a new one is a header beside this and a line here.
#pragma once

#include "workloads/programs/ideal.hpp"
#include "workloads/programs/interlock.hpp"
#include "workloads/programs/invalidation.hpp"
#include "workloads/programs/mcsg_loop.hpp"
#include "workloads/programs/mutexbench.hpp"
#include "workloads/programs/quads.hpp"
#include "workloads/programs/rand_array.hpp"
#include "workloads/programs/random_cache.hpp"
#include "workloads/programs/reflex.hpp"
#include "workloads/programs/ring_walker.hpp"
#include "workloads/programs/stress_latency.hpp"

namespace usher::workloads {

/// Calls f<Program>() for each.
template <world W, class F>
void for_each_program(const F& f) {
  f.template operator()<mutexbench<W>>();
  f.template operator()<invalidation<W>>();
  f.template operator()<interlock<W>>();
  f.template operator()<random_cache<W>>();
  f.template operator()<stress_latency<W>>();
  f.template operator()<ideal<W>>();
  f.template operator()<mcsg_loop<W>>();
  f.template operator()<rand_array<W>>();
  f.template operator()<ring_walker<W>>();
  f.template operator()<quads<W>>();
  f.template operator()<reflex<W>>();
}

}  // namespace usher::workloads
