// Read-write locks for C++ programs.
//
//     #include <usher/shared_mutex.hpp>
//
//     usher::shared_mutex<> m;                                   // std::unique_lock, std::shared_lock …
//     usher::shared_timed_mutex<> t;                             // … with deadlines
//     usher::shared_mutex<usher::bravo> b;                       // many readers, few writers
//     usher::shared_mutex<usher::phase_fair, usher::ticket> f;   // writers in the order of their arrival
//     usher::shared_mutex<usher::phase_fair, usher::steady, usher::waiting_kind::spin_then_park,
//                         usher::reader_rule::recursive> r;      // a thread may lock again for reading
//
// Defaults: phase-fair, writers queue on usher::steady, spin-then-park. Guarantees and cost: locks/phase_fair.hpp;
// algorithm and bounds: core/read_write_core.hpp.
//
// Phase-fair means that a reader waits behind a waiting writer. A thread that holds such a lock for reading must not
// lock it again for reading (as with std::shared_mutex), nor wait for a thread that is about to lock it for reading.
//
// An object is constant-initialised, trivially destructible, and free when its bytes are zero. No operation throws or
// allocates from the heap. Under `bravo`, the first readers of a process map a table of 32 KiB, and a program that
// contains `bravo` registers a fork handler when it is loaded. unlock() and unlock_shared() do not touch the object
// after the release. Any thread may call unlock_shared(). At most 2^23 − 1 readers may hold the lock or wait for it at
// once. A lock that other threads used when a thread forked is unusable in the child.
//
// Experimental, not for production.
//
// The macros USHER_DEBUG and USHER_RECORD have no effect on these classes.
#pragma once

#include <cstdint>

#include "usher/core/deadline.hpp"
#include "usher/core/lockable.hpp"
#include "usher/core/waiting.hpp"
#include "usher/locks/phase_fair.hpp"
#include "usher/locks/steady.hpp"
#include "usher/platform/native.hpp"

namespace usher::inline v2 {

template <template <class, class, template <class, class> class, reader_rule> class Lock = phase_fair,
          template <class, class> class Writers = steady, waiting_kind Kind = waiting_kind::spin_then_park,
          reader_rule Rule = reader_rule::phase_fair>
class shared_mutex {
 public:
  using lock_type = Lock<native, waiting<native, Kind>, Writers, Rule>;
  static_assert(lockable<Writers<native, waiting<native, Kind>>>);
  static constexpr read_write_traits traits = lock_type::traits;

  constexpr shared_mutex() noexcept : lock_{} {}
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;

  void lock() { lock_.lock(); }
  [[nodiscard]] bool try_lock() { return lock_.try_lock(); }
  void unlock() { lock_.unlock(); }

  void lock_shared() { lock_.lock_shared(); }
  [[nodiscard]] bool try_lock_shared() { return lock_.try_lock_shared(); }
  void unlock_shared() { lock_.unlock_shared(); }

  /// Called with the lock held for reading. True: the thread now holds the lock for writing, and no other thread has
  /// held it for writing in between. False: another thread holds the lock or is about to acquire it, and the calling
  /// thread still holds the lock for reading. Never waits.
  [[nodiscard]] bool try_upgrade() { return lock_.try_upgrade(); }
  /// Turns the calling thread's hold for writing into one for reading. No other thread writes in between.
  void unlock_and_lock_shared() { lock_.unlock_and_lock_shared(); }

 protected:
  lock_type lock_;
};

template <template <class, class, template <class, class> class, reader_rule> class Lock = phase_fair,
          template <class, class> class Writers = steady, waiting_kind Kind = waiting_kind::spin_then_park,
          reader_rule Rule = reader_rule::phase_fair>
class shared_timed_mutex final : public shared_mutex<Lock, Writers, Kind, Rule> {
 public:
  constexpr shared_timed_mutex() noexcept = default;

  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return try_lock_until(from_now(d));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return this->lock_.lock_while_time([&deadline] { return nanoseconds_until(deadline); });
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& d) {
    return try_lock_shared_until(from_now(d));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return this->lock_.lock_shared_while_time([&deadline] { return nanoseconds_until(deadline); });
  }
};

}  // namespace usher::inline v2
