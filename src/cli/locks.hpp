// What the subcommands know of locks beyond the catalogue.
#pragma once

#include <string_view>

#include "catalog/names.hpp"
#include "usher/catalog.hpp"

namespace usher::cli {

constexpr std::string_view to_string(waiting_kind kind) {
  switch (kind) {
    case waiting_kind::spin:
      return "spin";
    case waiting_kind::spin_then_park:
      return "spin-then-park";
    case waiting_kind::yield_then_park:
      return "yield-then-park";
    case waiting_kind::park:
      return "park";
    case waiting_kind::sleep:
      return "sleep";
    case waiting_kind::mwait_then_park:
      return "mwait-then-park";
  }
  return "";
}

/// Whether waiters load a CPU so long that each wants one of its own.
inline bool needs_own_cpu(const lock_table& lock) {
  return lock.kind == waiting_kind::spin || lock.kind == waiting_kind::yield_then_park;
}

}  // namespace usher::cli
