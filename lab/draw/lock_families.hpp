// The families of locks, for their looks in charts. The build (cmake/lock_families.cmake) makes them from the catalogue.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace usher::cli {

struct lock_family_member {
  std::string_view name;
  std::size_t family;  ///< the number of the heading above the lock's line
  std::size_t member;  ///< the number of the lock below the heading
};

/// All locks of the catalogue.
std::span<const lock_family_member> lock_families();

}  // namespace usher::cli
