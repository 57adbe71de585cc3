// What queue locks share that take threads out of their queue and put them back: lists of queue nodes in one handle each,
// and of locks that prefer threads of one NUMA node, which they call home, the list of the remote ones.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §9.1, MCSCRN: "the identity of the currently preferred 'home' NUMA node,
// and a list of remote threads".
//
// All this is protected by the lock. queue_node::mark is the NUMA node where the thread ran when it arrived.
#pragma once

#include <type_traits>

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"

namespace usher::inline v1 {

/// A list named by its youngest node, the one put in last; no_node: empty. A ring, so that both ends are at hand:
///
///     youngest ─older→ … ─older→ eldest ─older→ youngest         newer: the other way round
template <platform P>
struct node_ring {
  static node_handle eldest(node_handle youngest) { return P::node(youngest).newer.get(); }

  /// Returns the youngest, as all that change a list.
  static node_handle add(node_handle youngest, node_handle h) {
    P::node(h).older.set(h);
    P::node(h).newer.set(h);
    return join(youngest, h);
  }

  /// All of `after` are younger.
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

/// Nodes linked as they are in a queue.
struct node_chain {
  node_handle first = no_node, last = no_node;
};

/// Puts a chain into the queue right behind the holder, whose node is `mine`.
template <platform P, class W>
void graft(typename P::template atomic<node_handle>& tail, node_handle mine, node_chain c) {
  node_handle next = P::node(mine).next.load(std::memory_order_acquire);
  P::node(c.last).next.store(no_node, std::memory_order_relaxed);
  if (next == no_node) {
    node_handle expected = mine;
    // Release: its next is no_node before whoever arrives next finds it in the tail and writes itself there. mcscr.hpp (3) has
    // the argument. Tail was ours: no acquire.
    if (tail.compare_exchange_strong(expected, c.last, std::memory_order_release, std::memory_order_relaxed)) return;
    next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
  }
  P::node(c.last).next.store(next, std::memory_order_relaxed);  // made visible by the grant
}

/// Home and the remote threads, in one word: a lock's own, or where it has a place for one. Nobody on the list is at home.
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

  /// By a thread that arrives, before it writes the link by which others come to its node.
  static void record_numa_node(node_handle mine) {
    P::node(mine).mark.store(P::numa_node(), std::memory_order_relaxed);
  }

  bool empty() const { return youngest() == no_node; }
  std::uint32_t home() const { return word_.get() >> handle_bits; }
  /// By the first of a queue: nobody is remote, and home is where it runs.
  void begin(node_handle first) { set(no_node, numa_node_of(first)); }
  bool is_remote(node_handle h) const { return numa_node_of(h) != home(); }

  /// Takes remote threads off the queue's front, while somebody is known to stand behind them, and a few at most: constant
  /// time. Returns who is then in front.
  node_handle cull(node_handle front) {
    for (unsigned i = 0; i < most_culled && is_remote(front); i++) {
      const node_handle behind = P::node(front).next.load(std::memory_order_acquire);
      if (behind == no_node) break;
      set(node_ring<P>::add(youngest(), front), home());
      front = behind;
    }
    return front;
  }

  /// Who is first, when `front` is all that is left of the queue: a thread from home, or somebody on the list, or nobody
  /// else than `front`. Home moves there.
  node_handle settle(node_handle front) {
    if (!is_remote(front) || P::node(front).next.load(std::memory_order_relaxed) != no_node) return front;
    if (empty()) {
      set(no_node, numa_node_of(front));
      return front;
    }
    const node_chain c = change_home();
    P::node(c.last).next.store(front, std::memory_order_relaxed);  // made visible by the grant
    return c.first;
  }

  /// Home becomes where the eldest remote thread runs. Takes all that run there off the list, in the order in which they
  /// came there. `residents`: a list of threads at home; they are remote now, and go to the end of the list. A walk over
  /// the list: the caller sees to it that this is rare, or that the list is empty after as many changes as there are nodes.
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

  /// As successor_or_free() of hand_over.hpp, for a queue without other lists. One in `period` looks for home elsewhere.
  node_handle successor_or_free(typename P::template atomic<node_handle>& tail, node_handle mine,
                                std::uint32_t period) {
    return successor_or_free(tail, mine, [period] { return P::bernoulli(period); });
  }

  /// The same; home moves where `is_due()`.
  template <class Due>
    requires std::is_invocable_r_v<bool, Due>
  node_handle successor_or_free(typename P::template atomic<node_handle>& tail, node_handle mine, Due is_due) {
    if (!empty() && (is_due() || P::node(mine).next.load(std::memory_order_acquire) == no_node)) {
      const node_chain c = change_home();
      graft<P, W>(tail, mine, c);
      return c.first;
    }
    const node_handle next = usher::successor_or_free<P, W>(tail, mine);
    return next != no_node ? settle(cull(next)) : no_node;
  }

 private:
  static constexpr unsigned most_culled = 8;  // an unlock; chosen, not measured
  static constexpr std::uint32_t handle_bits = 24;

  static std::uint32_t numa_node_of(node_handle h) { return P::node(h).mark.load(std::memory_order_relaxed); }
  node_handle youngest() const { return word_.get() & ((std::uint32_t{1} << handle_bits) - 1); }
  void set(node_handle youngest, std::uint32_t home) { word_.set(home << handle_bits | youngest); }

  Word word_;
};

}  // namespace usher::inline v1
