// The pthread mutex operations over one lock. They are compiled once for each lock and way of waiting. So the compiler
// can inline the lock's fast path, and the only indirection is the exported function's jump.
//
//     lock()      One comparison finds out whether the mutex is a normal one and valid in the current fork epoch
//                 (layout.hpp); else lock_kind() runs. The lock's own lock() follows, then the owner tag is written
//                 (morphing_mutex, in core/wait_morphing.hpp).
//     unlock()    Clears the owner tag, then reads `timed`. If no thread waits with a deadline and none is requeued,
//                 the lock's own unlock() runs; else release_to_others() serves these threads.
//
// A contended lock() waits in the lock's own code. Under steady, the default (locks/steady.hpp), a thread polls the
// lock's word while that pays, then joins a queue and sleeps by a futex. The head of the queue sleeps on the lock's
// word, after it has set a bit there; the others sleep on their queue nodes. That bit makes an unlock()'s
// compare-and-swap fail, so that the unlock() wakes the head. The key for this wake-up is formed before the release,
// since the mutex's memory may be gone afterwards. When a thread that came through the queue unlocks, it also makes the
// next thread in the queue the head, and wakes it.
//
// If the lock is one word while no thread waits (uncontended(), core/lockable.hpp), its operations are also compiled
// for a process with one thread: lock_single() and so on take the lock by a load and a store (one_thread.hpp). They
// call the operations above if the mutex is held or not valid yet.
#pragma once

#include <cerrno>
#include <cstring>
#include <new>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/layout.hpp"
#include "library/preload/left_mutexes.hpp"
#include "library/preload/mutex_table.hpp"
#include "library/preload/one_thread.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/timeouts.hpp"
#include "usher/core/lockable.hpp"
#include "usher/core/wait_morphing.hpp"

namespace usher::preload {

/// Gives morphing_mutex (core/wait_morphing.hpp) access to the words beside the lock in a pthread_mutex_t.
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
    return is_ours(kind_of(seen)) && !has_owner(kind_of(seen)) && epoch_of(seen) == native::fork_epoch();
  }
  static bool is_renewed(std::uint32_t kind) { return is_ours(int(kind)); }
  void forget_requeued() const {
    if (!has_owner(kind_of(epoch().load(std::memory_order_relaxed)))) requeue_first(nullptr);
  }

  // The field `requeued` is copied by memcpy, because in the layout of larger locks it is not aligned for a pointer.
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
  static_assert((is_spread<Lock> || sizeof(Lock) <= layout::most) && alignof(Lock) <= 8);

  Lock& lock() const { return field<Lock>(this->raw, layout::lock); }
  void reset_lock() const {
    std::memset(this->bytes(layout::lock), 0, layout::most);
    if constexpr (is_spread<Lock>) std::memset(this->bytes(large_layout::lock), 0, sizeof(Lock) - large_layout::lock);
  }
};

template <class Lock>
class mutex_operations {
  using words = mutex_words<Lock>;
  using layout = typename words::layout;
  using core = morphing_mutex<native, words>;
  using timed_waiters = timed_waiter_count<native>;
  static constexpr bool counts_in_tag = layout::count == layout::owner_tag;

 public:
  static int lock(pthread_mutex_t* m) {
    if (const validity v = validity_for_lock(m); v != validity::normal) [[unlikely]]
      return has_uncontended_word<Lock> ? lock_kind<false>(m, v) : lock_other(m, v);
    core::lock(of(m));
    return 0;
  }

  static int trylock(pthread_mutex_t* m) {
    if (const validity v = validity_for_lock(m); v != validity::normal) [[unlikely]]
      return trylock_other(m, v);
    return core::try_lock(of(m)) ? 0 : EBUSY;
  }

  static int unlock(pthread_mutex_t* m) {
    if (const validity v = validity_for_unlock(m); v != validity::normal) [[unlikely]]
      return has_uncontended_word<Lock> ? unlock_kind<false>(m, v) : unlock_other(m, v);
    return unlock_ownerless(m);
  }

