// Wait morphing. If a condition variable would wake a thread only for it to find the mutex held, the thread is instead
// *requeued* to the mutex. The mutex's unlock grants the first requeued thread, which then requeues the rest of its
// chain.
//
// Source: Dice, "Malthusian Locks" (EuroSys 2017), footnote 40.
//
// This header has the mutex: a lock and the words beside it. `Words` is a view of them, passed by value:
//
//     lock()                        the lock
//     owner_tag()                   atomic<uint32_t>: the owner of the lock; the table below
//     timed()                       atomic<uint32_t>: timed_waiters.hpp
//     requeued(), requeue_first(w)  reads and sets the first of the requeued threads, or null. Plain data, accessed
//                                   only by the owner. Reads null, too, in the child of a fork, if the parent has
//                                   requeued the threads and the mutex is not renewed
//     may_requeue()                 whether the mutex has room for requeued threads, and is valid in this process, not
//                                   only in its parent
//     epoch()                       atomic<uint64_t>: the fork epoch in its upper half, 0 before the first use; the
//                                   lower half is for the embedder's use
//     is_renewed(lower)             whether mutexes with this lower half are renewed (made valid again) after a fork
//     forget_requeued(), reset_lock()   for a mutex that is renewed
//
// Owner tag     set by                                 read by
//   none        the first step of an unlock            a timed waiter, before it sleeps for long; claim_owner()
//   unknown     a thread without a tag that locks;     the readers of `none`
//               claim_owner(); an unlock that hands the lock over and leaves it locked
//   requeueing  requeue(), while it runs               claim_owner(), which waits until it ends
//   odd, > 2    a thread that locks: P::owner_tag()    unlock() and requeue(), to check for the owner
//
// Only the owner of a mutex requeues threads to it, because the owner's unlock is certain to come later. The owner tag
// shows whether the caller is the owner. An unlock by another thread first replaces the tag by `unknown`
// (claim_owner()), and a requeue replaces it by `requeueing` while it runs. So an unlock and a requeue exclude each
// other, and the chain needs no other protection. If the caller may not be the owner, the notified thread is woken.
//
// A lock that restricts concurrency (one with has_certain_successor()) does not grant the chain for up to 1 ms while
// another thread is certain to get the lock, because that thread's unlock finds the chain, too. If a requeued thread
// has waited much longer, an unlock hands it the lock, still locked: turn_of(). If the requeued thread then does not
// run, another thread may take the lock (timed_waiters.hpp), and the requeued thread locks the mutex like any thread.
//
// Invariants:
//   chain-flag    outside the owner's operations, the chain is non-empty exactly when the bit `requeued` is set
//   chain-holder  only the owner changes the chain and the bit
//   tag-first     an unlock clears the owner tag before it reads timed(); timed_waiters.hpp has the reason
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/timed_waiters.hpp"
#include "usher/core/wait_queue.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_owner_tags P>
struct owner_tags {
  using word = typename P::template atomic<std::uint32_t>;
  static constexpr std::uint32_t none = 0, unknown = timed_waiter_count<P>::unknown_owner, requeueing = 2;

  /// Replaces the owner's tag by `unknown`. From then on the caller may unlock the mutex. False: it is free.
  static bool claim_owner(word& tag) {
    std::uint32_t seen = tag.load(std::memory_order_relaxed);
    for (;;) {
      if (seen == none) return false;
      if (seen == requeueing) {
        seen = P::await(
            tag, [](std::uint32_t t) { return t != requeueing; }, std::memory_order_relaxed,
            pacing::polling_then_yielding);
        continue;
      }
      // (2) acquire: pairs with (1), the end of a requeue by the mutex's owner.
      if (tag.compare_exchange_strong(seen, unknown, std::memory_order_acquire, std::memory_order_relaxed)) return true;
      P::backoff(0);
    }
  }
};

/// A thread that waits on a condition variable and may be requeued to its mutex.
template <platform_with_owner_tags P>
struct requeued_waiter : wait_queue<P>::waiter {
  typename P::template plain<std::uint64_t> requeued_at;  ///< ns; 0: not requeued yet
  typename P::template plain<std::uint64_t> deferred_at;  ///< ns; in a chain's first: last requeued or deferred

  requeued_waiter* next_in_chain() const { return static_cast<requeued_waiter*>(this->next.get()); }
};

