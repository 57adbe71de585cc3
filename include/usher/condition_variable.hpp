// A condition variable for any lock, whose waiters are woken first in, first out, or mostly last in, first out.
//
//     #include <mutex>
//     #include <usher/condition_variable.hpp>
//     #include <usher/locks/twa.hpp>
//     #include <usher/mutex.hpp>
//
//     usher::mutex<usher::twa> m;
//     usher::condition_variable c;                                  // first in, first out
//     usher::condition_variable l(usher::append_chance(0.001));     // mostly last in, first out
//     std::unique_lock lock(m);
//     c.wait(lock, [&] { return ready; });
//     c.wait_for(lock, 10ms);
//     c.notify_one();  c.notify_all();
//
// As std::condition_variable_any (without stop tokens): works with whatever has lock() and unlock(). The list and what it guarantees:
// wait_queue.hpp. notify_all() wakes one thread, and each, once it has the lock, the next: never a herd. notify_one()
// wakes the thread at once, also where the caller holds the lock (libusher.so does better: it sees the mutex).
// Nothing is allocated. 56 bytes; a zeroed one is valid.
// Destroying one on which threads still wait is an error; they would never wake. Right after notify_all() it is not.
// If lock() throws, the next thread of a broadcast is woken all the same.
#pragma once

#include <chrono>
#include <condition_variable>  // std::cv_status

#include "usher/core/deadline.hpp"
#include "usher/core/wait_queue.hpp"
#include "usher/platform/native.hpp"

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

  template <class Lock, class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& deadline) {
    return wait_while_time(lock, [&] { return nanoseconds_until(deadline); }) ? std::cv_status::no_timeout
                                                                              : std::cv_status::timeout;
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& deadline, Predicate done) {
    while (!done())
      if (wait_until(lock, deadline) == std::cv_status::timeout) return done();
    return true;
  }

  template <class Lock, class Rep, class Period>
  std::cv_status wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d) {
    return wait_until(lock, from_now(d));
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d, Predicate done) {
    return wait_until(lock, from_now(d), done);
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

using condition_variable = basic_condition_variable<native>;

}  // namespace usher::inline v1
