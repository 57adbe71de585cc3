// A lock together with its timed waiters and owner tag, as in a pthread mutex (core/timed_waiters.hpp, preload/). The
// checker treats them as one lock. At random, lock() has a deadline or none; after a time-out it locks without one.
#pragma once

#include "check/engine/explore.hpp"
#include "usher/core/timed_waiters.hpp"
#include "usher/locks/steady.hpp"
#include "usher/locks/tas.hpp"
#include "usher/locks/ticket.hpp"

namespace usher::check {

template <platform P, class W, class Lock>
class with_deadlines {
  using timed_waiters = timed_waiter_count<P>;

 public:
  static constexpr lock_traits traits{
      .summary = "a lock with timed waiters beside it",
      .paper = "none",
      .words = 4,
      .kinds = Lock::traits.kinds,
      .checker_threads = 4,  // waiters with and without deadlines
  };

  /// True if a freed lock certainly goes to a waiter without a deadline, provided that the waiter runs whenever it can:
  /// it has a ticket, or it polls at once.
  static constexpr bool is_had_when_freed = Lock::traits.fifo || (!W::parks && !Lock::traits.restricts);

  /// True if threads without a deadline can take a lock that was granted to a thread which does not run.
  static constexpr bool takes_grants = timed_waiters::template takes_grants<Lock>;
  static constexpr bool goes_past_stopped = takes_grants && W::parks;

  void lock() {
    if (P::random() % 2 == 0 || !lock_in_time()) timed_waiters::lock_or_take(lock_, word_getter());
    tag_.store(P::thread_index(), std::memory_order_relaxed);
  }

  /// For the scenario `served`: waits like a thread with a deadline, but the deadline never comes. Not defined if other
  /// threads may take a lock that was granted to this thread: then the schedule decides how often this thread is
  /// served.
  void lock_with_deadline()
    requires(!takes_grants)
  {
    timed_waiters::lock(
        lock_, timed_waiters_, [] { return std::uint64_t{1} << 62; }, &tag_);
    tag_.store(P::thread_index(), std::memory_order_relaxed);
  }

  /// Locks like a thread without a deadline, for `served` and `freed`.
  void lock_without_deadline() {
    timed_waiters::lock_or_take(lock_, word_getter());
    tag_.store(P::thread_index(), std::memory_order_relaxed);
  }

  bool try_lock() {
    if (!timed_waiters::try_lock_or_take(lock_, word_getter())) return false;
    tag_.store(P::thread_index(), std::memory_order_relaxed);
    return true;
  }

  void unlock() {
    constexpr std::uint32_t count = 0xfff;  // timed_waiters.hpp
    if ((timed_waiters_.newest() & count) > P::count_limit(count))
      ::usher::check::fail("more threads with a deadline are counted than the count has room for");
    if (!timed_waiters::clear_tag_and_check(tag_, timed_waiters_)) return lock_.unlock();
    timed_waiters::unlock(lock_, timed_waiters_, &tag_);
  }

 private:
  auto word_getter() {
    return [this]() -> auto& { return timed_waiters_; };
  }

  /// Locks with a deadline, which is far away at first, or comes soon. Returns false after a time-out.
  bool lock_in_time() {
    unsigned far = P::random() % 2 * (P::random() % 8), left = P::random() % 4;
    const auto remaining = [&]() -> std::uint64_t {
      if (far != 0) return far--, std::uint64_t{3000000000};
      return left == 0 ? 0 : left--;
    };
    return timed_waiters::lock(lock_, timed_waiters_, remaining, &tag_);
  }

  Lock lock_;
  typename timed_waiters::word timed_waiters_, tag_;
};

template <platform P, class W>
using timed_tas = with_deadlines<P, W, tas<P, W>>;
template <platform P, class W>
using timed_ticket = with_deadlines<P, W, ticket<P, W>>;
template <platform P, class W>
using timed_steady = with_deadlines<P, W, steady<P, W>>;

}  // namespace usher::check
