// Recorded mutexes. The holder writes the first cache line of the entry, without read-modify-writes; waiters write the
// second.
#include <cerrno>

#include "library/preload/layout.hpp"
#include "library/preload/one_thread.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/timeouts.hpp"
#include "watch/recorder/holding.hpp"
#include "watch/recorder/mapped_modules.hpp"
#include "watch/recorder/recorded_calls.hpp"
#include "watch/recorder/recorded_embedded.hpp"

namespace usher::preload {
namespace {

bool is_recursive(pthread_mutex_t* m) {
  return type_of(kind_of(m)) == PTHREAD_MUTEX_RECURSIVE;
}

/// Finds or makes the mutex's entry. Called if there is none at the index where the search begins, or if that one is
/// of an object of another kind.
[[gnu::noinline]] record::object* find_or_make(recorded_thread& me, pthread_mutex_t* m, std::uint64_t caller) {
  record::object* const o = me.find(m);
  if (o != nullptr && !is_another(*o, record::kind::mutex)) return o;
  return o == nullptr ? begin_object(me, m, record::kind::mutex, is_recursive(m), false, caller)
                      : begin_anew(me, *o, m, record::kind::mutex, is_recursive(m), caller);
}
[[gnu::always_inline]] inline record::object* entry_of(recorded_thread& me, pthread_mutex_t* m, std::uint64_t caller) {
  record::object* const o = me.find_at_once(m);
  if (o == nullptr || is_another(*o, record::kind::mutex)) [[unlikely]]
    return find_or_make(me, m, caller);
  return o;
}

/// Ends a hold without recording its duration.
void forget_hold(record::object& o) {
  o.hold_begin.store(0, std::memory_order_relaxed);
  o.mutex.waited_before.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
}

/// Whether the call has locked the mutex. EOWNERDEAD says that it has, and that the last owner died.
bool is_acquired(int result) {
  return result == 0 || result == EOWNERDEAD;
}

[[gnu::always_inline]] inline void acquired(recorded_thread& me, record::object& o, pthread_mutex_t* m, int result) {
  if (result == EOWNERDEAD) count_by_threads(o, false);  // the entry may name the dead owner: this one overwrites it
  hold_begins(me, o, m);
  try_ends(me, o, m);
}

/// Adds how often the thread polled, slept and was granted the lock during its wait. Usher's locks count this;
/// `before` has the thread's counts from before the wait.
void add_wait_tally(recorded_thread& me, record::object& o, const native_detail::wait_tally& before) {
  record::detail* const d = detail_of(me, o);
  if (d == nullptr) return;
  const native_detail::wait_tally& now = native_detail::own_waits;
  add(d->polls, now.polls - before.polls);
  add(d->sleeps, now.sleeps - before.sleeps);
  add(d->grants, now.grants - before.grants);
}

/// Locks a mutex that was not free by calling `lock`, and records the wait.
template <class F>
[[gnu::noinline]] int wait_for(recorded_thread& me, record::object& o, pthread_mutex_t* m, F lock, std::uint64_t caller,
                               bool has_deadline = false, record::kind kind = record::kind::mutex) {
  if (has_ended(*me.of)) {
    end_recording(*me.of);
    return lock();
  }
  recorded_wait wait(me, o, kind, caller, has_deadline);
  detail_of(me, o);  // so that the present hold, which may be the longest, is recorded there
  const native_detail::wait_tally before = native_detail::own_waits;
  const int result = lock();
  if (!wait.is_current()) return result;
  const std::uint64_t ticks = wait.finish();
  if (!selected().passes_through) add_wait_tally(me, o, before);
  if (is_acquired(result)) {
    wait.book(ticks);
    // A wait of a millisecond suggests long holds: all are timed again, until they are seen to be short.
    if (ticks >= me.of->ticks_a_ms.load(std::memory_order_relaxed)) count_by_threads(o, false);
    acquired(me, o, m, result);
  } else if (result == ETIMEDOUT) {
    wait.book_timeout(ticks);
    // finish() has subtracted this wait from the waiters' time, so it is also subtracted from the time at the
    // beginning of the present hold (holding.hpp). A light hold does not store that time.
    if (o.owner.load(std::memory_order_relaxed) != 0) o.mutex.waited_before.fetch_sub(ticks, std::memory_order_relaxed);
  }
  return result;
}

/// Whether the mutex is free for certain: the process has one thread, the mutex is not process-shared, and the record
/// shows no hold of it (no owner, no light hold of this thread).
[[gnu::noinline]] bool is_free(recorded_thread& me, const record::object& o, pthread_mutex_t* m) {
  me.unusual = has_one_thread() ? recorded_thread::alone : 0;
  return me.unusual != 0 && o.owner.load(std::memory_order_relaxed) == 0 && me.light_mutex != m &&
         !is_shared(kind_of(m));
}

/// Locks a robust mutex, without a trylock. An owner that locks again counts as waiting, for no time.
template <class F>
[[gnu::cold, gnu::noinline]] int lock_robust(recorded_thread& me, record::object& o, pthread_mutex_t* m, F lock,
                                             std::uint64_t caller, bool has_deadline = false) {
  if (has_living_owner(m)) return wait_for(me, o, m, lock, caller, has_deadline);
  const int result = lock();
  if (is_acquired(result)) acquired(me, o, m, result);
  return result;
}

/// Locks a mutex with a deadline: tries once, then calls `lock`, which has the deadline, and records the wait.
template <class F>
int lock_until(pthread_mutex_t* m, std::uint64_t caller, F lock) {
  recorded_thread* const me = recorded_self();
  record::object* const o = me != nullptr ? entry_of(*me, m, caller) : nullptr;
  if (o == nullptr) return lock();
  if (is_robust(kind_of(m))) return lock_robust(*me, *o, m, lock, caller, true);
  const int result = unrecorded().trylock(m);
  if (is_acquired(result)) {
    acquired(*me, *o, m, result);
    return result;
  }
  return result != EBUSY ? result : wait_for(*me, *o, m, lock, caller, true);
}

/// Whether the kind of the mutex makes an unlock by a thread that is not its owner fail.
bool needs_owner_to_unlock(pthread_mutex_t* m) {
  constexpr int robust_or_inheriting = 0x30;  // the C library's flags
  const int kind = kind_of(m);
  return has_owner(kind) || (kind & robust_or_inheriting) != 0;
}

}  // namespace

namespace {

/// Continues a lock call after a trylock that has not returned 0: waits if the mutex is busy.
[[gnu::noinline]] int lock_busy(recorded_thread& me, record::object& o, pthread_mutex_t* m, int result,
                                std::uint64_t caller) {
  if (result == EBUSY)
    return wait_for(
        me, o, m, [m] { return unrecorded().lock(m); }, caller);
  if (is_acquired(result)) acquired(me, o, m, result);
  return result;
}

/// Locks a mutex if a trylock of the thread has failed, perhaps of this mutex.
[[gnu::noinline]] int lock_after_failure(recorded_thread& me, record::object& o, pthread_mutex_t* m,
                                         std::uint64_t caller) {
  const int result = unrecorded().trylock(m);
  if (result != 0) return lock_busy(me, o, m, result, caller);
  acquired(me, o, m, 0);
  return 0;
}

}  // namespace

int recorded_lock(pthread_mutex_t* m) {
  recorded_thread* const me = recorded_self();
  if (me == nullptr) [[unlikely]]
    return unrecorded().lock(m);
  record::object* const o = entry_of(*me, m, USHER_CALLER);
  if (o == nullptr) [[unlikely]]
    return selected_calls.lock(m);
  if (is_robust(kind_of(m))) [[unlikely]]
    return lock_robust(
        *me, *o, m, [m] { return unrecorded().lock(m); }, USHER_CALLER);
  bool directly = false;
  if (me->unusual != 0) [[unlikely]] {
    if ((me->unusual & recorded_thread::has_failed) != 0) return lock_after_failure(*me, *o, m, USHER_CALLER);
    // A free mutex is locked without a wait. So a process with one thread calls the C library's lock at once, which
    // costs less than its trylock.
    directly = is_free(*me, *o, m);
  }
  const int result = directly ? selected_calls.lock(m) : selected_calls.trylock(m);
  if (result == 0) [[likely]] {
    hold_begins(*me, *o, m);
    return 0;
  }
  return lock_busy(*me, *o, m, result, USHER_CALLER);
}

int recorded_trylock(pthread_mutex_t* m) {
  recorded_thread* const me = recorded_self();
  if (me == nullptr) [[unlikely]]
    return unrecorded().trylock(m);
  // Searched before the lock, so that the mutex is held no longer than necessary. The kind is not compared yet,
  // because it is on the holder's cache line.
  record::object* o = me->find_at_once(m);
  const int result = selected_calls.trylock(m);
  if (is_acquired(result)) {
    if (o == nullptr || is_another(*o, record::kind::mutex)) [[unlikely]]
      o = find_or_make(*me, m, USHER_CALLER);
    if (o != nullptr) acquired(*me, *o, m, result);
  } else if (result == EBUSY) {
    if (o == nullptr) o = find_or_make(*me, m, USHER_CALLER);
    if (o == nullptr) return result;
    record::detail* const d = detail_of(*me, *o);
    count_roughly(*me, d != nullptr ? d->failed_tries : o->mutex.failed_tries);
    try_failed(*me, m);
  }
  return result;
}

int recorded_timedlock(pthread_mutex_t* m, const timespec* until) {
  return lock_until(m, USHER_CALLER, [m, until] { return unrecorded().timedlock(m, until); });
}

int recorded_clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  if (!is_waitable(clock)) return EINVAL;
  return lock_until(m, USHER_CALLER, [m, clock, until] { return unrecorded().clocklock(m, clock, until); });
}

