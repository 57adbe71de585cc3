// What queue locks share that prefer threads of one NUMA node: the node they prefer, home, and the list of remote threads
// that were taken out of the queue. In one word; protected by the lock.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), §9.1, MCSCRN: "the identity of the currently preferred 'home' NUMA node,
// and a list of remote threads".
//
//     bits 0–23   the node of the youngest remote thread, 0: none       bits 24–31   home
//
//     youngest ─older→ eldest ─older→ … ─older→ youngest                a ring: both ends are at hand
//
// queue_node::mark is the NUMA node where the thread ran when it arrived. Handles are below 2^24: see region() in
// platform/native.hpp.
#pragma once

#include "usher/queue_node.hpp"

namespace usher {

template <platform P, class W>
class remote_threads {
 public:
  static_assert(P::most_numa_nodes <= 256);

  /// By a thread that arrives, before others can see its node.
  static void note_place(node_handle mine) { P::node(mine).mark.store(P::numa_node(), std::memory_order_relaxed); }

  bool empty() const { return youngest() == no_node; }
  bool is_remote(node_handle h) const { return place_of(h) != home(); }
  void move_home_to(node_handle h) { set(youngest(), place_of(h)); }

  /// Out of the queue, onto the list, who stands at the front and is remote; as long as somebody is known to stand behind,
  /// and a few at most. Returns who is then in front.
  node_handle cull(node_handle front) {
    for (unsigned i = 0; i < most_culled && is_remote(front); i++) {
      const node_handle behind = P::node(front).next.load(std::memory_order_acquire);
      if (behind == no_node) break;
      push(front);
      front = behind;
    }
    return front;
  }

  void push(node_handle h) {
    const node_handle last = youngest();
    P::node(h).older.set(last != no_node ? P::node(last).older.get() : h);
    if (last != no_node) P::node(last).older.set(h);
    set(h, home());
  }

  struct chain {
    node_handle first, last;
  };

  /// Home becomes where the eldest remote thread runs. Takes all that run there off the list, in their order, linked as
  /// they are in a queue. Long lists take long; the caller sees to it that this is rare.
  chain change_home() {
    const node_handle eldest = P::node(youngest()).older.get(), end = youngest();
    const std::uint32_t new_home = place_of(eldest);
    chain moved{no_node, no_node};
    set(no_node, new_home);
    for (node_handle h = eldest, rest;; h = rest) {
      rest = P::node(h).older.get();
      if (place_of(h) != new_home) {
        push(h);
      } else {
        if (moved.last != no_node)
          P::node(moved.last).next.store(h, std::memory_order_relaxed);  // made visible by the grant
        else
          moved.first = h;
        moved.last = h;
      }
      if (h == end) break;
    }
    return moved;
  }

  /// As successor_or_free() of queue_node.hpp, among threads at home if there are any. One in `period` looks elsewhere.
  node_handle successor_or_free(typename P::template atomic<node_handle>& tail, node_handle mine,
                                std::uint32_t period) {
    if (!empty() && (P::bernoulli(period) || P::node(mine).next.load(std::memory_order_acquire) == no_node)) {
      const chain c = change_home();
      graft(tail, mine, c);
      return c.first;
    }
    node_handle next = usher::successor_or_free<P, W>(tail, mine);
    if (next == no_node) return no_node;
    next = cull(next);
    if (is_remote(next)) move_home_to(next);
    return next;
  }

  /// Puts a chain into the queue right behind the holder, who leaves.
  static void graft(typename P::template atomic<node_handle>& tail, node_handle mine, chain c) {
    node_handle next = P::node(mine).next.load(std::memory_order_acquire);
    P::node(c.last).next.store(no_node, std::memory_order_relaxed);
    if (next == no_node) {
      node_handle expected = mine;
      // Release: the links; pairs with the exchange of tail by whoever arrives next, and writes into c.last.
      if (tail.compare_exchange_strong(expected, c.last, std::memory_order_acq_rel, std::memory_order_relaxed)) return;
      next = W::await_soon(P::node(mine).next, [](node_handle h) { return h != no_node; });
    }
    P::node(c.last).next.store(next, std::memory_order_relaxed);  // made visible by the grant
  }

 private:
  static constexpr unsigned most_culled = 8;  // an unlock; chosen, not measured
  static constexpr std::uint32_t handle_bits = 24;

  static std::uint32_t place_of(node_handle h) { return P::node(h).mark.load(std::memory_order_relaxed); }
  node_handle youngest() const { return word_.get() & ((std::uint32_t{1} << handle_bits) - 1); }
  std::uint32_t home() const { return word_.get() >> handle_bits; }
  void set(node_handle h, std::uint32_t home) { word_.set(home << handle_bits | h); }

  typename P::template plain<std::uint32_t> word_;
};

}  // namespace usher
