// All benchmark programs. A new program needs a header in this folder and a line in this file.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/bench/programs/buffer_pool.hpp"
#include "lab/bench/programs/ideal.hpp"
#include "lab/bench/programs/interlock.hpp"
#include "lab/bench/programs/invalidation.hpp"
#include "lab/bench/programs/keymap.hpp"
#include "lab/bench/programs/locktorture.hpp"
#include "lab/bench/programs/lru_cache.hpp"
#include "lab/bench/programs/mcsg_artifact.hpp"
#include "lab/bench/programs/mcsg_loop.hpp"
#include "lab/bench/programs/mmicro.hpp"
#include "lab/bench/programs/mutexbench.hpp"
#include "lab/bench/programs/payment.hpp"
#include "lab/bench/programs/perl_array.hpp"
#include "lab/bench/programs/quads.hpp"
#include "lab/bench/programs/rand_array.hpp"
#include "lab/bench/programs/random_cache.hpp"
#include "lab/bench/programs/reflex.hpp"
#include "lab/bench/programs/ring_walker.hpp"
#include "lab/bench/programs/rwbench.hpp"
#include "lab/bench/programs/stress_latency.hpp"
#include "lab/bench/programs/throwing.hpp"
#include "library/catalog/names.hpp"
#include "library/catalog/suggestion.hpp"

namespace usher::workloads {

/// Calls f<Program>() for each.
template <world W, class F>
void for_each_program(const F& f) {
  f.template operator()<mutexbench<W>>();
  f.template operator()<invalidation<W>>();
  f.template operator()<interlock<W>>();
  f.template operator()<random_cache<W>>();
  f.template operator()<stress_latency<W>>();
  f.template operator()<throwing<W>>();
  f.template operator()<ideal<W>>();
  f.template operator()<mcsg_loop<W>>();
  f.template operator()<mcsg_artifact<W>>();
  f.template operator()<rand_array<W>>();
  f.template operator()<ring_walker<W>>();
  f.template operator()<keymap<W>>();
  f.template operator()<lru_cache<W>>();
  f.template operator()<mmicro<W>>();
  f.template operator()<perl_array<W>>();
  f.template operator()<buffer_pool<W>>();
  f.template operator()<payment<W>>();
  f.template operator()<quads<W>>();
  f.template operator()<reflex<W>>();
  f.template operator()<locktorture<W>>();
  f.template operator()<rwbench<W>>();
}

template <world W>
const std::vector<compiled_program<W>>& all_programs() {
  static const std::vector<compiled_program<W>> all = [] {
    std::vector<compiled_program<W>> list;
    for_each_program<W>([&]<class P>() {
      compiled_program<W> entry{P::about(),
                                [](W& w) -> std::function<void(typename W::thread&)> {
                                  return [p = std::make_shared<P>(w)](typename W::thread& t) {
                                    while (!t.over()) (*p)(t);
                                    if constexpr (requires { p->finish(t); }) p->finish(t);
                                  };
                                },
                                nullptr};
      if constexpr (requires(W& w) { P::is_one_of_some(w, 0u); }) entry.is_one_of_some = P::is_one_of_some;
      list.push_back(std::move(entry));
    });
    return list;
  }();
  return all;
}

template <world W>
std::span<const description> descriptions() {
  static const std::vector<description> all = [] {
    std::vector<description> list;
    for (const compiled_program<W>& p : all_programs<W>()) list.push_back(p.about);
    return list;
  }();
  return all;
}

/// Throws bad_program.
template <world W>
const compiled_program<W>& known_program(std::string_view name) {
  nearest_name nearest(name);
  for (const compiled_program<W>& p : all_programs<W>()) {
    if (name == p.about.name) return p;
    nearest.consider(p.about.name);
  }
  throw bad_program("unknown workload '" + std::string(name) + "'" + did_you_mean(nearest.best()) +
                    " (--list shows them)");
}

}  // namespace usher::workloads
