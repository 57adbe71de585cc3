// Streams of read-write locks, barriers and joins. Spin locks are not recorded, but noted in the file's header.
#include <cerrno>

#include "library/preload/c11.hpp"
#include "library/preload/cancellable_wait.h"
#include "library/preload/rwlock_table.hpp"
#include "library/preload/timeouts.hpp"
#include "watch/recorder/recorded_others.hpp"
#include "watch/recorder/streams.hpp"
#include "watch/recorder/waiting_calls.hpp"

namespace usher::preload {
namespace {

using record::verb;

// ---- read-write locks --------------------------------------------------------------------------------------

template <class Try, class F>
[[gnu::noinline]] int lock_in(std::uint64_t window, verb what, pthread_rwlock_t* l, std::uint64_t caller,
                              const Try& try_lock, F lock) {
  stream_writer* const me = own_writer();
  if (me == nullptr) return lock();
  const std::uint64_t began = begin_call(*me, window);
  int result = try_lock(l);
  if (result == 0) {
    end_call(*me, window, what, l, caller, began);
    return 0;
  }
  if (result != EBUSY) return result;
  sleeping_call call(*me, what, l, caller, began);
  result = lock();
  if (result == 0) call.end(what);
  return result;
}

const rwlock_pointers& plain() {
  return unrecorded_rwlocks;
}

int streamed_rwlock_init(pthread_rwlock_t* l, const pthread_rwlockattr_t* a) {
  return plain().rwlock_init(l, a);
}
int streamed_rwlock_destroy(pthread_rwlock_t* l) {
  return plain().rwlock_destroy(l);
}

#define USHER_STREAMED_RWLOCK(member, try_member, what, parameters, arguments, is_valid)                         \
  int streamed_##member parameters {                                                                             \
    const std::uint64_t window = open_window();                                                                  \
    if (window == 0 || !(is_valid)) return plain().member arguments;                                             \
    return lock_in(window, what, l, USHER_CALLER, plain().try_member, [&] { return plain().member arguments; }); \
  }
USHER_STREAMED_RWLOCK(rdlock, tryrdlock, verb::read_lock, (pthread_rwlock_t * l), (l), true)
USHER_STREAMED_RWLOCK(wrlock, trywrlock, verb::write_lock, (pthread_rwlock_t * l), (l), true)
USHER_STREAMED_RWLOCK(timedrdlock, tryrdlock, verb::read_lock, (pthread_rwlock_t * l, const timespec* until),
                      (l, until), is_time(*until))
USHER_STREAMED_RWLOCK(timedwrlock, trywrlock, verb::write_lock, (pthread_rwlock_t * l, const timespec* until),
                      (l, until), is_time(*until))
USHER_STREAMED_RWLOCK(clockrdlock, tryrdlock, verb::read_lock,
                      (pthread_rwlock_t * l, clockid_t clock, const timespec* until), (l, clock, until),
                      is_waitable(clock) && is_time(*until))
USHER_STREAMED_RWLOCK(clockwrlock, trywrlock, verb::write_lock,
                      (pthread_rwlock_t * l, clockid_t clock, const timespec* until), (l, clock, until),
                      is_waitable(clock) && is_time(*until))
#undef USHER_STREAMED_RWLOCK

#define USHER_STREAMED_AT_ONCE(member, what)                                          \
  int streamed_##member(pthread_rwlock_t* l) {                                        \
    const std::uint64_t window = open_window();                                       \
    if (window == 0) [[likely]]                                                       \
      return plain().member(l);                                                       \
    return call_in(window, what, l, USHER_CALLER, [l] { return plain().member(l); }); \
  }
USHER_STREAMED_AT_ONCE(tryrdlock, verb::read_lock)
USHER_STREAMED_AT_ONCE(trywrlock, verb::write_lock)
USHER_STREAMED_AT_ONCE(rwlock_unlock, verb::read_write_unlock)
#undef USHER_STREAMED_AT_ONCE

// ---- barriers, joins ---------------------------------------------------------------------------------------

