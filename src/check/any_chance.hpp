// The chance to append, handed to a mutant, which has a class append_chance of its own where waiter_list.hpp is copied for it.
#pragma once

#include <bit>
#include <type_traits>

#include "usher/core/waiter_list.hpp"

namespace usher::check {

struct any_chance {
  append_chance chance;

  template <class Theirs>
    requires(std::is_trivially_copyable_v<Theirs> && sizeof(Theirs) == sizeof(append_chance))
  operator Theirs() const {
    return std::bit_cast<Theirs>(chance);
  }
};

}  // namespace usher::check
