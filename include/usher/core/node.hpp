// The queue node that all queue locks share.
//
// Nodes are named by 32-bit handles, so that a lock with four links fits into the 16 bytes that a pthread_mutex_t
// leaves. Their memory is type-stable: a thread that reads a node which has changed hands still finds a node there.
// Native handles are below 2^20, and locks rely on handles below 2^24.
#pragma once

#include "usher/core/cxx20.hpp"

#include <cstdint>

namespace usher::inline v2 {

/// 0 is "no node". Handles below `first_node` are never nodes: locks use them as marks in a tail word.
using node_handle = std::uint32_t;
inline constexpr node_handle no_node = 0;
inline constexpr node_handle first_node = 16;

/// States of queue_node::flag:
///   waiting ──grant──► granted            the waiter was awake: no wake-up is needed
///   waiting ──waiter──► parked ──grant──► granted, and a wake-up
/// A lock may store more with `granted`, in the bits above `parked` (mcscr.hpp).
enum node_flag : std::uint32_t { flag_waiting = 0, flag_granted = 1, flag_parked = 2 };

template <class P>
struct queue_node {
  typename P::template atomic<node_handle> next;  ///< the node that arrived next; written by its thread
  typename P::template atomic<std::uint32_t> flag;
  typename P::template plain<node_handle> newer;  ///< links of a passive list; protected by the lock
  typename P::template plain<node_handle> older;
  typename P::template atomic<std::uint32_t> mark;  ///< for the lock (NUMA node, priority); prepare() leaves it
};

}  // namespace usher::inline v2