namespace {

/// Unlocks at the end of a hold that was timed, or during which others have waited.
[[gnu::noinline]] int unlock_timed(recorded_thread& me, record::object& o, pthread_mutex_t* m) {
  if (o.hold_begin.load(std::memory_order_relaxed) == record::object::not_timed) {
    forget_hold(o);
    return unrecorded().unlock(m);
  }
  const held_charge c = hold_ends_slowly(me, o);
  const int result = unrecorded().unlock(m);
  if (c.due != 0) charge_holder(me, c);
  return result;
}

/// Whether the hold is not timed and no other thread has waited during it.
bool is_plain(const record::object& o) {
  return (o.hold_begin.load(std::memory_order_relaxed) | o.mutex.waited_before.load(std::memory_order_relaxed) |
          o.waiting.load(std::memory_order_relaxed)) == 0;
}

[[gnu::noinline]] int unlock_otherwise(pthread_mutex_t* m) {
  recorded_thread* const me = recorded_self();
  record::object* const o = me != nullptr ? me->find(m) : nullptr;
  if (o == nullptr) return unrecorded().unlock(m);
  if (light_hold_ends(*me, m)) return unrecorded().unlock(m);
  const std::uint32_t owner = o->owner.load(std::memory_order_relaxed),
                      depth = o->depth_and_kind.load(std::memory_order_relaxed);
  if (owner == me->name && depth >= one_deeper) {
    o->depth_and_kind.store(depth - one_deeper, std::memory_order_relaxed);
  } else if (owner == me->name) {
    if (!is_plain(*o)) return unlock_timed(*me, *o, m);
    o->owner.store(0, std::memory_order_relaxed);
  } else if (owner == 0 && (depth & record::counted_by_threads) != 0 && !needs_owner_to_unlock(m)) {
    // Another thread has a light hold, which it does not see end. The mutex gets no further light holds.
    o->depth_and_kind.store((depth & ~record::counted_by_threads) | record::changes_hands, std::memory_order_relaxed);
  } else if (owner != 0 && !needs_owner_to_unlock(m)) {
    // Most kinds allow this thread to end another's hold. The hold is not charged, since the holder's call chain is
    // not known here. The fields are written before the unlock: afterwards the next holder writes them.
    forget_hold(*o);
  }
  return unrecorded().unlock(m);
}

}  // namespace

