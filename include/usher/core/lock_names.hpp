// Declares all locks, so that a program which does not include a lock's header gets one compile error that names the
// header: `usher::mutex<usher::mcs>` without <usher/locks/mcs.hpp>, for example. The test `contract` tries each lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "usher/core/platform.hpp"
#include "usher/core/traits.hpp"

namespace usher::inline v2 {

// The aliases below name these templates. Default arguments are at the definitions.
template <platform P, class W, class Lock>
class occasionally_fair;
template <platform P, class W, unsigned Words, unsigned BitsAWord>
class basic_fairlock_wide;
template <platform P, class W, std::uint32_t Words>
class basic_partitioned;
template <platform P, class W, std::uint32_t Places>
class basic_awn;
template <platform_with_tables P, class W, class Array, std::uint32_t LongTermThreshold>
class basic_twa;
template <platform_with_tables P, class W, class Array>
class basic_twa_private;
template <platform_with_tables P, class W, std::uint32_t Gang>
class basic_twa_quantized;
/// The tag of the process-wide waiting array. It is defined here because P::table_size<twa_array>() below needs the
/// complete type.
struct twa_array {
  static constexpr std::uint32_t size = 4096;
  static constexpr table_kind kind = table_kind::counts;
};
template <platform_with_tables P, std::uint32_t Size, std::uint32_t Multiplier>
class shared_array;
template <platform_with_tables P>
class array_by_cpus;
template <platform_with_tables P, std::uint32_t Size, class Slot>
class private_array;
template <platform P, class W, bool TryFirst, bool KeepsB, std::size_t Apart>
class basic_three_stage;
template <platform P>
struct home_nodes;
template <platform P>
struct kept_nodes;
template <platform P, class W, class Nodes>
class basic_clh;
template <platform P, class W, class Nodes, bool LooksFirst>
class basic_k42;
template <platform P, class W, template <class, class> class Global, template <class, class> class Local,
          unsigned PassThreshold>
class cohort;
template <platform P>
struct lifo_thread_nodes;
template <platform_with_stack_objects P>
struct lifo_stack_nodes;
template <platform P, class W, std::uint32_t FairnessPeriod, bool WakesAhead, class Nodes>
class basic_lifo;
template <platform P, class W, unsigned Distance>
class basic_mcs_ahead;
template <platform_with_priorities P, class W, unsigned MostSpinners, bool DeferWake>
class loiter_with_count;
template <platform_with_priorities P, class W, std::uint32_t PassThreshold>
class basic_loiter_cohort;
template <platform_with_priorities P, class W, std::size_t Gap>
class basic_steady;

template <platform P, class W>
class tas;
template <platform P, class W>
class tas_delay;
template <platform P, class W>
using tas_fair = occasionally_fair<P, W, tas<P, W>>;
template <platform P, class W>
class ttas;
template <platform P, class W>
using ttas_fair = occasionally_fair<P, W, ttas<P, W>>;
template <platform P, class W>
class futex;
template <platform P, class W>
class fairlock;
template <platform P, class W>
using fairlock_wide = basic_fairlock_wide<P, W, 2048, 32>;
template <platform P, class W>
class ticket;
template <platform P, class W>
class ticket_xadd;
template <platform P, class W>
class ticket_backoff;
template <platform P, class W>
class ticket32;
template <platform P, class W>
using partitioned_ticket = basic_partitioned<P, W, 8>;
template <platform P, class W>
using anderson = basic_partitioned<P, W, 64>;
template <platform P, class W>
using awn = basic_awn<P, W, 64>;
template <platform_with_tables P, class W>
using twa = basic_twa<P, W, shared_array<P, P::template table_size<twa_array>(), 127>, 1>;
template <platform_with_tables P, class W>
class twa32;
template <platform_with_tables P, class W>
using twa_sized = basic_twa<P, W, array_by_cpus<P>, 1>;
template <platform_with_tables P, class W>
using twa_private = basic_twa_private<P, W, private_array<P, P::template table_size<twa_array>(), std::uint32_t>>;
template <platform_with_tables P, class W>
using twa_quantized = basic_twa_quantized<P, W, 4>;
template <platform_with_tables P, class W>
class twa_staged;
template <platform_with_tables P, class W>
class twa_id;
template <platform_with_tables P, class W>
class twa_chain;
template <platform P, class W>
class tkt_dual;
template <platform P, class W>
using three_stage = basic_three_stage<P, W, false, false, 4>;
template <platform P, class W>
using three_stage_try = basic_three_stage<P, W, true, false, 4>;
template <platform P, class W>
class qspinlock;
template <platform P, class W>
class mcs;
template <platform P, class W>
using mcs_ahead = basic_mcs_ahead<P, W, 1>;
template <platform P, class W>
class mcs_pt;
template <platform P, class W>
class mcsg;
template <platform P, class W>
class mcsg_plus;
template <platform P, class W>
class mcsg_plus_plus;
template <platform P, class W>
using clh = basic_clh<P, W, home_nodes<P>>;
template <platform P, class W>
using clh_tls = basic_clh<P, W, kept_nodes<P>>;
template <platform P, class W>
using k42 = basic_k42<P, W, home_nodes<P>, false>;
template <platform P, class W>
using k42_tls = basic_k42<P, W, kept_nodes<P>, false>;
template <platform P, class W>
using c_bo_mcs = cohort<P, W, ttas, mcs, 64>;
template <platform P, class W>
using c_bo_clh = cohort<P, W, ttas, clh, 64>;
template <platform P, class W>
using c_bo_tkt = cohort<P, W, ttas, ticket, 64>;
template <platform P, class W>
using c_mcs_mcs = cohort<P, W, mcs, mcs, 64>;
template <platform P, class W>
using c_clh_clh = cohort<P, W, clh, clh, 64>;
template <platform P, class W>
using c_tkt_mcs = cohort<P, W, ticket, mcs, 64>;
template <platform P, class W>
using c_tkt_tkt = cohort<P, W, ticket, ticket, 64>;
template <platform P, class W>
using cohort_ptl = basic_partitioned<P, W, 4>;
template <platform P, class W>
using c_ptl_tkt = cohort<P, W, cohort_ptl, ticket, 64>;
template <platform P, class W>
using c_mcsg_mcs = cohort<P, W, mcsg, mcs, 64>;
template <platform P, class W>
using c_bo_mcsg_plus_plus = cohort<P, W, ttas, mcsg_plus_plus, 64>;
template <platform P, class W>
class mcscr;
template <platform P, class W>
class mcscrn;
template <platform P, class W>
using lifo = basic_lifo<P, W, 0, false, lifo_thread_nodes<P>>;
template <platform P, class W>
using lifo_cr = basic_lifo<P, W, 1000, false, lifo_thread_nodes<P>>;
template <platform P, class W>
using lifo_cr_ahead = basic_lifo<P, W, 1000, true, lifo_thread_nodes<P>>;
template <platform_with_stack_objects P, class W>
using lifo_cr_stack = basic_lifo<P, W, 1000, false, lifo_stack_nodes<P>>;
template <platform_with_priorities P, class W>
class loiter;
template <platform_with_priorities P, class W>
class loiter_eager;
template <platform_with_priorities P, class W>
class loiter_barging;
template <platform_with_priorities P, class W>
using loiter_cap = loiter_with_count<P, W, 2, false>;
template <platform_with_priorities P, class W>
using loiter_cohort = basic_loiter_cohort<P, W, 64>;
template <platform_with_priorities P, class W>
class loiter_cull;
template <platform_with_priorities P, class W>
using loiter_defer = loiter_with_count<P, W, 0, true>;
template <platform_with_priorities P, class W>
class loiter_flux;
template <platform_with_priorities P, class W>
class loiter_numa;
template <platform_with_priorities P, class W>
class loiter_store;
template <platform P, class W>
using steady = basic_steady<P, W, 0>;
template <platform P, class W>
class null;
template <platform P, class W>
class c_library;
template <platform P, class W>
class c_library_adaptive;

namespace lock_names {

/// header_of<Lock>::given<Included> is a compile error that names the lock's header if `Included` is false.
template <template <class, class> class Lock>
struct header_of {
  template <bool Included>
  struct given {
    static_assert(Included, "the header of this lock must be included, too");
  };
};

#define USHER_LOCK(lock, header)                                                                    \
  template <>                                                                                       \
  struct header_of<lock> {                                                                          \
    template <bool Included>                                                                        \
    struct given {                                                                                  \
      static_assert(Included, "the lock `" #lock "` needs #include <usher/locks/" #header ".hpp>"); \
    };                                                                                              \
  };
USHER_LOCK(tas, tas)
USHER_LOCK(tas_delay, tas_delay)
USHER_LOCK(tas_fair, occasionally_fair)
USHER_LOCK(ttas, ttas)
USHER_LOCK(ttas_fair, occasionally_fair)
USHER_LOCK(futex, futex)
USHER_LOCK(fairlock, fairlock)
USHER_LOCK(fairlock_wide, fairlock_wide)
USHER_LOCK(ticket, ticket)
USHER_LOCK(ticket_xadd, ticket_xadd)
USHER_LOCK(ticket_backoff, ticket_backoff)
USHER_LOCK(ticket32, ticket32)
USHER_LOCK(partitioned_ticket, partitioned)
USHER_LOCK(anderson, partitioned)
USHER_LOCK(awn, awn)
USHER_LOCK(twa, twa)
USHER_LOCK(twa32, twa32)
USHER_LOCK(twa_sized, twa_variants)
USHER_LOCK(twa_private, twa_variants)
USHER_LOCK(twa_quantized, twa_variants)
USHER_LOCK(twa_staged, twa_staged)
USHER_LOCK(twa_id, twa_id)
USHER_LOCK(twa_chain, twa_chain)
USHER_LOCK(tkt_dual, tkt_dual)
USHER_LOCK(three_stage, three_stage)
USHER_LOCK(three_stage_try, three_stage)
USHER_LOCK(qspinlock, qspinlock)
USHER_LOCK(mcs, mcs)
USHER_LOCK(mcs_ahead, mcs_ahead)
USHER_LOCK(mcs_pt, mcs_pt)
USHER_LOCK(mcsg, mcsg)
USHER_LOCK(mcsg_plus, mcsg_plus)
USHER_LOCK(mcsg_plus_plus, mcsg_plus)
USHER_LOCK(clh, clh)
USHER_LOCK(clh_tls, clh)
USHER_LOCK(k42, k42)
USHER_LOCK(k42_tls, k42)
USHER_LOCK(c_bo_mcs, cohort)
USHER_LOCK(c_bo_clh, cohort)
USHER_LOCK(c_bo_tkt, cohort)
USHER_LOCK(c_mcs_mcs, cohort)
USHER_LOCK(c_clh_clh, cohort)
USHER_LOCK(c_tkt_mcs, cohort)
USHER_LOCK(c_tkt_tkt, cohort)
USHER_LOCK(c_ptl_tkt, cohort)
USHER_LOCK(c_mcsg_mcs, cohort)
USHER_LOCK(c_bo_mcsg_plus_plus, cohort)
USHER_LOCK(mcscr, mcscr)
USHER_LOCK(mcscrn, mcscrn)
USHER_LOCK(lifo, lifo)
USHER_LOCK(lifo_cr, lifo)
USHER_LOCK(lifo_cr_ahead, lifo)
USHER_LOCK(lifo_cr_stack, lifo)
USHER_LOCK(loiter, loiter)
USHER_LOCK(loiter_eager, loiter_variants)
USHER_LOCK(loiter_barging, loiter_variants)
USHER_LOCK(loiter_cap, loiter_variants)
USHER_LOCK(loiter_cohort, loiter_cohort)
USHER_LOCK(loiter_cull, loiter_variants)
USHER_LOCK(loiter_defer, loiter_variants)
USHER_LOCK(loiter_flux, loiter_variants)
USHER_LOCK(loiter_numa, loiter_variants)
USHER_LOCK(loiter_store, loiter_variants)
USHER_LOCK(steady, steady)
USHER_LOCK(null, null)
USHER_LOCK(c_library, c_library)
USHER_LOCK(c_library_adaptive, c_library)
#undef USHER_LOCK

/// Replaces a lock whose header is missing, so that no second compile error follows.
struct not_included {
  static constexpr lock_traits traits{.summary = "", .paper = ""};
  void lock() {}
  bool try_lock() { return true; }
  void unlock() {}
};

template <template <class, class> class Lock, class P, class W>
struct named {
  using type = not_included;
};
template <template <class, class> class Lock, class P, class W>
  requires requires { sizeof(Lock<P, W>); }
struct named<Lock, P, W> {
  using type = Lock<P, W>;
};

template <template <class, class> class Lock, class P, class W>
struct included : named<Lock, P, W> {
  static constexpr bool is = !std::is_same_v<typename named<Lock, P, W>::type, not_included>;
  static_assert(sizeof(typename header_of<Lock>::template given<is>) != 0);
};

}  // namespace lock_names

/// Lock<P, W>, or a compile error that names the lock's header if it is not included.
template <template <class, class> class Lock, class P, class W>
using included_lock = typename lock_names::included<Lock, P, W>::type;

}  // namespace usher::inline v2
