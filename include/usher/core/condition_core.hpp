// A condition variable for any lock and any platform. Its waiters are woken first in, first out, or mostly last in,
// first out. The list of waiters and its guarantees: wait_queue.hpp.
//
// If the caller of notify_*() owns the mutex, and the mutex has requeue_words (timed_mutex), a notified thread is not
// woken but requeued to the mutex: wait_morphing.hpp. A thread whose wait ends, by a grant, by time-out or because
// lock() or unlock() throws, leaves the list. It wakes the next thread of a broadcast's chain (the waiters that the
// broadcast has still to wake). If it was granted after unlock() had thrown, it notifies another thread in its place.
// If unlock() throws, the calling thread must not hold the mutex afterwards: otherwise a thread notified earlier could
// not lock it, and both would wait for ever.
#pragma once

#include <cstdint>
#include <mutex>  // std::unique_lock
#include <type_traits>

#include "usher/core/condition_wait.hpp"
#include "usher/core/platform.hpp"

#include "usher/core/shadow_begin.h"

namespace usher::inline v2 {

template <platform_with_owner_tags P>
  requires platform_with_stack_objects<P>
class basic_condition_variable {
  using wait_on = condition_wait<P, embedded_target<P>>;
  using queue = typename wait_on::queue;
  using waiter = typename wait_on::waiter;

 public:
  /// A mutex to which notified threads are requeued.
  template <class Lock>
  using requeue_mutex_of = requeue_mutex<P, Lock>;

  constexpr basic_condition_variable() = default;
  constexpr explicit basic_condition_variable(append_probability probability) : probability_(probability) {}
  ~basic_condition_variable() { queue_.close(); }
  basic_condition_variable(const basic_condition_variable&) = delete;
  basic_condition_variable& operator=(const basic_condition_variable&) = delete;

  /// Returns false if a waiting thread has not been notified. After it has returned true, no thread accesses the
  /// object.
  bool close() { return queue_.close(); }

  void notify_one() { wait_on::signal(queue_, queue::forwarding::none); }
  void notify_all() { wait_on::broadcast(queue_); }

  template <class Lock>
  void wait(Lock& lock) {
    wait_with(lock, [](waiter& me, std::uint32_t state, bool) {
      P::park(me.state, state, every_sleeper);
      return wait_on::wait_end::woken;
    });
  }

  /// `remaining()` returns the nanoseconds until the deadline. Returns false if it passed before this thread was
  /// notified.
  template <class Lock, class Remaining>
  bool wait_while_time(Lock& lock, Remaining remaining) {
    return wait_with(lock, [&](waiter& me, std::uint32_t state, bool selected) {
      if (selected)
        P::park(me.state, state, every_sleeper);
      else if (const std::uint64_t left = remaining())
        P::park_for(me.state, state, every_sleeper, left);
      else
        return wait_on::wait_end::time;
      return wait_on::wait_end::woken;
    });
  }

  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate done) {
    while (!done()) wait(lock);
  }

 private:
  /// The time that a thread spends in the queue. The destructor removes the thread from the queue and wakes the next
  /// thread of a broadcast, also after an exception.
  template <class Mutex>
  class stay {
   public:
    stay(queue& q, Mutex* mutex, append_probability probability) : mutex_(mutex) {
      wait_on::enter(*me_, q, {words_of(mutex)}, probability);
    }
    ~stay() {
      bool owns = false;
      if (ends_ == by::unlock && !me_->from.get()->leave(*me_)) {
        queue::sleep(*me_);
        wait_on::signal(*me_->from.get(), queue::forwarding::none);
        ends_ = by::lock;
        owns = wait_on::owns_mutex(*me_);
      }
      if (ends_ != by::lock) return;
      if (auto* const next = wait_on::of_chain(queue::rest(*me_))) queue::grant(*next);
      if (owns) mutex_->unlock();
    }
    stay(const stay&) = delete;
    stay& operator=(const stay&) = delete;

    template <class Lock, class Sleep>
    bool sleep_and_come_back(Lock& lock, Sleep sleep) {
      const bool granted =
          wait_on::await_grant(*me_, [&](std::uint32_t state, bool selected) { return sleep(*me_, state, selected); });
      ends_ = granted ? by::lock : by::time;
      const bool has_it = wait_on::come_back(*me_, granted, [&] { lock.lock(); });
      ends_ = by::itself;
      if (has_it) adopt(lock);
      return granted;
    }

   private:
    Mutex* const mutex_;
    typename P::template local<waiter> me_;
    enum class by { unlock, lock, time, itself } ends_ = by::unlock;  ///< the step that throws if ~stay() runs now
  };

  template <class Lock, class Sleep>
  bool wait_with(Lock& lock, Sleep sleep) {
    stay<std::remove_pointer_t<decltype(mutex_of(lock))>> s(queue_, mutex_of(lock), probability_);
    lock.unlock();
    return s.sleep_and_come_back(lock, sleep);
  }

  // mutex_of(lock) returns the mutex: `lock` itself, or the mutex of a std::unique_lock. words_of(mutex) returns the
  // requeue_words of a mutex, or null if it has none. adopt(lock) makes a std::unique_lock the owner of its mutex after
  // the mutex was handed over to this thread.
  template <class Mutex>
  static Mutex* mutex_of(Mutex& mutex) {
    return &mutex;
  }
  template <class Mutex>
  static Mutex* mutex_of(std::unique_lock<Mutex>& lock) {
    return lock.mutex();
  }
  template <class Mutex>
  static requeue_words<P>* words_of(Mutex* mutex) {
    if constexpr (requires { mutex->words_beside(); })
      return mutex != nullptr ? &mutex->words_beside() : nullptr;
    else
      return nullptr;
  }
  template <class Mutex>
  static void adopt(Mutex&) {}
  template <class Mutex>
  static void adopt(std::unique_lock<Mutex>& lock) {
    lock = std::unique_lock<Mutex>(*lock.release(), std::adopt_lock);
  }

  queue queue_;
  append_probability probability_;
};

}  // namespace usher::inline v2

#include "usher/core/shadow_end.h"
