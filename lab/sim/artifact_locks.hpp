// The forms that locks have in the program of the MCSg paper's authors (foedus_results, 20151209). They differ from the
// catalogue's locks in the layout of nodes, in the pauses between attempts, and in the polling of waiters. Only the
// simulated program mcsg-artifact uses them.
//
// All waiters poll by a loop of loads without PAUSE, and no loop of attempts has a pause, except where a class below
// has one. Where a detail of the authors' program is not known, the form here keeps the catalogue's:
//   - A node is prepared before it is enqueued. In the paper a waiter sets its flag after its exchange of the tail.
//   - A regular thread's release loads the link before it tries to free the lock, as in the original MCS lock. The
//     paper's Algorithm 3 begins with the compare-and-swap.
//   - A guest of MCSg+ and MCSg++ that finds another guest in the tail polls the tail before its next exchange.
#pragma once

#include <algorithm>
#include <utility>

#include "lab/sim/runtime.hpp"
#include "lab/sim/simulated_platform.hpp"
#include "usher/core/mcs_queue.hpp"
#include "usher/locks/cohort.hpp"
#include "usher/locks/mcsg.hpp"
#include "usher/locks/mcsg_plus.hpp"

namespace usher::sim::artifact {

/// The platform without pauses: a poll takes 5 cycles, the hit in the first cache (4) and a compare with a branch (1).
/// Assumed: a loop of attempts costs one cycle besides its attempt.
struct no_pause : simulated {
  using simulated::await;
  template <class T, class Pred>
  static T await(const atomic<T>& w, Pred pred, std::memory_order o, pacing::endless<pacing::by::polling>) {
    return poll_every(5, w, pred, o);
  }
  /// Reads the clock between two polls until 100 cycles have passed.
  template <class T, class Pred>
  static T await_by_clock(const atomic<T>& w, Pred pred) {
    return poll_every(100, w, pred, std::memory_order_acquire);
  }
  static void backoff(std::uint64_t ns) {
    auto& s = simulation::current();
    s.compute(std::max<cycles>(1, s.on().from_ns(ns)));
  }
};

/// Puts the nodes' links and waiting flags into two separate arrays, whose slots are 256 bytes apart.
struct two_arrays : no_pause {
  static spread_node& node(node_handle h) { return runtime::current().spread(h); }
};

/// The pauses of MCSg. A leader retries at once. A guest counts a volatile counter to 256, then to 512, and so on to at
/// most 2^20. Assumed: one count takes 6 cycles, 5 for the load that is forwarded the stored value and 1 for the
/// addition.
class counted_pauses {
 public:
  static constexpr bool leader_watches = false, guest_looks_first = false;

  void after_failure() {
    simulation::current().compute(turns_ * cycles_a_turn);
    if (turns_ < 1u << 20) turns_ *= 2;
  }

 private:
  static constexpr cycles cycles_a_turn = 6;
  cycles turns_ = 256;
};

/// The tickets of MCSg++'s leaders, in a memory block of their own. The authors' tickets have 16 bits, and begin at 1.
template <class P, class W>
struct alignas(256) turns_apart : leader_turns<P, W> {
  template <class Word, class Pred>
  static void await_no_guest(const Word& tail, Pred pred) {
    P::await_by_clock(tail, pred);
  }
};

/// MCSg+: leaders draw tickets and pass turns on, but do not wait for them.
template <class P, class W>
struct unawaited_turns : turns_apart<P, W> {
  static constexpr bool in_order = false;
  static void await(std::uint32_t) {}
};

/// A loop of compare-and-swap without a load before it; the release is sequentially consistent.
template <class P, class W>
class tatas {
 public:
  static constexpr lock_traits traits{.summary = "compare-and-swap in a loop", .paper = "MCSg, section 6.1"};

  void lock() {
    P::doorway(this);
    while (!try_lock()) P::backoff(0);
    P::admitted(this);
  }
  bool try_lock() {
    std::uint32_t expected = 0;
    return word_.compare_exchange_strong(expected, 1, std::memory_order_seq_cst, std::memory_order_seq_cst);
  }
  void unlock() { word_.store(0, std::memory_order_seq_cst); }

 private:
  typename P::template atomic<std::uint32_t> word_;
};

/// C-MCSg-MCS. Each waiter's node has, beside the waiting flag, the word that tells the waiter whether it inherits the
/// global lock. So no line is shared by all holders of a socket. Assumed: the lock's node in the global queue belongs
/// to the socket, and the global lock is released before the local one, as in "Lock cohorting" (Dice, Marathe, Shavit).
template <class P, class W>
class cohort_inherited_by_node {
 public:
  static constexpr lock_traits traits = c_mcsg_mcs<P, W>::traits;

  void lock() {
    P::doorway(this);
    home& h = homes_[P::numa_node()];
    const node_handle mine = P::cached_node();
    if (h.global_node == no_node) h.global_node = P::take_node();
    prepare<P>(mine);
    const node_handle previous = enqueue<P>(h.tail, mine);
    std::uint32_t hand_overs = 0;
    if (previous != no_node) {
      wait_behind<P, W>(previous, mine);
      hand_overs = P::node(mine).mark.load(std::memory_order_relaxed);
    }
    if (hand_overs == 0) global_.lock(h.global_node);
    P::cache_node(mine);
    holder_ = {&h, mine, hand_overs};
    P::admitted(this);
  }
  bool try_lock() { return false; }
  void lock_as_guest() {
    P::doorway(this);
    global_.lock();
    holder_ = {};
    P::admitted(this);
  }
  void unlock() {
    const holder was = holder_;
    if (was.of == nullptr) return global_.unlock();
    const node_handle next = P::node(was.node).next.load(std::memory_order_acquire);
    if (next != no_node && was.hand_overs < most_hand_overs) return hand_over(next, was.hand_overs + 1);
    global_.unlock(was.of->global_node);
    if (const node_handle first = successor_or_free<P, W>(was.of->tail, was.node)) hand_over(first, 0);
  }

 private:
  static constexpr std::uint32_t most_hand_overs = 64;

  struct alignas(256) home {
    typename P::template atomic<node_handle> tail;
    node_handle global_node = no_node;  // not simulated: it never changes after the first lock()
  };
  struct holder {
    home* of = nullptr;  ///< null: a guest
    node_handle node = no_node;
    std::uint32_t hand_overs = 0;  ///< within the socket, since it acquired the global lock
  };

  static void hand_over(node_handle to, std::uint32_t hand_overs) {
    P::node(to).mark.store(hand_overs, std::memory_order_relaxed);
    grant<P, W>(to);
  }

  alignas(256) mcsg_with_node<P, W, counted_pauses> global_;
  holder holder_;  // not simulated: the unlocking thread knows it
  home homes_[P::most_numa_nodes];
};

}  // namespace usher::sim::artifact
