// A lock compiled for the simulated machine, as a table of functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "usher/core/lock_table.hpp"

namespace usher::sim {

/// make() constructs the lock in simulated memory: a simulated atomic need not be all zero bytes at first.
struct simulated_lock : lock_table {
  void (*make)(void* at);

  /// Returns whether waiters park or give up their CPU in another manner. Both need a scheduler.
  bool parks() const { return way_of(kind).parks || way_of(kind).pace != pacing::by::polling; }
};

std::span<const simulated_lock* const> simulated_locks();

/// Returns the lock of this name in the catalogue or in variants.cpp; null if there is none.
const simulated_lock* find_simulated_lock(std::string_view name);

}  // namespace usher::sim
