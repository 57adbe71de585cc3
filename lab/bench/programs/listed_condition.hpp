// A condition variable with an explicit list of waiters, as in Malthusian Locks §6.10: a waiter is appended to the list
// with a given probability, and is otherwise put at its head. The list is the library's (core/wait_queue.hpp). Waiters
// poll without limit, as in the paper, or sleep.
#pragma once

#include "usher/core/condition_wait.hpp"
#include "usher/core/platform.hpp"

namespace usher::workloads {

template <class P>
class listed_condition {
  using wait_on = condition_wait<P, embedded_target<P>>;
  using waiter = typename wait_on::waiter;

 public:
  /// Called before the first wait. `thousandths`: how many of a thousand waiters are appended.
  void set(long thousandths, bool sleeps) {
    probability_ = append_probability(static_cast<double>(thousandths) / 1000);
    sleeps_ = sleeps;
  }

  /// The caller owns the lock.
  template <class Lock>
  void wait(Lock& lock) {
    typename P::template local<waiter> me;
    wait_on::enter(*me, queue_, {}, probability_);
    lock.unlock();
    wait_on::await_grant(*me, [&](std::uint32_t state, bool) {
      if (sleeps_)
        P::park(me->state, state, every_sleeper);
      else  // relaxed: await_grant() reads the state again
        P::await(
            me->state, [state](std::uint32_t s) { return s != state; }, std::memory_order_relaxed, pacing::polling);
      return wait_on::wait_end::woken;
    });
    wait_on::come_back(*me, true, [&] { lock.lock(); });
  }

  void notify_one() { wait_on::signal(queue_, wait_on::queue::forwarding::none); }
  void notify_all() { wait_on::broadcast(queue_); }

 private:
  typename wait_on::queue queue_;
  append_probability probability_;
  bool sleeps_ = false;
};

}  // namespace usher::workloads
