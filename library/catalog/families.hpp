// The list of all families of locks (family.hpp), which the build makes from library/catalog/catalog.list.
#pragma once

#include <span>

#include "library/catalog/family.hpp"
#include "usher/core/lock_table.hpp"

namespace usher::inline v2 {

std::span<const family<lock_table>* const> families();
inline constexpr std::size_t most_families = 128;  // a static_assert in families.cpp.in has the same number

}  // namespace usher::inline v2
