// The queue node that all queue locks share, and the hand-over through it.
//
// Nodes are named by 32-bit handles, so that a lock with four links fits into the 16 bytes that a pthread_mutex_t
// leaves. Their memory is type-stable: a thread may look at a node that has changed hands, it will find a node.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/waiting.hpp"

namespace usher::inline v1 {

/// 0 is "no node". Handles below `first_node` are never nodes: locks use them as marks in a tail word.
using node_handle = std::uint32_t;
inline constexpr node_handle no_node = 0;
inline constexpr node_handle first_node = 16;

/// States of queue_node::flag:
///   waiting ──grant──► granted            the waiter was awake: no wake needed
///   waiting ──waiter──► parked ──grant──► granted + wake
enum node_flag : std::uint32_t { flag_waiting = 0, flag_granted = 1, flag_parked = 2 };

template <class P>
struct queue_node {
  typename P::template atomic<node_handle> next;  ///< who arrived after me; written by them
  typename P::template atomic<std::uint32_t> flag;
  typename P::template plain<node_handle> newer;  ///< links of a passive list; protected by the lock
  typename P::template plain<node_handle> older;
  typename P::template atomic<std::uint32_t> mark;  ///< what a lock likes to know of the thread: prepare() leaves it
};

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
  auto& flag = P::node(h).flag;
  if (W::poll(flag, [](std::uint32_t f) { return f == flag_granted; })) return;
  if constexpr (W::parks) {
    std::uint32_t seen = flag_waiting;
    // (g1) release on success is not needed for data: it orders nothing that the granter reads. Acquire on failure
    // pairs with (g2): the granter came first.
    if (!flag.compare_exchange_strong(seen, flag_parked, std::memory_order_acq_rel, std::memory_order_acquire)) return;
    while (flag.load(std::memory_order_acquire) != flag_granted) P::park(flag, flag_parked, every_sleeper);
  }
}

/// Hands the lock to the thread that waits on this node. The node may be reused before the wake: the wake is then a
/// stray one.
template <platform P, class W>
void grant(node_handle h) {
  auto& flag = P::node(h).flag;
  if constexpr (W::parks) {
    const wake_key key = P::key_of(flag);
    // (g2) release: what this thread did in the critical section; pairs with the acquire loads in wait_for_grant.
    if (flag.exchange(flag_granted, std::memory_order_acq_rel) == flag_parked) P::wake(key, every_sleeper, 1);
  } else {
    flag.store(flag_granted, std::memory_order_release);
  }
}

/// The successor of a node at the moment of unlocking, or no_node after the queue was found empty and `tail` put
/// back to free (this is MCS's release up to the hand-over).
template <platform P, class W>
node_handle successor_or_free(typename P::template atomic<node_handle>& tail, node_handle mine) {
  auto& next = P::node(mine).next;
  if (node_handle s = next.load(std::memory_order_acquire)) return s;
  node_handle expected = mine;
  if (tail.compare_exchange_strong(expected, no_node, std::memory_order_release, std::memory_order_relaxed))
    return no_node;
  // Somebody has swapped the tail but not yet written the link.
  return W::await_soon(next, [](node_handle s) { return s != no_node; });
}

/// Where a lock has its nodes from: the calling thread's record. They go back there, whoever gives them back; or, where nodes
/// have no home, to the record of whoever does.
template <platform P>
struct home_nodes {
  static node_handle take() { return P::take_node(); }
  static void give(node_handle h) { P::give_node(h); }
};

/// The same for locks that let nodes wander: a thread keeps the node that it was left with for its next acquisition.
template <platform P>
struct kept_nodes {
  static node_handle take() { return P::borrow_node(); }
  static void give(node_handle h) { P::keep_node(h); }
};

/// Gives thread nodes to a lock whose operations take one, and keeps the holder's node beside it.
template <platform P, class Lock>
class with_thread_nodes {
 public:
  void lock() {
    P::doorway(this);
    node_handle h;
    while ((h = P::take_node()) == no_node) P::backoff(1000000);  // all nodes are in use
    lock_.lock(h);
    holder_.set(h);
    P::admitted(this);
  }

  bool try_lock() {
    const node_handle h = P::take_node();
    if (h == no_node) return false;
    if (!lock_.try_lock(h)) {
      P::give_node(h);
      return false;
    }
    holder_.set(h);
    return true;
  }

  void unlock() {
    const node_handle h = holder_.get();
    lock_.unlock(h);
    P::give_node(h);  // touches the node only: the lock may be gone
  }

  /// Asked by the holder. False only if another thread is certain to get the lock after it.
  bool alone() const
    requires requires(const Lock& l, node_handle h) { l.alone(h); }
  {
    return lock_.alone(holder_.get());
  }

  bool contended() const
    requires requires(const Lock& l, node_handle h) { l.contended(h); }
  {
    return lock_.contended(holder_.get());
  }

 private:
  Lock lock_;
  typename P::template plain<node_handle> holder_;
};

/// The same for a lock with two faces, lock(node) for regulars and lock() for guests. A thread is a regular if it can have a
/// node, or else a guest; or it says that it is one.
template <platform P, class Lock>
class admits_guests {
 public:
  void lock() {
    P::doorway(this);
    const node_handle h = P::take_node();
    if (h != no_node) [[likely]]
      lock_.lock(h);
    else
      lock_.lock();
    holder_.set(h);
    P::admitted(this);
  }

  void lock_as_guest() {
    P::doorway(this);
    lock_.lock();
    holder_.set(no_node);
    P::admitted(this);
  }

  bool try_lock() {
    const node_handle h = P::take_node();
    if (!(h != no_node ? lock_.try_lock(h) : lock_.try_lock())) {
      if (h != no_node) P::give_node(h);
      return false;
    }
    holder_.set(h);
    return true;
  }

  bool try_lock_as_guest() {
    if (!lock_.try_lock()) return false;
    holder_.set(no_node);
    return true;
  }

  void unlock() {
    const node_handle h = holder_.get();
    if (h == no_node) [[unlikely]]
      return lock_.unlock();
    lock_.unlock(h);
    P::give_node(h);  // touches the node only: the lock may be gone
  }

  /// Asked by the holder. False only if another thread is certain to get the lock after it.
  bool alone() const { return lock_.alone(holder_.get()); }

 private:
  Lock lock_;
  typename P::template plain<node_handle> holder_;  ///< 0 while a guest holds the lock
};

}  // namespace usher::inline v1
