// The algorithm by which a thread waits on a condition variable and a signal reaches it: the common part of
// pthread_cond_wait() in libusher.so, basic_condition_variable and the checker's scenarios. The list of waiters is in
// wait_queue.hpp, the mutex in wait_morphing.hpp.
//
//     enter()        with the mutex held: the thread joins the queue
//                    … the caller unlocks the mutex …
//     await_grant()  sleeps until a signal has reached the thread, or until the thread gives up
//     come_back()    locks the mutex, unless its owner handed it over, and delivers the rest of a broadcast's chain
//
// `Target` gives the signalling thread access to the waiter's mutex:
//
//     requeue(w)     requeues a chain to the mutex (morphing_mutex::requeue); false: the caller wakes its first thread
//     claim()        called if the mutex was handed over to this thread; false: another thread has taken it since
//     entered(), left()   called before and after the wait, with the mutex held if the caller holds it
//
// A signal selects one waiter, a broadcast selects all waiters as a chain, in one step. The signalling thread then
// delivers the selected waiters: if it owns the mutex, it requeues them; otherwise it wakes the first one. Of the
// threads of a chain, at most one at a time is awake without the mutex.
#pragma once

#include <atomic>
#include <cstdint>

#include "usher/core/wait_morphing.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_owner_tags P, class Target>
class condition_wait {
 public:
  using queue = wait_queue<P>;

  /// The reasons for which a waiting thread's sleep ends. After each, the thread reads its state again.
  enum class wait_end {
    woken,     ///< a wake-up, perhaps a spurious one
    time,      ///< the deadline has passed
    cancel,    ///< the thread is cancelled: if a signal has selected it, the signal goes to another thread
    abandoned  ///< the process is a fork's child, in which no signal finds this waiter
  };

  /// The node of a waiting thread. It must not move until come_back() has returned.
  struct waiter : requeued_waiter<P> {
    Target target;
    typename P::template plain<queue*> from;
  };

  // ---- the waiting thread -----------------------------------------------------------------------------------

  static void enter(waiter& me, queue& from, Target target, append_probability probability) {
    me.target = target;
    me.from.set(&from);
    P::ensure_owner_tag();  // this thread will write its tag to the mutex when it has locked the mutex again
    me.target.entered();
    from.enter(me, probability);
  }

  /// Undoes enter() after the unlock of the mutex has failed because another thread owns it. Called only for mutexes to
  /// which no thread is requeued, so no owner can have handed the mutex over to this thread in the meantime.
  static void undo_enter(waiter& me) {
    if (withdraw(me))
      if (waiter* const next = of_chain(queue::rest(me))) queue::grant(*next);
    me.target.left();
  }

  /// Returns true if a signal has reached the thread. `sleep(value, selected)` sleeps while `me.state` has that value,
  /// and returns the reason for its return. Once the thread is selected, its deadline is ignored.
  template <class Sleep>
  static bool await_grant(waiter& me, Sleep sleep) {
    while (const auto state = queue::awake(me)) {
      switch (sleep(*state, *state != waiter::waiting)) {
        case wait_end::woken:
          break;
        case wait_end::time:
          if (me.from.get()->leave(me)) return false;
          break;
        case wait_end::cancel:
          return withdraw(me);
        case wait_end::abandoned:
          return false;
      }
    }
    me.from.get()->depart(me);
    return true;
  }

  /// Gives up the wait. Returns true if a signal had already selected the waiter. The signal is then forwarded to
  /// another waiter, if any.
  static bool withdraw(waiter& me) {
    if (me.from.get()->leave(me)) return false;
    if (waiter* const other = of_chain(me.from.get()->forward_signal(me))) deliver(*other);
    queue::sleep(me);
    return true;
  }

  /// `lock()` locks the mutex. Returns true if lock() was not called because the previous owner handed the mutex over.
  template <class Lock>
  static bool come_back(waiter& me, bool granted, Lock lock) {
    const bool has_it = owns_mutex(me);
    if (!has_it) lock();
    me.target.left();
    if (granted && !queue::left_by_fork(me)) deliver_rest(me);
    return has_it;
  }

  /// Called once by a granted waiter. Returns whether it owns the mutex. The result is also right in a child process,
  /// if a signal handler of this thread has forked since the previous owner handed the mutex over.
  static bool owns_mutex(waiter& me) { return queue::was_handed_over(me) && me.target.claim(); }

  // ---- a thread that signals --------------------------------------------------------------------------------

  /// Signals one waiter. `armed`: the waiter may give up and forward the signal to another waiter (wait_queue.hpp).
  static void signal(queue& q, typename queue::forwarding how = queue::forwarding::armed) {
    if (waiter* const w = of_chain(q.select_one(how))) deliver(*w);
  }
  static void broadcast(queue& q) {
    if (waiter* const first = of_chain(q.select_all())) deliver(*first);
  }

  /// Requeues a chain of selected waiters to their mutex, or wakes the chain's first waiter.
  static void deliver(waiter& chain) {
    if (!chain.target.requeue(chain)) queue::grant(chain);
  }

  static waiter* of_chain(typename queue::waiter* w) { return static_cast<waiter*>(w); }

 private:
  static void deliver_rest(waiter& me) {
    if (waiter* const next = of_chain(queue::rest(me))) deliver(*next);
  }
};

/// The types of a condition variable and its mutexes as members, for templates that take them as one parameter.
template <platform_with_owner_tags P>
struct condition_parts {
  using queue = wait_queue<P>;
  using waiter = requeued_waiter<P>;
  using timed_waiters = timed_waiter_count<P>;
  template <class Words>
  using mutex = morphing_mutex<P, Words>;
  template <class Target>
  using wait = condition_wait<P, Target>;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
