// Sources of a lock's queue nodes: the platform's thread records.
#pragma once

#include "usher/core/node.hpp"
#include "usher/core/platform.hpp"

namespace usher::inline v2 {

/// take() gets a node from the calling thread's record. give() may be called by any thread. It returns the node to the
/// record that it came from; on a platform where nodes belong to no record, it adds the node to the caller's record.
template <platform P>
struct home_nodes {
  static node_handle take() { return P::take_node(); }
  static void give(node_handle h) { P::give_node(h); }
};

/// Like home_nodes, for locks such as CLH (clh.hpp), in which a thread takes one node and may own another after unlock.
/// The thread caches that other node for its next acquisition.
template <platform P>
struct kept_nodes {
  static node_handle take() { return P::cached_node(); }
  static void give(node_handle h) { P::cache_node(h); }
};

/// Wraps a lock whose operations take a node: supplies the nodes, and stores the owner's node beside the lock.
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
    P::give_node(h);  // touches only the node: another thread may have destroyed the lock
  }

  /// Called by the owner. False only if another thread is certain to get the lock next.
  bool has_no_successor() const
    requires requires(const Lock& l, node_handle h) { l.has_no_successor(h); }
  {
    return lock_.has_no_successor(holder_.get());
  }

  bool has_certain_successor() const
    requires requires(const Lock& l, node_handle h) { l.has_certain_successor(h); }
  {
    return lock_.has_certain_successor(holder_.get());
  }

 private:
  Lock lock_;
  typename P::template plain<node_handle> holder_;
};

/// As with_thread_nodes, for a lock with two interfaces: lock(node) for threads with a node (regulars), lock() for
/// threads without a node (guests). A thread is a guest if it gets no node or asks to be one.
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
    P::give_node(h);  // touches only the node: another thread may have destroyed the lock
  }

  bool has_no_successor() const { return lock_.has_no_successor(holder_.get()); }

  void count_from(std::uint32_t n)
    requires requires(Lock& l) { l.count_from(n); }
  {
    lock_.count_from(n);
  }

 private:
  Lock lock_;
  typename P::template plain<node_handle> holder_;  ///< 0 while a guest holds the lock
};

}  // namespace usher::inline v2
