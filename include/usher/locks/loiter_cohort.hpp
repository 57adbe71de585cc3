// LOITER over a cohort lock: the inner lock, at which all waiters but the standby wait, is C-TKT-MCS. So up to 65
// successive standbys come from one NUMA node, and most of the threads that circulate run there. loiter.hpp has the
// outer lock and the term standby, cohort.hpp the principle of a cohort lock.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.1 ("If the inner lock is NUMA-friendly – say, a cohort
// lock"); the cohort lock's parts and its threshold as in cohort.hpp.
// Guarantees: as loiter. The inner lock is FIFO within a NUMA node. Among the nodes, each node's first waiter draws a
// ticket of the ticket lock, and a node that has had this lock for 65 standbys in a row releases it. No thread starves
// (doorway: the exchange of its node's tail).
// Cost: as loiter; a standby that takes the ticket lock for its NUMA node pays for that, too.
// Layout: loiter's three words, of which the second is unused · ticket lock · for each NUMA node: tail, turns. Each
// part has 128-byte sectors of its own, so the lock is large.
//
//     turns    0  the NUMA node does not have the ticket lock     protected by the head of the node's queue
//              n  it has; the standby is its n-th in a row
//
// The unlock of a holder that came through the inner lock: if another thread of its NUMA node waits and the turns are
// not used up, that thread becomes the next standby and inherits the ticket lock. Otherwise the unlock releases the
// ticket lock, then leaves the queue. A cohort lock needs the reverse order, since its next holder may destroy the
// lock; here this thread still holds the outer lock. From the release on, a thread of another NUMA node may be the
// standby, as in loiter. All wake-ups follow the release of the outer lock.
#pragma once

#include "usher/locks/loiter_variants.hpp"
#include "usher/locks/ticket.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// The global lock of C-TKT-MCS. Its unlock does not wake the successor, but returns whom to wake, so that the caller
/// can do this later.
template <platform P, class W>
class ticket_woken_later : public ticket_core<P, W> {
  using base = ticket_core<P, W>;
  using base::grant_, base::ticket_;

 public:
  /// Unlocks. Returns the successor's futex mask, or 0 if no thread need be woken.
  std::uint32_t release() {
    if constexpr (!W::parks) {
      base::unlock();
      return 0;
    } else {
      const std::uint32_t following = base::following();
      if (grant_.load(std::memory_order_relaxed) & ticket_words::asleep)
        ticket_words::unmark(ticket_, grant_, following);
      // Release, as (2) in ticket.hpp: publishes this NUMA node's turns and the holder's writes.
      const std::uint32_t old = grant_.fetch_add(ticket_words::one, std::memory_order_release);
      return (old & ticket_words::asleep) != 0 ? ticket_words::mask_of(following) : 0;
    }
  }
  wake_key key() const { return P::key_of(grant_); }

  bool is_held() const { return ticket_.load(std::memory_order_relaxed) != base::following() - ticket_words::one; }
};

template <platform_with_priorities P, class W, std::uint32_t PassThreshold>
class basic_loiter_cohort : public basic_loiter<P, W, basic_loiter_cohort<P, W, PassThreshold>> {
  using base = basic_loiter<P, W, basic_loiter_cohort>;
  friend base;
  using base::outer_, base::inner, base::inner_node_;

 public:
  using small = basic_loiter_cohort<P, W, 1>;  ///< the checker's: few threads reach this threshold

  static constexpr lock_traits traits = [] {
    lock_traits t = loiter_ablation<P, W>(base::ranks, base::hands_over, 5 + 2 * P::most_numa_nodes);
    t.summary = "loiter whose inner lock is a cohort lock, C-TKT-MCS";
    return t;
  }();
  static constexpr bool entry_for_each_node = true;  ///< the lock has an entry for each NUMA node of the machine

  /// As in loiter.hpp: a thread in the inner lock stays there until it has had both locks. Of the other NUMA nodes, the
  /// result considers only those whose first waiter has drawn its ticket.
  bool has_certain_successor() const {
    if constexpr (base::ranks)
      if (base::urgent_wait()) return true;
    if ((outer_.load(std::memory_order_relaxed) & inner) == 0) return global_.is_held();
    const node_handle mine = inner_node_.get();
    return home_of(mine).tail.load(std::memory_order_relaxed) != mine || !global_.has_no_successor();
  }

 private:
  struct alignas(128) home {
    typename P::template atomic<node_handle> tail;
    typename P::template plain<std::uint32_t> turns;
  };

  /// The NUMA node on which the thread of this queue node ran at its arrival. `mark` stores it, since threads migrate.
  static std::uint32_t place_of(node_handle h) { return P::node(h).mark.load(std::memory_order_relaxed); }
  home& home_of(node_handle h) { return homes_[place_of(h)]; }
  const home& home_of(node_handle h) const { return homes_[place_of(h)]; }

  void enter_inner(node_handle mine) {
    P::node(mine).mark.store(P::numa_node(), std::memory_order_relaxed);
    prepare<P>(mine);
    home& h = home_of(mine);
    if (const node_handle previous = enqueue<P>(h.tail, mine); previous != no_node) wait_behind<P, W>(previous, mine);
    const std::uint32_t turns = h.turns.get();
    if (turns == 0) global_.lock();
    h.turns.set(turns + 1);
  }

  [[gnu::cold, gnu::noinline]] void unlock_contended(std::uint32_t seen) {
    const wake_key key = global_.key();
    const std::uint32_t sleepers = (seen & inner) != 0 ? leave_global_if_due(inner_node_.get()) : 0;
    base::unlock_contended(seen);
    if (sleepers != 0) P::wake(key, sleepers, all);
  }

  std::uint32_t leave_global_if_due(node_handle mine) {
    home& h = home_of(mine);
    if (h.turns.get() <= PassThreshold && h.tail.load(std::memory_order_relaxed) != mine) return 0;
    h.turns.set(0);
    return global_.release();
  }

  node_handle inner_successor(node_handle mine) { return successor_or_free<P, W>(home_of(mine).tail, mine); }

  alignas(128) ticket_woken_later<P, W> global_;
  home homes_[P::most_numa_nodes];
};

template <platform_with_priorities P, class W>
using loiter_cohort = basic_loiter_cohort<P, W, 64>;  // the threshold of cohort.hpp

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
