// The pthread_rwlock_t operations over one read-write lock. They are compiled once for each lock.
//
// Errors are the C library's: EDEADLK for a thread that holds the lock for writing and locks again, EBUSY, ETIMEDOUT,
// EINVAL for invalid times and clocks even if the lock is free, and EAGAIN for too many readers. In addition
// pthread_rwlock_destroy() returns EBUSY for a lock in use. The kind selects the order: with the default kinds a thread
// may lock again for reading while a writer waits (reader_rule::recursive);
// PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP is phase-fair.
#pragma once

#include <cerrno>

#include "library/preload/layout.hpp"
#include "library/preload/one_thread.hpp"
#include "library/preload/rwlock_layout.hpp"
#include "library/preload/rwlock_table.hpp"
#include "library/preload/timeouts.hpp"
#include "usher/core/read_write_core.hpp"
#include "usher/core/waiting.hpp"

namespace usher::preload {

template <template <class, class> class Writers, bool Biased>
class rwlock_operations {
  using waits = waiting<native, waiting_kind::spin_then_park>;
  using writers_lock = Writers<native, waits>;
  using core = read_write_core<native, waits, writers_lock, Biased>;
  static_assert(sizeof(writers_lock) <= rwlock_at::most_writers && alignof(writers_lock) <= 8);
  static_assert(sizeof(read_write_words<native>) <= rwlock_at::validity);

 public:
  static int rdlock(pthread_rwlock_t* l) {
    if (!rwlock_at::is_valid(l)) [[unlikely]]
      return unready<&rwlock_pointers::rdlock>(l, rdlock);
    core c = of(l);
    if constexpr (Biased)
      if (c.enter_visibly()) return 0;
    const std::uint32_t seen = c.arrive();
    // The slow paths get `l`, not `c`: for a call, the compiler would have to store `c` in memory.
    if (core::has_to_wait(seen)) [[unlikely]]
      return rdlock_after(l, seen);
    return c.may_have_too_many(seen) ? read_locked(l) : 0;
  }

  static int wrlock(pthread_rwlock_t* l) {
    if (!rwlock_at::is_valid(l)) [[unlikely]]
      return unready<&rwlock_pointers::wrlock>(l, wrlock);
    core c = of(l);
    std::uint32_t seen;
    const bool claimed = c.claim_at_once(seen);
    if (!claimed || !c.has_left(seen)) [[unlikely]]
      return wrlock_after(l, claimed, seen);
    return write_locked(l);
  }

  static int unlock(pthread_rwlock_t* l) {
    if (!rwlock_at::is_valid(l, std::memory_order_relaxed)) [[unlikely]]
      return unready<&rwlock_pointers::rwlock_unlock>(l, unlock);
    core c = of(l);
    if (rwlock_at::writer_of(l).load(std::memory_order_relaxed) != 0) {
      rwlock_at::writer_of(l).store(0, std::memory_order_relaxed);  // first: the next owner stores its id here
      c.unlock();
    } else {
      c.unlock_shared();
    }
    return 0;
  }

  static int tryrdlock(pthread_rwlock_t* l) {
    if (!rwlock_at::is_valid(l)) [[unlikely]]
      return unready<&rwlock_pointers::tryrdlock>(l, tryrdlock);
    core c = of(l);
    return !c.try_lock_shared() ? EBUSY : c.may_have_too_many() ? read_locked(l) : 0;
  }

  static int trywrlock(pthread_rwlock_t* l) {
    if (!rwlock_at::is_valid(l)) [[unlikely]]
      return unready<&rwlock_pointers::trywrlock>(l, trywrlock);
    return of(l).try_lock() ? write_locked(l) : EBUSY;
  }

  static int clockrdlock(pthread_rwlock_t* l, clockid_t clock, const timespec* until) {
    if (!ready(l)) return c_library::rwlocks.clockrdlock(l, clock, until);
    if (!is_waitable(clock) || !is_time(*until)) return EINVAL;
    if (of(l).lock_shared(deadline{{clock, *until}, l})) return read_locked(l);
    return writes(l) ? EDEADLK : ETIMEDOUT;
  }

