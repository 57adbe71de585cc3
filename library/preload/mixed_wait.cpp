#include "library/preload/mixed_wait.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "library/preload/c_library_functions.hpp"
#include "library/preload/cancellable_wait.h"
#include "library/preload/users.hpp"

namespace usher::preload::mixed_wait {
namespace {

constexpr std::size_t most_helpers = 16;               // a power of two
constinit pthread_mutex_t helpers[most_helpers] = {};  // all zero: PTHREAD_MUTEX_INITIALIZER

/// Whether wait() was ever called. A waiter sets this flag before it unlocks its mutex. A thread whose signal must
/// reach the waiter has locked that mutex since, so it reads true.
constinit std::atomic<bool> in_use{false};

pthread_mutex_t* helper_of(const pthread_cond_t* c) {
  const auto address = reinterpret_cast<std::uintptr_t>(c);
  return &helpers[(address / alignof(std::max_align_t) ^ address / 4096) % most_helpers];
}

struct waiting {
  pthread_cond_t* condition;
  pthread_mutex_t *mutex, *helper;
  clockid_t clock;
  const timespec* until;
  std::uint32_t counted;
};

int sleep(void* argument) {
  const auto& w = *static_cast<waiting*>(argument);
  if (w.until == nullptr) return c_library::cond_wait(w.condition, w.helper);
  if (w.clock < 0) return c_library::cond_timedwait(w.condition, w.helper, w.until);
  return c_library::cond_clockwait(w.condition, w.helper, w.clock, w.until);
}

/// Unlocks the helper mutex and locks the program's mutex. Returns the result of locking.
int come_back(waiting& w) {
  c_library::mutex_unlock(w.helper);
  const int error = pthread_mutex_lock(w.mutex);
  leave_users(w.mutex, w.counted);
  return error;
}

/// Called if the wait is cancelled, after the C library has locked the helper mutex again.
void on_cancel(void* argument) {
  come_back(*static_cast<waiting*>(argument));
}

int with_helper_locked(pthread_cond_t* c, int (*f)(pthread_cond_t*)) {
  if (!in_use.load(std::memory_order_relaxed)) return f(c);
  pthread_mutex_t* const helper = helper_of(c);
  const usher_cancel_type type = usher_defer_cancellation();
  c_library::mutex_lock(helper);
  const int error = f(c);
  c_library::mutex_unlock(helper);
  usher_restore_cancellation(type);
  return error;
}

}  // namespace

int wait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock, const timespec* until) {
  in_use.store(true, std::memory_order_relaxed);  // the unlock of the program's mutex publishes this store
  waiting w{c, m, helper_of(c), clock, until, enter_users(m)};
  // Defers cancellation: a thread must not be cancelled while it holds the helper mutex.
  const usher_cancel_type type = usher_defer_cancellation();
  c_library::mutex_lock(w.helper);
  if (const int error = pthread_mutex_unlock(m); error != 0) {
    c_library::mutex_unlock(w.helper);
    leave_users(m, w.counted);
    usher_restore_cancellation(type);
    return error;
  }
  const int result = usher_call_with_cleanup(sleep, &w, on_cancel);
  const int error = come_back(w);
  usher_restore_cancellation(type);
  return error != 0 ? error : result;
}

int signal(pthread_cond_t* c) {
  return with_helper_locked(c, c_library::cond_signal);
}
int broadcast(pthread_cond_t* c) {
  return with_helper_locked(c, c_library::cond_broadcast);
}

void renew_in_child() {
  if (in_use.load(std::memory_order_relaxed)) std::memset(static_cast<void*>(helpers), 0, sizeof helpers);
}

}  // namespace usher::preload::mixed_wait
