// The common part of queue locks that take threads out of their queue and put them back: lists of queue nodes, each
// list named by one handle. Some of these locks prefer the threads of one NUMA node, called *home*. They also have a
// list of *remote* threads, those that ran on other NUMA nodes when they arrived.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §9.1, MCSCRN: "the identity of the currently preferred 'home' NUMA
// node, and a list of remote threads".
//
// The lock protects these lists and `home`. queue_node::mark is the NUMA node on which the node's thread arrived.
#pragma once

#include <type_traits>

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// A list of nodes, named by its youngest node, the one added last; no_node: empty. It is a ring:
///
///     youngest ─older→ … ─older→ eldest ─older→ youngest         `newer` links in the other direction
template <platform P>
struct node_ring {
  static node_handle eldest(node_handle youngest) { return P::node(youngest).newer.get(); }

  /// Adds a node. Returns the list's youngest node, as all operations that change a list do.
  static node_handle add(node_handle youngest, node_handle h) {
    P::node(h).older.set(h);
    P::node(h).newer.set(h);
    return join(youngest, h);
  }

  /// Joins two lists. All nodes of `after` must be younger than those of `before`.
  static node_handle join(node_handle before, node_handle after) {
    if (before == no_node) return after;
    if (after == no_node) return before;
    const node_handle first = eldest(before), second = eldest(after);
    link(second, before);
    link(first, after);
    return after;
  }

  static node_handle remove(node_handle youngest, node_handle h) {
    const node_handle older = P::node(h).older.get();
    if (older == h) return no_node;
    link(P::node(h).newer.get(), older);
    return h == youngest ? older : youngest;
  }

 private:
  static void link(node_handle newer, node_handle older) {
    P::node(newer).older.set(older);
    P::node(older).newer.set(newer);
  }
};

/// Nodes linked by `next`, as in a lock's queue.
struct node_chain {
  node_handle first = no_node, last = no_node;
};

/// Inserts a chain into the queue right behind the owner, whose node is `mine`.
template <platform P, class W>
void graft(typename P::template atomic<node_handle>& tail, node_handle mine, node_chain c) {
  node_handle next = P::node(mine).next.load(std::memory_order_acquire);
  P::node(c.last).next.store(no_node, std::memory_order_relaxed);
  if (next == no_node) {
    node_handle expected = mine;
    // Release: the store of no_node above must come before the link that the next arrival writes to the same `next`,
    // after it has found the node c.last in the tail; see (3) in mcscr.hpp. No acquire: the tail named this thread's
    // own node.
    if (tail.compare_exchange_strong(expected, c.last, std::memory_order_release, std::memory_order_relaxed)) return;
    next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
  }
  P::node(c.last).next.store(next, std::memory_order_relaxed);  // made visible by the grant
}

/// Home and the list of remote threads, in one word. The word is a member of this class, or the lock provides it. No
/// thread on the list arrived on the home node.
///
///     bits 0–23   the youngest remote thread's node, 0: none       bits 24–31   home
///
/// Handles are below 2^24: node.hpp.
template <platform P, class W, class Word = typename P::template plain<std::uint32_t>>
class remote_threads {
 public:
  static_assert(P::most_numa_nodes <= 256);

  constexpr remote_threads() = default;
  constexpr explicit remote_threads(Word word) : word_(word) {}

  /// Records the NUMA node of the calling thread in its queue node. An arriving thread calls this before it writes the
  /// link by which other threads reach the queue node.
  static void record_numa_node(node_handle mine) {
    P::node(mine).mark.store(P::numa_node(), std::memory_order_relaxed);
  }

  bool empty() const { return youngest() == no_node; }
  std::uint32_t home() const { return word_.get() >> handle_bits; }
  /// Called for the first node of a queue: empties the list and makes that node's NUMA node home.
  void begin(node_handle first) { set(no_node, numa_node_of(first)); }
  bool is_remote(node_handle h) const { return numa_node_of(h) != home(); }

