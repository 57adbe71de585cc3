// The hand-over through a queue node: a thread waits until its node is granted, and unlock() grants the node of the
// successor.
//
// After the grant, the granting thread does not touch the node: the waiter may have given the node back, and another
// thread may use it. The granting thread wakes a sleeper by a key that it has formed before the grant.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"

// gcc's -Wshadow warns if a parameter of a lambda or local class of this header has the name of an object of the
// including program. So the warning is off here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"

namespace usher::inline v1 {

/// Makes a node ready to be enqueued.
template <platform P>
void prepare(node_handle h) {
  auto& n = P::node(h);
  n.next.store(no_node, std::memory_order_relaxed);
  n.flag.store(flag_waiting, std::memory_order_relaxed);
}

/// Waits until the node is granted.
template <platform P, class W>
[[gnu::cold]] void wait_for_grant(node_handle h) {
  if constexpr (requires { P::count_grant(); }) P::count_grant();
  auto& flag = P::node(h).flag;
  if (W::poll(flag, [](std::uint32_t f) { return f == flag_granted; })) return;
  if constexpr (W::parks) {
    std::uint32_t seen = flag_waiting;
    // (g1) Success needs no release for data: the granting thread reads nothing that this thread has written. On
    // failure the grant came first, and acquire pairs with (g2), the exchange in grant().
    if (!flag.compare_exchange_strong(seen, flag_parked, std::memory_order_acq_rel, std::memory_order_acquire)) return;
    while (flag.load(std::memory_order_acquire) != flag_granted) P::park(flag, flag_parked, every_sleeper);
  }
}

/// Hands the lock to the thread that waits on this node. The node may be reused before the wake-up, which is then a
/// spurious one for another thread.
template <platform P, class W>
void grant(node_handle h) {
  auto& flag = P::node(h).flag;
  if constexpr (W::parks) {
    const wake_key key = P::key_of(flag);
    // (g2) release: publishes this thread's writes in the critical section to the acquire loads in wait_for_grant().
    if (flag.exchange(flag_granted, std::memory_order_acq_rel) == flag_parked) P::wake(key, every_sleeper, 1);
  } else {
    flag.store(flag_granted, std::memory_order_release);
  }
}

/// Returns the successor of the owner's node. If there is none, sets `tail` to free and returns no_node. This is MCS's
/// unlock without the hand-over.
template <platform P, class W>
node_handle successor_or_free(typename P::template atomic<node_handle>& tail, node_handle mine) {
  auto& next = P::node(mine).next;
  if (node_handle s = next.load(std::memory_order_acquire)) return s;
  node_handle expected = mine;
  if (tail.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
    return no_node;
  // A successor has exchanged the tail but has not yet written the link: this thread waits for the link.
  return W::await_soon(next, [](node_handle s) { return s != no_node; });
}

}  // namespace usher::inline v1

#pragma GCC diagnostic pop
