// The functions to which the exported functions jump while something is recorded, shared by all recorders: each makes the
// call and reports it to a *sink*. Each shape of call has one function template. Each line of the lists of calls
// (USHER_CALLS, USHER_RWLOCKS, USHER_OTHERS) has one member of the wrappers, from which the tables are made.
//
//     a call that may wait    begins, a try, acquired; or, if the try fails: wait_begins, the wait, wait_ends
//     a try                   tries, the try, acquired_by_try or try_failed
//     an unlock               released, which makes the call itself: afterwards the object may not be read
//     a signal or post        signals, the call, signalled
//
// A sink is a struct of static functions. Each recorder has its own: sums (sums.hpp) for `usher stat`, streams
// (streams.hpp) for `usher record`. A new sink needs no new wrapper. `Object` is one of the types in objects.hpp:
//
//     call begins(Object, caller)            before the call. False: the call is not recorded. `tries` likewise, before
//                                            a call that does not wait
//     is_mostly_idle                         the sink records only at times, and has is_idle() and begins_idly()
//     bool is_idle()                         nothing is recorded now
//     call begins_idly(Object)               begins() for an idle sink: false if the wait is not recorded, either
//     bool is_unusual(call, Object)          has_failed_try() or is_free() may be true
//     bool has_failed_try(call)              the thread's last try failed, so acquired_plainly() does not suffice
//     bool is_free(call, Object)             the object is certainly free, so no try is needed before the waiting call
//     acquired_plainly(call, Object, caller) the thread has acquired the object by its first try
//     acquired(call, Object, caller, result) the thread has acquired the object without a wait
//     bool may_wait<Object>(call&)           whether a wait that begins now is recorded
//     … wait_begins(call, Object, wait_call) the thread begins to wait
//     wait_ends(…, Object, result)           the wait has ended: 0 or another result that acquires, ETIMEDOUT, ECANCELED
//                                            (the thread ends, and no destructor runs), or an error
//     int released(Object, caller, unlock)   calls `unlock`, and returns its result
//     call signals(Object, verb, caller), signalled(call, Object, verb, caller)
//     … comes_last(call, barrier), came_last(…)   whether this thread completes the barrier's round; after it has
//     made(Object, …), destroyed(Object)     after the object is initialised; before it is destroyed
//     yielded()
//
// A function that may wait first tries without waiting, which costs a few instructions more than an unrecorded call. Two
// operations within the C library's functions are invisible: how a thread waits, and the lock of the mutex in
// pthread_cond_wait. For waits that are cancellation points cancellation is deferred, except during the call itself, so
// that each wait is recorded once.
//
// Sinks do not allocate, lock or wait, and a signal handler may call them within another call. They preserve errno.
#pragma once

#include <cerrno>
#include <cstdint>
#include <utility>

#include "library/preload/c11.hpp"
#include "library/preload/calls.hpp"
#include "library/preload/cancellable_wait.h"
#include "library/preload/rwlock_table.hpp"
#include "library/preload/selection.hpp"
#include "library/preload/thread_functions.h"
#include "library/preload/timeouts.hpp"
#include "watch/recorder/objects.hpp"
#include "watch/recorder/others.hpp"

