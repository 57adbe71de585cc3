// A probability that converts to the append_probability of the shipped code and to that of a mutant: a mutant with its
// own copy of waiter_list.hpp has its own class of that name.
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
