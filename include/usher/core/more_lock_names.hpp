// Declares further locks, as lock_names.hpp does. They have a header of their own since waiting_array.hpp includes that
// one, so a name there would change the source of most simulated results (lab/claims/sources.py).
#pragma once

#include "usher/core/lock_names.hpp"

namespace usher::inline v2 {

// The aliases below name these templates. Default arguments are at the definitions.
template <platform P, class W, template <class, class> class Global, template <class, class> class Local,
          unsigned PassThreshold>
class cohort_fast;
template <platform P, class W, std::uint32_t FairnessPeriod>
class basic_mcs_awake;

template <platform_with_stack_objects P, class W>
class k42_stack;
template <platform P, class W>
using c_ptl_tkt_fast = cohort_fast<P, W, cohort_ptl, ticket, 64>;
template <platform P, class W>
using mcs_awake = basic_mcs_awake<P, W, 1000>;

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
USHER_LOCK(c_ptl_tkt_fast, cohort_fast)
USHER_LOCK(mcs_awake, mcs_awake)
#undef USHER_LOCK

}  // namespace lock_names

}  // namespace usher::inline v2
