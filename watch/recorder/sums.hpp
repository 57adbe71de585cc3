// The sink of `usher stat`: adds calls to the sums of their objects' entries (contract::object, contract::detail).
//
// The holder of a mutex or spin lock writes the first cache line of the entry, without read-modify-writes; waiters
// write the second. Semaphores, condition variables and the readers of a read-write lock have no holder, and a signal
// handler may post, so all their counts are atomic additions. recorder.hpp describes the course of a recording,
// holding.hpp that of a hold.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <cstdint>
#include <type_traits>

#include "usher/platform/native/wait_tally.hpp"
#include "watch/recorder/holding.hpp"
#include "watch/recorder/objects.hpp"

namespace usher::recorder {

/// Whether the recording is over; then also ends it in this process. Only for slow paths.
[[gnu::always_inline]] inline bool is_over(recorded_thread& me) {
  if (!has_ended(*me.of)) return false;
  end_recording(*me.of);
  return true;
}

// ---- entries (sums.cpp) ------------------------------------------------------------------------------------

/// Finds or makes the mutex's entry. Called if the first index of the search has no entry of the mutex, or one of
/// another kind.
[[gnu::noinline]] contract::object* find_or_make(recorded_thread& me, mutex_object m, std::uint64_t caller);
/// The entry of the place that waits for threads to end; null if the recording is over.
contract::object* find_place(recorded_thread& me, std::uint64_t caller);

inline void mark_embedded(contract::object& o) {
  if ((o.flags.load(std::memory_order_relaxed) & contract::embedded) == 0)
    o.flags.fetch_or(contract::embedded, std::memory_order_relaxed);
}

template <class Object>
[[gnu::always_inline]] inline contract::object* entry_of(recorded_thread& me, const Object& object,
                                                         std::uint64_t caller) {
  if constexpr (std::is_same_v<Object, mutex_object>) {
    contract::object* const o = me.find_at_once(object.key);
    return o == nullptr || is_another(*o, contract::kind::mutex) ? find_or_make(me, object, caller) : o;
  } else if constexpr (std::is_same_v<Object, joined_object>) {
    return find_place(me, caller);
  } else {
    contract::object* const o = find_or_begin(me, object.key, Object::kind, caller);
    if constexpr (Object::is_embedded)
      if (o != nullptr) mark_embedded(*o);
    return o;
  }
}

// ---- waits (sums.cpp) --------------------------------------------------------------------------------------

/// A wait for a mutex or a spin lock.
struct lock_wait {
  recorded_thread& me;
  contract::object& o;
  recorded_wait wait;
  native_detail::wait_tally before;  ///< the thread's counts before the wait

  lock_wait(recorded_thread& t, contract::object& entry, contract::kind kind, const wait_call& how);
  void ends(const void* key, int result);
};

/// A wait for a read-write lock.
struct rwlock_wait {
  enum side : unsigned { to_read, to_write };  // index of detail::behind_writer
  recorded_thread& me;
  contract::object& o;
  side of;
  recorded_wait wait;
  contract::detail* detail;
  bool is_written, is_shared;

  rwlock_wait(recorded_thread& t, contract::object& entry, const void* lock, side s, const wait_call& how);
  void ends(int result);
};

/// A wait for a semaphore, at a barrier, or for the end of a thread.
struct plain_wait {
  recorded_thread& me;
  contract::object& o;
  recorded_wait wait;
};

/// A wait for a condition variable. The mutex's entry may be null.
struct condition_wait {
  recorded_thread& me;
  contract::object& o;
  contract::object* mutex;
  recorded_wait wait;

  condition_wait(recorded_thread& t, contract::object& entry, const waited_condition& c, const wait_call& how);
  /// Called when the thread has locked the mutex again.
  void ends(const waited_condition& c, int result);
};

// ---- the sink ----------------------------------------------------------------------------------------------

struct sums {
  static constexpr bool has_embedded = true, is_mostly_idle = false;

  struct call {
    recorded_thread* thread;
    contract::object* entry;
    explicit operator bool() const { return entry != nullptr; }
  };