/// The operations of a mutex to which waiters can be requeued.
template <platform_with_owner_tags P, class Words>
class morphing_mutex {
  using timed_waiters = timed_waiter_count<P>;
  using tags = owner_tags<P>;
  using queue = wait_queue<P>;
  // Times, in ns, by which an unlock decides about a requeued thread. Chosen; lab/pages: faults has measurements.
  static constexpr std::uint64_t stays_asleep = 1000000;   // if another thread is certain to lock and unlock
  static constexpr std::uint64_t waits_in_turn = 4000000;  // after this time it is handed the mutex
  static constexpr std::uint64_t long_hold = 100000;       // a hold that is much longer than a wake-up

 public:
  using waiter = requeued_waiter<P>;

  static void lock(Words w) {
    timed_waiters::lock_or_take(w.lock(), [w]() -> auto& { return w.timed(); });
    take_over(w);
  }
  static bool try_lock(Words w) {
    if (!timed_waiters::try_lock_or_take(w.lock(), [w]() -> auto& { return w.timed(); })) return false;
    take_over(w);
    return true;
  }
  /// `remaining()` returns the nanoseconds until the deadline. Returns false if the deadline has passed.
  template <class Remaining>
  static bool lock_until(Words w, Remaining remaining) {
    auto&& lock = w.lock();
    if (!timed_waiters::lock(lock, w.timed(), remaining, &w.owner_tag())) return false;
    take_over(w);
    return true;
  }
  /// The last step of lock(): writes the owner tag.
  static void take_over(Words w) { w.owner_tag().store(P::owner_tag(), std::memory_order_relaxed); }

  /// Called in place of lock() by a requeued thread to which the mutex was handed over. Returns false if another thread
  /// has taken the mutex since: then the caller must lock it.
  static bool claim(Words w) {
    if (!timed_waiters::claim(w.timed())) return false;
    take_over(w);
    return true;
  }

  /// Two undefined uses occur in programs and work with the C library, so they work here, too. An unlock of a free
  /// mutex changes nothing. A thread may unlock a mutex that another thread has locked (or that it has locked itself
  /// when it had no tag yet).
  static void unlock(Words w) {
    if (w.owner_tag().load(std::memory_order_relaxed) != P::owner_tag()) [[unlikely]]
      return unlock_anothers(w);
    release(w);
  }

  /// Unlocks the mutex. Called by the owner, or by a thread for which claim_owner() has returned true.
  static void release(Words w) {
    if (timed_waiters::clear_tag_and_check(w.owner_tag(), w.timed())) [[unlikely]]
      return release_to_others(w);
    w.lock().unlock();
  }

  /// Requeues a chain of selected waiters to their mutex. Returns false, and changes nothing, if it is not certain that
  /// the caller owns the mutex.
  static bool requeue(Words w, waiter& chain) {
    if (!w.may_requeue()) return false;
    const std::uint32_t me = P::owner_tag();
    if (me == tags::unknown) {
      P::ensure_owner_tag();  // for the next requeue()
      return false;
    }
    std::uint32_t mine = me;
    if (w.owner_tag().load(std::memory_order_relaxed) != me ||
        !w.owner_tag().compare_exchange_strong(mine, tags::requeueing, std::memory_order_relaxed,
                                               std::memory_order_relaxed))
      return false;
    const std::uint64_t now = P::now();
    if (chain.requeued_at.get() == 0)
      for (waiter* r = &chain; r != nullptr; r = r->next_in_chain()) r->requeued_at.set(now);
    chain.deferred_at.set(now);
    if (waiter* const first = w.requeued()) {
      auto* const now_first = static_cast<waiter*>(&queue::append(*first, chain));
      if (now_first != first) w.requeue_first(now_first);  // `chain` has a higher priority
    } else {
      w.requeue_first(&chain);
      timed_waiters::set_requeued(w.timed());
    }
    w.owner_tag().store(me, std::memory_order_release);  // (1) release: pairs with (2)
    return true;
  }

  /// Makes the mutex valid in this process, which may be a forked child, if the mutex is of a kind that is renewed
  /// after a fork. Returns the lower half of its epoch word.
  static std::uint32_t ready(Words w) {
    const std::uint64_t seen = w.epoch().load(std::memory_order_acquire);
    if (w.is_renewed(std::uint32_t(seen)) && std::uint32_t(seen >> 32) != P::fork_epoch()) [[unlikely]]
      renew(w);
    return std::uint32_t(seen);
  }