namespace usher::recorder {

/// The return address of the exported function. That function jumps here, so this is also the return address of the
/// function that contains the macro.
#define USHER_CALLER reinterpret_cast<std::uint64_t>(__builtin_return_address(0))

/// The C library's functions. Only for wrappers called by libusher-stat.so.
inline const other_pointers& unrecorded_others() {
  return usher_companion_v3.c_library;
}

// ---- the shapes --------------------------------------------------------------------------------------------

/// Makes a call that waits and is not a cancellation point.
template <class S, class Call, class Object, class Wait>
int wait_for(Call c, const Object& object, const wait_call& how, Wait wait) {
  if (!S::template may_wait<Object>(c)) return wait();
  auto noted = S::wait_begins(c, object, how);
  const int result = wait();
  S::wait_ends(noted, object, result);
  return result;
}

/// Continues a call after a try that did not return 0.
template <class S, class Call, class Object, class Wait>
[[gnu::noinline]] int acquire_after(Call c, Object object, wait_call how, int result, Wait wait) {
  if (result == EBUSY) return wait_for<S>(c, object, how, wait);
  if (is_acquired(result)) S::acquired(c, object, how.caller, result);
  return result;
}

/// Locks a robust mutex without a try, or an object after a failed try of the thread, perhaps of the same object. An
/// owner that locks its robust mutex again is recorded as a wait of length 0.
template <class S, class Call, class Object, class Try, class Wait>
[[gnu::noinline]] int acquire_otherwise(Call c, Object object, wait_call how, Try attempt, Wait wait) {
  const bool is_robust = object.is_robust();
  if (is_robust && object.has_living_owner()) return wait_for<S>(c, object, how, wait);
  const int result = is_robust ? wait() : attempt();
  if (!is_robust && result == EBUSY) return wait_for<S>(c, object, how, wait);
  if (is_acquired(result)) S::acquired(c, object, how.caller, result);
  return result;
}

/// The return address of the exported function, read only where it is used. All functions that use own_caller are
/// inlined into a wrapper, so it is the wrapper's return address; given_caller has an address that a wrapper passes on.
struct own_caller {
  [[gnu::always_inline]] std::uint64_t operator()() const { return USHER_CALLER; }
};
struct given_caller {
  std::uint64_t caller;
  std::uint64_t operator()() const { return caller; }
};

template <class S, class Object, class Try, class Wait, class Caller>
[[gnu::always_inline]] inline int acquire_noted(const Object& object, bool has_deadline, Try attempt, Wait wait,
                                                Caller caller) {
  const auto c = S::begins(object, caller());
  if (!c) [[unlikely]]
    return wait();
  if (object.is_robust()) [[unlikely]]
    return acquire_otherwise<S>(c, object, {caller(), has_deadline}, attempt, wait);
  bool at_once = false;
  if (S::is_unusual(c, object)) [[unlikely]] {
    if (S::has_failed_try(c)) return acquire_otherwise<S>(c, object, {caller(), has_deadline}, attempt, wait);
    at_once = S::is_free(c, object);
  }
  const int result = at_once ? wait() : attempt();
  if (result == 0) [[likely]] {
    S::acquired_plainly(c, object, caller());
    return 0;
  }
  return acquire_after<S>(c, object, {caller(), has_deadline}, result, wait);
}
template <class S, class Object, class Try, class Wait>
[[gnu::noinline]] int acquire_apart(Object object, wait_call how, Try attempt, Wait wait) {
  return acquire_noted<S>(object, how.has_deadline, attempt, wait, given_caller{how.caller});
}

/// A call that acquires the object and may wait for it. If the sink is idle, only a wait is reported.
template <class S, class Object, class Try, class Wait>
[[gnu::always_inline]] inline int acquire(const Object& object, bool has_deadline, Try attempt, Wait wait) {
  if constexpr (!S::is_mostly_idle) {
    return acquire_noted<S>(object, has_deadline, attempt, wait, own_caller{});
  } else {
    if (!S::is_idle() || object.is_robust()) [[unlikely]]
      return acquire_apart<S>(object, {USHER_CALLER, has_deadline}, attempt, wait);
    const auto c = S::begins_idly(object);
    if (!c) return wait();
    const int result = attempt();
    return result != EBUSY ? result : acquire_after<S>(c, object, {USHER_CALLER, has_deadline}, result, wait);
  }
}

template <class S, class Object, class Try, class Outcome>
[[gnu::always_inline]] inline int try_noted(const Object& object, std::uint64_t caller, Try attempt, Outcome outcome) {
  const auto c = S::tries(object, caller);
  if (!c) return attempt();
  const int result = attempt(), error = outcome(result);
  if (is_acquired(error))
    S::acquired_by_try(c, object, caller, error);
  else if (error == EBUSY)
    S::try_failed(c, object, caller);
  return result;
}
template <class S, class Object, class Try, class Outcome>
[[gnu::noinline]] int try_apart(Object object, std::uint64_t caller, Try attempt, Outcome outcome) {
  return try_noted<S>(object, caller, attempt, outcome);
}
/// A call that acquires the object if it is free. `outcome` converts the result to an error number.
template <class S, class Object, class Try, class Outcome>
[[gnu::always_inline]] inline int try_to_acquire(const Object& object, std::uint64_t caller, Try attempt,
                                                 Outcome outcome) {
  if constexpr (!S::is_mostly_idle) {
    return try_noted<S>(object, caller, attempt, outcome);
  } else {
    if (!S::is_idle()) [[unlikely]]
      return try_apart<S>(object, caller, attempt, outcome);
    S::begins_idly(object);
    return attempt();
  }
}
inline int same(int result) {
  return result;
}

template <class S, class Object, class Call>
[[gnu::always_inline]] inline int signal_noted(const Object& object, contract::verb what, std::uint64_t caller,
                                               Call call) {
  const auto c = S::signals(object, what, caller);
  if (!c) return call();
  const int result = call();
  if (result == 0) S::signalled(c, object, what, caller);
  return result;
}
template <class S, class Object, class Call>
[[gnu::noinline]] int signal_apart(Object object, contract::verb what, std::uint64_t caller, Call call) {
  return signal_noted<S>(object, what, caller, call);
}
template <class S, class Object, class Call>
[[gnu::always_inline]] inline int signal(const Object& object, contract::verb what, std::uint64_t caller, Call call) {
  if constexpr (S::is_mostly_idle) {
    if (S::is_idle()) [[likely]]
      return call();
    return signal_apart<S>(object, what, caller, call);
  } else {
    return signal_noted<S>(object, what, caller, call);
  }
}

/// A wait that may be cancelled. A cancelled wait is recorded, too.
template <class S, class Call, class Object, class Wait>
class cancellable_wait {
 public:
  cancellable_wait(Call& c, const Object& object, const wait_call& how, Wait& wait)
      : object_(object), wait_(wait), noted_(S::wait_begins(c, object, how)) {}
  /// Called with cancellation deferred. `outcome` converts the result to an error number.
  template <class Outcome>
  int operator()(Outcome outcome) {
    const int result = usher_call_with_cleanup(run, this, cancelled);
    S::wait_ends(noted_, object_, outcome(result));
    return result;
  }