  /// A process ends the recording at its next call that may sleep, for kinds without another slow path.
  template <class Object>
  [[gnu::always_inline]] static call begins(const Object& object, std::uint64_t caller) {
    constexpr bool ends_here = Object::kind == contract::kind::condition || Object::kind == contract::kind::semaphore ||
                               Object::kind == contract::kind::barrier;
    call c = finds(object, caller);
    if constexpr (ends_here)
      if (c && is_over(*c.thread)) c.entry = nullptr;
    return c;
  }

  template <class Object>
  static bool is_unusual(const call& c, const Object&) {
    return std::is_same_v<Object, mutex_object> && c.thread->unusual != 0;
  }
  static bool has_failed_try(const call& c) { return (c.thread->unusual & recorded_thread::has_failed) != 0; }
  template <class Object>
  static bool is_free(const call& c, const Object& object) {
    if constexpr (std::is_same_v<Object, mutex_object>)
      return is_free_for_certain(*c.thread, *c.entry, object);
    else
      return false;
  }

  /// The thread's last trylock did not fail, so this acquisition ends no series of retries.
  template <class Object>
  [[gnu::always_inline]] static void acquired_plainly(const call& c, const Object& object, std::uint64_t caller) {
    if constexpr (std::is_same_v<Object, mutex_object>)
      hold_begins(*c.thread, *c.entry, object.key);
    else
      acquired(c, object, caller, 0);
  }
  template <class Object>
  [[gnu::always_inline]] static void acquired(const call& c, const Object& object, std::uint64_t, int result) {
    contract::object& o = *c.entry;
    if constexpr (contract::has_holds(Object::kind)) {
      if (result == EOWNERDEAD)
        count_by_threads(o, false);  // the entry may name the dead owner; hold_begins() overwrites it
      hold_begins(*c.thread, o, object.key);
    } else if constexpr (std::is_same_v<Object, write_object>) {
      write_begins(*c.thread, o);
    } else if constexpr (std::is_same_v<Object, read_object>) {
      read_begins(o);
    } else {
      add(o.acquisitions, 1);
    }
    if constexpr (has_retries<Object>) try_ends(*c.thread, o, object.key);
  }

  // A try searches for the mutex's entry before the call, to keep the hold short, but compares the kind after it,
  // because the kind is on the holder's cache line.
  template <class Object>
  struct tried {
    recorded_thread* thread;
    contract::object* entry;
    explicit operator bool() const {
      return std::is_same_v<Object, mutex_object> ? thread != nullptr : entry != nullptr;
    }
  };
  template <class Object>
  [[gnu::always_inline]] static tried<Object> tries(const Object& object, std::uint64_t caller) {
    if constexpr (std::is_same_v<Object, mutex_object>) {
      recorded_thread* const me = recorded_self();
      return {me, me != nullptr ? me->find_at_once(object.key) : nullptr};
    } else {
      const call c = finds(object, caller);
      return {c.thread, c.entry};
    }
  }
  template <class Object>
  [[gnu::always_inline]] static void acquired_by_try(tried<Object> c, const Object& object, std::uint64_t caller,
                                                     int result) {
    if constexpr (std::is_same_v<Object, mutex_object>)
      if (c.entry == nullptr || is_another(*c.entry, contract::kind::mutex)) [[unlikely]]
        c.entry = find_or_make(*c.thread, object, caller);
    if (c.entry != nullptr) acquired(call{c.thread, c.entry}, object, caller, result);
  }
  template <class Object>
  static void try_failed(tried<Object> c, const Object& object, [[maybe_unused]] std::uint64_t caller) {
    if constexpr (std::is_same_v<Object, mutex_object>)
      if (c.entry == nullptr) c.entry = find_or_make(*c.thread, object, caller);
    if (c.entry == nullptr) return;
    count_failed_try(*c.thread, *c.entry, Object::kind);
    if constexpr (has_retries<Object>) usher::recorder::try_failed(*c.thread, object.key);
  }