  // The operations for a process with one thread (one_thread.hpp). Each first tests whether there is still only one.

  static int lock_single(pthread_mutex_t* m) {
    if (!still_has_one_thread()) [[unlikely]]
      return end_one_thread_mode(m, lock);
    if (const validity v = validity_for_lock(m); v != validity::normal) [[unlikely]]
      return lock_kind<true>(m, v);
    return take_nonatomically(m) ? 0 : lock_atomically(m);
  }

  static int trylock_single(pthread_mutex_t* m) {
    if (!still_has_one_thread()) [[unlikely]]
      return end_one_thread_mode(m, trylock);
    if (const validity v = validity_for_lock(m); v != validity::normal) [[unlikely]]
      return trylock_kind<true>(m, v);
    return take_nonatomically(m) ? 0 : trylock_atomically(m);
  }

  static int unlock_single(pthread_mutex_t* m) {
    if (!still_has_one_thread()) [[unlikely]]
      return end_one_thread_mode(m, unlock);
    if (const validity v = validity_for_unlock(m); v != validity::normal) [[unlikely]]
      return unlock_kind<true>(m, v);
    return release_nonatomically(m) ? 0 : unlock_atomically(m);
  }

  static int clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_clocklock(m, clock, until);
    const std::uint32_t me = has_owner(kind) ? this_thread() : 0;
    if (me != 0 && owner(m).load(std::memory_order_relaxed) == me)
      return relock(m, type_of(kind) == PTHREAD_MUTEX_ERRORCHECK);
    if (!core::try_lock(of(m))) {
      if (!is_time(*until)) return EINVAL;
      if (!core::lock_until(of(m), native::clock_deadline{clock, *until})) return ETIMEDOUT;
    }
    if (me != 0) own(m, me);
    return 0;
  }

  /// An unlock has handed the mutex, still locked, to the calling thread, which waited on a condition variable: claims
  /// it. Returns false if another thread has taken the mutex since.
  static bool claim(pthread_mutex_t* m) {
    const int kind = ready(m);
    if (!core::claim(of(m))) return false;
    if (has_owner(kind)) own(m, this_thread());
    return true;
  }

  static bool requeue(pthread_mutex_t* m, requeued_waiter<native>& chain) { return core::requeue(of(m), chain); }

  static bool is_held(pthread_mutex_t* m) { return of(m).owner_tag().load(std::memory_order_relaxed) != 0; }

 private:
  static words of(pthread_mutex_t* m) { return words{{m}}; }

  // ---- by the only thread of a process ----------------------------------------------------------------------

  /// Locks the mutex by a load and a store if it is free. Else returns false and changes nothing; the caller must use
  /// the lock's own code. `tag_follows`: the caller calls own() next, which writes the owner tag.
  template <bool tag_follows = false>
  static bool take_nonatomically(pthread_mutex_t* m) {
    const words w = of(m);
    auto [word, held] = w.lock().uncontended();
    // The acquire pairs with the release in release_nonatomically() by a signal handler, or by another thread before
    // the calling one became the only thread again.
    if (word.load(std::memory_order_acquire) != 0) [[unlikely]]
      return false;
    word.store(held, std::memory_order_relaxed);
    if (!tag_follows) core::take_over(w);
    return true;
  }

  /// Unlocks the mutex by stores. Returns false and changes nothing if the words are not those of a mutex without
  /// waiters: the caller must use the lock's own code. The mutex may have been locked by a thread that has ended.
  static bool release_nonatomically(pthread_mutex_t* m) {
    const words w = of(m);
    auto [word, held] = w.lock().uncontended();
    // The words differ if threads ended while they waited, after calls in a signal handler, or if the mutex is free.
    if (timed_waiters::has_waiters(w.timed()) || word.load(std::memory_order_relaxed) != held) [[unlikely]]
      return false;
    w.owner_tag().store(0, std::memory_order_relaxed);  // first: a signal handler may run between the stores
    word.store(0, std::memory_order_release);
    return true;
  }

  // ---- kinds other than normal ------------------------------------------------------------------------------

  /// Sets `me` to the calling thread's id. Returns false if the thread has no record of the mutex's fork epoch yet. If
  /// the mutex is valid, that is the current epoch.
  [[gnu::always_inline]] static bool know_thread(pthread_mutex_t* m, std::uint32_t& me) {
    return native::recorded_id(kind_and_epoch(m).load(std::memory_order_relaxed), me);
  }

  template <bool one_thread>
  [[gnu::always_inline]] static int lock_kind(pthread_mutex_t* m, validity v) {
    if (!has_owner(v)) [[unlikely]]
      return v != validity::adaptive ? lock_unready(m) : try_take<one_thread>(m) ? 0 : lock_adaptive(m);
    std::uint32_t me;
    if (!know_thread(m, me)) [[unlikely]]
      return lock_unready(m);
    // Not marked as unlikely: a jump costs more in a nested lock than in a first one, which waits for its atomic
    // operation anyway.
    if (owner(m).load(std::memory_order_relaxed) == me) return relock(m, v == validity::errorcheck);
    if constexpr (has_uncontended_word<Lock>) {
      if (one_thread ? take_nonatomically<counts_in_tag>(m) : take_uncontended(m)) [[likely]]
        return own(m, me);
      return lock_owned(m, me);
    } else {
      core::lock(of(m));
      return own(m, me);
    }
  }

  template <bool one_thread>
  [[gnu::always_inline]] static int trylock_kind(pthread_mutex_t* m, validity v) {
    if (!has_owner(v)) [[unlikely]]
      return v != validity::adaptive ? trylock_unready(m) : try_take<one_thread>(m) ? 0 : trylock_adaptive(m);
    std::uint32_t me;
    if (!know_thread(m, me)) [[unlikely]]
      return trylock_unready(m);
    if (owner(m).load(std::memory_order_relaxed) == me) [[unlikely]]
      return v == validity::errorcheck ? EBUSY : relock(m, false);
    if constexpr (one_thread)
      if (take_nonatomically<counts_in_tag>(m)) return own(m, me);
    if (!core::try_lock(of(m))) return EBUSY;
    return own(m, me);
  }

  template <bool one_thread>
  [[gnu::always_inline]] static int unlock_kind(pthread_mutex_t* m, validity v) {
    if (!has_owner(v)) [[unlikely]]
      return v != validity::adaptive ? unlock_unready(m) : try_release<one_thread>(m) ? 0 : unlock_adaptive(m);
    std::uint32_t me;
    if (!know_thread(m, me)) [[unlikely]]
      return unlock_unready(m);
    if (owner(m).load(std::memory_order_relaxed) != me) [[unlikely]]
      return EPERM;
    if (is_deeper(m)) [[unlikely]]
      return 0;
    disown(m);
    if constexpr (has_uncontended_word<Lock>) {
      if (one_thread ? release_nonatomically(m) : release_uncontended(m)) [[likely]]
        return 0;
      return release_owned(m);
    } else {
      core::release(of(m));
      return 0;
    }
  }

  // trylock() calls these functions; so do lock() and unlock() if the lock has no uncontended word. Otherwise
  // lock_kind() and its like are inlined, and only their parts that need a stack frame are calls.
  [[gnu::noinline]] static int lock_other(pthread_mutex_t* m, validity v) { return lock_kind<false>(m, v); }
  [[gnu::noinline]] static int unlock_other(pthread_mutex_t* m, validity v) { return unlock_kind<false>(m, v); }
  [[gnu::noinline]] static int trylock_other(pthread_mutex_t* m, validity v) { return trylock_kind<false>(m, v); }

  template <bool one_thread>
  static bool try_take(pthread_mutex_t* m) {
    if constexpr (one_thread) return take_nonatomically(m);
    return false;
  }
  template <bool one_thread>
  static bool try_release(pthread_mutex_t* m) {
    if constexpr (one_thread) return release_nonatomically(m);
    return false;
  }

  /// Locks by a compare-and-swap of the uncontended word, if a load finds the mutex free. On success the caller must
  /// call own(). On failure it must call lock_owned(), which tries again and may wait.
  static bool take_uncontended(pthread_mutex_t* m) {
    const words w = of(m);
    auto [word, held] = w.lock().uncontended();
    decltype(held) free = 0;
    if (word.load(std::memory_order_relaxed) != 0 ||
        !word.compare_exchange_strong(free, held, std::memory_order_acquire, std::memory_order_relaxed))
      return false;
    if (!counts_in_tag) core::take_over(w);
    return true;
  }

  /// Clears the owner tag, and unlocks by a compare-and-swap of the uncontended word, if no thread waits with a
  /// deadline or is requeued. On failure the caller must call release_owned(), which begins again.
  static bool release_uncontended(pthread_mutex_t* m) {
    const words w = of(m);
    auto [word, held] = w.lock().uncontended();
    auto seen = held;  // a copy, for a register: the structured binding would be in memory
    return !timed_waiters::clear_tag_and_check(w.owner_tag(), w.timed()) &&
           word.compare_exchange_strong(seen, 0, std::memory_order_release, std::memory_order_relaxed);
  }

  // Not inlined: some of these functions need a stack frame, and the others would be inlined in two places.
  [[gnu::noinline]] static int lock_atomically(pthread_mutex_t* m) { return lock(m); }
  [[gnu::noinline]] static int trylock_atomically(pthread_mutex_t* m) { return trylock(m); }
  [[gnu::noinline]] static int unlock_atomically(pthread_mutex_t* m) { return unlock(m); }
  [[gnu::noinline]] static int lock_owned(pthread_mutex_t* m, std::uint32_t me) {
    core::lock(of(m));
    return own(m, me);
  }
  [[gnu::noinline]] static int release_owned(pthread_mutex_t* m) {
    core::release(of(m));
    return 0;
  }

  // For adaptive mutexes, and for the first use of a normal one. If one function contained a lock twice, the compiler
  // would inline neither.
  [[gnu::noinline]] static int lock_adaptive(pthread_mutex_t* m) {
    core::lock(of(m));
    return 0;
  }
  [[gnu::noinline]] static int trylock_adaptive(pthread_mutex_t* m) { return core::try_lock(of(m)) ? 0 : EBUSY; }
  [[gnu::noinline]] static int unlock_adaptive(pthread_mutex_t* m) { return unlock_ownerless(m); }

  /// Unlocks a mutex of a kind that any thread may unlock (normal, adaptive).
  [[gnu::always_inline]] static int unlock_ownerless(pthread_mutex_t* m) {
    if (of(m).owner_tag().load(std::memory_order_relaxed) != native::owner_tag()) [[unlikely]]
      return unlock_anothers(m);
    core::release(of(m));
    return 0;
  }

  [[gnu::cold, gnu::noinline]] static int unlock_anothers(pthread_mutex_t* m) {
    if (leave_if_locked_in_c_library(m)) return c_library::mutex_unlock(m);
    core::unlock(of(m));
    return 0;
  }

  // ---- mutexes that are not valid yet, or the C library's; threads without a record ----------------------------

  [[gnu::noinline]] static int lock_unready(pthread_mutex_t* m) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_lock(m);
    if (!has_owner(kind)) return lock_adaptive(m);
    const std::uint32_t me = this_thread();
    if (owner(m).load(std::memory_order_relaxed) == me) return relock(m, type_of(kind) == PTHREAD_MUTEX_ERRORCHECK);
    core::lock(of(m));
    return own(m, me);
  }

  [[gnu::noinline]] static int trylock_unready(pthread_mutex_t* m) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_trylock(m);
    if (!has_owner(kind)) return trylock_adaptive(m);
    const std::uint32_t me = this_thread();
    if (owner(m).load(std::memory_order_relaxed) == me)
      return type_of(kind) == PTHREAD_MUTEX_ERRORCHECK ? EBUSY : relock(m, false);
    if (!core::try_lock(of(m))) return EBUSY;
    return own(m, me);
  }

  [[gnu::noinline]] static int unlock_unready(pthread_mutex_t* m) {
    const int kind = ready(m);
    if (!is_ours(kind)) return c_library::mutex_unlock(m);
    if (!has_owner(kind)) return unlock_adaptive(m);
    if (owner(m).load(std::memory_order_relaxed) != this_thread()) return EPERM;
    if (is_deeper(m)) return 0;
    disown(m);
    core::release(of(m));
    return 0;
  }

  static std::atomic<std::uint32_t>& owner(pthread_mutex_t* m) {
    return field<std::atomic<std::uint32_t>>(m, layout::owner);
  }
  /// The type of the recursion depth, which only the owner writes. It is atomic if the depth is also the owner tag,
  /// which other threads read. Else it is a plain counter, which saves two instructions.
  using counter = std::conditional_t<counts_in_tag, std::atomic<std::uint32_t>, std::uint32_t>;
  static counter& count(pthread_mutex_t* m) { return field<counter>(m, layout::count); }
  static std::uint32_t depth(std::uint32_t count) { return count; }
  static std::uint32_t depth(const std::atomic<std::uint32_t>& count) { return count.load(std::memory_order_relaxed); }
  static void set(std::uint32_t& count, std::uint32_t n) { count = n; }
  static void set(std::atomic<std::uint32_t>& count, std::uint32_t n) { count.store(n, std::memory_order_relaxed); }

  static std::uint32_t this_thread() { return std::uint32_t(native::thread_id()); }

  // For kinds with an owner:

  /// Locks a mutex again, whose `owner` is the calling thread. Only the owner gets here: no other thread finds its own
  /// id in the mutex. Inlined, because two jumps are a tenth of such a call's time.
  [[gnu::always_inline]] static int relock(pthread_mutex_t* m, bool checks) {
    if (checks) [[unlikely]]
      return EDEADLK;
    const std::uint32_t deeper = depth(count(m)) + 1;
    if (deeper == 0) [[unlikely]]
      return EAGAIN;
    set(count(m), deeper);
    return 0;
  }

  /// If the recursion depth is more than 1, decrements it and returns true; else changes nothing. The depth of an
  /// error-checking mutex is always 1.
  static bool is_deeper(pthread_mutex_t* m) {
    const std::uint32_t deep = depth(count(m));
    if (deep == 1) return false;
    set(count(m), deep - 1);
    return true;
  }

  // own() and disown() must do their stores in this order. A signal handler that locks and unlocks the mutex between
  // two of them must find another owner, or depth 1.

  static int own(pthread_mutex_t* m, std::uint32_t me) {
    set(count(m), 1);  // replaces the owner tag of core::take_over() where the depth is the tag
    std::atomic_signal_fence(std::memory_order_seq_cst);
    owner(m).store(me, std::memory_order_relaxed);
    return 0;
  }

  static void disown(pthread_mutex_t* m) {
    owner(m).store(0, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if constexpr (!counts_in_tag) set(count(m), 0);
  }

  /// Makes the mutex valid in the current fork epoch, unless it is the C library's, and returns its kind.
  static int ready(pthread_mutex_t* m) {
    leave_if_held_by_c_library(m);
    core::ready(of(m));
    return kind_of(m);  // loaded again: another thread may have left the mutex to the C library
  }
};

/// Makes the table of a lock with one way of waiting.
template <class Lock>
constexpr mutex_table make_table(const char* name) {
  if constexpr (!Lock::traits.excludes) {
    return {.name = name, .passes_through = false};
  } else {
    using operations = mutex_operations<typename placed<Lock>::type>;
    mutex_table t{.name = name,
                  .passes_through = false,
                  .lock = operations::lock,
                  .trylock = operations::trylock,
                  .unlock = operations::unlock,
                  .clocklock = operations::clocklock,
                  .claim = operations::claim,
                  .requeue = operations::requeue,
                  .is_held = operations::is_held};
    if constexpr (has_uncontended_word<Lock>) {
      t.lock_single = operations::lock_single;
      t.trylock_single = operations::trylock_single;
      t.unlock_single = operations::unlock_single;
    }
    return t;
  }
}

}  // namespace usher::preload
