// TWA with an array of chains: a far waiter hangs a queue node of its own into a chain of the waiting array and watches
// that node alone. A notification takes the whole chain off and tells all who are in it to look at their lock again.
//
// Source: TWA (extended version), §6, last paragraph.
// Guarantees: FIFO (doorway: the fetch-and-add); nobody is overtaken, nobody starves. As large as a ticket lock.
// Cost: lock one fetch-and-add, far waiters a compare-and-swap a turn. Unlock, spinning: a store, then one exchange on
// the array, after the hand-over. Unlock, parking: one exchange, then a look at the array, and an exchange if a chain is
// there.
// Layout: two 32-bit words in one line, ticket_words.hpp.
//
//     slot     0: nobody     else the node that came last ─next→ … ─next→ 0
//
// Who is in a chain can't leave it by itself. If its look at grant says that it is near, it takes the chain off as an
// unlock does, and tells the others; if somebody else has just done so, it waits until it is told. Waiters of other
// numbers and other locks that are told in vain come back. A thread that can have no node watches grant.
//
// The paper's nodes are on the waiters' stacks. Ours have handles, so that a slot has 32 bits like all the others', and
// a child of a fork finds an empty array, not the stacks of threads that it does not have.
#pragma once

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting_array.hpp"

namespace usher::inline v1 {

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
      grant_.store(next, std::memory_order_release);  // (2) hand-over first …
      tell_all(slot);                                 // … then the chain
    } else {
      const wake_key key = P::key_of(grant_);
      // (2) release: pairs with (1). Sequentially consistent with (3) and (5): either this look at the slot finds the
      // node, or its owner sees the hand-over.
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

  /// Takes a chain off and tells all who are in it.
  static void tell_all(word& slot) {
    // (4) acquire: the nodes' links; pairs with (3). Release: (3) after it sees the hand-over that came before it, for
    // the slot is only ever changed by read-modify-writes.
    node_handle h = slot.exchange(no_node, std::memory_order_acq_rel);
    while (h != no_node) {
      const node_handle rest = P::node(h).next.load(std::memory_order_relaxed);  // first: it is its owner's once told
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
      if (!is_far(mine, std::memory_order_seq_cst)) tell_all(slot);  // (5): me, too, unless I am just being told
      wait_for_grant<P, W>(me);
    } while (is_far(mine, std::memory_order_acquire));
    P::give_node(me);
  }

  /// False if the caller has come near before its node was in the chain: the threads of other locks that use the slot can make
  /// the compare-and-swap fail for as long as they like.
  bool hang(node_handle me, word& slot, std::uint32_t mine) {
    prepare<P>(me);
    node_handle first = slot.load(std::memory_order_relaxed);
    for (;;) {
      P::node(me).next.store(first, std::memory_order_relaxed);
      // (3) release: the node; pairs with (4). Sequentially consistent, see (2).
      if (slot.compare_exchange_strong(first, me, std::memory_order_seq_cst, std::memory_order_relaxed)) return true;
      if (!is_far(mine, std::memory_order_relaxed)) return false;
      P::backoff(0);
    }
  }
};

}  // namespace usher::inline v1
