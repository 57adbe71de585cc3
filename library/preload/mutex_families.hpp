// The tables of pthread mutex operations in this library: one for each lock and way of waiting.
#pragma once

#include <span>

#include "library/catalog/family.hpp"
#include "library/preload/mutex_table.hpp"

namespace usher::preload {

/// The tables of all locks except the C library's. The build makes this list from library/catalog/catalog.list.
std::span<const family<mutex_table>* const> families();

/// Calls f(const mutex_table&) for every form of every lock, until it returns true.
template <class F>
void for_each_table(F f) {
  for (const auto* lock : families())
    for (std::size_t i = 0; i < lock->count; i++)
      if (f(lock->tables[i])) return;
}

}  // namespace usher::preload
