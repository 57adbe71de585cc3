// The hand-over through a queue node: a thread waits until its node is granted; unlock() grants the successor's.
//
// After the grant, the granting thread does not touch the node: the waiter may have released the node, and another
// thread may use it. The granting thread wakes a sleeper by a key that it has formed before the grant.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// Makes a node ready to be enqueued.
template <platform P>
void prepare(node_handle h) {
  auto& n = P::node(h);
  n.next.store(no_node, std::memory_order_relaxed);
  n.flag.store(flag_waiting, std::memory_order_relaxed);
}

/// Waits until `granted(flag)` is true for the node's flag.
template <platform P, class W, class Granted>
[[gnu::always_inline]] inline void wait_for_flag(node_handle h, Granted granted) {
  if constexpr (requires { P::count_grant(); }) P::count_grant();
  auto& flag = P::node(h).flag;
  if (W::poll(flag, granted)) return;
  if constexpr (W::parks) {
    std::uint32_t seen = flag_waiting;
    // (g1) Success needs no release for data: the granting thread reads nothing that this thread has written. On
    // failure the grant came first, and acquire pairs with (g2), the exchange in grant_by_flag().
    if (!flag.compare_exchange_strong(seen, flag_parked, std::memory_order_acq_rel, std::memory_order_acquire)) return;
    while (!granted(flag.load(std::memory_order_acquire))) P::park(flag, flag_parked, every_sleeper);
  }
}

template <platform P, class W>
[[gnu::cold]] void wait_for_grant(node_handle h) {
  wait_for_flag<P, W>(h, [](std::uint32_t f) { return f == flag_granted; });
}

/// Hands the lock to the thread that waits on this node. `granted`, the flag's last value, has the bit flag_granted; a
/// lock may use the bits above flag_parked.
template <platform P, class W>
[[gnu::always_inline]] inline void grant_by_flag(node_handle h, std::uint32_t granted) {
  auto& flag = P::node(h).flag;
  if constexpr (W::parks) {
    const wake_key key = P::key_of(flag);
    // (g2) release: publishes this thread's writes in the critical section to the acquire loads in wait_for_flag().
    if (flag.exchange(granted, std::memory_order_acq_rel) == flag_parked) P::wake(key, every_sleeper, 1);
  } else {
    flag.store(granted, std::memory_order_release);
  }
}

template <platform P, class W>
void grant(node_handle h) {
  grant_by_flag<P, W>(h, std::uint32_t{flag_granted});
}

/// Returns the node of the owner's successor. If there is no successor, frees the lock by setting `tail` to no_node,
/// and returns no_node. This is MCS's unlock without the hand-over.
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

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