 private:
  static int run(void* self) { return static_cast<cancellable_wait*>(self)->wait_(); }
  static void cancelled(void* self) {
    auto& me = *static_cast<cancellable_wait*>(self);
    S::wait_ends(me.noted_, me.object_, ECANCELED);
  }

  const Object& object_;
  Wait& wait_;
  decltype(S::wait_begins(std::declval<Call&>(), std::declval<const Object&>(),
                          std::declval<const wait_call&>())) noted_;
};

/// pthread_cond_wait and similar functions; `wait` calls one of them.
template <class S, class Condition, class Wait>
int wait_on(const Condition& condition, const wait_call& how, Wait wait) {
  auto c = S::begins(condition, how.caller);
  if (!c || !S::template may_wait<Condition>(c)) return wait();
  const usher_cancel_type type = usher_defer_cancellation();
  const int result = cancellable_wait<S, decltype(c), Condition, Wait>(c, condition, how, wait)(same);
  usher_restore_cancellation(type);
  return result;
}

/// Converts the result of a semaphore's function to an error number.
inline int semaphore_error(int result) {
  return result == 0 ? 0 : errno == EAGAIN ? EBUSY : errno;
}

/// sem_wait and similar functions. As in the C library, an invalid time or clock is an error even if a credit is
/// available.
template <class S, class Wait>
int wait_for_semaphore(sem_t* s, const wait_call& how, bool is_valid, Wait wait) {
  const semaphore_object object{s};
  auto c = S::begins(object, how.caller);
  if (!c || !is_valid) return wait();
  usher_test_cancel();  // a cancellation point even without a wait
  const int saved = errno;
  if (preload::unrecorded().sem_trywait(s) == 0) {
    S::acquired(c, object, how.caller, 0);
    return 0;
  }
  if (errno != EAGAIN) return -1;
  errno = saved;
  if (!S::template may_wait<semaphore_object>(c)) return wait();
  const usher_cancel_type type = usher_defer_cancellation();
  const int result = cancellable_wait<S, decltype(c), semaphore_object, Wait>(c, object, how, wait)(semaphore_error);
  usher_restore_cancellation(type);
  return result;
}

/// pthread_join and similar functions. As in the C library, the join of an ended thread is no cancellation point.
template <class S, class Wait>
int wait_for_end_of(pthread_t t, void** value, const wait_call& how, Wait wait) {
  const joined_object object{reinterpret_cast<const void*>(t)};
  const usher_cancel_type type = usher_defer_cancellation();
  auto c = S::begins(object, how.caller);
  const bool is_noted = static_cast<bool>(c) && S::template may_wait<joined_object>(c);
  int result = is_noted ? unrecorded_others().tryjoin(t, value) : 0;
  if (is_noted && result == 0) S::acquired(c, object, how.caller, 0);
  if (result == EBUSY) result = cancellable_wait<S, decltype(c), joined_object, Wait>(c, object, how, wait)(same);
  usher_restore_cancellation(type);
  return is_noted ? result : wait();
}

// ---- the calls ---------------------------------------------------------------------------------------------

/// Mutexes, condition variables, semaphores.
template <class S>
struct call_wrappers {
  static int lock(pthread_mutex_t* m) {
    return acquire<S>(
        mutex_object(m), false, [m] { return preload::selected_calls.trylock(m); },
        [m] { return preload::unrecorded().lock(m); });
  }
  static int trylock(pthread_mutex_t* m) {
    return try_to_acquire<S>(
        mutex_object(m), USHER_CALLER, [m] { return preload::selected_calls.trylock(m); }, same);
  }
  static int unlock(pthread_mutex_t* m) {
    return S::released(mutex_object(m), USHER_CALLER, [m] { return preload::selected_calls.unlock(m); });
  }
  static int timedlock(pthread_mutex_t* m, const timespec* until) {
    return acquire<S>(
        mutex_object(m), true, [m] { return preload::selected_calls.trylock(m); },
        [m, until] { return preload::unrecorded().timedlock(m, until); });
  }
  static int clocklock(pthread_mutex_t* m, clockid_t clock, const timespec* until) {
    if (!preload::is_waitable(clock)) return EINVAL;
    return acquire<S>(
        mutex_object(m), true, [m] { return preload::selected_calls.trylock(m); },
        [m, clock, until] { return preload::unrecorded().clocklock(m, clock, until); });
  }
  static int mutex_init(pthread_mutex_t* m, const pthread_mutexattr_t* a) {
    const int error = preload::unrecorded().mutex_init(m, a);
    if (error == 0) S::made(mutex_object(m));
    return error;
  }
  static int mutex_destroy(pthread_mutex_t* m) {
    S::destroyed(mutex_object(m));
    return preload::unrecorded().mutex_destroy(m);
  }

