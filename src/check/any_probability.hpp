// append_probability for shipped code and mutants alike: a mutant for which waiter_list.hpp is copied has its own
// class of that name.
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
