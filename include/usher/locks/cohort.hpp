// Cohort locks: a local lock for each NUMA node, and a global lock above them. A thread owns the cohort lock if it owns
// both the global lock and its node's local lock. Unlock hands both to a waiter of the same node, a limited number of
// times in a row, so that the data that the lock protects stays in the node's caches.
//
// Source: Dice, Marathe & Shavit, "Lock Cohorting" (PPoPP 2012), as the MCSg paper describes and composes it: §5.5,
// §6.3 ("MCSg in a Cohort Lock"; threshold 64), §7. The names are theirs: C-GLOBAL-LOCAL.
// Guarantees: not FIFO. At most 64 hand-overs in a row within a node; then the waiters of the global lock are served,
// in the order of that lock. The doorway is that of the local lock. No thread starves if neither of the two locks
// starves a thread and if every thread reaches the global lock's doorway in bounded time: a thread passes the cohort
// lock's doorway before it reaches the global lock's.
// Cost: that of both locks; a hand-over within a node costs that of the local lock, and a test whether another thread
// waits.
// Layout: the global lock · the holder's node · for each NUMA node: local lock, turns. Each part has 128-byte sectors
// of its own, so the lock is large. The holder's node is `guest` if the holder is a guest (below), which has only the
// global lock.
//
//     turns    0  the node does not have the global lock          protected by the local lock
//              n  it has, and the holder is the n-th in a row
//
//     local,global,turns of node N: its local lock is held; N has the global lock; N's turns. T is the threshold
//
//     0,0,0 -> 1,0,0            lock(): the thread has the local lock
//     1,0,0 -> 1,1,0 -> 1,1,1   lock(): it has the global lock, too
//     1,1,n -> 1,1,n+1          unlock(), if n <= T and another thread of N waits: releases only the local lock; then
//                               lock() by that thread
//     1,1,n -> 1,1,0 -> 0,1,0 -> 0,0,0    unlock(), otherwise: releases the local lock, then the global one
//
// Requirements on the two locks. Any thread may unlock the global lock (true of every lock here), because its releaser
// need not be the thread that acquired it. The local lock must implement has_no_successor(). If this returns false,
// another thread of the node is certain to get the local lock next, and then uses the global lock that the node has
// kept.
//
// unlock() releases the local lock first and the global one last. In the reverse order, the next holder could destroy
// the lock before the local lock is released. A thread that gets the local lock in between waits for the global one.
//
// Guests (threads without a queue node) lock only the global lock. This is possible if that lock admits threads without
// a node: in `c-mcsg-mcs` (§6.3), and where the global lock is BO or TKT, as in `c-bo-mcsg++`. If a thread that calls
// lock() of `c-bo-mcsg++` gets no node, it enters the local lock as a guest.
#pragma once

#include <type_traits>

#include "usher/locks/clh.hpp"
#include "usher/locks/mcs.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/locks/mcsg_plus.hpp"
#include "usher/locks/partitioned.hpp"
#include "usher/locks/ticket.hpp"
#include "usher/locks/ttas.hpp"

namespace usher::inline v2 {

/// The platform without the hooks doorway() and admitted(): the cohort lock calls them once for both of its locks.
template <platform P>
struct unhooked : P {
  static void doorway(const void*) {}
  static void admitted(const void*) {}
};

template <platform P, class W, template <class, class> class Global, template <class, class> class Local,
          unsigned PassThreshold = 64>
class cohort {
  using global_lock = Global<unhooked<P>, W>;
  using local_lock = Local<unhooked<P>, W>;
  static constexpr bool global_has_guests = requires(global_lock& g) { g.lock_as_guest(); };

 public:
  static constexpr lock_traits traits{
      .summary = "a lock for each NUMA node below a global one",
      .paper = "MCSg, sections 5.5 and 6.3",
      .starvation_free = global_lock::traits.starvation_free && global_lock::traits.bounded_doorway &&
                         local_lock::traits.starvation_free,
      .bounded_doorway = global_lock::traits.bounded_doorway && local_lock::traits.bounded_doorway,
      .context = global_lock::traits.context || local_lock::traits.context,
      .words = 2 + global_lock::traits.words + P::most_numa_nodes * (1 + local_lock::traits.words),
      .kinds = global_lock::traits.kinds & local_lock::traits.kinds,
      .checker_threads = 4,  // lists of waiters, also if no lock has nodes
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t n = P::numa_node();
    home& h = homes_[n];
    h.lock.lock();
    if (h.turns.get() == 0) global_.lock();
    enter(n);
    P::admitted(this);
  }

  bool try_lock() {
    const std::uint32_t n = P::numa_node();
    home& h = homes_[n];
    if (!h.lock.try_lock()) return false;
    if (h.turns.get() == 0 && !global_.try_lock()) {
      h.lock.unlock();
      return false;
    }
    enter(n);
    return true;
  }

  void unlock() {
    const std::uint32_t n = holder_home_.get();
    if (n == guest) return global_.unlock();
    home& h = homes_[n];
    if (h.turns.get() <= PassThreshold && !h.lock.has_no_successor()) return h.lock.unlock();
    h.turns.set(0);
    h.lock.unlock();
    global_.unlock();
  }

  void lock_as_guest()
    requires(global_has_guests || !global_lock::traits.context)
  {
    P::doorway(this);
    if constexpr (global_has_guests)
      global_.lock_as_guest();
    else
      global_.lock();
    holder_home_.set(guest);
    P::admitted(this);
  }

 private:
  static constexpr std::uint32_t guest = ~std::uint32_t{0};
  template <class T>
  using plain = typename P::template plain<T>;

  struct alignas(128) home {
    local_lock lock;
    plain<std::uint32_t> turns;
  };

  void enter(std::uint32_t n) {
    home& h = homes_[n];
    h.turns.set(h.turns.get() + 1);
    if (holder_home_.get() != n) holder_home_.set(n);  // not written by hand-overs within a node
  }

  alignas(128) global_lock global_;
  alignas(128) plain<std::uint32_t> holder_home_;  // protected by the global lock
  home homes_[P::most_numa_nodes];
};

/// A partitioned ticket lock with four grant words: waiters of up to four NUMA nodes watch different cache lines.
/// Chosen, not measured.
template <platform P, class W>
using cohort_ptl = basic_partitioned<P, W, 4>;

// `ttas` stands for BO, the paper's lock with back-off.
template <platform P, class W>
using c_bo_mcs = cohort<P, W, ttas, mcs>;
template <platform P, class W>
using c_bo_clh = cohort<P, W, ttas, clh>;
template <platform P, class W>
using c_bo_tkt = cohort<P, W, ttas, ticket>;
template <platform P, class W>
using c_mcs_mcs = cohort<P, W, mcs, mcs>;
template <platform P, class W>
using c_clh_clh = cohort<P, W, clh, clh>;
template <platform P, class W>
using c_tkt_mcs = cohort<P, W, ticket, mcs>;
template <platform P, class W>
using c_tkt_tkt = cohort<P, W, ticket, ticket>;
template <platform P, class W>
using c_ptl_tkt = cohort<P, W, cohort_ptl, ticket>;
template <platform P, class W>
using c_mcsg_mcs = cohort<P, W, mcsg, mcs>;
template <platform P, class W>
using c_bo_mcsg_plus_plus = cohort<P, W, ttas, mcsg_plus_plus>;

}  // namespace usher::inline v2
