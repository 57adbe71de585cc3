// A probability that converts both to the shipped code's append_probability and to a mutant's. A mutant with a copy of
// waiter_list.hpp has a class append_probability of its own.
#pragma once

#include <bit>
#include <type_traits>

#include "usher/core/waiter_list.hpp"

namespace usher::check {

struct any_probability {
  append_probability chance;

  template <class Theirs>
    requires(std::is_trivially_copyable_v<Theirs> && sizeof(Theirs) == sizeof(append_probability))
  operator Theirs() const {
    return std::bit_cast<Theirs>(chance);
  }
};

}  // namespace usher::check