 private:
  [[gnu::cold, gnu::noinline]] static void unlock_anothers(Words w) {
    if (tags::claim_owner(w.owner_tag())) release(w);
  }

  /// The rest of an unlock if there are requeued threads or timed waiters. The owner tag is already `none`, but the
  /// caller still owns the mutex.
  [[gnu::cold, gnu::noinline]] static void release_to_others(Words w) {
    waiter* first = nullptr;
    if (timed_waiters::has_requeued(w.timed())) {
      waiter* const chain = w.requeued();
      const turn t = chain != nullptr ? turn_of(w, *chain) : turn::as_others;
      if (t != turn::later && timed_waiters::take_requeued(w.timed())) {
        first = chain;
        w.requeue_first(nullptr);
      }
      if (first != nullptr && t == turn::now) {
        w.owner_tag().store(tags::unknown, std::memory_order_relaxed);
        timed_waiters::grant_to_requeued(w.lock(), w.timed());
        return queue::hand_over(*first);  // the granted thread owns the mutex, and the rest of its chain
      }
    }
    auto&& lock = w.lock();
    timed_waiters::unlock(lock, w.timed(), &w.owner_tag());
    // Another thread may have destroyed the mutex by now. `first` still exists: its thread sleeps until it is granted.
    if (first != nullptr) queue::grant(*first);
  }

  enum class turn {
    later,      ///< the thread sleeps on: another thread is certain to lock the mutex, and unlock it
    as_others,  ///< the thread is woken, and competes like any thread that locks the mutex
    now         ///< the thread is handed the mutex
  };

  /// Decides what an unlock does with the first requeued thread. A lock that restricts concurrency leaves requeued
  /// threads asleep, too, for up to 1 ms: of the unlocks within this time, the one expected to be the last wakes the
  /// thread. So the thread waits at most 1 ms or one critical section longer than a thread that locks the mutex now. A
  /// thread with a real-time priority is woken at once.
  ///
  /// A lock that hands over to threads that have waited long (one with unlock_is_due()) also hands over to requeued
  /// threads. No thread can use the mutex while the new owner wakes up. So an unlock hands over only if critical
  /// sections are much longer than a wake-up, or if a condition variable selected the thread 4 ms ago or earlier. It
  /// does so at most seven times in a row while threads in the lock itself have waited long: otherwise threads that
  /// signal each other again and again could keep the mutex among themselves.
  static turn turn_of(Words w, waiter& first) {
    auto&& lock = w.lock();
    if constexpr (requires { lock.has_certain_successor(); }) {
      if constexpr (requires { lock.urgent_wait(); })
        if (lock.urgent_wait()) return turn::later;
      const std::uint64_t now = P::now();
      const std::uint64_t waited = now - first.requeued_at.get(), since_last = now - first.deferred_at.get();
      const bool over = waited + since_last >= stays_asleep;
      if constexpr (requires { lock.unlock_is_due(); })
        if ((waited >= waits_in_turn || (over && since_last >= long_hold)) && !timed_waiters::serves_timed(w.timed()) &&
            timed_waiters::takes_up(w.timed()))
          return timed_waiters::is_due(w.timed()) && lock.unlock_is_due() ? turn::later : turn::now;
      if (over || !lock.has_certain_successor() || first.rank.is_urgent()) return turn::as_others;
      first.deferred_at.set(now);
      return turn::later;
    } else {
      return turn::as_others;
    }
  }

