// LIFO-CR: waiters are on a stack, and an unlock pops the latest one and grants it the lock, so that few threads
// circulate. With a small probability an unlock serves the eldest waiter, at the bottom, instead. Three other forms: in
// `lifo`, the pure LIFO lock, no unlock serves the eldest, so a waiter may starve. In `lifo-cr-ahead`, an unlock also
// wakes the waiter that is then on top, if it sleeps: core/wake_ahead.hpp. In `lifo-cr-stack`, a waiter's node is an
// object in its call of lock(), so the lock needs no thread records.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), appendix A.2; footnotes 41 (the pure form) and 19 (ahead).
// Guarantees: not FIFO. Work-conserving: never free while a thread is on the stack. `lifo`: no bound on bypass, a
// waiter may starve. Otherwise every waiter on the stack is admitted with probability one (doorway: the
// compare-and-swap that pushes it), because each unlock serves the eldest with probability 1/1000. The way to the
// doorway is not bounded: the compare-and-swap fails whenever another thread has pushed or popped meanwhile.
// Cost: lock and unlock one compare-and-swap each. A hand-over to the latest waiter is one compare-and-swap, not
// repeated if it fails. A hand-over to the eldest walks down the stack. `lifo-cr-ahead`: also a load of the flag of the
// waiter on top; if that waiter sleeps, a store and a system call.
// Layout: one 32-bit word; `lifo-cr-stack`: one 64-bit word. A thread needs a queue node only while it waits.
//
//     0             free
//     1             held, no thread waits
//     ≥ first_node  held; the node of the thread that arrived last. Its `next` is the node that arrived before it, 0 at
//                   the bottom
//
//     0 -> 1        lock(), try_lock(); push(), if it finds the lock free
//     1 -> m        push(): m.next is 0
//     t -> m        push(): m.next is t
//     1 -> 0        unlock()
//     t -> t.next, or 1     take_latest(): the thread of t is granted; the lock stays held
//     t stays       take_latest(), if a push has made its compare-and-swap fail (t is the new top): removes the node
//                   below t and grants its thread. take_eldest(): the same with the node at the bottom
//
// A pop needs no version number, because only the holder removes nodes, at any depth: between its load of top.next and
// its compare-and-swap, the top node cannot leave the stack and come back with another `next`. A push needs none
// either, because it may put its node above any other node.
//
// Each push is a release, and while threads wait all changes of the word are read-modify-writes. So the release
// sequence of each push includes the later pushes and pops, and a thread that loads the top by acquire also sees the
// nodes below it. Only the holder changes links below the top.
#pragma once

#include <type_traits>

#include "usher/core/hand_over.hpp"
#include "usher/core/node.hpp"
#include "usher/core/waiting.hpp"
#include "usher/core/wake_ahead.hpp"

namespace usher::inline v2 {

/// A waiter's node is one of its thread's queue nodes.
template <platform P>
struct lifo_thread_nodes {
  using handle = node_handle;

  static auto& node(handle h) { return P::node(h); }
  static void prepare(handle h) { usher::prepare<P>(h); }
  template <class W>
  static void wait(handle h) {
    wait_for_grant<P, W>(h);
  }
  template <class W>
  static void grant(handle h) {
    usher::grant<P, W>(h);
  }
};

/// A waiter's node is an object on its thread's stack, and its address is the handle. The object ends when the waiter
/// returns from lock(), so no other thread accesses it after the grant.
template <platform_with_stack_objects P>
struct lifo_stack_nodes {
  struct node_type {
    typename P::template atomic<std::uint64_t> next;
    typename P::template atomic<std::uint32_t> flag;
  };
  using handle = std::uint64_t;

  static handle handle_of(node_type& n) { return reinterpret_cast<std::uintptr_t>(&n); }
  static node_type& node(handle h) { return *reinterpret_cast<node_type*>(std::uintptr_t(h)); }
  static void prepare(handle h) { node(h).flag.store(flag_waiting, std::memory_order_relaxed); }
  template <class W>
  static void wait(handle h) {
    wait_for_grant_or_early_wake<P, W>(node(h).flag);
  }
  /// As grant() of hand_over.hpp. The wake-up may reach a later object at the same address, as a stray one.
  template <class W>
  static void grant(handle h) {
    auto& flag = node(h).flag;
    if constexpr (W::parks) {
      const wake_key key = P::key_of(flag);
      // (7) release: publishes the critical section to the acquire loads of the waiter.
      if (flag.exchange(flag_granted, std::memory_order_release) == flag_parked) P::wake(key, every_sleeper, 1);
    } else {
      flag.store(flag_granted, std::memory_order_release);  // (7)
    }
  }
};

/// FairnessPeriod: on average one unlock in so many serves the eldest; 0: none does. WakesAhead: an unlock also wakes
/// the waiter that is on top after it.
template <platform P, class W, std::uint32_t FairnessPeriod, bool WakesAhead = false,
          class Nodes = lifo_thread_nodes<P>>
class basic_lifo {
  using handle = typename Nodes::handle;
  static constexpr bool in_threads = std::is_same_v<Nodes, lifo_thread_nodes<P>>;

