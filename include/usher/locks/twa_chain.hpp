// TWA with an array of chains: a far waiter (a thread whose distance is above 1, twa.hpp) adds its queue node to a
// chain of the waiting array, and watches only this node. A notification removes the whole chain and grants its nodes,
// whereupon their threads read the grant words of their locks again.
//
// Source: TWA (extended version), §6, last paragraph.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. As large as a ticket lock.
// Cost: lock one fetch-and-add, far waiters also a compare-and-swap each time they enter a chain. Unlock, spinning: a
// store, then one exchange on the array, after the hand-over. Unlock, parking: one exchange, then a load of the slot,
// and an exchange if it has a chain.
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
//     slot     0: no waiter     else the node that was added last ─next→ … ─next→ 0
//
//     t -> m   hang(): m.next is t (0: the chain was empty)
//     t -> 0   tell_all(), by an unlock or by a waiter in the chain whose turn is next: grants each node of the chain
//
// A waiter cannot remove only its own node from a chain. If it reads grant after it has entered the chain and finds
// that its turn is next, it removes the whole chain, as an unlock does, and grants all nodes. If another thread has
// just removed the chain, the waiter waits until that thread grants its node. Waiters of other numbers and other locks
// that were granted without need enter a chain again. A thread that gets no node watches the lock's grant word.
//
// The paper's nodes are on the waiters' stacks. Nodes with handles keep a slot at 32 bits, as in the other arrays.
// Also, a fork's child gets an empty array, not addresses on the stacks of threads that it lacks.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting_array.hpp"

namespace usher::inline v2 {

struct twa_chain_array {
  static constexpr std::uint32_t size = 4096;
  static constexpr table_kind kind = table_kind::chains;
};

template <platform_with_tables P, class W>
class twa_chain : ticket_words::front_end<P> {
  using base = ticket_words::front_end<P>;

 public:
  static constexpr lock_traits traits{
      .summary = "TWA whose far waiters watch words of their own, in chains",
      .paper = "TWA (extended), section 6",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .bounded_doorway = true,
      .words = 2,
      .checker_threads = 4,  // far waiters may share a slot
  };

  void lock() {
    P::doorway(this);
    const std::uint32_t mine = base::draw();
    if (!base::served(mine)) [[unlikely]]  // (1)
      wait(mine);
    P::admitted(this);
  }

  using base::try_lock;

  void unlock() {
    const std::uint32_t next = base::following();
    word& slot = slot_of(next + ticket_words::one);
    if constexpr (!W::parks) {
      grant_.store(next, std::memory_order_release);  // (2) release: pairs with (1). This is the hand-over
      tell_all(slot);
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1), the load in served(). Sequentially consistent, as are (3) and (5): either the load
      // of the slot below finds the waiter's node, or (5) sees the hand-over.
      if (grant_.exchange(next, std::memory_order_seq_cst) & ticket_words::asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
      if (slot.load(std::memory_order_seq_cst) != no_node) [[unlikely]]
        tell_all(slot);
    }
  }

  using base::count_from;

 private:
  using base::grant_;
  using typename base::word;

  word& slot_of(std::uint32_t number) const {
    return P::template table<twa_chain_array>()[waiting_array::hash(number, P::salt(this)) &
                                                (P::template table_size<twa_chain_array>() - 1)];
  }

  bool is_far(std::uint32_t mine, std::memory_order order) const { return base::distance_of(mine, order) > 1; }

  /// Removes the chain and grants its nodes, so that its waiters read their locks again.
  static void tell_all(word& slot) {
    // (4) acquire: pairs with (3), the compare-and-swap in hang(), so this thread sees the nodes' links. Release: a
    // later (3) sees the hand-over that preceded this exchange, because all changes of the slot are read-modify-writes.
    node_handle h = slot.exchange(no_node, std::memory_order_acq_rel);
    while (h != no_node) {
      const node_handle rest = P::node(h).next.load(std::memory_order_relaxed);  // read before the grant
      grant<P, W>(h);
      h = rest;
    }
  }

  [[gnu::cold, gnu::noinline]] void wait(std::uint32_t mine) {
    if (is_far(mine, std::memory_order_relaxed)) wait_far(mine);
    ticket_words::wait_until<P, W>(grant_, mine, every_sleeper);
  }

  void wait_far(std::uint32_t mine) {
    const node_handle me = P::take_node();
    if (me == no_node) return;
    word& slot = slot_of(mine);
    do {
      if (!hang(me, slot, mine)) break;
      if (!is_far(mine, std::memory_order_seq_cst)) tell_all(slot);  // (5) grants `me`, too, unless another thread does
      wait_for_grant<P, W>(me);
    } while (is_far(mine, std::memory_order_acquire));
    P::give_node(me);
  }

  /// Adds the caller's node to the chain and returns true. Threads of other locks that use the slot can make the
  /// compare-and-swap fail without bound. So hang() returns false if the caller has become the next in line or is
  /// served; the caller then watches grant.
  bool hang(node_handle me, word& slot, std::uint32_t mine) {
    prepare<P>(me);
    node_handle first = slot.load(std::memory_order_relaxed);
    for (;;) {
      P::node(me).next.store(first, std::memory_order_relaxed);
      // (3) release: publishes the node and its link to (4), the exchange in tell_all(). Sequentially consistent, as
      // (2) in unlock() requires.
      if (slot.compare_exchange_strong(first, me, std::memory_order_seq_cst, std::memory_order_relaxed)) return true;
      if (!is_far(mine, std::memory_order_relaxed)) return false;
      P::backoff(0);
    }
  }
};

}  // namespace usher::inline v2