  template <class Object>
  static bool may_wait(const call& c) {
    return !is_over(*c.thread);
  }
  template <class Object>
  static auto wait_begins(const call& c, const Object& object, const wait_call& how) {
    constexpr contract::kind kind = Object::kind;
    if constexpr (contract::has_holds(kind))
      return lock_wait(*c.thread, *c.entry, kind, how);
    else if constexpr (kind == contract::kind::rwlock)
      return rwlock_wait(*c.thread, *c.entry, object.key,
                         std::is_same_v<Object, read_object> ? rwlock_wait::to_read : rwlock_wait::to_write, how);
    else if constexpr (kind == contract::kind::condition)
      return condition_wait(*c.thread, *c.entry, object, how);
    else
      return plain_wait{*c.thread, *c.entry, {*c.thread, *c.entry, kind, how.caller, how.has_deadline}};
  }
  template <class Object>
  static void wait_ends(lock_wait& w, const Object& object, int result) {
    w.ends(object.key, result);
  }
  template <class Object>
  static void wait_ends(rwlock_wait& w, const Object&, int result) {
    w.ends(result);
  }
  static void wait_ends(condition_wait& w, const waited_condition& c, int result) { w.ends(c, result); }
  template <class Object>
  static void wait_ends(plain_wait& w, const Object& object, int result) {
    if (!w.wait.is_current()) return;
    const std::uint64_t ticks = w.wait.finish(result);
    if constexpr (Object::kind == contract::kind::barrier) {
      w.wait.book(ticks);
    } else if (result == 0) {
      add(w.o.acquisitions, 1);
      w.wait.book(ticks);
      if constexpr (has_retries<Object>) try_ends(w.me, w.o, object.key);
    } else if (result == ETIMEDOUT) {
      w.wait.book_timeout(ticks);
    }
  }

  /// Handles a mutex's fast cases without a stack frame; other functions handle the slow cases.
  template <class Object, class Unlock>
  [[gnu::always_inline]] static int released(const Object& object, std::uint64_t, Unlock unlock) {
    if constexpr (std::is_same_v<Object, mutex_object>) {
      recorded_thread& me = this_thread;
      if (!is_current(me)) [[unlikely]]
        return released_otherwise(object, unlock);
      if (light_hold_ends(me, object.key)) return unlock();
      contract::object* const o = me.find_at_once(object.key);
      if (o == nullptr || o->owner.load(std::memory_order_relaxed) != me.name ||
          o->depth_and_kind.load(std::memory_order_relaxed) >= one_deeper) [[unlikely]]
        return released_otherwise(object, unlock);
      if (!is_unwaited(*o)) [[unlikely]]
        return released_slowly(me, *o, object, unlock);
      o->owner.store(0, std::memory_order_relaxed);
      return unlock();
    } else {
      recorded_thread* const me = recorded_self();
      contract::object* const o = me != nullptr ? me->find(object.key) : nullptr;
      if (o == nullptr || is_another(*o, Object::kind)) return unlock();
      return release(*me, *o, object, unlock);
    }
  }

  template <class Object>
  static call signals(const Object& object, contract::verb what, std::uint64_t caller, std::uint32_t times = 1) {
    const call c = finds(object, caller);
    if (!c) return {};
    if constexpr (Object::kind == contract::kind::condition)
      count_signal(*c.thread, *c.entry, what == contract::verb::broadcast);
    else
      add(c.entry->semaphore.posts, times);  // before the post: a woken waiter may destroy the semaphore
    return {};
  }
  template <class Object>
  static void signalled(const call&, const Object&, contract::verb, std::uint64_t) {}

  /// Whether this thread's arrival completes a round. The C library does not report this (any thread may get
  /// PTHREAD_BARRIER_SERIAL_THREAD), so arrivals are counted here. The size of a round is not known if the barrier was
  /// initialised before the recording, or if other processes use it; then each thread counts as a waiter.
  struct last_arrival {
    bool is_so = false;
    held_charge charge{};
    explicit operator bool() const { return is_so; }
  };
  static last_arrival comes_last(const call& c, const barrier_object&);
  static void came_last(const call& c, const last_arrival& last) {
    if (last.charge.due != 0) charge_holder(*c.thread, last.charge);
  }

