// The pthread mutex operations over one lock. Compiled once for each lock and way of waiting, so that the lock's fast
// path is in line and the only indirection is the exported function's jump.
#pragma once

#include <cerrno>
#include <cstring>
#include <new>

#include "preload/c_library.hpp"
#include "preload/layout.hpp"
#include "preload/mutex_table.hpp"
#include "preload/timeouts.hpp"
#include "usher/core/wait_morphing.hpp"

namespace usher::preload {

/// A pthread_mutex_t as wait_morphing.hpp sees it.
template <class Layout>
struct words_beside_lock {
  using word = std::atomic<std::uint32_t>;
  using waiter = requeued_waiter<native>;

  pthread_mutex_t* raw;

  word& owner_tag() const { return field<word>(raw, Layout::owner_tag); }
  word& timed() const { return timed_of(raw); }
  std::atomic<std::uint64_t>& epoch() const { return kind_and_epoch(raw); }

  bool may_requeue() const {
    const std::uint64_t seen = epoch().load(std::memory_order_relaxed);
    return is_ours(kind_of(seen)) && !has_owner(kind_of(seen)) && epoch_of(seen) == native::fork_stamp();
  }
  static bool is_renewed(std::uint32_t kind) { return is_ours(int(kind)); }
  void forget_requeued() const {
    if (!has_owner(kind_of(epoch().load(std::memory_order_relaxed)))) requeue_first(nullptr);
  }

  // Not aligned for a pointer in each layout.
  waiter* requeued() const {
    waiter* first;
    std::memcpy(&first, bytes(Layout::requeued), sizeof first);
    return first;
  }
  void requeue_first(waiter* first) const { std::memcpy(bytes(Layout::requeued), &first, sizeof first); }

 protected:
  unsigned char* bytes(std::size_t offset) const { return reinterpret_cast<unsigned char*>(raw) + offset; }
};

template <class Lock>
struct mutex_words : words_beside_lock<layout_for<Lock>> {
  using layout = layout_for<Lock>;
  static_assert(sizeof(Lock) <= layout::most && alignof(Lock) <= 8);

  Lock& lock() const { return field<Lock>(this->raw, layout::lock); }
  void reset_lock() const { std::memset(this->bytes(layout::lock), 0, layout::most); }
};

template <class Lock>
class mutex_operations {
  using words = mutex_words<Lock>;
  using layout = typename words::layout;
  using core = morphing_mutex<native, words>;

 public:
  static int lock(pthread_mutex_t* m) {
    if (!is_valid_normal(m)) [[unlikely]]
      return lock_other(m);
    core::lock(of(m));
    return 0;
  }

  static int trylock(pthread_mutex_t* m) {
    if (!is_valid_normal(m)) [[unlikely]]
      return trylock_other(m);
    return core::try_lock(of(m)) ? 0 : EBUSY;
  }

  static int unlock(pthread_mutex_t* m) {
    if (!is_valid_normal(m)) [[unlikely]]
      return unlock_other(m);
    core::unlock(of(m));
    return 0;
  }

  static int clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_clocklock(m, clock, until);
    if (has_owner(kind))
      if (const int again = relock(m, kind); again >= 0) return again;
    if (!core::try_lock(of(m))) {
      if (!is_time(*until)) return EINVAL;
      if (!core::lock_until(of(m), [&] { return nanoseconds_until(clock, *until); })) return ETIMEDOUT;
    }
    if (has_owner(kind)) own(m);
    return 0;
  }

  /// The mutex, still locked, has been handed to the calling thread.
  static void take_over(pthread_mutex_t* m) {
    core::take_over(of(m));
    if (has_owner(kind_of(kind_and_epoch(m).load(std::memory_order_relaxed)))) own(m);
  }

  static bool requeue(pthread_mutex_t* m, requeued_waiter<native>& chain) { return core::requeue(of(m), chain); }

  static bool is_held(pthread_mutex_t* m) { return of(m).owner_tag().load(std::memory_order_relaxed) != 0; }

 private:
  static words of(pthread_mutex_t* m) { return words{{m}}; }
  static bool is_valid_normal(pthread_mutex_t* m) {
    return kind_and_epoch(m).load(std::memory_order_acquire) == valid_normal();
  }