// Handles the fast cases without a stack frame; the others are functions of their own.
int recorded_unlock(pthread_mutex_t* m) {
  recorded_thread& me = this_thread;
  if (!is_current(me)) [[unlikely]]
    return unlock_otherwise(m);
  if (light_hold_ends(me, m)) return selected_calls.unlock(m);
  record::object* const o = me.find_at_once(m);
  if (o == nullptr || o->owner.load(std::memory_order_relaxed) != me.name ||
      o->depth_and_kind.load(std::memory_order_relaxed) >= one_deeper) [[unlikely]]
    return unlock_otherwise(m);
  if (!is_plain(*o)) [[unlikely]]
    return unlock_timed(me, *o, m);
  o->owner.store(0, std::memory_order_relaxed);
  return selected_calls.unlock(m);
}

int recorded_mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  const int error = unrecorded().mutex_init(m, attributes);
  if (error != 0) return error;
  const bool recursive = is_recursive(m);
  record::object* const o = begin_initialised(m, record::kind::mutex, recursive);
  // The entry of a static mutex is kept when the mutex is initialised again, perhaps with another type.
  if (o != nullptr)
    o->depth_and_kind.store((recursive ? std::uint32_t(record::recursive) : 0) | std::uint32_t(record::kind::mutex),
                            std::memory_order_relaxed);
  return 0;
}

int recorded_mutex_destroy(pthread_mutex_t* m) {
  end_destroyed(m);
  return unrecorded().mutex_destroy(m);
}

// ---- recorded_embedded.hpp ---------------------------------------------------------------------------------

bool wait_for_mutex(recorded_thread& me, record::object& o, const void* mutex, const embedded_operation& lock,
                    std::uint64_t caller, bool has_deadline, record::kind kind) {
  auto* const address =
      static_cast<pthread_mutex_t*>(const_cast<void*>(mutex));  // by which it is known; never accessed
  return wait_for(
             me, o, address, [&lock] { return lock() ? 0 : ETIMEDOUT; }, caller, has_deadline, kind) == 0;
}

held_charge end_own_or_others_hold(recorded_thread& me, record::object& o, const void* mutex) {
  if (light_hold_ends(me, mutex)) return {};
  const std::uint32_t owner = o.owner.load(std::memory_order_relaxed),
                      attributes = o.depth_and_kind.load(std::memory_order_relaxed);
  const bool is_own = owner == me.name;
  if (is_own && !is_plain(o) && o.hold_begin.load(std::memory_order_relaxed) != record::object::not_timed)
    return hold_ends_slowly(me, o);
  if (owner != 0)
    forget_hold(o);  // another thread's is not charged, as in unlock_otherwise()
  else if ((attributes & record::counted_by_threads) != 0)
    o.depth_and_kind.store((attributes & ~record::counted_by_threads) | record::changes_hands,
                           std::memory_order_relaxed);
  return {};
}

}  // namespace usher::preload
