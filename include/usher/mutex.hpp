// Locks for C++ programs that embed them.
//
//     #include <usher/locks/twa.hpp>
//     #include <usher/mutex.hpp>
//
//     usher::mutex<usher::twa> m;                  // BasicLockable, Lockable: std::lock_guard, std::unique_lock …
//     usher::timed_mutex<usher::mcscr> t;          // TimedLockable
//     usher::mutex<usher::ticket, usher::waiting_kind::spin> s;
//
// Without arguments: usher::loiter, spin-then-park.
//
// A mutex is constant-initialised, trivially destructible, and free when its bytes are zero. No operation throws or
// allocates from the heap. unlock() does not touch the mutex after it has handed it over: the next owner may destroy it.
// Any thread may unlock. Threads that wait when another thread forks are not reset in the child: a mutex that is queued
// on across a fork is lost to the child (libusher.so resets its own).
#pragma once

#include <chrono>
#include <cstdint>

#include "usher/core/deadline.hpp"
#include "usher/core/timed_waiters.hpp"
#include "usher/core/waiting.hpp"
#include "usher/locks/loiter.hpp"
#include "usher/platform/native.hpp"

namespace usher::inline v1 {

template <template <class, class> class Lock = loiter, waiting_kind Kind = waiting_kind::spin_then_park>
class mutex {
 public:
  using lock_type = Lock<native, waiting<native, Kind>>;
  static constexpr lock_traits traits = lock_type::traits;
  static_assert(has(traits.kinds, Kind), "this lock is not made for this way of waiting");

  constexpr mutex() noexcept : lock_{} {}
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() { lock_.lock(); }
  [[nodiscard]] bool try_lock() { return lock_.try_lock(); }
  void unlock() { lock_.unlock(); }

 private:
  lock_type lock_;
};

/// One word larger. A thread that waits with a deadline stands aside from the lock's own order: timed.hpp.
template <template <class, class> class Lock = loiter, waiting_kind Kind = waiting_kind::spin_then_park>
class timed_mutex {
  using gate = timed_gate<native>;

 public:
  using lock_type = Lock<native, waiting<native, Kind>>;
  static constexpr lock_traits traits = lock_type::traits;
  static_assert(has(traits.kinds, Kind), "this lock is not made for this way of waiting");

  constexpr timed_mutex() noexcept : lock_{}, gate_{0} {}
  timed_mutex(const timed_mutex&) = delete;
  timed_mutex& operator=(const timed_mutex&) = delete;

  void lock() { lock_.lock(); }
  [[nodiscard]] bool try_lock() { return lock_.try_lock(); }

  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return try_lock_until(from_now(d));
  }

  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    if (lock_.try_lock()) return true;
    return gate::lock(lock_, gate_, [&] { return nanoseconds_until(deadline); });
  }

  void unlock() {
    if (!gate::anyone(gate_)) [[likely]]
      return lock_.unlock();
    gate::unlock(lock_, gate_);
  }

 private:
  lock_type lock_;
  gate::word gate_;
};

}  // namespace usher::inline v1