 public:
  static constexpr lock_traits traits{
      .summary = WakesAhead            ? "lifo-cr that wakes the next waiter ahead of its turn"
                 : !in_threads         ? "lifo-cr whose waiters are objects on their threads' stacks"
                 : FairnessPeriod != 0 ? "stack of waiters, now and then the eldest"
                                       : "stack of waiters: fewest circulate, the eldest may starve",
      .paper = WakesAhead ? "Malthusian Locks, appendix A.2 and footnote 19" : "Malthusian Locks, appendix A.2",
      .starvation_free = FairnessPeriod != 0,
      .restricts = true,
      .words = sizeof(handle) / 4,
      .kinds = WakesAhead ? unsigned(waiting_kind::spin_then_park) : every_waiting_kind,
  };
  static constexpr bool zero_iff_free = in_threads;  ///< the word, if it has 32 bits

  void lock() {
    P::doorway(this);
    handle seen = free;
    // Takes the free lock: 0 -> held. (1) acquire: pairs with (2), the compare-and-swap in unlock().
    if (!top_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    handle seen = free;
    return top_.load(std::memory_order_relaxed) == free &&
           top_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed);  // (1)
  }

  void unlock() {
    handle seen = held;
    // Frees the lock: held -> 0. (2) release: pairs with (1), the operations that find the word 0. (3) acquire on
    // failure: pairs with (4), the push, since hand_over() reads the nodes.
    if (!top_.compare_exchange_strong(seen, free, std::memory_order_acq_rel, std::memory_order_acquire)) [[unlikely]]
      hand_over(seen);
  }

  /// Called by the holder. Returns whether another thread is certain to get the lock next.
  bool has_certain_successor() const { return top_.load(std::memory_order_relaxed) >= first_node; }

  auto uncontended()
    requires in_threads
  {
    return uncontended_word{top_, held};
  }

 private:
  static constexpr handle free = 0, held = 1;

  [[gnu::cold, gnu::noinline]] void contend() {
    if constexpr (in_threads) {
      const handle mine = P::take_node();
      if (mine == no_node) {  // all nodes are in use: polls, without a place on the stack
        while (!try_lock()) P::backoff(100000);
        return;
      }
      Nodes::prepare(mine);
      if (push(mine)) wait(mine);
      P::give_node(mine);  // the granting thread does not access it again
    } else {
      typename P::template local<typename Nodes::node_type> node;
      const handle mine = Nodes::handle_of(*node);
      Nodes::prepare(mine);
      if (push(mine)) wait(mine);
    }
  }

  /// Pushes the node on the stack and returns true. If it finds the lock free, takes the lock and returns false.
  bool push(handle mine) {
    handle seen = top_.load(std::memory_order_relaxed);
    for (;; P::backoff(0)) {
      if (seen == free) {
        if (top_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed))
          return false;  // (1)
      } else {
        Nodes::node(mine).next.store(seen == held ? no_node : seen, std::memory_order_relaxed);
        // top: held or another node -> this node. (4) release: publishes the prepared node to (3) and (5), by which the
        // holder reads the top.
        if (top_.compare_exchange_strong(seen, mine, std::memory_order_release, std::memory_order_relaxed)) return true;
      }
    }
  }

  static void wait(handle mine) {
    if constexpr (WakesAhead)
      wait_for_grant_or_early_wake<P, W>(Nodes::node(mine).flag);
    else
      Nodes::template wait<W>(mine);
  }

  [[gnu::cold, gnu::noinline]] void hand_over(handle top) {
    const handle chosen = P::bernoulli(FairnessPeriod) ? take_eldest(top) : take_latest(top);
    [[maybe_unused]] early_wake<P> ahead;
    if constexpr (WakesAhead) {
      // (6) acquire: pairs with (4), the push, so that the node is seen as its thread has prepared it. The waiter on
      // top stays on the stack until this thread's hand-over.
      if (const handle next = top_.load(std::memory_order_acquire); next >= first_node)
        ahead.choose(Nodes::node(next).flag);
    }
    Nodes::template grant<W>(chosen);
    if constexpr (WakesAhead) ahead.wake();
  }

  /// Removes and returns the top node, or the node below it if another thread has just pushed. The compare-and-swap is
  /// not repeated, so the time is constant.
  handle take_latest(handle top) {
    const handle below = link(top);
    handle seen = top;
    // top: t -> t.next, or held if t was the only node. (5) acquire on failure: pairs with (4), the push.
    if (top_.compare_exchange_strong(seen, below == no_node ? held : below, std::memory_order_acquire,
                                     std::memory_order_acquire))
      return top;
    // `top` is still on the stack, so there is a node below the new top. Removes that node.
    const handle second = link(seen);
    set_link(seen, link(second));
    return second;
  }

  handle take_eldest(handle top) {
    handle above = top, eldest = link(top);
    if (eldest == no_node) return take_latest(top);
    while (const handle below = link(eldest)) {
      above = eldest;
      eldest = below;
    }
    set_link(above, no_node);
    return eldest;
  }

  // Called by the holder. Relaxed: (3) or (5) has read the top by acquire, and only the holder changes links below it.
  static handle link(handle h) { return Nodes::node(h).next.load(std::memory_order_relaxed); }
  static void set_link(handle h, handle below) { Nodes::node(h).next.store(below, std::memory_order_relaxed); }

  typename P::template atomic<handle> top_;
};

template <platform P, class W>
using lifo = basic_lifo<P, W, 0>;

template <platform P, class W>
using lifo_cr = basic_lifo<P, W, 1000>;

template <platform P, class W>
using lifo_cr_ahead = basic_lifo<P, W, 1000, true>;

template <platform_with_stack_objects P, class W>
using lifo_cr_stack = basic_lifo<P, W, 1000, false, lifo_stack_nodes<P>>;

}  // namespace usher::inline v2