  static int cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
    return wait_on<S>(condition(c, m), {USHER_CALLER}, [c, m] { return preload::unrecorded().cond_wait(c, m); });
  }
  static int cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until) {
    return wait_on<S>(condition(c, m), {USHER_CALLER, true},
                      [c, m, until] { return preload::unrecorded().cond_timedwait(c, m, until); });
  }
  static int cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
    return wait_on<S>(condition(c, m), {USHER_CALLER, true},
                      [c, m, clock, until] { return preload::unrecorded().cond_clockwait(c, m, clock, until); });
  }
  static int cond_signal(pthread_cond_t* c) {
    return signal<S>(condition_object{c}, contract::verb::signal, USHER_CALLER,
                     [c] { return preload::unrecorded().cond_signal(c); });
  }
  static int cond_broadcast(pthread_cond_t* c) {
    return signal<S>(condition_object{c}, contract::verb::broadcast, USHER_CALLER,
                     [c] { return preload::unrecorded().cond_broadcast(c); });
  }
  static int cond_init(pthread_cond_t* c, const pthread_condattr_t* a) {
    const int error = preload::unrecorded().cond_init(c, a);
    if (error == 0) S::made(condition_object{c});
    return error;
  }
  static int cond_destroy(pthread_cond_t* c) {
    S::destroyed(condition_object{c});
    return preload::unrecorded().cond_destroy(c);
  }

  static int sem_wait(sem_t* s) {
    return wait_for_semaphore<S>(s, {USHER_CALLER}, true, [s] { return preload::unrecorded().sem_wait(s); });
  }
  static int sem_trywait(sem_t* s) {
    return try_to_acquire<S>(
        semaphore_object{s}, USHER_CALLER, [s] { return preload::unrecorded().sem_trywait(s); }, semaphore_error);
  }
  static int sem_timedwait(sem_t* s, const timespec* until) {
    return wait_for_semaphore<S>(s, {USHER_CALLER, true}, is_time(*until),
                                 [s, until] { return preload::unrecorded().sem_timedwait(s, until); });
  }
  static int sem_clockwait(sem_t* s, clockid_t clock, const timespec* until) {
    return wait_for_semaphore<S>(s, {USHER_CALLER, true}, preload::is_waitable(clock) && is_time(*until),
                                 [s, clock, until] { return preload::unrecorded().sem_clockwait(s, clock, until); });
  }
  static int sem_post(sem_t* s) {
    return signal<S>(semaphore_object{s}, contract::verb::semaphore_post, USHER_CALLER,
                     [s] { return preload::unrecorded().sem_post(s); });
  }
  static int sem_getvalue(sem_t* s, int* value) { return preload::unrecorded().sem_getvalue(s, value); }
  static int sem_init(sem_t* s, int shared, unsigned value) {
    const int result = preload::unrecorded().sem_init(s, shared, value);
    if (result == 0) S::made(semaphore_object{s});
    return result;
  }
  static int sem_destroy(sem_t* s) {
    S::destroyed(semaphore_object{s});
    return preload::unrecorded().sem_destroy(s);
  }

 private:
  static waited_condition condition(pthread_cond_t* c, pthread_mutex_t* m) {
    return {{c}, m, preload::selected().passes_through};
  }
};

