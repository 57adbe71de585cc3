// Qspinlock: the structure of the Linux kernel's spin lock. A test-and-set lock in the low bits of a word, the tail of an MCS
// queue in the high ones: only the head of the queue wants the test-and-set lock, and leaves the queue once it has it.
// The first thread that has to wait does so without the queue.
//
// Source: TWA (extended version), §4.9, describes it; written from that.
// Guarantees: FIFO (doorway: the first atomic operation that leaves the thread's mark in the word), if threads can have
// queue nodes; nobody is overtaken, nobody starves.
// Cost: lock one compare-and-swap, unlock one fetch-and-and. (The kernel clears a byte by a store. Here a word is atomic,
// and no part of it.) A node is needed only while a thread is queued.
// Layout: one 32-bit word.
//
//     bits 31…9: tail, the handle of the last node in the queue, 0 if there is none
//     bit 8: pending: a thread outside the queue is next
//     bits 7…0: the locked byte: bit 0 held, bit 1 (`asleep`): the pending thread or the head of the queue sleeps
//
//      free ──► held ──first to wait──► pending|held ──unlock──► pending ──pending thread──► held
//                 └── others, while somebody is pending or queued ──► tail|…
//      tail ──head, not last──► tail|held        tail ──head, the last──► held        (while neither held nor pending)
//
// The tail has 23 bits; the kernel's has two for the depth of nesting and the rest for the CPU. Handles that exist have 20
// (platform/native.hpp). A thread that can have no node, or one beyond 23 bits, takes the lock when it finds it free.
//
// The kernel has a thread that finds only `pending` wait a little for it to become `held`. That wait comes before
// the thread has left its mark and would let later ones overtake it; it is left out.
#pragma once

#include "usher/queue_node.hpp"

namespace usher {

template <platform P, class W>
class qspinlock {
 public:
  static constexpr lock_traits traits{
      .summary = "test-and-set with an MCS queue behind it in one word, as in Linux",
      .paper = "TWA (extended), section 4.9",
      .fifo = true,
      .bypass = 0,
      .starvation_free = true,
      .words = 1,
  };

  void lock() {
    P::doorway(this);
    std::uint32_t seen = 0;
    // (1) acquire: pairs with (2).
    if (!word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed)) [[unlikely]]
      contend();
    P::admitted(this);
  }

  bool try_lock() {
    std::uint32_t seen = 0;
    return word_.load(std::memory_order_relaxed) == 0 &&
           word_.compare_exchange_strong(seen, held, std::memory_order_acquire, std::memory_order_relaxed);  // (1)
  }

  void unlock() {
    const wake_key key = P::key_of(word_);
    // (2) release: pairs with (1). Every other change of the word is a read-modify-write, too. Both who may sleep on the
    // word are woken; the mark goes, and who still waits sets it again.
    const std::uint32_t old = word_.fetch_and(~(held | asleep), std::memory_order_release);
    if constexpr (W::parks) {
      if (old & asleep) [[unlikely]]
        P::wake(key, every_sleeper, all);
    }
  }

 private:
  static constexpr std::uint32_t held = 1, asleep = 2, pending = 1u << 8;
  static constexpr unsigned tail_shift = 9;
  static constexpr std::uint32_t tail_mask = ~std::uint32_t{0} << tail_shift;

  static constexpr node_handle tail(std::uint32_t w) { return w >> tail_shift; }

  [[gnu::cold, gnu::noinline]] void contend() {
    // (3) Acquire: the lock may be free, see below.
    const std::uint32_t seen = word_.fetch_or(pending, std::memory_order_acquire);
    if ((seen & (pending | tail_mask)) != 0) {
      if ((seen & pending) == 0) take_pending_back();
      return queue_up();
    }
    // This thread is next. Nobody but it takes `pending` off now.
    wait_until_clear(held);
    // Also where the mark is there: the head of the queue may have set it.
    word_.fetch_add(held - pending, std::memory_order_relaxed);
  }

  /// It has been set behind the back of a queue, whose head may have taken it for a thread's and gone to sleep.
  void take_pending_back() {
    const std::uint32_t old = word_.fetch_and(~(pending | asleep), std::memory_order_relaxed);
    if constexpr (W::parks) {
      if (old & asleep) P::wake(P::key_of(word_), every_sleeper, all);
    }
  }

  void queue_up() {
    node_handle me;
    while ((me = P::take_node()) == no_node || me > tail(tail_mask)) {
      if (me != no_node) P::give_node(me);
      if (try_lock()) return;
      P::backoff(100000);
    }
    prepare<P>(me);
    // (4) release: the prepared node is seen by whoever finds it here. Acquire: pairs with the same of the previous.
    std::uint32_t seen = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_strong(seen, (seen & ~tail_mask) | me << tail_shift, std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
      P::backoff(0);
    if (const node_handle previous = tail(seen)) {
      P::node(previous).next.store(me, std::memory_order_release);  // (5) pairs with the acquire in enter_as_head()
      wait_for_grant<P, W>(me);
    }
    if (!enter_as_head(me)) grant<P, W>(W::await_soon(P::node(me).next, [](node_handle h) { return h != no_node; }));
    P::give_node(me);
  }

  /// Takes the lock and leaves the queue. True if nobody was behind.
  bool enter_as_head(node_handle me) {
    for (;;) {
      std::uint32_t seen = wait_until_clear(held | pending);
      const bool last = tail(seen) == me;
      // Nobody can be asleep on the word: the mark goes. Fails where somebody has queued up, or has set `pending` and
      // will take it back.
      if (word_.compare_exchange_strong(seen, (last ? 0 : seen & tail_mask) | held, std::memory_order_acquire,
                                        std::memory_order_relaxed))
        return last;
      P::backoff(0);
    }
  }

  /// Waits, with acquire (1), until none of these bits is set.
  std::uint32_t wait_until_clear(std::uint32_t bits) {
    const auto clear = [bits](std::uint32_t w) { return (w & bits) == 0; };
    if (const auto w = W::poll(word_, clear)) return *w;
    std::uint32_t w = word_.load(std::memory_order_acquire);
    if constexpr (W::parks) {
      for (; !clear(w); w = word_.load(std::memory_order_acquire)) {
        if ((w & asleep) == 0 &&
            !word_.compare_exchange_strong(w, w | asleep, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(word_, w | asleep, every_sleeper);
      }
    }
    return w;
  }

  typename P::template atomic<std::uint32_t> word_;
};

}  // namespace usher
