// 3-Stage: a thread takes three locks, A, B and C, one after the other. Of many waiters, one waits for C, one for B,
// and all others for A. So a waiter, not the owner, releases A, on which many threads wait; the owner releases only C.
//
// Source: TWA (extended version), §6, 3-Stage. TryFirst, by which a thread that finds C free takes it at once: its last
// paragraph.
// Guarantees: without TryFirst: FIFO (doorway: A's fetch-and-add); no thread is overtaken or starves. With TryFirst: no
// order, no bound on bypass; the one thread at C may starve.
// Cost without contention: that of A (ticket.hpp); with TryFirst one compare-and-swap, and no operation on A. The
// release of C is a store (spinning) or an exchange (parking).
// Layout: A (ticket and grant) · B · C: four 32-bit words, 16 bytes, or Apart bytes from one lock to the next.
//
//     B, C
//     0 free       set by release()
//     1 taken      set by the thread that takes the lock
//     2 slept_on   taken, and its only waiter sleeps or is about to (parking only). Set by that waiter; read by
//                  release(), which wakes it
//
//     A,B,C
//     0,0,0 -> 1,0,0 -> 1,1,0 -> 0,1,0 -> 0,1,1 -> 0,0,1    lock(): waits until B, then C is 0
//     *,*,1 -> *,*,0                                        unlock()
//     *,*,0 -> *,*,1                                        lock(), try_lock(), with TryFirst
//
// Only the holder of A waits for B, and only the holder of B waits for C. So B and C are taken by a load and a store,
// without a read-modify-write; with TryFirst, C by a compare-and-swap. A parks as a ticket lock does.
//
// With KeepsB the owner releases B in unlock(), as the paper suggests "for efficiency", and not at the beginning of its
// critical section. Then no thread ever waits for C, because the owner holds B until it has released C, and only the
// holder of B looks at C. The release of B, the last write, hands the lock over. With the other order of releases, the
// next owner would wait first for B, then for C.
//
//     A,B,C
//     0,0,0 -> 1,0,0 -> 1,1,0 -> 0,1,0 -> 0,1,1             lock()
//     *,1,1 -> *,1,0 -> *,0,0                               unlock()
#pragma once

#include <cstddef>

#include "usher/locks/ticket.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

/// Apart: the alignment of each of the three locks.
template <platform P, class W, bool TryFirst = false, bool KeepsB = false, std::size_t Apart = 4>
class basic_three_stage {
  static_assert(!(TryFirst && KeepsB), "a thread that has taken C alone does not hold B");

 public:
  static constexpr lock_traits traits{
      .summary = TryFirst ? "3-Stage with a fast path for a lock that is free"
                          : "three locks in a row: one waiter at each of the last two",
      .paper = "TWA (extended), section 6, 3-Stage",
      .fifo = !TryFirst,
      .bypass = TryFirst ? unbounded : 0,
      .starvation_free = !TryFirst,
      .bounded_doorway = !TryFirst,
      .words = 4,
  };

  void lock() {
    P::doorway(this);
    if constexpr (TryFirst) {
      if (!take(c_)) [[unlikely]]
        pass();
    } else {
      pass();
    }
    P::admitted(this);
  }

  bool try_lock() {
    if constexpr (TryFirst) {
      return take(c_);
    } else {
      // Tests B and C before it takes A, because threads that arrive during an attempt have to wait for its end.
      if (held(b_) || held(c_) || !a_.try_lock()) return false;
      const bool second = !held(b_);
      if (second) hold(b_);
      a_.unlock();
      if (!second) return false;
      const bool third = !held(c_);
      if (third) hold(c_);
      if (!KeepsB || !third) release(b_);
      return third;
    }
  }

  void unlock() {
    if constexpr (KeepsB) {
      c_.store(free, std::memory_order_relaxed);  // the next reader of C acquires B from this thread
      release(b_);
    } else {
      release(c_);
    }
  }

  void count_from(std::uint32_t n) { a_.count_from(n); }

 private:
  using word = typename P::template atomic<std::uint32_t>;
  static constexpr std::uint32_t free = 0, taken = 1, slept_on = 2;

  // (1) acquire: pairs with (2), the write in release().
  static bool held(const word& w) { return w.load(std::memory_order_acquire) != free; }
  /// Relaxed: another thread loads the word only after it has acquired A or B from this thread, so it sees this store.
  static void hold(word& w) { w.store(taken, std::memory_order_relaxed); }

  static bool take(word& w) {
    std::uint32_t seen = free;  // (1) acquire
    return w.compare_exchange_strong(seen, taken, std::memory_order_acquire, std::memory_order_relaxed);
  }

  static void release(word& w) {
    if constexpr (!W::parks) {
      w.store(free, std::memory_order_release);  // (2) release: pairs with (1)
    } else {
      const wake_key key = P::key_of(w);
      // (2) release: pairs with (1), the load in held() or the compare-and-swap in take(). The old value shows whether
      // the waiter sleeps, so the lock is not accessed after its release.
      if (w.exchange(free, std::memory_order_release) == slept_on) [[unlikely]]
        P::wake(key, every_sleeper, 1);
    }
  }

  void pass() {
    a_.lock();
    await_free(b_);
    hold(b_);
    a_.unlock();
    if constexpr (TryFirst) {
      for (await_free(c_); !take(c_); await_free(c_)) P::backoff(0);
    } else {
      await_free(c_);
      hold(c_);
    }
    if constexpr (!KeepsB) release(b_);
  }

  void await_free(word& w) {
    if (held(w)) [[unlikely]]
      wait(w);
  }

  [[gnu::cold, gnu::noinline]] static void wait(word& w) {
    if (W::poll(w, [](std::uint32_t v) { return v == free; })) return;
    if constexpr (W::parks) {
      for (;;) {
        std::uint32_t seen = w.load(std::memory_order_acquire);  // (1)
        if (seen == free) return;
        if (seen == taken &&
            !w.compare_exchange_strong(seen, slept_on, std::memory_order_relaxed, std::memory_order_relaxed))
          continue;
        P::park(w, slept_on, every_sleeper);
      }
    }
  }

  alignas(Apart) alignas(ticket_core<P, W>) ticket_core<P, W> a_;
  alignas(Apart) alignas(word) word b_;
  alignas(Apart) alignas(word) word c_;
};

template <platform P, class W>
using three_stage = basic_three_stage<P, W>;

template <platform P, class W>
using three_stage_try = basic_three_stage<P, W, true>;

/// B is released in unlock(). Not in the catalogue.
template <platform P, class W>
using three_stage_keeps_b = basic_three_stage<P, W, false, true>;

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