/// Read-write locks. As in the C library, an invalid time or clock is an error even if the lock is free.
template <class S>
struct rwlock_wrappers {
  static int rwlock_init(pthread_rwlock_t* l, const pthread_rwlockattr_t* a) {
    const int error = preload::unrecorded_rwlocks.rwlock_init(l, a);
    if (error == 0) S::made(rwlock_object{l});
    return error;
  }
  static int rwlock_destroy(pthread_rwlock_t* l) {
    S::destroyed(rwlock_object{l});
    return preload::unrecorded_rwlocks.rwlock_destroy(l);
  }
  static int rdlock(pthread_rwlock_t* l) {
    return acquire<S>(read_object{l}, false, try_to_read(l), [l] { return preload::unrecorded_rwlocks.rdlock(l); });
  }
  static int wrlock(pthread_rwlock_t* l) {
    return acquire<S>(write_object{l}, false, try_to_write(l), [l] { return preload::unrecorded_rwlocks.wrlock(l); });
  }
  static int timedrdlock(pthread_rwlock_t* l, const timespec* until) {
    const auto wait = [l, until] { return preload::unrecorded_rwlocks.timedrdlock(l, until); };
    if (!is_time(*until)) return wait();
    return acquire<S>(read_object{l}, true, try_to_read(l), wait);
  }
  static int timedwrlock(pthread_rwlock_t* l, const timespec* until) {
    const auto wait = [l, until] { return preload::unrecorded_rwlocks.timedwrlock(l, until); };
    if (!is_time(*until)) return wait();
    return acquire<S>(write_object{l}, true, try_to_write(l), wait);
  }
  static int clockrdlock(pthread_rwlock_t* l, clockid_t clock, const timespec* until) {
    const auto wait = [l, clock, until] { return preload::unrecorded_rwlocks.clockrdlock(l, clock, until); };
    if (!preload::is_waitable(clock) || !is_time(*until)) return wait();
    return acquire<S>(read_object{l}, true, try_to_read(l), wait);
  }
  static int clockwrlock(pthread_rwlock_t* l, clockid_t clock, const timespec* until) {
    const auto wait = [l, clock, until] { return preload::unrecorded_rwlocks.clockwrlock(l, clock, until); };
    if (!preload::is_waitable(clock) || !is_time(*until)) return wait();
    return acquire<S>(write_object{l}, true, try_to_write(l), wait);
  }
  static int tryrdlock(pthread_rwlock_t* l) {
    return try_to_acquire<S>(read_object{l}, USHER_CALLER, try_to_read(l), same);
  }
  static int trywrlock(pthread_rwlock_t* l) {
    return try_to_acquire<S>(write_object{l}, USHER_CALLER, try_to_write(l), same);
  }
  static int rwlock_unlock(pthread_rwlock_t* l) {
    return S::released(rwlock_object{l}, USHER_CALLER, [l] { return preload::unrecorded_rwlocks.rwlock_unlock(l); });
  }

 private:
  static auto try_to_read(pthread_rwlock_t* l) {
    return [l] { return preload::unrecorded_rwlocks.tryrdlock(l); };
  }
  static auto try_to_write(pthread_rwlock_t* l) {
    return [l] { return preload::unrecorded_rwlocks.trywrlock(l); };
  }
};

