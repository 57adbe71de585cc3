// The catalogue: every lock that is built, by name. The list is the file `catalog.list`; the build makes one
// translation unit for each of its lines.
#pragma once

#include <span>
#include <string_view>

#include "usher/core/lock_table.hpp"

namespace usher::inline v2 {

/// All locks in the order of `catalog.list`. Of the ways of waiting of one lock, the default comes first.
std::span<const lock_table* const> catalog();

/// Returns the lock with that name, or null.
const lock_table* find_lock(std::string_view name);

/// Returns the lock name that is most similar to `misspelt`; empty if none is similar.
std::string_view nearest_lock(std::string_view misspelt);

}  // namespace usher::inline v2