  static void joined(pthread_t, std::uint64_t caller) {
    recorded_thread* const me = recorded_self();
    if (contract::object* const o = me != nullptr ? find_place(*me, caller) : nullptr) add(o->acquisitions, 1);
  }

  template <class Object>
  static contract::object* made(const Object& object) {
    contract::object* const o = begin_initialised(object.key, Object::kind, object.is_recursive());
    if constexpr (Object::is_embedded)
      if (o != nullptr) mark_embedded(*o);
    return o;
  }
  static void made(const mutex_object& m);
  static void made(const barrier_object& b, const pthread_barrierattr_t* attributes, unsigned threads);
  template <class Object>
  static void destroyed(const Object& object) {
    if constexpr (Object::is_embedded) {
      recorded_thread* const me = recorded_self();
      contract::object* const o = me != nullptr ? me->find(object.key) : nullptr;
      if (o != nullptr && !is_another(*o, Object::kind)) end_object(*me, *o);
    } else {
      end_destroyed(object.key);
    }
  }

  static void yielded() {
    if (recorded_thread* const me = recorded_self()) me->yields++;
  }

  friend struct rwlock_wait;

 private:
  /// Kinds of objects for which acquisitions after a failed try are counted.
  template <class Object>
  static constexpr bool has_retries = contract::has_holds(Object::kind) || Object::kind == contract::kind::semaphore;

  template <class Object>
  [[gnu::always_inline]] static call finds(const Object& object, std::uint64_t caller) {
    recorded_thread* const me = recorded_self();
    if (me == nullptr) [[unlikely]]
      return {};
    return {me, entry_of(*me, object, caller)};
  }

  static bool is_free_for_certain(recorded_thread& me, const contract::object& o, mutex_object m);
  static void count_failed_try(recorded_thread& me, contract::object& o, contract::kind kind);
  static void count_signal(recorded_thread& me, contract::object& o, bool all);
  static void write_begins(recorded_thread& me, contract::object& o) {
    add(o.acquisitions, 1);
    o.hold_begin.store(me.of->ticks(), std::memory_order_relaxed);
    o.owner.store(me.name, std::memory_order_relaxed);
  }
  static void read_begins(contract::object& o) {
    add(o.acquisitions, 1);
    add(o.rwlock.reads, 1);
    raise_to(o.rwlock.most_readers, o.rwlock.readers.fetch_add(1, std::memory_order_relaxed) + 1);
  }
  /// Ends a reader's hold. The count stays 0 if the reader's hold began before the recording.
  static void read_ends(contract::object& o) {
    std::uint32_t seen = o.rwlock.readers.load(std::memory_order_relaxed);
    while (seen != 0 && !o.rwlock.readers.compare_exchange_weak(seen, seen - 1, std::memory_order_relaxed)) {
    }
  }
  static held_charge write_ends(recorded_thread& me, contract::object& o);

  template <class Object, class Unlock>
  [[gnu::always_inline]] static int release(recorded_thread& me, contract::object& o, const Object& object,
                                            Unlock unlock) {
    held_charge c;
    if constexpr (Object::kind != contract::kind::rwlock) {
      c = hold_ends_otherwise(me, o, object.key, object.needs_owner_to_unlock());
    } else {
      if (o.owner.load(std::memory_order_relaxed) != me.name) {
        read_ends(o);
        return unlock();
      }
      c = write_ends(me, o);
    }
    const int result = unlock();  // afterwards the object may no longer exist
    if (c.due != 0) charge_holder(me, c);
    return result;
  }
  template <class Object, class Unlock>
  [[gnu::noinline]] static int released_slowly(recorded_thread& me, contract::object& o, Object object, Unlock unlock) {
    return release(me, o, object, unlock);
  }
  template <class Object, class Unlock>
  [[gnu::noinline]] static int released_otherwise(Object object, Unlock unlock) {
    recorded_thread* const me = recorded_self();
    contract::object* const o = me != nullptr ? me->find(object.key) : nullptr;
    if (o == nullptr || is_another(*o, Object::kind)) return unlock();
    return release(*me, *o, object, unlock);
  }
};

}  // namespace usher::recorder
