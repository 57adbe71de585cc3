// One lock compiled for the simulated machine, as tables: used by the translation units that the build makes from
// include/usher/catalog.list. Large locks are simulated as they are.
#pragma once

#include <new>
#include <span>

#include "catalog/compile.hpp"
#include "sim/lock_table.hpp"
#include "sim/platform.hpp"
#include "usher/waiting.hpp"

namespace usher::sim {

template <class Lock>
constexpr simulated_lock make_table(const family_names& names, waiting_kind kind) {
  simulated_lock t{
      .name = names.of(kind),
      .family = names.family,
      .kind = kind,
      .traits = &Lock::traits,
      .size = sizeof(Lock),
      .align = alignof(Lock),
      .make = [](void* at) { ::new (at) Lock(); },
      .lock = [](void* state) { static_cast<Lock*>(state)->lock(); },
      .try_lock = [](void* state) { return static_cast<Lock*>(state)->try_lock(); },
      .unlock = [](void* state) { static_cast<Lock*>(state)->unlock(); },
      .lock_as_guest = nullptr,
  };
  if constexpr (requires(Lock& l) { l.lock_as_guest(); })
    t.lock_as_guest = [](void* state) { static_cast<Lock*>(state)->lock_as_guest(); };
  return t;
}

template <template <class, class> class Lock>
constexpr family<simulated_lock> make_simulated_family(const family_names& names) {
  family<simulated_lock> f;
  const auto add = [&]<waiting_kind K>() {
    using plain = Lock<simulated, waiting<simulated, waiting_kind::spin_then_park>>;
    if constexpr (has(plain::traits.kinds, K))
      f.tables[f.count++] = make_table<Lock<simulated, waiting<simulated, K>>>(names, K);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (add.template operator()<all_kinds[I]>(), ...);
  }(std::make_index_sequence<all_kinds.size()>());
  return f;
}

std::span<const family<simulated_lock>* const> families();

/// What is not in the catalogue (variants.cpp).
std::span<const family<simulated_lock>> simulated_variants();

}  // namespace usher::sim
