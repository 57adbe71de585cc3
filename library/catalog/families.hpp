// All families of locks, as the build lists them.
#pragma once

#include <span>

#include "library/catalog/family.hpp"
#include "usher/core/lock_table.hpp"

namespace usher::inline v2 {

std::span<const family<lock_table>* const> families();
inline constexpr std::size_t most_families = 128;  // families.cpp.in asserts it

}  // namespace usher::inline v2