  static int clockwrlock(pthread_rwlock_t* l, clockid_t clock, const timespec* until) {
    if (!ready(l)) return c_library::rwlocks.clockwrlock(l, clock, until);
    if (!is_waitable(clock) || !is_time(*until)) return EINVAL;
    if (of(l).lock(deadline{{clock, *until}, l})) return write_locked(l);
    return writes(l) ? EDEADLK : ETIMEDOUT;
  }

  static int timedrdlock(pthread_rwlock_t* l, const timespec* until) {
    return rwlock_at::is_shared(l) ? c_library::rwlocks.timedrdlock(l, until) : clockrdlock(l, CLOCK_REALTIME, until);
  }

  static int timedwrlock(pthread_rwlock_t* l, const timespec* until) {
    return rwlock_at::is_shared(l) ? c_library::rwlocks.timedwrlock(l, until) : clockwrlock(l, CLOCK_REALTIME, until);
  }

  static int init(pthread_rwlock_t* l, const pthread_rwlockattr_t* attributes) {
    return c_library::rwlocks.rwlock_init(l, attributes);  // writes zeros, except for `shared` and `kind`
  }

  static int destroy(pthread_rwlock_t* l) {
    if (!ready(l)) return c_library::rwlocks.rwlock_destroy(l);
    return rwlock_at::writer_of(l).load(std::memory_order_relaxed) == 0 && of(l).is_idle() ? 0 : EBUSY;
  }

  // The operations for a process with one thread (one_thread.hpp).

  static int rdlock_single(pthread_rwlock_t* l) {
    if (!still_has_one_thread()) [[unlikely]]
      return end_one_thread_mode(l, rdlock);
    if (!rwlock_at::is_valid(l)) [[unlikely]]
      return unready<&rwlock_pointers::rdlock>(l, rdlock_single);
    core c = of(l);
    std::uint32_t seen;
    if (!c.lock_shared_alone(seen)) return rdlock_atomically(l);
    return c.may_have_too_many(seen) ? read_locked(l) : 0;
  }

  static int wrlock_single(pthread_rwlock_t* l) {
    if (!still_has_one_thread()) [[unlikely]]
      return end_one_thread_mode(l, wrlock);
    if (!rwlock_at::is_valid(l)) [[unlikely]]
      return unready<&rwlock_pointers::wrlock>(l, wrlock_single);
    return of(l).lock_alone() ? write_locked(l) : wrlock_atomically(l);
  }

  static int unlock_single(pthread_rwlock_t* l) {
    if (!still_has_one_thread()) [[unlikely]]
      return end_one_thread_mode(l, unlock);
    if (!rwlock_at::is_valid(l, std::memory_order_relaxed)) [[unlikely]]
      return unlock_atomically(l);
    core c = of(l);
    auto& writer = rwlock_at::writer_of(l);
    const std::uint32_t seen = writer.load(std::memory_order_relaxed);
    if (seen == 0) return c.unlock_shared_alone() ? 0 : unlock_atomically(l);
    writer.store(0, std::memory_order_relaxed);
    if (c.unlock_alone()) return 0;
    c.unlock();
    return 0;
  }

 private:
  /// Whether the calling thread holds the lock for writing. A thread may test this without holding the lock, because no
  /// other thread stores this thread's id in `writer`.
  static bool writes(pthread_rwlock_t* l) {
    return rwlock_at::writer_of(l).load(std::memory_order_relaxed) == std::uint32_t(native::thread_id());
  }

  struct forever : no_limit {
    pthread_rwlock_t* l;
    bool refuses() const { return writes(l); }
  };
  struct deadline : native::clock_deadline {
    pthread_rwlock_t* l;
    bool refuses() const { return writes(l); }
  };

  static core of(pthread_rwlock_t* l) {
    return core(rwlock_at::field<read_write_words<native>>(l, rwlock_at::words),
                rwlock_at::field<writers_lock>(l, rwlock_at::writers),
                rwlock_at::prefers_writers(l) ? reader_rule::phase_fair : reader_rule::recursive);
  }

