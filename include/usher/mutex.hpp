// Mutexes for C++ programs.
//
//     #include <usher/locks/twa.hpp>
//     #include <usher/mutex.hpp>
//
//     usher::mutex<usher::twa> m;                  // BasicLockable, Lockable: std::lock_guard, std::unique_lock …
//     usher::timed_mutex<usher::mcscr> t;          // TimedLockable
//     usher::mutex<usher::ticket, usher::waiting_kind::spin> s;
//
// Without arguments: usher::steady, spin-then-park. `usher list LOCK` names the header of each other lock.
//
// A mutex is constant-initialised, trivially destructible, and free when its bytes are zero. No operation throws or
// allocates from the heap. unlock() does not touch the mutex after the hand-over: the next owner may destroy it. Any
// thread may unlock. A mutex on which threads wait when another thread forks is not reset in the child, and is unusable
// there. (The preload library libusher.so does reset its program's mutexes.)
//
// With the macro USHER_DEBUG three errors end the program with one line (platform/native/owner_check.hpp): a lock() by
// the owner, an unlock() of a free mutex, and the destruction of a locked mutex. Either all sources of a program define
// the macro or none. A mutex is then larger, and its destructor not trivial.
//
// With the macro USHER_RECORD `usher stat` records these mutexes as it records pthread's
// (platform/native/recorded.hpp). Again either all sources define the macro or none. Destructors are then not trivial.
#pragma once

#include <cstdint>

#include "usher/core/deadline.hpp"
#include "usher/core/lockable.hpp"
#include "usher/core/wait_morphing.hpp"
#include "usher/core/waiting.hpp"
#include "usher/locks/steady.hpp"
#include "usher/platform/native.hpp"
#ifdef USHER_DEBUG
#include "usher/platform/native/owner_check.hpp"
#endif
#ifdef USHER_RECORD
#include "usher/platform/native/recorded.hpp"
#endif

namespace usher::inline v2 {

#ifdef USHER_RECORD
namespace unrecorded {
#endif

#ifdef USHER_DEBUG
inline namespace checked {  // distinct classes: their functions must not be merged with those without the macro
#endif

template <template <class, class> class Lock = steady, waiting_kind Kind = waiting_kind::spin_then_park>
class mutex {
 public:
  using lock_type = Lock<native, waiting<native, Kind>>;
  static_assert(lockable<lock_type>);
  static constexpr lock_traits traits = lock_type::traits;
  static_assert(has(traits.kinds, Kind), "this lock is not made for this way of waiting");

  constexpr mutex() noexcept : lock_{} {}
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

#ifndef USHER_DEBUG
  void lock() { lock_.lock(); }
  [[nodiscard]] bool try_lock() { return lock_.try_lock(); }
  void unlock() { lock_.unlock(); }
#else
  void lock() {
    owner_.before_lock();
    lock_.lock();
    owner_.locked();
  }
  [[nodiscard]] bool try_lock() {
    const bool locked = lock_.try_lock();
    if (locked) owner_.locked();
    return locked;
  }
  void unlock() {
    owner_.before_unlock();
    lock_.unlock();
  }
#endif

 private:
#ifdef USHER_DEBUG
  native_detail::checked_owner owner_;  // first member: messages show its address as the mutex's
#endif
  lock_type lock_;
};

/// A mutex with deadlines, 24 bytes larger than `mutex` (requeue_words). A thread that waits with a deadline does not
/// wait in the lock's queue, but on a word beside it (core/timed_waiters.hpp). If usher::condition_variable notifies a
/// thread while the mutex is held, only the unlock wakes that thread (core/wait_morphing.hpp).
template <template <class, class> class Lock = steady, waiting_kind Kind = waiting_kind::spin_then_park>
class timed_mutex final : public requeue_mutex<native, Lock<native, waiting<native, Kind>>> {
 public:
  using lock_type = Lock<native, waiting<native, Kind>>;
  static_assert(lockable<lock_type>);
  static constexpr lock_traits traits = lock_type::traits;
  static_assert(has(traits.kinds, Kind), "this lock is not made for this way of waiting");

  constexpr timed_mutex() noexcept = default;

  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return try_lock_until(from_now(d));
  }

  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
#ifdef USHER_DEBUG
    check::before_lock("try_lock_until()", this, this->words_beside().owner_tag);
#endif
    return this->try_lock() || this->lock_while_time([&] { return nanoseconds_until(deadline); });
  }

#ifdef USHER_DEBUG
  ~timed_mutex() { check::before_destruction("destruction", this, this->words_beside().owner_tag); }

  void lock() {
    check::before_lock("lock()", this, this->words_beside().owner_tag);
    requeue_mutex<native, lock_type>::lock();
  }
  void unlock() {
    check::before_unlock("unlock()", this, this->words_beside().owner_tag);
    requeue_mutex<native, lock_type>::unlock();
  }

 private:
  using check = native_detail::tag_check;
#endif
};

#ifdef USHER_DEBUG
}  // namespace checked
#endif

#ifdef USHER_RECORD
}  // namespace unrecorded

inline namespace recorded {  // distinct classes, as in `checked` above

template <template <class, class> class Lock = steady, waiting_kind Kind = waiting_kind::spin_then_park>
class mutex : public native_detail::recorded_mutex<unrecorded::mutex<Lock, Kind>> {};

template <template <class, class> class Lock = steady, waiting_kind Kind = waiting_kind::spin_then_park>
class timed_mutex final : public native_detail::recorded_timed_mutex<unrecorded::timed_mutex<Lock, Kind>> {};

}  // namespace recorded
#endif

}  // namespace usher::inline v2
