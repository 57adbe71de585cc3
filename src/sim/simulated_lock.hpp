// A lock compiled for the simulated machine, as a table of functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "usher/core/lock_table.hpp"

namespace usher::sim {

/// Its state is simulated memory: it is made, for all zero bytes need not be a simulated atomic's beginning.
struct simulated_lock : lock_table {
  void (*make)(void* at);

  /// Or gives its CPU away in another manner: it needs a scheduler.
  bool parks() const { return way_of(kind).parks || way_of(kind).looks != look::by::polling; }
};

std::span<const simulated_lock* const> simulated_locks();

/// Also one of variants.cpp. Null if there is no such lock.
const simulated_lock* find_simulated_lock(std::string_view name);

}  // namespace usher::sim