  /// Makes the mutex valid at its first use in a process: its first use at all, or the first after a fork. The threads
  /// that waited in the queue, or were about to leave it, do not exist in the child. The owner keeps the mutex: either
  /// the owner is the thread that forked, or the mutex stays locked for good, as with the C library.
  [[gnu::cold, gnu::noinline]] static void renew(Words w) {
    const std::uint32_t now = P::fork_epoch();
    const std::uint32_t busy = now | 0x80000000u;  // epochs count up from 1, so none has this bit
    for (;;) {
      std::uint64_t seen = w.epoch().load(std::memory_order_acquire);
      const auto epoch = std::uint32_t(seen >> 32);
      const auto with = [lower = seen & 0xffffffffu](std::uint32_t e) { return lower | std::uint64_t{e} << 32; };
      if (epoch == now || !w.is_renewed(std::uint32_t(seen))) return;
      if (epoch == 0) {  // never used: all other words are zero
        if (w.epoch().compare_exchange_strong(seen, with(now), std::memory_order_acq_rel, std::memory_order_acquire))
          return;
      } else if (epoch == busy) {  // another thread renews the mutex
        P::await(
            w.epoch(), [seen](std::uint64_t v) { return v != seen; }, std::memory_order_acquire,
            pacing::polling_then_yielding);
      } else if (w.epoch().compare_exchange_strong(seen, with(busy), std::memory_order_acq_rel,
                                                   std::memory_order_acquire)) {
        // renew() does not write the owner tag: a fork in the middle of renew() must leave the tag as it was.
        w.timed().store(timed_waiters::after_fork(w.timed()), std::memory_order_relaxed);
        w.forget_requeued();
        w.reset_lock();
        if (w.owner_tag().load(std::memory_order_relaxed) != tags::none)
          while (!w.lock().try_lock()) P::backoff(100000);  // try_lock() fails only if no node is free
        w.epoch().store(with(now), std::memory_order_release);
        return;
      }
    }
  }
};

/// The words beside an embedded lock. Zero bytes mean: free, no waiters. In the child of a fork, the waiters that the
/// parent has requeued are not accessed: their stacks may be in use by other threads.
template <platform_with_owner_tags P>
struct requeue_words {
  typename P::template atomic<std::uint32_t> owner_tag{}, timed{};
  typename P::template plain<requeued_waiter<P>*> chain{};
  typename P::template plain<std::uint32_t> epoch{};  ///< the fork epoch of the last change of `chain`

  requeued_waiter<P>* requeued() const { return epoch.get() == P::fork_epoch() ? chain.get() : nullptr; }
  void requeue_first(requeued_waiter<P>* w) {
    chain.set(w);
    epoch.set(P::fork_epoch());
  }
};

/// The view of a lock and its requeue_words, for morphing_mutex. The mutex is not renewed in the child of a fork.
template <platform_with_owner_tags P, class Lock>
struct embedded_mutex {
  using waiter = requeued_waiter<P>;
  Lock* beside;
  requeue_words<P>* words;

  Lock& lock() const { return *beside; }
  auto& owner_tag() const { return words->owner_tag; }
  auto& timed() const { return words->timed; }
  waiter* requeued() const { return words->requeued(); }
  void requeue_first(waiter* w) const { words->requeue_first(w); }
  bool may_requeue() const { return words != nullptr; }
};

/// A lock with requeue_words beside it: a mutex to which basic_condition_variable requeues threads.
template <platform_with_owner_tags P, class Lock>
class requeue_mutex {
 public:
  constexpr requeue_mutex() noexcept : lock_{} {}
  constexpr explicit requeue_mutex(Lock lock) noexcept : lock_(lock) {}
  requeue_mutex(const requeue_mutex&) = delete;
  requeue_mutex& operator=(const requeue_mutex&) = delete;

  void lock() { operations::lock(view()); }
  [[nodiscard]] bool try_lock() { return operations::try_lock(view()); }
  void unlock() { operations::unlock(view()); }
  /// `remaining()` returns the nanoseconds until the deadline. Returns false if the deadline has passed.
  template <class Remaining>
  [[nodiscard]] bool lock_while_time(Remaining remaining) {
    return operations::lock_until(view(), remaining);
  }

  /// The words beside the lock, for condition variables.
  requeue_words<P>& words_beside() { return words_; }

 private:
  using operations = morphing_mutex<P, embedded_mutex<P, Lock>>;
  embedded_mutex<P, Lock> view() { return {&lock_, &words_}; }

  Lock lock_;
  requeue_words<P> words_;
};

/// A mutex as the Target of condition_wait.hpp. If the mutex has no requeue_words, `words` is null, and the mutex's
/// waiters are woken, not requeued.
template <platform_with_owner_tags P>
struct embedded_target {
  struct no_lock {};
  using operations = morphing_mutex<P, embedded_mutex<P, no_lock>>;
  requeue_words<P>* words = nullptr;

  bool requeue(requeued_waiter<P>& chain) const { return operations::requeue({nullptr, words}, chain); }
  bool claim() const { return operations::claim({nullptr, words}); }
  void entered() {}
  void left() const {}
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
