// A lock with timed waiters beside it and an owner tag, as a pthread mutex has them (timed.hpp, preload/), made a lock
// itself. A thread comes with a deadline or without, as chance says; where its time runs out it comes again without.
#pragma once

#include "usher/core/timed_waiters.hpp"
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
  };

  void lock() {
    if (P::random() % 2 == 0 || !lock_in_time()) lock_.lock();
    tag_.store(P::thread_index(), std::memory_order_relaxed);
  }

  /// By the scenario that asks whether such a thread is served: in the manner of one, for as long as it takes.
  void lock_with_deadline() {
    timed_waiters::lock(
        lock_, timed_waiters_, [] { return std::uint64_t{1} << 62; }, &tag_);
    tag_.store(P::thread_index(), std::memory_order_relaxed);
  }

  /// By the other threads there.
  void lock_without_deadline() {
    lock_.lock();
    tag_.store(P::thread_index(), std::memory_order_relaxed);
  }

  bool try_lock() {
    if (!lock_.try_lock()) return false;
    tag_.store(P::thread_index(), std::memory_order_relaxed);
    return true;
  }

  void unlock() {
    if (!timed_waiters::clear_tag_and_check(tag_, timed_waiters_)) return lock_.unlock();
    timed_waiters::unlock(lock_, timed_waiters_, &tag_);
  }

 private:
  bool lock_in_time() {
    unsigned left = P::random() % 4;
    return timed_waiters::lock(
        lock_, timed_waiters_, [&]() -> std::uint64_t { return left == 0 ? 0 : left--; }, &tag_);
  }

  Lock lock_;
  typename timed_waiters::word timed_waiters_, tag_;
};

template <platform P, class W>
using timed_tas = with_deadlines<P, W, tas<P, W>>;
template <platform P, class W>
using timed_ticket = with_deadlines<P, W, ticket<P, W>>;

}  // namespace usher::check
