// Queue nodes: those in a thread's record, and the pool that all threads share.
//
// A node belongs to the thread that has it, not to a record or a process. A thread gives a node to its own record,
// which keeps a few. A full record gives nodes to a list shared by all threads, and an empty one takes nodes from this
// list. So the cost of taking and giving a node does not depend on how many nodes the thread holds, which thread took
// them, or how threads have ended. Interruptions by signal handlers: (s1) to (s4) in records.hpp.
//
// The pool consists of a list of free nodes and of the nodes that have never been used. Each of its words is changed by
// compare-and-swap only, so other threads and signal handlers may interrupt an operation on the pool anywhere. If the
// interrupted thread never runs again, only the nodes that it had just taken are lost.
//
// If locks are reset in a child (orphaned_are_free), the pool is on the page that a fork wipes, and the child has a new
// pool. So the child need not recover the nodes that orphaned threads hold, wait with or have in their records. The new
// pool begins behind all nodes that an ancestor has made, and wraps around. The forking thread may still have a node of
// the old pool, because it forked in a handler that interrupted an operation on a lock. Whatever this operation does
// with the node, the new pool does not give out the node until the child has made a million other nodes. If locks are
// not reset in a child, they may stay in use across a fork, and the child uses a copy of the pool.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/node.hpp"
#include "usher/platform/native/blocks.hpp"
#include "usher/platform/native/fork.hpp"
#include "usher/platform/native/polling.hpp"
#include "usher/platform/native/records.hpp"
#include "usher/platform/native/state.hpp"

namespace usher::inline v2::native_detail {

struct nodes {
  static node_handle take_node() {
    thread_record* r = current.record;
    const std::uint32_t epoch = forks::epoch_so_far();
    if (r->ready.load(std::memory_order_relaxed) != epoch) [[unlikely]]  // (s1)
      return take_slowly();
    return take_from(*r, epoch);
  }

  static void give_node(node_handle h) {
    thread_record* r = current.record;
    const std::uint32_t epoch = forks::epoch_so_far();
    if (r->ready.load(std::memory_order_relaxed) != epoch) [[unlikely]]  // (s1)
      return give_slowly(h);
    give_to(*r, epoch, h);
  }

  /// take_node() returns the node that was given last, whichever thread took it before: no separate cache is needed.
  static node_handle cached_node() { return take_node(); }
  static void cache_node(node_handle h) { give_node(h); }

  static queue_node<native>& node(node_handle h) { return *slot(h).queue(); }

 private:
  // ---- the nodes in a thread's record

  static node_handle take_from(thread_record& r, std::uint32_t epoch) {
    records::begin(r);
    std::atomic<node_handle>* const top = r.top.load(std::memory_order_relaxed);
    const node_handle h = top->load(std::memory_order_relaxed);
    if (h == no_node) [[unlikely]]
      return refill(r, epoch);
    r.top.store(top - 1, std::memory_order_relaxed);
    records::end(r, epoch);
    return h;
  }

  static void give_to(thread_record& r, std::uint32_t epoch, node_handle h) {
    records::begin(r);
    std::atomic<node_handle>* const top = r.top.load(std::memory_order_relaxed);
    if (top == r.at(thread_record::most)) [[unlikely]]
      return overflow(r, epoch, h);
    top[1].store(h, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_release);
    r.top.store(top + 1, std::memory_order_relaxed);
    records::end(r, epoch);
  }

  /// The slow path of take_node(), for a thread without a record, with a record of another fork epoch, or with a busy
  /// record (then this is a signal handler that has interrupted an operation on the record).
  [[gnu::cold, gnu::noinline]] static node_handle take_slowly() {
    const std::uint32_t epoch = forks::fork_epoch();
    if (thread_record* const r = records::ready_record(epoch)) return take_from(*r, epoch);
    std::atomic<node_handle> one{no_node};
    return acquire_nodes(&one, 1) != 0 ? one.load(std::memory_order_relaxed) : no_node;
  }

  [[gnu::cold, gnu::noinline]] static void give_slowly(node_handle h) {
    const std::uint32_t epoch = forks::fork_epoch();
    thread_record* const r = records::ready_record(epoch);
    if (r == nullptr) return release_nodes(h, h);
    give_to(*r, epoch, h);
  }

  /// Takes a batch of nodes from the pool into an empty record, which the caller has marked as busy. The batch fills
  /// half of the record, so that as many nodes can be given as taken before the pool is needed again.
  [[gnu::cold, gnu::noinline]] static node_handle refill(thread_record& r, std::uint32_t epoch) {
    const std::uint32_t n = acquire_nodes(r.at(1), thread_record::batch);
    const node_handle h = r.at(n)->load(std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_release);
    if (n != 0) r.top.store(r.at(n - 1), std::memory_order_relaxed);
    records::end(r, epoch);
    return h;
  }

