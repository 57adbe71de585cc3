// Recorded mutexes. The holder writes the first cache line of the entry, without read-modify-writes; waiters write the
// second.
#include <cerrno>

#include "preload/layout.hpp"
#include "preload/one_thread.hpp"
#include "preload/selection.hpp"
#include "preload/timeouts.hpp"
#include "record/holding.hpp"
#include "record/mapped_modules.hpp"
#include "record/recorded_calls.hpp"
#include "record/recorded_embedded.hpp"

namespace usher::preload {
namespace {

bool is_recursive(pthread_mutex_t* m) {
  return type_of(kind_of(kind_and_epoch(m).load(std::memory_order_relaxed))) == PTHREAD_MUTEX_RECURSIVE;
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
  o.waited_before.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
}

/// Whether the call has locked the mutex. EOWNERDEAD says that it has, and that the last owner died.
bool is_acquired(int result) {
  return result == 0 || result == EOWNERDEAD;
}

/// Switches counting by threads on or off. Called by the holder. It may be switched off only while no hold is being
/// timed as a sample; the next hold is then timed.
void count_by_threads(record::object& o, bool on) {
  const std::uint32_t before = o.depth_and_kind.load(std::memory_order_relaxed);
  const std::uint32_t now = on ? before | record::counted_by_threads : before & ~record::counted_by_threads;
  if (now == before) return;
  o.depth_and_kind.store(now, std::memory_order_relaxed);
  if (!on) o.countdown.store(1 << 16 | 1, std::memory_order_relaxed);
}

void acquired(recorded_thread& me, record::object& o, pthread_mutex_t* m, int result) {
  if (result == EOWNERDEAD) count_by_threads(o, false);  // the entry may name the dead owner: this one overwrites it
  hold_begins(me, o, m);
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
[[gnu::noinline]] int wait_for(recorded_thread& me, record::object& o, pthread_mutex_t* m, F lock,
                               std::uint64_t caller) {
  if (has_ended(*me.of)) {
    end_recording(*me.of);
    return lock();
  }
  recorded_wait wait(me, o, record::kind::mutex, caller);
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
    if (o.owner.load(std::memory_order_relaxed) != 0) o.waited_before.fetch_sub(ticks, std::memory_order_relaxed);
  }
  return result;
}

/// Whether the mutex is free for certain: the process has one thread, the mutex is not process-shared, and the record
/// shows no hold of it (no owner, no light hold of this thread).
[[gnu::noinline]] bool is_free(recorded_thread& me, const record::object& o, pthread_mutex_t* m) {
  me.is_alone = has_one_thread();
  return me.is_alone && o.owner.load(std::memory_order_relaxed) == 0 && me.light_mutex != m &&
         !is_shared(kind_of(kind_and_epoch(m).load(std::memory_order_relaxed)));
}

/// Locks a mutex with a deadline: tries once, then calls `lock`, which has the deadline, and records the wait.
template <class F>
int lock_until(pthread_mutex_t* m, std::uint64_t caller, F lock) {
  recorded_thread* const me = recorded_self();
  record::object* const o = me != nullptr ? entry_of(*me, m, caller) : nullptr;
  if (o == nullptr) return lock();
  const int result = unrecorded().trylock(m);
  if (is_acquired(result)) {
    acquired(*me, *o, m, result);
    return result;
  }
  return result != EBUSY ? result : wait_for(*me, *o, m, lock, caller);
}

/// Whether the kind of the mutex makes an unlock by a thread that is not its owner fail.
bool needs_owner_to_unlock(pthread_mutex_t* m) {
  constexpr int robust_or_inheriting = 0x30;  // the C library's flags
  const int kind = kind_of(kind_and_epoch(m).load(std::memory_order_relaxed));
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

}  // namespace

int recorded_lock(pthread_mutex_t* m) {
  recorded_thread* const me = recorded_self();
  if (me == nullptr) [[unlikely]]
    return unrecorded().lock(m);
  record::object* const o = entry_of(*me, m, USHER_CALLER);
  if (o == nullptr) [[unlikely]]
    return selected_calls.lock(m);
  // A free mutex is locked without a wait. So a process with one thread calls the C library's lock at once, which
  // costs less than its trylock.
  const bool directly = me->is_alone && is_free(*me, *o, m);
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
    count_roughly(*me, d != nullptr ? d->failed_tries : o->signals);
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
  return (o.hold_begin.load(std::memory_order_relaxed) | o.waited_before.load(std::memory_order_relaxed) |
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
                    std::uint64_t caller) {
  auto* const address =
      static_cast<pthread_mutex_t*>(const_cast<void*>(mutex));  // by which it is known; never accessed
  return wait_for(
             me, o, address, [&lock] { return lock() ? 0 : ETIMEDOUT; }, caller) == 0;
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

// ---- holding.hpp -------------------------------------------------------------------------------------------

namespace {

/// Whether a window of the mutex's successive owners is being recorded.
bool has_window(const recorded_thread& me, const record::object& o) {
  const record::detail* const d = existing_detail(me, o);
  return d != nullptr && d->window.load(std::memory_order_relaxed) != 0;
}

constexpr std::uint64_t far_apart = 4096;  // ticks; chosen: two readings of the clock are 1 % of it

/// The number of acquisitions for which the next timed hold stands. One if acquisitions are so far apart that timing
/// costs little; else up to about 256, at random, so that the sample does not follow a period of the program.
std::uint32_t next_interval(recorded_thread& me, const record::object& o, std::uint64_t apart, std::uint64_t now) {
  if (me.of->hold_times.load(std::memory_order_relaxed) != 0 || apart >= far_apart || has_window(me, o)) return 1;
  // The first thousand holds are all timed, then gradually fewer: in a short run a few timed holds must not stand for
  // many.
  constexpr std::uint64_t most = 256;
  const std::uint64_t n = o.acquisitions.load(std::memory_order_relaxed) / 512;
  if (n <= 1) return 1;
  const std::uint64_t mean = n < most ? n : most;
  return std::uint32_t(mean / 2 + (((now * 0x9e3779b97f4a7c15u) >> 40) * mean >> 24)) + 1;
}

/// The least number of holds in an interval whose length shows how far apart they are. Chosen.
constexpr std::uint32_t least_light_interval = 16;

/// Whether threads may count the acquisitions of this mutex, whose holds follow each other closely.
bool is_for_threads(const recorded_thread& me, const record::object& o) {
  return o.acquisitions.load(std::memory_order_relaxed) >= record::least_counted_by_threads &&
         (o.depth_and_kind.load(std::memory_order_relaxed) & record::changes_hands) == 0 &&
         me.of->hold_times.load(std::memory_order_relaxed) == 0 && !has_window(me, o);
}
/// Records the owner in the mutex's window of successive owners. Opens a window from time to time if the mutex is
/// contended.
void record_owner(recorded_thread& me, record::object& o, std::uint64_t now) {
  record::detail* const detail = existing_detail(me, o);
  if (detail == nullptr) return;
  recorder& r = *me.of;
  record::detail& d = *detail;
  std::uint32_t w = d.window.load(std::memory_order_relaxed);
  if (w == 0) {
    constexpr std::uint32_t most_windows = 8;
    constexpr std::uint64_t least_contended = 32, pause = 100;  // contended acquisitions; ms. Chosen
    if (o.contended.load(std::memory_order_relaxed) < least_contended ||
        now < d.next_window.load(std::memory_order_relaxed) ||
        d.windows.load(std::memory_order_relaxed) >= most_windows)
      return;
    d.next_window.store(now + pause * r.ticks_a_ms, std::memory_order_relaxed);
    if (r.head->windows.load(std::memory_order_relaxed) >= r.room().windows) return;
    const std::uint32_t i = r.head->windows.fetch_add(1, std::memory_order_relaxed);
    if (i >= r.room().windows) return;
    w = i + 1;
    r.file.window(i).begin.store(now, std::memory_order_relaxed);
    r.file.window(i).object.store(me.index(o) + 1, std::memory_order_relaxed);
    d.windows.store(d.windows.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    d.window.store(w, std::memory_order_relaxed);
    // While the window is open, each hold is recorded and timed (next_interval()). The next timed hold stands for the
    // holds that were not timed so far.
    const std::uint32_t countdown = o.countdown.load(std::memory_order_relaxed), all = countdown >> 16,
                        left = countdown & 0xffff;
    o.depth_and_kind.store(o.depth_and_kind.load(std::memory_order_relaxed) & ~record::counted_by_threads,
                           std::memory_order_relaxed);
    if (left > 1) o.countdown.store((all - left + 1) << 16 | 1, std::memory_order_relaxed);
  }
  record::window& window = r.file.window(w - 1);
  const std::uint32_t n = window.count.load(std::memory_order_relaxed);
  if (n >= record::window::length)
    return d.window.store(0, std::memory_order_relaxed);  // a jump out of a signal handler had skipped the last line
  window.owners[n].store(std::uint16_t(me.name - 1), std::memory_order_relaxed);
  window.end.store(now, std::memory_order_relaxed);
  window.count.store(n + 1, std::memory_order_release);
  if (n + 1 == record::window::length) d.window.store(0, std::memory_order_relaxed);
}

/// Adds the ticks that others waited during this hold to the mutex's uncharged time. At most a thousand times a second
/// in a program, returns all of it, to be charged to the call chain of this unlock; otherwise it is kept for a later
/// hold.
held_charge add_charge(recorded_thread& me, record::object& o, std::uint64_t ticks, std::uint64_t now) {
  record::detail* const d = ticks != 0 ? detail_of(me, o) : nullptr;
  if (d == nullptr) return {};
  const std::uint64_t all = d->uncharged_held.load(std::memory_order_relaxed) + ticks;
  record::word64& sample = me.of->head->next_holder_sample;
  std::uint64_t next = sample.load(std::memory_order_relaxed);
  const bool is_due =
      now >= next && sample.compare_exchange_strong(next, now + me.of->ticks_a_ms, std::memory_order_relaxed);
  d->uncharged_held.store(is_due ? 0 : all, std::memory_order_relaxed);
  return is_due ? held_charge{all, charge_target(me, o)} : held_charge{};
}

}  // namespace

void settle_light_hold(recorded_thread& me) {
  const void* const mutex = me.light_mutex;
  if (mutex == nullptr) return;
  record::object& o = *me.light_object;
  const std::uint32_t depth = me.light_depth, attributes = o.depth_and_kind.load(std::memory_order_relaxed);
  forget_light_hold(me);
  // Does nothing if another thread has ended the hold, or if the entry is now another object's.
  if (o.key.load(std::memory_order_relaxed) != me.key_for(mutex) || (attributes & record::counted_by_threads) == 0)
    return;
  if (depth != 0) o.depth_and_kind.store(attributes + depth * one_deeper, std::memory_order_relaxed);
  o.hold_begin.store(record::object::not_timed, std::memory_order_relaxed);
  o.owner.store(me.name, std::memory_order_relaxed);
}

void counted_hold_begins(recorded_thread& me, record::object& o, const void* mutex) {
  const std::uint32_t attributes = o.depth_and_kind.load(std::memory_order_relaxed);
  const bool is_recursive = (attributes & record::recursive) != 0;
  if (me.light_mutex == mutex) {
    if (is_recursive) {
      me.light_depth++;
      return;
    }
    forget_light_hold(me);  // another thread has ended it
  }
  if (is_recursive && o.owner.load(std::memory_order_relaxed) == me.name) {
    o.depth_and_kind.store(attributes + one_deeper, std::memory_order_relaxed);
    return;
  }
  o.owner.store(me.name, std::memory_order_relaxed);
  std::uint64_t acquisitions = o.acquisitions.load(std::memory_order_relaxed) + 1;
  if (me.light_left > 1) {
    --me.light_left;
    o.acquisitions.store(acquisitions, std::memory_order_relaxed);
    o.hold_begin.store(record::object::not_timed, std::memory_order_relaxed);
    return;
  }
  // This hold is the sample. The thread's count of the mutex is added to the entry; a count of another mutex in the
  // same word is added to that mutex's entry, and replaced.
  const std::uint32_t index = me.index(o) + 1;
  record::word64& count = me.slot->counts[record::counted_at(reinterpret_cast<std::uintptr_t>(mutex))];
  const std::uint64_t counted = count.exchange(index, std::memory_order_relaxed);
  if ((counted & (record::one_counted - 1)) == index)
    acquisitions += counted / record::one_counted;
  else
    add_counted(*me.of, counted);
  o.acquisitions.store(acquisitions, std::memory_order_relaxed);
  o.countdown.store(me.light_interval << 16 | 1, std::memory_order_relaxed);
  me.light_left = me.light_interval = next_light_interval(me.random);
  hold_begins_slowly(me, o);
}

// There are three kinds of timed holds, told apart by bits 0 and 1 of hold_begin. 0: the hold stands for all holds
// since the last such one that have begun without waiters. 1 and 3: it began while others waited, and stands for
// itself (1) or for beside_waiters() holds (3). 2: it is a sample of a mutex that is counted by threads, and stands
// for as many holds as counted_hold_begins() says, whether others wait or not.
void hold_begins_slowly(recorded_thread& me, record::object& o) {
  recorder& r = *me.of;
  const std::uint64_t now = r.ticks();
  const std::uint64_t waiting = o.waiting.load(std::memory_order_relaxed);
  const std::uint32_t countdown = o.countdown.load(std::memory_order_relaxed);
  const bool is_sample =
      (o.depth_and_kind.load(std::memory_order_relaxed) & record::counted_by_threads) != 0 && (countdown & 0xffff) <= 1;
  if (is_sample) {
    if (has_ended(r)) return end_recording(r);
    const bool is_waited_for = (waiting & record::waiting_count) != 0;
    o.waited_before.store(is_waited_for ? record::waited_so_far(waiting, now) : 0, std::memory_order_relaxed);
    o.hold_begin.store((now & ~std::uint64_t{3}) | 2, std::memory_order_relaxed);
  } else if ((waiting & record::waiting_count) != 0) {
    o.waited_before.store(record::waited_so_far(waiting, now), std::memory_order_relaxed);
    const bool is_one = countdown < least_beside_waiters << 16 || (countdown & 0xffff) <= 1;
    o.hold_begin.store((now & ~std::uint64_t{3}) | (is_one ? 1 : 3), std::memory_order_relaxed);
  } else if ((countdown & 0xffff) <= 1) {  // each hold, while a window is recorded
    if (has_ended(r)) return end_recording(r);
    o.hold_begin.store(now & ~std::uint64_t{3}, std::memory_order_relaxed);
  } else {
    o.countdown.store(countdown - 1, std::memory_order_relaxed);
    return;
  }
  record_owner(me, o, now);
}

held_charge hold_ends_slowly(recorded_thread& me, record::object& o) {
  recorder& r = *me.of;
  const std::uint64_t now = r.ticks(), begin = o.hold_begin.load(std::memory_order_relaxed);
  const bool is_beside_waiters = (begin & 1) != 0, is_sample = (begin & 3) == 2;
  std::uint32_t stands_for = 1;
  if (begin != 0 && begin != record::object::not_timed) {
    const std::uint64_t hold = now > begin ? now - begin : 0;
    const std::uint32_t countdown = o.countdown.load(std::memory_order_relaxed);
    stands_for = !is_beside_waiters ? countdown >> 16
                 : (begin & 2) != 0 ? beside_waiters(o.acquisitions.load(std::memory_order_relaxed))
                                    : 1;
    std::uint64_t held = o.held.load(std::memory_order_relaxed) + hold * stands_for;
    std::uint32_t holds = o.holds.load(std::memory_order_relaxed);
    if (holds > 0x80000000u && r.hold_times.load(std::memory_order_relaxed) == 0)
      held /= 2, holds /= 2;  // the mean stays
    o.held.store(held, std::memory_order_relaxed);
    o.holds.store(holds + stands_for, std::memory_order_relaxed);
    o.herd.store(o.herd.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::uint64_t apart = hold;
    bool is_apart_known = false;
    if (record::detail* const d = existing_detail(me, o)) {
      record::word32& bucket = d->holds[record::duration_buckets::of(hold) / 2];
      bucket.store(bucket.load(std::memory_order_relaxed) + stands_for, std::memory_order_relaxed);
      if (hold > d->longest_hold.load(std::memory_order_relaxed))
        d->longest_hold.store(hold, std::memory_order_relaxed);
      if (!is_beside_waiters) {
        // `apart` is the mean time between holds. Each thread has its own sampling interval, so for a sample the mean
        // interval is used.
        if (const std::uint64_t before = d->timed_at.load(std::memory_order_relaxed); before != 0 && now > before) {
          apart = std::max(apart, (now - before) / (is_sample ? mean_light_interval : stands_for));
          is_apart_known = is_sample || stands_for >= least_light_interval;
        }
        d->timed_at.store(now, std::memory_order_relaxed);
      }
    }
    if (!is_beside_waiters || (countdown & 0xffff) <= 1 || hold >= far_apart) {
      const std::uint32_t n = next_interval(me, o, apart, now);
      count_by_threads(o, n > 1 && is_apart_known && is_for_threads(me, o));
      o.countdown.store(n << 16 | n, std::memory_order_relaxed);
    }
  }
  o.hold_begin.store(0, std::memory_order_relaxed);
  const std::uint64_t waiting = o.waiting.load(std::memory_order_relaxed),
                      before = o.waited_before.load(std::memory_order_relaxed);
  held_charge charge;
  const bool is_charged = (waiting & record::waiting_count) != 0 || before != 0;
  if (is_charged && begin != record::object::not_timed) {
    constexpr std::uint64_t modulus = std::uint64_t{1} << 52;
    const std::uint64_t ticks = (record::waited_so_far(waiting, now) - before) % modulus;
    // A larger value is a negative difference: a waiter is giving up at this moment.
    if (ticks < modulus / 2) charge = add_charge(me, o, ticks * (is_beside_waiters || is_sample ? stands_for : 1), now);
  }
  o.waited_before.store(0, std::memory_order_relaxed);
  o.owner.store(0, std::memory_order_relaxed);
  return charge;
}

void hold_ends(recorded_thread& me, record::object& o, std::uint32_t chain) {
  if (o.owner.load(std::memory_order_relaxed) != me.name) return;
  held_charge c = hold_ends_slowly(me, o);
  record::detail* const d = existing_detail(me, o);
  if (d == nullptr) return;
  record::word64& others = d->uncharged_held;
  c.due += others.load(std::memory_order_relaxed);
  others.store(chain == 0 ? c.due : 0, std::memory_order_relaxed);
  if (c.due != 0) charge(*me.of, record::charged::holder, record::kind::mutex, charge_target(me, o), chain, 1, c.due);
}

void charge_holder(recorded_thread& me, const held_charge& c) {
  charge(*me.of, record::charged::holder, record::kind::mutex, c.whom, take_chain(me), 1, c.due);
}

}  // namespace usher::preload
