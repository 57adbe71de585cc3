// A lock compiled for the simulated machine, as a table of functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "usher/core/lock_table.hpp"

namespace usher::sim {

/// The lock is constructed in simulated memory by make(): a simulated atomic need not be all zero bytes at first.
struct simulated_lock : lock_table {
  void (*make)(void* at);

  /// Whether waiters park, or give their CPU away in another manner: both need a scheduler.
  bool parks() const { return way_of(kind).parks || way_of(kind).pace != pacing::by::polling; }
};

std::span<const simulated_lock* const> simulated_locks();

/// Finds locks of variants.cpp, too. Null if there is no such lock.
const simulated_lock* find_simulated_lock(std::string_view name);

}  // namespace usher::sim