  // ---- kinds other than normal, first uses, forks -----------------------------------------------------------

  [[gnu::noinline]] static int lock_other(pthread_mutex_t* m) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_lock(m);
    if (!has_owner(kind)) return lock_adaptive(m);
    if (const int again = relock(m, kind); again >= 0) return again;
    core::lock(of(m));
    own(m);
    return 0;
  }

  [[gnu::noinline]] static int trylock_other(pthread_mutex_t* m) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_trylock(m);
    if (!has_owner(kind)) return trylock_adaptive(m);
    if (const int again = relock(m, kind); again >= 0) return again == EDEADLK ? EBUSY : again;
    if (!core::try_lock(of(m))) return EBUSY;
    own(m);
    return 0;
  }

  [[gnu::noinline]] static int unlock_other(pthread_mutex_t* m) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_unlock(m);
    if (!has_owner(kind)) return unlock_adaptive(m);
    if (owner(m).load(std::memory_order_relaxed) != me()) return EPERM;
    if (type_of(kind) == PTHREAD_MUTEX_RECURSIVE) {
      set(count(m), depth(count(m)) - 1);
      if (depth(count(m)) != 0) return 0;
    }
    owner(m).store(0, std::memory_order_relaxed);
    core::release(of(m));
    return 0;
  }

  // Adaptive mutexes, and the first use of a normal one. Functions of their own: two copies of the lock in one are too much for
  // the compiler to have either in line.
  [[gnu::noinline]] static int lock_adaptive(pthread_mutex_t* m) {
    core::lock(of(m));
    return 0;
  }
  [[gnu::noinline]] static int trylock_adaptive(pthread_mutex_t* m) { return core::try_lock(of(m)) ? 0 : EBUSY; }
  [[gnu::noinline]] static int unlock_adaptive(pthread_mutex_t* m) {
    core::unlock(of(m));
    return 0;
  }

  static std::atomic<std::uint32_t>& owner(pthread_mutex_t* m) {
    return field<std::atomic<std::uint32_t>>(m, layout::owner);
  }
  /// The owner's. Where it is the owner tag, too, other threads look at it; elsewhere it costs two instructions less.
  using counter = std::conditional_t<layout::count == layout::owner_tag, std::atomic<std::uint32_t>, std::uint32_t>;
  static counter& count(pthread_mutex_t* m) { return field<counter>(m, layout::count); }
  static std::uint32_t depth(std::uint32_t count) { return count; }
  static std::uint32_t depth(const std::atomic<std::uint32_t>& count) { return count.load(std::memory_order_relaxed); }
  static void set(std::uint32_t& count, std::uint32_t n) { count = n; }
  static void set(std::atomic<std::uint32_t>& count, std::uint32_t n) { count.store(n, std::memory_order_relaxed); }

  static std::uint32_t me() { return std::uint32_t(native::thread_id()); }

  // Of kinds that have an owner:

  /// What locking gives at once if the caller is the owner already, else −1. Only the owner can find its own id there.
  static int relock(pthread_mutex_t* m, int kind) {
    if (owner(m).load(std::memory_order_relaxed) != me()) return -1;
    if (type_of(kind) == PTHREAD_MUTEX_ERRORCHECK) return EDEADLK;
    if (depth(count(m)) + 1 == 0) return EAGAIN;
    set(count(m), depth(count(m)) + 1);
    return 0;
  }

  static void own(pthread_mutex_t* m) {
    owner(m).store(me(), std::memory_order_relaxed);
    set(count(m), 1);  // after core::take_over()
  }

  /// Makes the mutex valid in this incarnation of the process and returns its kind.
  static int ready(pthread_mutex_t* m) { return int(core::ready(of(m))); }
};

/// The table of one lock with one way of waiting.
template <class Lock>
constexpr mutex_table make_table(const char* name) {
  if constexpr (!Lock::traits.excludes) {
    return {.name = name, .passes_through = false};
  } else {
    using operations = mutex_operations<Lock>;
    return {.name = name,
            .passes_through = false,
            .lock = operations::lock,
            .trylock = operations::trylock,
            .unlock = operations::unlock,
            .clocklock = operations::clocklock,
            .take_over = operations::take_over,
            .requeue = operations::requeue,
            .is_held = operations::is_held};
  }
}

}  // namespace usher::preload
