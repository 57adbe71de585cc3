// A compiled lock as a table of functions. Code outside the headers uses locks only through this table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "usher/core/traits.hpp"

namespace usher::inline v2 {

/// One lock with one way of waiting, compiled for the hardware. The functions take the address of `size` bytes aligned
/// to `align`. All zero bytes are the free lock, and destruction is not needed.
struct lock_table {
  const char* name;    ///< as in the environment variable USHER_LOCK: "twa", "twa-spin", …
  const char* family;  ///< the name without the suffix of the way of waiting: "twa"
  waiting_kind kind;
  const lock_traits* traits;
  std::size_t size;
  std::size_t align;
  void (*lock)(void* state);
  bool (*try_lock)(void* state);
  void (*unlock)(void* state);
  void (*lock_as_guest)(void* state);  ///< without a queue node; null if the lock takes no guests
  std::size_t inflated_size = 0;       ///< size of its inflated state (inflatable.hpp); 0: none

  /// True if the lock's name has no suffix. Its way of waiting is then spin-then-park, which works with more waiters
  /// than CPUs.
  bool plain() const { return std::string_view(name) == family; }
};

}  // namespace usher::inline v2