  [[gnu::noinline]] static int rdlock_after(pthread_rwlock_t* l, std::uint32_t seen) {
    return of(l).lock_shared_after(seen, forever{{}, l}) ? read_locked(l) : EDEADLK;
  }
  [[gnu::noinline]] static int wrlock_after(pthread_rwlock_t* l, bool claimed, std::uint32_t seen) {
    return of(l).lock_after(claimed, seen, forever{{}, l}) ? write_locked(l) : EDEADLK;
  }

  /// Called after a lock for reading. If too many readers have the lock, unlocks it and returns EAGAIN.
  [[gnu::cold, gnu::noinline]] static int read_locked(pthread_rwlock_t* l) {
    if (!of(l).has_too_many()) return 0;
    of(l).unlock_shared();
    return EAGAIN;
  }

  static int write_locked(pthread_rwlock_t* l) {
    rwlock_at::writer_of(l).store(std::uint32_t(native::thread_id()), std::memory_order_relaxed);
    return 0;
  }

  [[gnu::noinline]] static int rdlock_atomically(pthread_rwlock_t* l) { return rdlock(l); }
  [[gnu::noinline]] static int wrlock_atomically(pthread_rwlock_t* l) { return wrlock(l); }
  [[gnu::noinline]] static int unlock_atomically(pthread_rwlock_t* l) { return unlock(l); }

  /// Makes the lock valid and calls `then`, or calls the C library's function `C` if the lock is the C library's.
  template <call_pointer<int(pthread_rwlock_t*)> rwlock_pointers::*C>
  [[gnu::cold, gnu::noinline]] static int unready(pthread_rwlock_t* l, int (*then)(pthread_rwlock_t*)) {
    return ready(l) ? then(l) : (c_library::rwlocks.*C)(l);
  }

  /// Makes the lock valid in the current fork epoch. Returns false if the lock is the C library's.
  static bool ready(pthread_rwlock_t* l) { return !rwlock_at::is_shared(l) && (rwlock_at::is_valid(l) || renew(l)); }

  /// As morphing_mutex::renew() (core/wait_morphing.hpp). Returns false if the lock is left to the C library.
  [[gnu::cold, gnu::noinline]] static bool renew(pthread_rwlock_t* l) {
    const std::uint32_t now = ~native::fork_epoch(), busy = now & 0x7fffffffu;  // epochs are small: bit 31 is set
    auto& validity = rwlock_at::validity_of(l);
    for (;;) {
      std::uint32_t seen = validity.load(std::memory_order_acquire);
      if (seen == now) return true;
      if (rwlock_at::is_left(l)) return false;
      if (seen == busy) {  // another thread is renewing the lock
        native::await(
            validity, [seen](std::uint32_t v) { return v != seen; }, std::memory_order_acquire,
            pacing::polling_then_yielding);
        continue;
      }
      // A lock that was never used is all zero. But the table of visible readers may have readers of an earlier lock
      // here.
      const bool is_new = seen == 0;
      const std::uint32_t next = is_new && !of(l).has_visible_readers() ? now : busy;
      if (!validity.compare_exchange_strong(seen, next, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      if (next == now) return true;
      if (is_new)
        of(l).forget_visible_readers();
      else
        of(l).renew_from_words(rwlock_at::writer_of(l).load(std::memory_order_relaxed) != 0);
      validity.store(now, std::memory_order_release);
      return true;
    }
  }
};

template <template <class, class> class Writers, bool Biased>
constexpr rwlock_table make_rwlock_table(const char* name) {
  using operations = rwlock_operations<Writers, Biased>;
  return {.name = name,
          .calls = {.rwlock_init = operations::init,
                    .rwlock_destroy = operations::destroy,
                    .rdlock = operations::rdlock,
                    .tryrdlock = operations::tryrdlock,
                    .timedrdlock = operations::timedrdlock,
                    .clockrdlock = operations::clockrdlock,
                    .wrlock = operations::wrlock,
                    .trywrlock = operations::trywrlock,
                    .timedwrlock = operations::timedwrlock,
                    .clockwrlock = operations::clockwrlock,
                    .rwlock_unlock = operations::unlock},
          .prepare = Biased ? native_detail::blocks::has_visible_readers : nullptr,
          .rdlock_single = operations::rdlock_single,
          .wrlock_single = operations::wrlock_single,
          .unlock_single = operations::unlock_single};
}

}  // namespace usher::preload
