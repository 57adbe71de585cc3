// The pthread mutex operations over one lock. Compiled once for each lock and way of waiting, so that the lock's fast
// path is in line and the only indirection is the exported function's jump.
#pragma once

#include <cerrno>
#include <cstring>
#include <new>

#include "preload/c_library.hpp"
#include "preload/layout.hpp"
#include "preload/moved.hpp"
#include "preload/mutex_table.hpp"
#include "preload/timeouts.hpp"

namespace usher::preload {

template <class Lock>
class mutex_operations {
  static_assert(sizeof(Lock) <= sizeof(mutex_layout::state));
  static_assert(alignof(Lock) <= 8);
  // Of threads that a condition variable has moved to the mutex; ns, chosen: docs/measurements/faults.md.
  static constexpr std::uint64_t stays_asleep = 1000000;   // as loiter's standby, while others certainly unlock
  static constexpr std::uint64_t waits_in_turn = 4000000;  // then it need not compete any more
  static constexpr std::uint64_t long_hold = 100000;       // a critical section beside which a wake-up is short

 public:
  static int lock(pthread_mutex_t* raw) {
    mutex_layout& m = layout(raw);
    if (m.kind_and_stamp.load(std::memory_order_acquire) != valid_normal()) [[unlikely]]
      return lock_other(raw);
    acquire(m);
    return 0;
  }

  static int trylock(pthread_mutex_t* raw) {
    mutex_layout& m = layout(raw);
    if (m.kind_and_stamp.load(std::memory_order_acquire) != valid_normal()) [[unlikely]]
      return trylock_other(raw);
    return try_acquire(m) ? 0 : EBUSY;
  }

  static int unlock(pthread_mutex_t* raw) {
    mutex_layout& m = layout(raw);
    if (m.kind_and_stamp.load(std::memory_order_acquire) != valid_normal()) [[unlikely]]
      return unlock_other(raw);
    return unlock_normal(m);
  }

  static int clocklock(pthread_mutex_t* raw, clockid_t clock, const timespec* until) {
    mutex_layout& m = layout(raw);
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_clocklock(raw, clock, until);
    if (const int again = relock(m, kind); again >= 0) return again;
    if (!try_acquire(m)) {
      if (!is_time(*until)) return EINVAL;
      if (!gate::lock(
              state(m), m.timed, [&] { return nanoseconds_until(clock, *until); }, &m.held))
        return ETIMEDOUT;
      m.held.store(native::thread_mark(), std::memory_order_relaxed);
    }
    own(m, kind);
    return 0;
  }

 private:
  static Lock& state(mutex_layout& m) { return *std::launder(reinterpret_cast<Lock*>(m.state)); }

  // ---- the lock and what is kept beside it ------------------------------------------------------------------

  static void acquire(mutex_layout& m) {
    state(m).lock();
    m.held.store(native::thread_mark(), std::memory_order_relaxed);
  }

  static bool try_acquire(mutex_layout& m) {
    if (!state(m).try_lock()) return false;
    m.held.store(native::thread_mark(), std::memory_order_relaxed);
    return true;
  }

  static int unlock_normal(mutex_layout& m) {
    if (m.held.load(std::memory_order_relaxed) != native::thread_mark()) [[unlikely]]
      return unlock_anothers(m);
    release(m);
    return 0;
  }

  /// Both are undefined; programs do them, and the C library lets them pass: unlocking a free mutex, which changes
  /// nothing, and one that another thread has locked (or this one, when it had no record yet).
  [[gnu::cold, gnu::noinline]] static int unlock_anothers(mutex_layout& m) {
    if (take_mark(m)) release(m);
    return 0;
  }

  static void release(mutex_layout& m) {
    if (gate::anyone_after(m.held, m.timed)) [[unlikely]]
      return release_to_others(m);
    state(m).unlock();
  }

  /// `held` is 0, but the caller holds the mutex.
  [[gnu::cold, gnu::noinline]] static void release_to_others(mutex_layout& m) {
    pthread_waiter* first = nullptr;
    if (gate::has_requeued(m.timed)) {
      const turn t = turn_of(m, *moved(m));
      if (t != turn::later && gate::take_requeued(m.timed)) first = take_moved(m);
      if (first != nullptr && t == turn::now) {
        gate::pass_by(m.timed);
        m.held.store(held_by_somebody, std::memory_order_relaxed);
        return pthread_queue::hand_over(*first);  // it has the mutex; the rest of its chain hangs on it
      }
    }
    gate::unlock(state(m), m.timed, &m.held);
    // The mutex may be gone; those who were moved are not, for they need it.
    if (first != nullptr) pthread_queue::grant(*first);
  }

  enum class turn {
    later,      ///< it stays asleep: others are certain to have the mutex, and to unlock it
    as_others,  ///< it is woken, and competes like any thread that locks the mutex
    now         ///< it gets the mutex
  };

