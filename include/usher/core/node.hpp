// The queue node of all queue locks.
//
// 32-bit handles name the nodes, so that a lock with four links fits into the 16 free bytes of a pthread_mutex_t. The
// nodes' memory is type-stable: a thread that reads a node which another thread has taken in the meantime still reads a
// node. Native handles are below 2^20, and locks rely on handles below 2^24.
#pragma once

#include "usher/core/cxx20.hpp"

#include <cstdint>

namespace usher::inline v2 {

/// 0 is "no node". Handles below `first_node` never name a node: locks use them as marks in a tail word.
using node_handle = std::uint32_t;
inline constexpr node_handle no_node = 0;
inline constexpr node_handle first_node = 16;

/// States of queue_node::flag. The waiter changes it to `parked` before it sleeps; the grant changes it to `granted`:
///   waiting ──grant──► granted            no wake-up: the waiter was awake
///   waiting ──waiter──► parked ──grant──► granted, and a wake-up
/// A lock may store more with `granted`, in the bits above `parked` (mcscr.hpp).
enum node_flag : std::uint32_t { flag_waiting = 0, flag_granted = 1, flag_parked = 2 };

template <class P>
struct queue_node {
  typename P::template atomic<node_handle> next;  ///< the node of the thread that arrived next; written by that thread
  typename P::template atomic<std::uint32_t> flag;
  typename P::template plain<node_handle> newer;  ///< with `older`: links of a passive list; protected by the lock
  typename P::template plain<node_handle> older;
  typename P::template atomic<std::uint32_t> mark;  ///< for the lock (NUMA node, priority); prepare() does not write it
};

}  // namespace usher::inline v2