  /// Gives the node `h` to a full record, which the caller has marked as busy. The half of the record's nodes that has
  /// been there longest goes to the pool.
  [[gnu::cold, gnu::noinline]] static void overflow(thread_record& r, std::uint32_t epoch, node_handle h) {
    constexpr std::uint32_t half = thread_record::batch;
    const auto at = [&r](std::uint32_t i) { return r.at(i)->load(std::memory_order_relaxed); };
    const node_handle first = at(1), last = at(half);
    for (std::uint32_t i = 1; i < half; i++) slot(at(i)).next.store(at(i + 1), std::memory_order_release);  // (l3)
    r.top.store(r.at(0), std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (std::uint32_t i = 1; i <= half; i++) r.at(i)->store(at(half + i), std::memory_order_relaxed);
    r.at(half + 1)->store(h, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    r.top.store(r.at(half + 1), std::memory_order_relaxed);
    release_nodes(first, last);
    records::end(r, epoch);
  }

  // ---- the pool

  static node_pool& pool() {
    auto& s = usher_process_state;
    return s.orphaned_are_free.load(std::memory_order_relaxed) != 0 ? s.wiped_pool : s.pool;
  }
  static constexpr unsigned handle_bits = 24;
  static node_handle first_of(std::uint64_t list) { return node_handle(list & ((1u << handle_bits) - 1)); }
  static std::uint64_t changed(std::uint64_t list, node_handle first) {
    return ((list >> handle_bits) + 1) << handle_bits | first;
  }

  /// Opens the pool at its first use in this epoch. Further calls change nothing.
  static void open(node_pool& p) {
    auto& s = usher_process_state;
    std::uint64_t none = 0;
    p.from.compare_exchange_strong(none, 1 + s.ever_made.load(std::memory_order_relaxed), std::memory_order_relaxed);
    none = 0;
    p.made.compare_exchange_strong(none, p.from.load(std::memory_order_relaxed), std::memory_order_release,
                                   std::memory_order_relaxed);  // (m1)
    none = 0;
    const std::uint64_t somewhere = forks::fork_epoch() * 0x9e3779b97f4a7c15u | std::uint64_t{1} << 63;
    p.list.compare_exchange_strong(none, somewhere >> handle_bits << handle_bits, std::memory_order_acq_rel,
                                   std::memory_order_relaxed);
  }

  /// Takes at most `most` nodes, from the list or else new ones. Returns their number.
  static std::uint32_t acquire_nodes(std::atomic<node_handle>* to, std::uint32_t most) {
    const std::uint32_t n = cut_nodes(to, most);
    return n != 0 ? n : make_nodes(to, most);
  }

  /// Takes at most `most` nodes off the front of the list. Returns their number.
  static std::uint32_t cut_nodes(std::atomic<node_handle>* to, std::uint32_t most) {
    auto& p = pool();
    // (l1) acquire: pairs with (l2) in release_nodes(), which publishes the nodes and their links.
    std::uint64_t list = p.list.load(std::memory_order_acquire);
    for (;;) {
      if (list == 0) {
        open(p);
        list = p.list.load(std::memory_order_acquire);
        continue;
      }
      // The list may change during the walk. Then the walk reads other nodes, because a link always names a node, and
      // the compare-and-swap fails, because changes are counted. (l4) acquire: pairs with (l3), for the block's
      // address.
      std::uint32_t n = 0;
      node_handle h = first_of(list);
      for (; n < most && h != no_node; n++) {
        to[n].store(h, std::memory_order_relaxed);
        h = slot(h).next.load(std::memory_order_acquire);  // (l4)
      }
      if (n == 0) return 0;
      if (p.list.compare_exchange_weak(list, changed(list, h), std::memory_order_acq_rel, std::memory_order_acquire))
        return n;
      polling::pause();
    }
  }

  /// nth(n) is the handle of the n-th node, counted from 0 and modulo `all`: the reserved nodes come first.
  static constexpr std::uint32_t reserved = reserved_slots - first_node,
                                 all = reserved + (slot_blocks - 1) * slots_a_block;
  static node_handle nth(std::uint64_t n) {
    const auto i = std::uint32_t(n % all);
    return i < reserved ? first_node + i : slots_a_block + (i - reserved);
  }

  /// Makes at most `most` nodes that have not been used in this epoch. Returns their number.
  static std::uint32_t make_nodes(std::atomic<node_handle>* to, std::uint32_t most) {
    auto& s = usher_process_state;
    auto& p = pool();
    std::uint64_t made = p.made.load(std::memory_order_acquire);  // pairs with (m1)
    for (;;) {
      const std::uint64_t from = p.from.load(std::memory_order_relaxed);
      if (made == 0 || from == 0) {  // a signal handler has forked since the list was opened, or during open()
        open(p);
        made = p.made.load(std::memory_order_acquire);
        continue;
      }
      const std::uint64_t begin = made - 1;
      const std::uint32_t left = all - std::uint32_t(made - from), wanted = most < left ? most : left;
      std::uint32_t n = 0;
      while (n < wanted && blocks::has_slot(nth(begin + n))) n++;
      if (n == 0) return 0;
      // Counts the nodes before a thread has them, so that the new pool of a child begins behind these nodes.
      std::uint64_t ever = s.ever_made.load(std::memory_order_relaxed);
      while (ever < begin + n && !s.ever_made.compare_exchange_weak(ever, begin + n, std::memory_order_relaxed)) {
      }
      if (p.made.compare_exchange_weak(made, made + n, std::memory_order_acquire)) {
        for (std::uint32_t i = 0; i < n; i++) to[i].store(nth(begin + i), std::memory_order_relaxed);
        return n;
      }
      polling::pause();
    }
  }

  /// Gives a list of nodes to the pool. The nodes are linked from `first` to `last`.
  static void release_nodes(node_handle first, node_handle last) {
    auto& p = pool();
    std::uint64_t list = p.list.load(std::memory_order_relaxed);
    for (;;) {
      if (list == 0) {  // a child in which no thread has taken a node yet
        open(p);
        list = p.list.load(std::memory_order_relaxed);
        continue;
      }
      slot(last).next.store(first_of(list), std::memory_order_release);  // (l3)
      // (l2) release: pairs with (l1).
      if (p.list.compare_exchange_weak(list, changed(list, first), std::memory_order_release,
                                       std::memory_order_relaxed))
        return;
      polling::pause();
    }
  }
};

}  // namespace usher::inline v2::native_detail
