// The functions that embedded locks call while they are recorded (usher/platform/native/recorded.hpp), made from
// wrappers.hpp.
//
// The operations passed here are the program's own code, which may be unloaded later: no pointer to them is kept after
// the call.
#pragma once

#include <cerrno>

#include "usher/platform/native/recorded.hpp"
#include "watch/recorder/recorded_tables.hpp"
#include "watch/recorder/wrappers.hpp"

namespace usher::recorder {

template <class S>
struct embedded_wrappers {
  using operation = native_detail::record_calls::operation;
  using recorded_kind = native_detail::recorded_kind;

  static void begin(const void* object, recorded_kind kind) {
    if (kind == recorded_kind::mutex) S::made(embedded_mutex{{object}});
    if (kind == recorded_kind::condition) S::made(embedded_condition{{object}});
    if (kind == recorded_kind::semaphore) S::made(embedded_semaphore{{object}});
  }
  static void end(const void* object, recorded_kind kind) {
    if (kind == recorded_kind::mutex) S::destroyed(embedded_mutex{{object}});
    if (kind == recorded_kind::condition) S::destroyed(embedded_condition{{object}});
    if (kind == recorded_kind::semaphore) S::destroyed(embedded_semaphore{{object}});
  }

  static bool lock(const void* mutex, operation try_lock, operation lock, void* context) {
    return acquire<S>(embedded_mutex{{mutex}}, may_time_out(mutex, context), failing_with(EBUSY, try_lock, context),
                      failing_with(ETIMEDOUT, lock, context)) == 0;
  }
  static bool try_lock(const void* mutex, operation try_lock, void* context) {
    return try_to_acquire<S>(embedded_mutex{{mutex}}, USHER_CALLER, failing_with(EBUSY, try_lock, context), same) == 0;
  }
  static void unlock(const void* mutex, operation unlock, void* context) {
    S::released(embedded_mutex{{mutex}}, USHER_CALLER, failing_with(0, unlock, context));
  }

  /// A wait for an embedded condition variable may have a deadline, so it is recorded as if it had one.
  static bool wait(const void* condition, const void* mutex, operation wait, void* context) {
    const embedded_waited_condition waited{waited_condition{{condition}, mutex, false}};
    return wait_on<S>(waited, {USHER_CALLER, true}, failing_with(ETIMEDOUT, wait, context)) == 0;
  }
  static void notify(const void* condition, bool all) {
    S::signals(embedded_condition{{condition}}, all ? contract::verb::broadcast : contract::verb::signal, USHER_CALLER);
  }

  static bool acquire_credit(const void* semaphore, operation try_acquire, operation acquire, void* context) {
    return recorder::acquire<S>(embedded_semaphore{{semaphore}}, may_time_out(semaphore, context),
                                failing_with(EBUSY, try_acquire, context),
                                failing_with(ETIMEDOUT, acquire, context)) == 0;
  }
  static bool try_acquire(const void* semaphore, operation try_acquire, void* context) {
    return try_to_acquire<S>(embedded_semaphore{{semaphore}}, USHER_CALLER, failing_with(EBUSY, try_acquire, context),
                             same) == 0;
  }
  static void release(const void* semaphore, std::uint32_t credits) {
    S::signals(embedded_semaphore{{semaphore}}, contract::verb::semaphore_post, USHER_CALLER, credits);
  }

  static constexpr native_detail::record_calls table{.begin = begin,
                                                     .end = end,
                                                     .lock = lock,
                                                     .try_lock = try_lock,
                                                     .unlock = unlock,
                                                     .wait = wait,
                                                     .notify = notify,
                                                     .acquire = acquire_credit,
                                                     .try_acquire = try_acquire,
                                                     .release = release};

 private:
  /// Whether an operation may time out. If so, `context` is the caller's variable with the deadline (record_calls),
  /// else the object itself.
  static bool may_time_out(const void* object, const void* context) { return context != object; }
  static auto failing_with(int error, operation call, void* context) {
    return [error, call, context] { return call(context) ? 0 : error; };
  }
};

/// The tables of functions that record into a sink.
template <class S>
constexpr recorded_tables tables_of() {
  const native_detail::record_calls* embedded = nullptr;
  if constexpr (S::has_embedded) embedded = &embedded_wrappers<S>::table;
  return {&wrapped_calls<S>, &wrapped_rwlocks<S>, &wrapped_others<S>, embedded};
}

static_assert(contract::kind(native_detail::recorded_kind::mutex) == contract::kind::mutex &&
              contract::kind(native_detail::recorded_kind::condition) == contract::kind::condition &&
              contract::kind(native_detail::recorded_kind::semaphore) == contract::kind::semaphore);

}  // namespace usher::recorder