  /// Moves remote threads from the queue's front to the list as long as the front has a known successor. It moves at
  /// most `most_culled` threads, so it takes constant time. Returns the node that is then at the front.
  node_handle cull(node_handle front) {
    for (unsigned i = 0; i < most_culled && is_remote(front); i++) {
      const node_handle behind = P::node(front).next.load(std::memory_order_acquire);
      if (behind == no_node) break;
      const std::uint32_t unchanged = home();  // read before add(): a fixed order for simulated runs
      set(node_ring<P>::add(youngest(), front), unchanged);
      front = behind;
    }
    return front;
  }

  /// Returns the next owner. This is `front`, unless `front` is remote and the last node of the queue: then home
  /// changes. If the list is empty, home becomes the NUMA node of `front`, which is the next owner. Otherwise it
  /// becomes that of the list's eldest thread, and the listed threads of this NUMA node are put before `front`.
  node_handle next_owner(node_handle front) {
    if (!is_remote(front) || P::node(front).next.load(std::memory_order_relaxed) != no_node) return front;
    if (empty()) {
      set(no_node, numa_node_of(front));
      return front;
    }
    const node_chain c = change_home();
    P::node(c.last).next.store(front, std::memory_order_relaxed);  // made visible by the grant
    return c.first;
  }

  /// Makes the NUMA node of the eldest remote thread home. Takes all threads of that NUMA node off the list, in the
  /// order in which they joined it. `residents` is a list of threads of the old home: they are remote now, and are
  /// appended to the list. The call walks over the whole list. The caller ensures that calls are rare, or that the list
  /// is empty after as many calls as there are NUMA nodes.
  node_chain change_home(node_handle residents = no_node) {
    const node_handle end = youngest();
    node_handle left = end, h = node_ring<P>::eldest(end);
    const std::uint32_t new_home = numa_node_of(h);
    node_chain moved;
    for (bool last = false; !last;) {
      const node_handle following = P::node(h).newer.get();
      last = h == end;
      if (numa_node_of(h) == new_home) {
        left = node_ring<P>::remove(left, h);
        if (moved.last != no_node)
          P::node(moved.last).next.store(h, std::memory_order_relaxed);  // made visible by the grant
        else
          moved.first = h;
        moved.last = h;
      }
      h = following;
    }
    set(node_ring<P>::join(left, residents), new_home);
    return moved;
  }

  /// As successor_or_free() of hand_over.hpp, for a lock that has only the queue and this list. On average one call in
  /// `period` makes the NUMA node of the eldest remote thread home.
  node_handle successor_or_free(typename P::template atomic<node_handle>& tail, node_handle mine,
                                std::uint32_t period) {
    return successor_or_free(tail, mine, [period] { return P::bernoulli(period); });
  }

  /// As the function above, but home changes when `is_due()` returns true.
  template <class Due>
    requires std::is_invocable_r_v<bool, Due>
  node_handle successor_or_free(typename P::template atomic<node_handle>& tail, node_handle mine, Due is_due) {
    if (!empty() && (is_due() || P::node(mine).next.load(std::memory_order_acquire) == no_node)) {
      const node_chain c = change_home();
      graft<P, W>(tail, mine, c);
      return c.first;
    }
    const node_handle next = usher::successor_or_free<P, W>(tail, mine);
    return next != no_node ? next_owner(cull(next)) : no_node;
  }

 private:
  static constexpr unsigned most_culled = 8;  // in one unlock; chosen, not measured
  static constexpr std::uint32_t handle_bits = 24;

  static std::uint32_t numa_node_of(node_handle h) { return P::node(h).mark.load(std::memory_order_relaxed); }
  node_handle youngest() const { return word_.get() & ((std::uint32_t{1} << handle_bits) - 1); }
  void set(node_handle youngest, std::uint32_t home) { word_.set(home << handle_bits | youngest); }

  Word word_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
