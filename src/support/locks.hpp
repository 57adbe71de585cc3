// Facts about locks that several subcommands use.
#pragma once

#include <string_view>

#include "catalog/names.hpp"
#include "catalog/suggestion.hpp"
#include "usher/catalog.hpp"

namespace usher::cli {

constexpr std::string_view to_string(waiting_kind kind) {
  return way_of(kind).name();
}

/// Whether waiters spin or poll for so long that each needs a CPU of its own.
inline bool needs_own_cpu(const lock_table& lock) {
  return way_of(lock.kind).wants_cpu;
}

}  // namespace usher::cli