  /// What an unlock does with the first of those who were moved here. A lock that restricts concurrency does so with them,
  /// too, for 1 ms: the unlock that is expected to be the last within it ends that. So such a thread waits at most 1 ms or
  /// one critical section longer than one that locks the mutex now. One with a real-time priority is woken at once.
  ///
  /// A lock that hands over to those who have waited long (one with unlock_is_due()) does so with these, too. While the
  /// thread wakes up nobody can have the mutex; so it is done where critical sections are much longer than that takes, or
  /// where a condition variable chose the thread 4 ms ago. Not more than seven times in a row while threads at the lock itself
  /// have waited long: those who signal each other again and again could keep the mutex among themselves.
  static turn turn_of(mutex_layout& m, pthread_waiter& first) {
    if constexpr (requires { state(m).contended(); }) {
      if constexpr (requires { state(m).urgent_wait(); })
        if (state(m).urgent_wait()) return turn::later;
      const std::uint64_t now = native::now();
      const std::uint64_t waited = now - first.moved_at, since_last = now - first.passed_at;
      const bool over = waited + since_last >= stays_asleep;
      if constexpr (requires { state(m).unlock_is_due(); })
        if ((waited >= waits_in_turn || (over && since_last >= long_hold)) && !gate::serves_timed(m.timed))
          return gate::is_due(m.timed) && state(m).unlock_is_due() ? turn::later : turn::now;
      if (over || !state(m).contended() || first.rank.is_urgent()) return turn::as_others;
      first.passed_at = now;
      return turn::later;
    } else {
      return turn::as_others;
    }
  }

  // ---- kinds other than normal, first uses, forks -----------------------------------------------------------

  [[gnu::noinline]] static int lock_other(pthread_mutex_t* raw) {
    mutex_layout& m = layout(raw);
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_lock(raw);
    if (const int again = relock(m, kind); again >= 0) return again;
    acquire(m);
    own(m, kind);
    return 0;
  }

  [[gnu::noinline]] static int trylock_other(pthread_mutex_t* raw) {
    mutex_layout& m = layout(raw);
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_trylock(raw);
    if (const int again = relock(m, kind); again >= 0) return again == EDEADLK ? EBUSY : again;
    if (!try_acquire(m)) return EBUSY;
    own(m, kind);
    return 0;
  }

  [[gnu::noinline]] static int unlock_other(pthread_mutex_t* raw) {
    mutex_layout& m = layout(raw);
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_unlock(raw);
    if (!has_owner(kind)) return unlock_normal(m);
    if (m.owner.load(std::memory_order_relaxed) != me()) return EPERM;
    if (type_of(kind) == PTHREAD_MUTEX_RECURSIVE && --m.count != 0) return 0;
    m.owner.store(0, std::memory_order_relaxed);
    release(m);
    return 0;
  }

  static std::uint32_t me() { return std::uint32_t(native::thread_id()); }

  /// What locking gives at once if the caller is the owner already, else −1. Only the owner can find its own id there.
  static int relock(mutex_layout& m, int kind) {
    if (!has_owner(kind) || m.owner.load(std::memory_order_relaxed) != me()) return -1;
    if (type_of(kind) == PTHREAD_MUTEX_ERRORCHECK) return EDEADLK;
    if (m.count + 1 == 0) return EAGAIN;
    m.count++;
    return 0;
  }

  static void own(mutex_layout& m, int kind) {
    if (!has_owner(kind)) return;
    m.owner.store(me(), std::memory_order_relaxed);
    m.count = 1;
  }

  /// Makes the mutex valid in this incarnation of the process and returns its kind.
  static int ready(mutex_layout& m) {
    const std::uint64_t seen = m.kind_and_stamp.load(std::memory_order_acquire);
    if (is_ours(kind_of(seen)) && stamp_of(seen) != native::fork_stamp()) [[unlikely]]
      renew(m);
    return kind_of(seen);
  }

  /// First use, or first use after a fork: the threads that waited in the queue, and perhaps the one that was about to
  /// leave, are not here. Whoever holds the mutex keeps it: either it is the thread that forked, or the mutex stays
  /// locked for good, as it does with the C library.
  [[gnu::cold, gnu::noinline]] static void renew(mutex_layout& m) {
    const std::uint32_t now = native::fork_stamp();
    const std::uint32_t busy = now | 0x80000000u;  // stamps count up from 1
    for (;;) {
      std::uint64_t seen = m.kind_and_stamp.load(std::memory_order_acquire);
      const std::uint64_t kind = seen & 0xffffffffu;
      const auto with = [kind](std::uint32_t stamp) { return kind | std::uint64_t{stamp} << 32; };
      if (stamp_of(seen) == now || !is_ours(kind_of(seen))) return;
      if (stamp_of(seen) == 0) {  // never used: nothing but zero bytes
        if (m.kind_and_stamp.compare_exchange_strong(seen, with(now), std::memory_order_acq_rel)) return;
      } else if (stamp_of(seen) == busy) {  // another thread is at it
        native::await_yielding(
            m.kind_and_stamp, [seen](std::uint64_t v) { return v != seen; }, std::memory_order_acquire);
      } else if (m.kind_and_stamp.compare_exchange_strong(seen, with(busy), std::memory_order_acq_rel)) {
        // `held` is not written here: a fork in the middle of this finds it as it was.
        m.timed.store(0, std::memory_order_relaxed);
        if (!has_owner(kind_of(seen))) forget_moved(m);
        std::memset(m.state, 0, sizeof m.state);
        if (m.held.load(std::memory_order_relaxed) != 0)
          while (!state(m).try_lock()) native::backoff(100000);  // fails only for want of a node
        m.kind_and_stamp.store(with(now), std::memory_order_release);
        return;
      }
    }
  }
};

/// The table of one lock with one way of waiting.
template <class Lock>
constexpr mutex_table make_table(const char* name) {
  if constexpr (!Lock::traits.excludes) {
    return {name, false, nullptr, nullptr, nullptr, nullptr};
  } else {
    using operations = mutex_operations<Lock>;
    return {name, false, operations::lock, operations::trylock, operations::unlock, operations::clocklock};
  }
}

}  // namespace usher::preload
