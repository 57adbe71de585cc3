// TWA with an array of chains: a far waiter puts a queue node of its own into a chain of the waiting array and watches
// that node alone. A notification takes the whole chain off and tells all its waiters to look at their lock again.
//
// Source: TWA (extended version), §6, last paragraph.
// Guarantees: FIFO (doorway: the fetch-and-add); no thread is overtaken or starves. As large as a ticket lock.
// Cost: lock one fetch-and-add, far waiters also a compare-and-swap each time they enter a chain. Unlock, spinning: a
// store, then one exchange on the array, after the hand-over. Unlock, parking: one exchange, then a look at the array,
// and an exchange if a chain is there.
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
//     slot     0: no waiter     else the node that was added last ─next→ … ─next→ 0
//
//     t -> m   hang(): m.next is t (0: the chain was empty)
//     t -> 0   tell_all(), by an unlock, or by a waiter in the chain that finds itself near: grants each node of the
//              chain
//
// A waiter cannot remove its own node from a chain. If the waiter then reads grant and finds that it is near, it takes
// the whole chain off as an unlock does, and tells the others; if another thread has just taken the chain off, the
// waiter waits until that thread tells it. Waiters of other numbers and other locks that are told in vain enter a chain
// again. A thread that gets no node watches grant.
//
// The paper's nodes are on the waiters' stacks. Ours have handles, so that a slot has 32 bits as in the other arrays,
// and a child of a fork finds an empty array, not nodes on the stacks of threads that it does not have.
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
      grant_.store(next, std::memory_order_release);  // (2) release: pairs with (1). First, the hand-over
      tell_all(slot);
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1), the load in served(). Sequentially consistent with (3) and (5): either the load of
      // the slot below finds the waiter's node, or the waiter sees the hand-over.
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

  /// Takes a chain off and tells all its waiters.
  static void tell_all(word& slot) {
    // (4) acquire: pairs with (3), the compare-and-swap in hang(), so that this thread sees the nodes' links. Release:
    // a later (3) sees the hand-over that preceded this exchange, since all changes of the slot are read-modify-writes.
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
      if (!is_far(mine, std::memory_order_seq_cst)) tell_all(slot);  // (5) this waiter, too, unless it is being told
      wait_for_grant<P, W>(me);
    } while (is_far(mine, std::memory_order_acquire));
    P::give_node(me);
  }

  /// Adds the caller's node to the chain. Threads of other locks that use the slot can make the compare-and-swap fail
  /// without bound: so hang() returns false once at most one unlock remains until the caller is served; the caller then
  /// watches grant.
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