int streamed_barrier_wait(pthread_barrier_t* b) {
  stream_writer* const me = own_writer();
  const auto& wait_at = unrecorded_others().barrier_wait;
  if (me == nullptr) return wait_at(b);
  sleeping_call call(*me, verb::barrier_wait, b, USHER_CALLER);
  const int result = wait_at(b);  // afterwards the barrier may be gone
  if (result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD) call.end(verb::barrier_wait);
  return result;
}

struct joining {
  const join_call& call;
  sleeping_call& sleep;
};

int run_join(void* argument) {
  return static_cast<joining*>(argument)->call.wait();
}
void cancel_join(void* argument) {
  static_cast<joining*>(argument)->sleep.forget();
}

int join(const join_call& call, std::uint64_t caller) {
  stream_writer* const me = own_writer();
  if (me == nullptr) return call.wait();
  const usher_cancel_type type = usher_defer_cancellation();
  sleeping_call sleep(*me, verb::join, reinterpret_cast<const void*>(call.thread), caller);
  joining j{call, sleep};
  const int result = usher_call_with_cleanup(run_join, &j, cancel_join);
  if (result == 0) sleep.end(verb::join);
  usher_restore_cancellation(type);
  return result;
}

int streamed_join(pthread_t t, void** value) {
  return join({join_call::how::wait, t, value, 0, nullptr}, USHER_CALLER);
}
int streamed_timedjoin(pthread_t t, void** value, const timespec* until) {
  return join({join_call::how::timed, t, value, 0, until}, USHER_CALLER);
}
int streamed_clockjoin(pthread_t t, void** value, clockid_t clock, const timespec* until) {
  return join({join_call::how::clock, t, value, clock, until}, USHER_CALLER);
}
int streamed_tryjoin(pthread_t t, void** value) {
  return unrecorded_others().tryjoin(t, value);
}
int streamed_join_c11(thrd_t t, int* value) {
  void* result = nullptr;
  const int error = join({join_call::how::wait, t, &result, 0, nullptr}, USHER_CALLER);
  if (value != nullptr) *value = static_cast<int>(reinterpret_cast<std::intptr_t>(result));
  return c11_result(error);
}

// ---- functions that are not recorded -----------------------------------------------------------------------

void note_unrecorded() {
  auto& noted = stream_head().unrecorded;
  if (noted.load(std::memory_order_relaxed) == 0) noted.store(1, std::memory_order_relaxed);
}

int streamed_spin_init(pthread_spinlock_t* s, int shared) {
  return unrecorded_others().spin_init(s, shared);
}
int streamed_spin_destroy(pthread_spinlock_t* s) {
  return unrecorded_others().spin_destroy(s);
}
int streamed_spin_lock(pthread_spinlock_t* s) {
  note_unrecorded();
  return unrecorded_others().spin_lock(s);
}
int streamed_spin_trylock(pthread_spinlock_t* s) {
  note_unrecorded();
  return unrecorded_others().spin_trylock(s);
}
int streamed_spin_unlock(pthread_spinlock_t* s) {
  return unrecorded_others().spin_unlock(s);
}
int streamed_barrier_init(pthread_barrier_t* b, const pthread_barrierattr_t* a, unsigned n) {
  return unrecorded_others().barrier_init(b, a, n);
}
int streamed_barrier_destroy(pthread_barrier_t* b) {
  return unrecorded_others().barrier_destroy(b);
}
int streamed_yield() {
  return unrecorded_others().yield();
}

#define USHER_STREAMED_MEMBER(member, name, parameters, arguments) .member = streamed_##member,
constexpr other_calls streamed_other_calls{USHER_OTHERS(USHER_STREAMED_MEMBER)};

}  // namespace

constinit const rwlock_calls streamed_rwlocks{USHER_RWLOCKS(USHER_STREAMED_MEMBER)};

void connect_streamed_others() {
  usher_recorded_others_v2.store(&usher_companion_v3 != nullptr ? &streamed_other_calls : nullptr,
                                 std::memory_order_relaxed);
}

}  // namespace usher::preload
