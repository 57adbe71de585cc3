// A cohort lock with a fast path: if no thread of its NUMA node uses the node's local lock, a thread tries the global
// lock once, and on success skips the local lock. So without contention the cohort lock costs one lock, not two.
// cohort.hpp has the cohort lock without a fast path.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §9.1, on CPTLTKTD: "a fast-path can be implemented that tries to
// avoid that overhead by opportunistically bypassing the node-level locks under conditions of no or light contention
// when cohort formation is not feasible". The paper does not say how a thread detects light contention: here
// each NUMA node has a mark, which the owner of its local lock sets and clears.
// Guarantees: as cohort. A thread on the fast path overtakes threads that wait for the local locks of other NUMA nodes,
// and threads of its own node that have not yet set the mark. It overtakes threads that wait for the global lock only
// if that lock's try_lock() can do so. So no thread starves under the conditions of cohort.hpp.
// Cost: on the fast path that of the global lock, and a load of the NUMA node's mark, which is written only when
// threads begin or cease to use the local lock. Otherwise as cohort; if the fast path fails, also a try_lock() of the
// global lock.
// Layout: as cohort, and a mark for each NUMA node, beside its local lock. The holder's node is `alone` if the holder
// has the global lock only.
//
//     busy     1  a thread has the local lock, or its last owner has left it to a waiter. Written by the owner of the
//                 local lock. Other threads read it as a hint: mutual exclusion does not depend on it.
//              0  otherwise: there is no waiter to whom a holder could hand both locks
//
//     local,global,turns,busy of node N; T is the threshold:
//
//     *,0,*,0 -> *,1,*,0             lock() and try_lock() on the fast path; back: unlock() of a holder that is `alone`
//     0,*,0,b -> 1,*,0,b -> 1,*,0,1  lock(): the thread has the local lock
//     1,0,0,1 -> 1,1,0,1 -> 1,1,1,1  lock(): it has the global lock, too
//     1,1,n,1 -> 1,1,n+1,1           unlock(), if n <= T and another thread of N waits: releases only the local lock;
//                                    then lock() by that thread
//     1,1,n,1 -> 1,1,0,1 -> 1,1,0,b -> 0,1,0,b -> 0,0,0,b   unlock(), otherwise; b is 0 if no thread of N waits
//
// In libusher.so and the C interface, the inflatable form of a cohort lock has another fast path: the locks of the NUMA
// nodes exist only while threads contend. So this lock is for usher::mutex.
#pragma once

#include "usher/locks/cohort.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The requirements on Global and Local are those of `cohort`.
template <platform P, class W, template <class, class> class Global, template <class, class> class Local,
          unsigned PassThreshold = 64>
class cohort_fast {
  using global_lock = Global<unhooked<P>, W>;
  using local_lock = Local<unhooked<P>, W>;
  static constexpr bool global_has_guests = requires(global_lock& g) { g.lock_as_guest(); };

 public:
  using small = cohort_fast<P, W, Global, Local, 1>;  ///< the checker's: few threads reach this threshold

  static constexpr lock_traits traits = [] {
    lock_traits t = cohort<P, W, Global, Local, PassThreshold>::traits;
    t.summary = "a cohort lock that leaves out idle local locks";
    t.paper = "Malthusian Locks, section 9.1";
    t.words += P::most_numa_nodes;
    return t;
  }();

  void lock() {
    P::doorway(this);
    const std::uint32_t n = P::numa_node();
    if (!try_alone(n)) [[unlikely]]
      lock_both(n);
    P::admitted(this);
  }

  /// Also fails if the global lock is free but a thread of this NUMA node has the local lock: that thread is about to
  /// take the global lock.
  bool try_lock() { return try_alone(P::numa_node()); }

  void unlock() {
    const std::uint32_t n = holder_home_.get();
    if (n == alone) [[likely]]
      return global_.unlock();
    unlock_both(n);
  }

  void lock_as_guest()
    requires(global_has_guests || !global_lock::traits.context)
  {
    P::doorway(this);
    if constexpr (global_has_guests)
      global_.lock_as_guest();
    else
      global_.lock();
    hold_from(alone);
    P::admitted(this);
  }

 private:
  static constexpr std::uint32_t alone = ~std::uint32_t{0};

  struct alignas(128) home {
    local_lock lock;
    typename P::template plain<std::uint32_t> turns;
    typename P::template atomic<std::uint32_t> busy;
  };

  bool try_alone(std::uint32_t n) {
    // Relaxed: the mark is a hint.
    if (homes_[n].busy.load(std::memory_order_relaxed) != 0 || !global_.try_lock()) return false;
    hold_from(alone);
    return true;
  }

  [[gnu::cold, gnu::noinline]] void lock_both(std::uint32_t n) {
    home& h = homes_[n];
    h.lock.lock();
    if (h.turns.get() == 0) {
      if (h.busy.load(std::memory_order_relaxed) == 0) h.busy.store(1, std::memory_order_relaxed);
      global_.lock();
    }
    h.turns.set(h.turns.get() + 1);
    hold_from(n);
  }

  [[gnu::cold, gnu::noinline]] void unlock_both(std::uint32_t n) {
    home& h = homes_[n];
    const bool last = h.lock.has_no_successor();
    if (h.turns.get() <= PassThreshold && !last) return h.lock.unlock();
    h.turns.set(0);
    if (last) h.busy.store(0, std::memory_order_relaxed);
    h.lock.unlock();
    global_.unlock();
  }

  void hold_from(std::uint32_t n) {
    if (holder_home_.get() != n) holder_home_.set(n);  // not written by hand-overs within a node
  }

  alignas(128) global_lock global_;
  alignas(128) typename P::template plain<std::uint32_t> holder_home_;  // protected by the global lock
  home homes_[P::most_numa_nodes];
};

template <platform P, class W>
using c_ptl_tkt_fast = cohort_fast<P, W, cohort_ptl, ticket>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