/// The functions that libusher-stat.so calls (others.hpp). Process-shared objects, like mutexes, are recorded in each
/// process separately.
template <class S>
struct other_wrappers {
  static int spin_init(pthread_spinlock_t* s, int shared) {
    const int error = unrecorded_others().spin_init(s, shared);
    if (error == 0) S::made(spin(s));
    return error;
  }
  static int spin_destroy(pthread_spinlock_t* s) {
    S::destroyed(spin(s));
    return unrecorded_others().spin_destroy(s);
  }
  static int spin_lock(pthread_spinlock_t* s) {
    return acquire<S>(
        spin(s), false, [s] { return unrecorded_others().spin_trylock(s); },
        [s] { return unrecorded_others().spin_lock(s); });
  }
  static int spin_trylock(pthread_spinlock_t* s) {
    return try_to_acquire<S>(
        spin(s), USHER_CALLER, [s] { return unrecorded_others().spin_trylock(s); }, same);
  }
  static int spin_unlock(pthread_spinlock_t* s) {
    return S::released(spin(s), USHER_CALLER, [s] { return unrecorded_others().spin_unlock(s); });
  }

  static int barrier_init(pthread_barrier_t* b, const pthread_barrierattr_t* a, unsigned n) {
    const int error = unrecorded_others().barrier_init(b, a, n);
    if (error == 0) S::made(barrier_object{b}, a, n);
    return error;
  }
  static int barrier_destroy(pthread_barrier_t* b) {
    const int error = unrecorded_others().barrier_destroy(b);  // waits for threads that have not left the barrier yet
    if (error == 0) S::destroyed(barrier_object{b});
    return error;
  }
  static int barrier_wait(pthread_barrier_t* b) {
    const barrier_object object{b};
    const auto wait = [b] { return unrecorded_others().barrier_wait(b); };
    const auto c = S::begins(object, USHER_CALLER);
    if (!c) return wait();
    const auto last = S::comes_last(c, object);
    if (!last) return wait_for<S>(c, object, {USHER_CALLER}, wait);
    const int result = wait();  // afterwards the barrier may no longer exist
    S::came_last(c, last);
    return result;
  }

  static int join(pthread_t t, void** value) {
    return wait_for_end_of<S>(t, value, {USHER_CALLER}, [t, value] { return unrecorded_others().join(t, value); });
  }
  static int tryjoin(pthread_t t, void** value) {
    const int result = unrecorded_others().tryjoin(t, value);
    if (result == 0) S::joined(t, USHER_CALLER);
    return result;
  }
  static int timedjoin(pthread_t t, void** value, const timespec* until) {
    return wait_for_end_of<S>(t, value, {USHER_CALLER, true},
                              [t, value, until] { return unrecorded_others().timedjoin(t, value, until); });
  }
  static int clockjoin(pthread_t t, void** value, clockid_t clock, const timespec* until) {
    const auto wait = [t, value, clock, until] { return unrecorded_others().clockjoin(t, value, clock, until); };
    // As in the C library, an invalid clock is an error even if the thread has ended.
    return preload::is_waitable(clock) ? wait_for_end_of<S>(t, value, {USHER_CALLER, true}, wait) : wait();
  }
  static int join_c11(thrd_t t, int* value) {
    void* result = nullptr;
    void** const to = &result;
    const int error = wait_for_end_of<S>(t, to, {USHER_CALLER}, [t, to] { return unrecorded_others().join(t, to); });
    if (value != nullptr) *value = static_cast<int>(reinterpret_cast<std::intptr_t>(result));
    return preload::c11_result(error);
  }

  static int yield() {
    S::yielded();
    return unrecorded_others().yield();
  }

 private:
  static spin_object spin(pthread_spinlock_t* s) { return {const_cast<const int*>(s)}; }  // the type is volatile
};

#define USHER_WRAPPED_CALL(member, name, parameters, arguments) .member = call_wrappers<S>::member,
#define USHER_WRAPPED_RWLOCK(member, name, parameters, arguments) .member = rwlock_wrappers<S>::member,
#define USHER_WRAPPED_OTHER(member, name, parameters, arguments) .member = other_wrappers<S>::member,

template <class S>
inline constexpr preload::calls wrapped_calls{USHER_CALLS(USHER_WRAPPED_CALL)};
template <class S>
inline constexpr preload::rwlock_calls wrapped_rwlocks{USHER_RWLOCKS(USHER_WRAPPED_RWLOCK)};
template <class S>
inline constexpr other_calls wrapped_others{USHER_OTHERS(USHER_WRAPPED_OTHER)};

#undef USHER_WRAPPED_CALL
#undef USHER_WRAPPED_RWLOCK
#undef USHER_WRAPPED_OTHER

}  // namespace usher::recorder
