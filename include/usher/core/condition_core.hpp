// A condition variable for any lock and any platform, whose waiters are woken first in, first out, or mostly last in, first
// out. The list and what it guarantees: wait_queue.hpp.
//
// notify_all() wakes one thread, and each, once it has the lock, the next: never a herd. notify_one() wakes the thread at once,
// also where the caller holds the lock. However a wait ends, by a grant, in time or because lock() or unlock() throws, the
// thread leaves the list and passes on what it owes: the next thread of a broadcast, or a grant that came too late.
#pragma once

#include <cstdint>

#include "usher/core/platform.hpp"
#include "usher/core/wait_queue.hpp"

namespace usher::inline v1 {

template <platform P>
class basic_condition_variable {
  using queue = wait_queue<P>;
  using waiter = queue::waiter;

 public:
  constexpr basic_condition_variable() = default;
  explicit basic_condition_variable(append_chance chance) : chance_(chance) {}
  ~basic_condition_variable() { queue_.close(); }
  basic_condition_variable(const basic_condition_variable&) = delete;
  basic_condition_variable& operator=(const basic_condition_variable&) = delete;

  /// False if threads wait that nobody has notified. Otherwise nobody touches it any more.
  bool close() { return queue_.close(); }

  void notify_one() {
    if (waiter* w = queue_.choose_one(queue::choice::loose)) queue::grant(*w);
  }
  void notify_all() {
    if (waiter* first = queue_.choose_all()) queue::grant(*first);
  }

  template <class Lock>
  void wait(Lock& lock) {
    wait_with(lock, [](waiter& me) {
      queue::sleep(me);
      return true;
    });
  }

  /// `remaining()`: nanoseconds left. False: time has run out and nobody had notified this thread.
  template <class Lock, class Remaining>
  bool wait_while_time(Lock& lock, Remaining remaining) {
    return wait_with(lock, [&](waiter& me) { return queue_.sleep(me, remaining); });
  }

  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate done) {
    while (!done()) wait(lock);
  }

 private:
  /// A thread in the queue. However the block is left, the queue is left and the next thread of a broadcast woken.
  class stay {
   public:
    stay(queue& q, append_chance chance) : queue_(q) { q.enter(*me_, chance); }
    ~stay() {
      if (!over_ && !queue_.leave(*me_)) {  // unlock() has thrown
        queue::sleep(*me_);
        if (waiter* other = queue_.choose_one(queue::choice::loose)) queue::grant(*other);
        granted_ = true;
      }
      if (!granted_) return;
      if (waiter* next = queue::rest(*me_)) queue::grant(*next);
    }
    stay(const stay&) = delete;
    stay& operator=(const stay&) = delete;

    waiter& me() { return *me_; }
    void end(bool granted) {
      over_ = true;
      granted_ = granted;
    }

   private:
    queue& queue_;
    typename P::template local<waiter> me_;
    bool over_ = false, granted_ = false;
  };

  template <class Lock, class Sleep>
  bool wait_with(Lock& lock, Sleep sleep) {
    stay s(queue_, chance_);
    lock.unlock();
    const bool granted = sleep(s.me());
    s.end(granted);
    lock.lock();
    return granted;
  }

  queue queue_;
  append_chance chance_;
};

}  // namespace usher::inline v1
