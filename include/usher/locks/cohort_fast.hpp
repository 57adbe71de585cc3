// A cohort lock with a fast path: a thread that finds no thread of its NUMA node at the node's local lock tries the
// global lock once, and if it gets the global lock, leaves the local lock out. So the cohort lock costs one lock and
// not two while threads do not contend. cohort.hpp has the cohort lock without it.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §9.1, on CPTLTKTD: "a fast-path can be implemented that tries to
// avoid that overhead by opportunistically bypassing the node-level locks under conditions of no or light contention
// when cohort formation is not feasible". The paper does not say how a thread finds that out: here each NUMA node has a
// mark, which the owner of its local lock sets and clears.
// Guarantees: as cohort. A thread on the fast path overtakes threads that wait for the local lock of another NUMA node,
// and those of its own that have not set the mark yet. It overtakes no thread that waits for the global lock if the
// try_lock() of that lock does not. So no thread starves under the conditions of cohort.hpp.
// Cost: on the fast path that of the global lock, and a load of the NUMA node's mark, whose line is written only when
// threads begin or end to use the local lock. Otherwise as cohort; if the fast path fails, also a try_lock() of the
// global lock.
// Layout: as cohort, and a mark for each NUMA node, beside its local lock. The holder's node is `alone` if the holder
// has the global lock only.
//
//     busy     1  a thread has the local lock, or the last one that had it has left it to another one. Written by the
//                 owner of the local lock. A thread without it reads the mark as a hint: the lock's exclusion does not
//                 depend on it.
//              0  else; so the NUMA node cannot form a cohort
//
//     local,global,turns,busy of node N; T is the threshold:
//
//     *,0,*,0 -> *,1,*,0             lock() and try_lock() on the fast path; back: unlock() of a holder that is `alone`
//     0,*,0,b -> 1,*,0,b -> 1,*,0,1  lock(): the thread has the local lock
//     1,0,0,1 -> 1,1,0,1 -> 1,1,1,1  lock(): it has the global lock, too
//     1,1,n,1 -> 1,1,n+1,1           unlock() of the local lock alone, if n <= T and another thread of N waits; lock()
//                                    by that thread
//     1,1,n,1 -> 1,1,0,1 -> 1,1,0,b -> 0,1,0,b -> 0,0,0,b   unlock() else; b is 0 if no thread of N waits
//
// The inflatable form of a cohort lock, in libusher.so and the C interface, has a fast path of its own: it has a state,
// with the locks of the NUMA nodes, only while threads contend. So this lock is for usher::mutex.
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

  /// Also fails if the global lock is free while a thread of this NUMA node has the local lock: that thread is about to
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
    if (holder_home_.get() != n) holder_home_.set(n);  // within a node its line is not written to
  }

  alignas(128) global_lock global_;
  alignas(128) typename P::template plain<std::uint32_t> holder_home_;  // protected by the global lock
  home homes_[P::most_numa_nodes];
};

template <platform P, class W>
using c_ptl_tkt_fast = cohort_fast<P, W, cohort_ptl, ticket>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
