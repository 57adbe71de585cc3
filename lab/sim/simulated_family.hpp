// Compiles one lock for the simulated machine, as tables of functions. The build makes translation units from
// library/catalog/catalog.list that include this header. Large locks are simulated without inflation.
#pragma once

#include <new>
#include <span>

#include "lab/sim/simulated_lock.hpp"
#include "lab/sim/simulated_platform.hpp"
#include "library/catalog/family.hpp"
#include "usher/core/waiting.hpp"

namespace usher::sim {

template <template <class, class> class Lock>
constexpr family<simulated_lock> make_simulated_family(const family_names& names) {
  return make_family_on<simulated, Lock, simulated_lock>([&]<class L, class>(waiting_kind kind) {
    return simulated_lock{make_lock_table<L>(names, kind), [](void* at) { ::new (at) L(); }};
  });
}

std::span<const family<simulated_lock>* const> families();

/// Locks that are simulated but not in the catalogue (variants.cpp).
std::span<const family<simulated_lock>> simulated_variants();

}  // namespace usher::sim
