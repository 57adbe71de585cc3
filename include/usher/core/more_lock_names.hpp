// Declares further locks, as lock_names.hpp does. They have a header of their own since waiting_array.hpp includes that
// one, so a name there would change the source of most simulated results (lab/claims/sources.py).
#pragma once

#include "usher/core/lock_names.hpp"

namespace usher::inline v2 {

template <platform_with_stack_objects P, class W>
class k42_stack;

namespace lock_names {

#define USHER_LOCK(lock, header)                                                                    \
  template <>                                                                                       \
  struct header_of<lock> {                                                                          \
    template <bool Included>                                                                        \
    struct given {                                                                                  \
      static_assert(Included, "the lock `" #lock "` needs #include <usher/locks/" #header ".hpp>"); \
    };                                                                                              \
  };
USHER_LOCK(k42_stack, k42_stack)
#undef USHER_LOCK

}  // namespace lock_names

}  // namespace usher::inline v2
