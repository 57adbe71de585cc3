// A lock compiled for the simulated machine, as a table of functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "usher/traits.hpp"

namespace usher::sim {

struct simulated_lock {
  const char* name;
  const char* family;
  waiting_kind kind;
  const lock_traits* traits;
  std::size_t size;
  std::size_t align;
  void (*make)(void* at);
  void (*lock)(void* state);
  bool (*try_lock)(void* state);
  void (*unlock)(void* state);
  void (*lock_as_guest)(void* state);  ///< null where there are no guests

  bool parks() const { return kind != waiting_kind::spin; }
};

std::span<const simulated_lock* const> simulated_locks();

/// Also one of variants.cpp. Null if there is no such lock.
const simulated_lock* find_simulated_lock(std::string_view name);

}  // namespace usher::sim
